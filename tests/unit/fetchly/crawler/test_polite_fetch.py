"""A fetch that waits for its host's turn, and for those of the hosts that it is led to."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fetchly.crawler.answers import status_error
from fetchly.crawler.polite_fetch import PoliteFetch
from fetchly.crawler.politeness import Outcome
from fetchly.errors import FetchError, Interrupted, PolicyRefused
from fetchly.goods import Page
from tests.support.times import HOST, Times, ask, polite, state_of, wait_of


@pytest.fixture
def times() -> Times:
    return Times()


def fetched(url: str, may_follow: Callable[[str], object] = lambda url: None) -> Page:
    return Page(url, url, 200, (), b"x")


def test_a_polite_fetch_waits_for_its_turn(times: Times) -> None:
    politeness = polite(times, delay_s=3)
    fetch = PoliteFetch(fetched, politeness, times.sleep, clock=times)
    for _ in range(3):
        assert fetch(f"http://{HOST}/robots.txt").body == b"x"
    assert times.slept == [3, 3]
    assert state_of(politeness).in_flight == 0


def test_a_polite_fetch_tells_what_it_came_to(times: Times) -> None:
    def busy(url: str, **_: object) -> Page:
        raise status_error(url, 503, "Busy", "20")

    politeness = polite(times)
    with pytest.raises(FetchError, match="503"):
        PoliteFetch(busy, politeness, times.sleep, clock=times)(f"http://{HOST}/")
    assert (wait_of(politeness, times), state_of(politeness).in_flight) == (20, 0)

    def refused(url: str, **_: object) -> Page:
        raise PolicyRefused("no", url=url)

    with pytest.raises(PolicyRefused):
        PoliteFetch(refused, politeness, times.sleep, clock=times)(f"http://{HOST}/")
    assert state_of(politeness).failures == 1


def test_a_polite_fetch_gives_up_on_a_long_pause_at_once(times: Times) -> None:
    politeness = polite(times)
    ask(politeness, times, Outcome(status=429, retry_after="3000"))
    with pytest.raises(FetchError, match="another 3,000 s") as failed:
        PoliteFetch(fetched, politeness, times.sleep, clock=times)(f"http://{HOST}/")
    assert (failed.value.code, failed.value.retryable, times.slept) == ("HOST_PAUSED", True, [])


def test_a_polite_fetch_gives_up_on_a_slot_that_never_comes_free(times: Times) -> None:
    politeness = polite(times, per_host=1)
    politeness.begin(HOST)
    with pytest.raises(FetchError) as failed:
        PoliteFetch(fetched, politeness, times.sleep, clock=times, patience_s=10)(f"http://{HOST}/")
    assert failed.value.code == "HOST_PAUSED"
    assert 10 <= sum(times.slept) < 11


def test_a_stopped_run_waits_for_no_turn(times: Times) -> None:
    politeness = polite(times)
    politeness.begin(HOST)
    with pytest.raises(Interrupted):
        PoliteFetch(fetched, politeness, lambda seconds: True, clock=times)(f"http://{HOST}/")
    assert state_of(politeness).in_flight == 1


def led(way: dict[str, str]) -> Callable[..., Page]:
    """A fetch that is redirected along `way`, as far as it is let."""

    def fetch(url: str, *, may_follow: Callable[[str], object]) -> Page:
        here, passed = url, []
        while here in way:
            passed.append(here)
            here = way[here]
            may_follow(here)
        return Page(url, here, 200, (), b"x", redirects=tuple(passed))

    return fetch


def test_a_redirect_to_another_host_waits_for_its_turn(times: Times) -> None:
    politeness = polite(times, delay_s=3)
    way = {
        "http://a/1": "http://a/2",
        "http://a/2": "http://b/3",
        "http://b/3": "http://b/4",
        "http://b/4": "http://c/",
    }
    assert politeness.begin("b")
    politeness.end("b", Outcome(200))
    page = PoliteFetch(led(way), politeness, times.sleep, clock=times)("http://a/1")
    assert times.slept == [3]  # b alone was asked before
    assert (page.requested, page.url, page.redirects) == ("http://a/1", "http://c/", tuple(way))
    assert {state.host: (state.started, state.in_flight) for state in politeness.states()} == {
        "a": (1, 0), "b": (2, 0), "c": (1, 0),
    }  # fmt: skip


def test_a_redirect_to_a_paused_host_is_not_followed(times: Times) -> None:
    politeness = polite(times)
    politeness.begin("b")
    politeness.end("b", Outcome(429, "3000"))
    with pytest.raises(FetchError) as failed:
        PoliteFetch(led({"http://a/": "http://b/"}), politeness, times.sleep, clock=times)("http://a/")
    assert (failed.value.code, failed.value.url) == ("HOST_PAUSED", "http://b/")


def test_hosts_that_send_a_request_round_are_left(times: Times) -> None:
    politeness = polite(times, delay_s=0)
    way = {"http://a/": "http://b/", "http://b/": "http://a/"}
    with pytest.raises(FetchError) as failed:
        PoliteFetch(led(way), politeness, times.sleep, clock=times)("http://a/")
    assert failed.value.code == "TOO_MANY_REDIRECTS"


# ---- silence
