"""A turn of a host that came to no request, as the answer was in the cache, is given back: the host was not asked."""

from __future__ import annotations

from fetchly.crawler.politeness import Outcome, Politeness

HOST = "example.org"
FINE = Outcome(status=200)


class Clock:
    seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


def test_the_next_request_need_not_wait() -> None:
    clock = Clock()
    politeness = Politeness(10.0, 2, clock)
    assert politeness.begin(HOST)
    politeness.end(HOST, FINE)
    assert politeness.ready_at(HOST) == 1010
    clock.seconds = 1010
    for _ in range(5):
        assert politeness.begin(HOST)
        clock.seconds += 0.25
        politeness.end(HOST, FINE, was_asked=False)
    assert politeness.begin(HOST)
    politeness.end(HOST, FINE)
    assert politeness.ready_at(HOST) == 1021.25
    assert [state.started for state in politeness.states()] == [2]


def test_a_request_that_began_meanwhile_is_not_forgotten() -> None:
    clock = Clock()
    politeness = Politeness(1.0, 2, clock)
    assert politeness.begin(HOST)
    clock.seconds = 1001
    assert politeness.begin(HOST)
    politeness.end(HOST, FINE)
    clock.seconds = 1001.5
    politeness.end(HOST, FINE, was_asked=False)
    assert politeness.ready_at(HOST) == 1002


def test_it_is_no_sign_that_the_host_is_well() -> None:
    clock = Clock()
    politeness = Politeness(0.0, 2, clock, rng=lambda: 0.5)
    assert politeness.begin(HOST)
    politeness.end(HOST, Outcome(status=500))
    clock.seconds = politeness.ready_at(HOST)
    assert politeness.begin(HOST)
    politeness.end(HOST, FINE, was_asked=False)
    assert [state.failures for state in politeness.states()] == [1]
