"""What requests to a host came to in; when the next one may start out: delay, concurrency, pauses, back-off.

A host is a name and a port, without the scheme: http and https of a name are one machine, two ports of it are two
servers. Subdomains are hosts of their own; robots.txt, too, speaks for one name alone.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from fetchly.crawler.urls import endpoint_of, parse_url
from fetchly.egress import Endpoint
from fetchly.errors import ConfigurationError, FetchError
from fetchly.retry_after import MAX_WAIT_S, in_words, read_retry_after

Why = Literal["ready", "busy", "delay", "paused", "backing off"]
"""What a host waits for: nothing, a request under way, the delay between two, its own word, or its recovery."""

# The host or the way to it failed, not the page. Whatever else went wrong, the host has answered, or was not asked.
_FAILURES = frozenset(("TIMEOUT", "CONNECTION_FAILED", "HOST_UNKNOWN", "TLS_FAILED", "PROTOCOL", "BODY_BROKEN"))
# Of these, no answer at all, or none that can be read: a server that closes every connection is no better.
_SILENCE = frozenset(("TIMEOUT", "CONNECTION_FAILED", "HOST_UNKNOWN", "TLS_FAILED", "PROTOCOL"))
_PAUSES = frozenset((429, 503))
_DEFAULT_PORTS = frozenset((("http", 80), ("https", 443)))
_MOST_DOUBLINGS = 30
_QUOTED = 40  # characters of a header in a note


def host_key(url: str) -> str:
    """The host of an absolute URL as politeness counts it: `example.org`, `example.org:8080`, `[::1]:8080`.

    Raises what `parse_url` raises.
    """
    return host_of(endpoint_of(parse_url(url)))


def host_of(endpoint: Endpoint) -> str:
    """The same of a URL that was parsed already."""
    name = endpoint.host.lower().rstrip(".")
    name = f"[{name}]" if ":" in name else name
    return name if (endpoint.scheme, endpoint.port) in _DEFAULT_PORTS else f"{name}:{endpoint.port}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a request came to. `status` is None where there was no answer, `retry_after` is the header as it came,
    `error_code` is that of the error. Neither status nor code: the request was never made."""

    status: int | None = None
    retry_after: str | None = None
    error_code: str | None = None

    @classmethod
    def of_error(cls, error: FetchError) -> Outcome:
        """The outcome of a request that ended with an error."""
        return cls(error.status, getattr(error, "retry_after", None), error.code)


@dataclass(frozen=True, slots=True)
class PolitenessLimits:
    """Seconds. `max_pause_s` and `max_crawl_delay_s` bound what a host may ask for; what is cut is in
    `HostState.notes`. `pause_s` is the first pause after a 429 or 503 that names none, `backoff_s` the first bound of
    the back-off; both double with every failure in a row, up to `max_pause_s` and `max_backoff_s`. A host that has left
    `give_up_after` requests in a row without any answer is silent: some minutes, with the back-off between them."""

    max_pause_s: float = MAX_WAIT_S
    max_crawl_delay_s: float = 60.0
    pause_s: float = 10.0
    backoff_s: float = 1.0
    max_backoff_s: float = 300.0
    give_up_after: int = 10


@dataclass(frozen=True, slots=True)
class HostState:
    """A host, for display. `wait_s` from now until the next request may start (inf: until one has ended); `failures`
    in a row; `notes` say what the host asked for and did not get in full."""

    host: str
    why: Why
    wait_s: float
    in_flight: int
    started: int
    failures: int
    delay_s: float
    notes: tuple[str, ...]


@dataclass(slots=True)
class _Host:
    in_flight: int = 0
    stale: int = 0  # of those in flight: started before the last failure was counted
    started: int = 0
    last_start: float = -math.inf
    start_before: float | None = None  # of a request that has the host to itself: the start before its own
    resume_at: float = -math.inf
    resume_why: Why = "ready"
    failures: int = 0
    unanswered: int = 0  # in a row
    crawl_delay_s: float = 0.0
    notes: dict[str, str] = field(default_factory=dict)


class Politeness:
    """Says when a host may be asked again, and keeps count. Thread-safe; remembers every host that it has seen.

    `delay_s` lies between two starts; no more than `per_host` requests of a host are under way. With a crawl-delay, or
    after a failure until the next success, it is one at a time. `clock` is monotonic, `now` is the time of day (for
    dates in Retry-After), `rng` draws from [0, 1).
    """

    def __init__(
        self,
        delay_s: float,
        per_host: int,
        clock: Callable[[], float] = time.monotonic,
        rng: Callable[[], float] = random.random,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        limits: PolitenessLimits | None = None,
    ) -> None:
        if not 0 <= delay_s < math.inf:
            raise ConfigurationError("the delay must be a number of seconds, 0 or more", where="delay")
        if per_host < 1:
            raise ConfigurationError("at least one request a host must be allowed", where="per_host")
        self._delay_s = delay_s
        self._per_host = per_host
        self._clock = clock
        self._rng = rng
        self._now = now
        self._limits = limits if limits is not None else PolitenessLimits()
        self._hosts: dict[str, _Host] = {}
        self._lock = threading.Lock()

    def ready_at(self, host: str) -> float:
        """The clock's reading from which on `begin` succeeds: -inf for a new host, inf while its slots are taken."""
        with self._lock:
            state = self._hosts.get(host)
            return -math.inf if state is None else self._ready_at(state)

    def begin(self, host: str) -> bool:
        """Take a slot and start now. False, and nothing is taken, where it is not the host's time."""
        with self._lock:
            state = self._hosts.setdefault(host, _Host())
            now = self._clock()
            if now < self._ready_at(state):
                return False
            state.start_before = None if state.in_flight else state.last_start
            state.in_flight += 1
            state.started += 1
            state.last_start = now
            return True

    def end(self, host: str, outcome: Outcome, *, was_asked: bool = True) -> None:
        """Give the slot of one `begin` back, and learn from what the request came to. Where the host was not asked
        (`was_asked`) after all, as the cache had a fresh answer, the next request need not wait for this one's sake.

        A 429 or 503, and any error with a readable Retry-After, pauses the host; a broken connection, a time-out, a
        408 or another 5xx makes it back off, exponentially with full jitter; any other answer ends a row of failures.
        """
        with self._lock:
            state = self._hosts.get(host)
            assert state is not None, host
            assert state.in_flight > 0, host
            state.in_flight -= 1
            is_stale = state.stale > 0
            state.stale -= is_stale
            if not was_asked:
                state.started -= 1
                if state.start_before is not None:
                    state.last_start = state.start_before
                return
            if outcome.error_code in _SILENCE and outcome.status is None:
                state.unanswered += not is_stale
            elif outcome != Outcome():
                state.unanswered = 0
            if _asks_for_a_pause(outcome):
                self._pause(state, outcome, is_stale)
            elif _is_failure(outcome):
                self._back_off(state, is_stale)
            elif outcome.status is not None and not is_stale:
                state.failures = 0

    def is_silent(self, host: str) -> bool:
        """Whether the host is given up: it has answered nothing for so long."""
        with self._lock:
            state = self._hosts.get(host)
            return state is not None and state.unanswered >= self._limits.give_up_after

    def set_crawl_delay(self, host: str, seconds: float | None) -> None:
        """What the host's robots.txt asks for between two requests; None takes it back. The longer of this and the own
        delay holds; more than the bound is cut, and noted."""
        assert seconds is None or 0 <= seconds < math.inf
        with self._lock:
            state = self._hosts.setdefault(host, _Host())
            state.crawl_delay_s = min(seconds or 0.0, self._limits.max_crawl_delay_s)
            state.notes.pop("crawl-delay", None)
            if seconds is not None and seconds > state.crawl_delay_s:
                state.notes["crawl-delay"] = (
                    f"asks for {in_words(seconds)} between requests; {state.crawl_delay_s:g} s are kept"
                )

    def states(self) -> tuple[HostState, ...]:
        """Every host seen, in the order of their first requests."""
        with self._lock:
            now = self._clock()
            return tuple(self._shown(host, state, now) for host, state in self._hosts.items())

    def _slots(self, state: _Host) -> int:
        return 1 if state.failures or state.crawl_delay_s else self._per_host

    def _delay(self, state: _Host) -> float:
        return max(self._delay_s, state.crawl_delay_s)

    def _ready_at(self, state: _Host) -> float:
        if state.in_flight >= self._slots(state):
            return math.inf
        return max(state.last_start + self._delay(state), state.resume_at)

    def _pause(self, state: _Host, outcome: Outcome, is_stale: bool) -> None:
        wait = read_retry_after(outcome.retry_after, self._now(), maximum_s=self._limits.max_pause_s)
        if wait is None and outcome.status not in _PAUSES:
            self._note_unreadable(state, outcome)
            if _is_failure(outcome):
                self._back_off(state, is_stale)
            return
        self._count_failure(state, is_stale)
        # Half of it at least: a pause that jitter may shrink to nothing is none.
        own = self._doubled(self._limits.pause_s, state, self._limits.max_pause_s) * (1 + self._rng()) / 2
        if wait is None:
            self._note_unreadable(state, outcome)
            seconds = own
        else:
            state.notes.pop("retry-after", None)
            # A host that names a time is taken at its word once; who always says "now" is not asked for ever.
            seconds = max(wait.seconds, own) if state.failures > 1 or wait.seconds == 0 else wait.seconds
            if wait.is_cut:
                state.notes["retry-after"] = (
                    f"asked for a pause of {in_words(wait.asked_s)}; {in_words(wait.seconds)} are kept"
                )
        self._rest(state, seconds, "paused")

    def _back_off(self, state: _Host, is_stale: bool) -> None:
        self._count_failure(state, is_stale)
        bound = self._doubled(self._limits.backoff_s, state, self._limits.max_backoff_s)
        self._rest(state, self._rng() * bound, "backing off")

    def _count_failure(self, state: _Host, is_stale: bool) -> None:
        """Requests that were under way together fail together: they are one failure, not a row of them."""
        if not is_stale:
            state.failures += 1
            state.stale = state.in_flight

    def _doubled(self, first_s: float, state: _Host, most_s: float) -> float:
        doublings = min(max(state.failures - 1, 0), _MOST_DOUBLINGS)
        return min(first_s * 2.0**doublings, most_s)

    def _rest(self, state: _Host, seconds: float, why: Why) -> None:
        until = self._clock() + seconds
        if until >= state.resume_at:
            state.resume_at, state.resume_why = until, why

    @staticmethod
    def _note_unreadable(state: _Host, outcome: Outcome) -> None:
        if outcome.retry_after is not None:
            state.notes["retry-after"] = f"Retry-After cannot be read: {outcome.retry_after[:_QUOTED]!a}"

    def _shown(self, host: str, state: _Host, now: float) -> HostState:
        ready_at = self._ready_at(state)
        why: Why = "delay"
        if ready_at == math.inf:
            why = "busy"
        elif ready_at <= now:
            why = "ready"
        elif ready_at == state.resume_at:
            why = state.resume_why
        return HostState(
            host=host,
            why=why,
            wait_s=max(0.0, ready_at - now),
            in_flight=state.in_flight,
            started=state.started,
            failures=state.failures,
            delay_s=self._delay(state),
            notes=tuple(state.notes.values()),
        )


def _asks_for_a_pause(outcome: Outcome) -> bool:
    status = outcome.status
    return status is not None and (status in _PAUSES or (status >= 400 and outcome.retry_after is not None))


def _is_failure(outcome: Outcome) -> bool:
    status = outcome.status
    return outcome.error_code in _FAILURES or (status is not None and (status >= 500 or status == 408))
