"""A clock and dice that tests hold, and a host's politeness by them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from fetchly.crawler.politeness import HostState, Outcome, Politeness, PolitenessLimits

HOST = "example.org"
FINE = Outcome(status=200)
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Times:
    """A clock that stands still until it is set on, and dice that show what they are told."""

    seconds: float = 1000.0
    dice: float = 0.5
    slept: list[float] = field(default_factory=list)

    def __call__(self) -> float:
        return self.seconds

    def roll(self) -> float:
        return self.dice

    def now(self) -> datetime:
        return EPOCH + timedelta(seconds=self.seconds)

    def sleep(self, seconds: float) -> bool:
        self.slept.append(seconds)
        self.seconds += seconds
        return False


def polite(
    times: Times, *, delay_s: float = 1.0, per_host: int = 2, limits: PolitenessLimits | None = None
) -> Politeness:
    return Politeness(delay_s, per_host, times, times.roll, now=times.now, limits=limits)


def wait_of(politeness: Politeness, times: Times) -> float:
    return politeness.ready_at(HOST) - times()


def state_of(politeness: Politeness) -> HostState:
    (state,) = politeness.states()
    return state


def ask(politeness: Politeness, times: Times, outcome: Outcome) -> None:
    """Wait for the turn, ask, learn."""
    times.seconds = max(times.seconds, politeness.ready_at(HOST))
    assert politeness.begin(HOST)
    politeness.end(HOST, outcome)
