"""No schedule, however mad, and no number of threads brings two requests of a host too close together."""

from __future__ import annotations

import itertools
import math
import random
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from fetchly.crawler.politeness import Outcome, Politeness, PolitenessLimits

HOSTS = ("a.example", "b.example")
LIMITS = PolitenessLimits(max_pause_s=500, max_crawl_delay_s=20, pause_s=8, backoff_s=1, max_backoff_s=100)
OUTCOMES = st.one_of(
    st.builds(Outcome, status=st.sampled_from((200, 301, 404))),
    st.builds(
        Outcome,
        status=st.sampled_from((429, 503, 500, 403)),
        retry_after=st.one_of(st.none(), st.integers(0, 1000).map(str), st.just("soon")),
    ),
    st.builds(Outcome, error_code=st.sampled_from(("TIMEOUT", "CONNECTION_FAILED", "ADDRESS_REFUSED"))),
)


class Hosts(RuleBasedStateMachine):
    """What a host was promised, kept beside what it is given."""

    @initialize(delay_s=st.sampled_from((0.0, 0.5, 3.0)), per_host=st.integers(1, 4), seed=st.integers(0, 9))
    def start(self, delay_s: float, per_host: int, seed: int) -> None:
        self.now = 0.0
        self.delay_s, self.per_host = delay_s, per_host
        self.politeness = Politeness(delay_s, per_host, lambda: self.now, random.Random(seed).random, limits=LIMITS)
        self.in_flight = dict.fromkeys(HOSTS, 0)
        self.last_start = dict.fromkeys(HOSTS, -math.inf)
        self.crawl_delay = dict.fromkeys(HOSTS, 0.0)
        self.closed_until = dict.fromkeys(HOSTS, -math.inf)

    @rule(seconds=st.sampled_from((0.0, 0.1, 0.5, 1.0, 3.0, 10.0, 600.0)))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(host=st.sampled_from(HOSTS))
    def begin(self, host: str) -> None:
        ready_at = self.politeness.ready_at(host)
        begun = self.politeness.begin(host)
        assert begun == (ready_at <= self.now)
        if begun:
            assert self.in_flight[host] < (1 if self.crawl_delay[host] else self.per_host)
            assert self.now >= self.last_start[host] + max(self.delay_s, self.crawl_delay[host])
            assert self.now >= self.closed_until[host]
            self.in_flight[host] += 1
            self.last_start[host] = self.now

    @rule(host=st.sampled_from(HOSTS), outcome=OUTCOMES)
    def end(self, host: str, outcome: Outcome) -> None:
        if not self.in_flight[host]:
            return
        self.politeness.end(host, outcome)
        self.in_flight[host] -= 1
        header = outcome.retry_after or ""
        if header.isdigit():
            asked = self.now + min(int(header), LIMITS.max_pause_s)
            self.closed_until[host] = max(self.closed_until[host], asked)
        elif outcome.status in (429, 503):
            self.closed_until[host] = max(self.closed_until[host], self.now + LIMITS.pause_s / 2)

    @rule(host=st.sampled_from(HOSTS), seconds=st.sampled_from((None, 0.0, 2.0, 20.0, 1000.0)))
    def robots_speak(self, host: str, seconds: float | None) -> None:
        self.politeness.set_crawl_delay(host, seconds)
        self.crawl_delay[host] = min(seconds or 0.0, LIMITS.max_crawl_delay_s)

    @invariant()
    def an_idle_host_is_ready_within_the_bounds(self) -> None:
        if not hasattr(self, "politeness"):
            return
        for host in HOSTS:
            if not self.in_flight[host]:
                wait = self.politeness.ready_at(host) - self.now
                assert wait <= max(LIMITS.max_pause_s, LIMITS.max_backoff_s, self.delay_s, LIMITS.max_crawl_delay_s)
        for state in self.politeness.states():
            assert state.in_flight == self.in_flight[state.host]
            assert (state.why == "ready") == (self.politeness.ready_at(state.host) <= self.now)
            assert state.wait_s >= 0


test_hosts_are_kept_what_they_were_promised = Hosts.TestCase


@pytest.fixture
def hasty_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Threads change as often as they can, and most of all between a look at a host and the step after it."""
    delay = Politeness._delay

    def hesitant(politeness: Politeness, state: Any) -> float:
        time.sleep(0)
        return delay(politeness, state)

    monkeypatch.setattr(Politeness, "_delay", hesitant)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.parametrize(("delay_s", "per_host"), [(0.0, 3), (0.4, 2), (1.0, 1)])
def test_no_thread_slips_through(delay_s: float, per_host: int, hasty_threads: None) -> None:
    ticks = itertools.count()
    read = threading.local()

    def clock() -> float:
        read.last = next(ticks) / 100
        return float(read.last)

    politeness = Politeness(delay_s, per_host, clock, limits=PolitenessLimits(max_backoff_s=0.1))
    guard = threading.Lock()
    starts: dict[str, list[float]] = defaultdict(list)
    under_way: dict[str, int] = defaultdict(int)
    most: dict[str, int] = defaultdict(int)
    barrier = threading.Barrier(8)

    def work(seed: int) -> None:
        dice = random.Random(seed)
        barrier.wait()
        for _ in range(400):
            host = dice.choice(HOSTS)
            if not politeness.begin(host):
                continue
            with guard:
                starts[host].append(read.last)  # `begin` reads the clock once, and in its own lock
                under_way[host] += 1
                most[host] = max(most[host], under_way[host])
            for _ in range(dice.randrange(3)):
                politeness.states()
            with guard:
                under_way[host] -= 1
            politeness.end(host, Outcome(error_code="TIMEOUT") if dice.random() < 0.05 else Outcome(status=200))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for host in HOSTS:
        times = sorted(starts[host])
        assert len(times) > 10
        assert min(later - earlier for earlier, later in itertools.pairwise(times)) >= delay_s - 1e-9
        assert most[host] <= per_host
    assert not any(state.in_flight for state in politeness.states())
