"""Readings of the host and a crawl's load in; how many tabs and pages at a time, and why, out. No clock, no files.

Memory: tabs go first, by halves, then none, then no page is begun, while what is under way comes to its end and the
model goes on. Processors: while pages wait for the model anyway, tabs and fetching threads are halved down to one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from fetchly.governing.memory_limit import in_words
from fetchly.governing.page_cost import PageCost
from fetchly.governing.watermarks import Marks, Watermarks

MEMORY_MARKS = Marks(high=0.85, low=0.6, settle_s=5.0)
"""Of the room between what is held without any page and the limit."""
CPU_MARKS = Marks(high=0.9, low=0.7, settle_s=2.0)
IDLE_PATIENCE_S = 1.0
"""How long nothing is begun for want of memory while nothing of ours is under way that could give any back."""
STUCK_PATIENCE_S = 10.0
"""The same while something is, of which nothing comes: it may wait for a tab."""

Cause = Literal["memory", "processors"]


@dataclass(frozen=True, slots=True)
class Reading:
    """The host at a moment: bytes that we hold and may hold, and the share of the processors that is busy."""

    used: int
    limit: int
    cpu: float


@dataclass(frozen=True, slots=True)
class Load:
    """A crawl at a moment: pages that are fetched or read, read ones that the model has not answered, and how many have
    come to the end of either so far."""

    under_way: int
    waiting: int
    finished: int

    @property
    def is_any(self) -> bool:
        """Whether anything has not come to its end."""
        return bool(self.under_way or self.waiting)


@dataclass(frozen=True, slots=True)
class Allowance:
    """At most so many tabs and so many pages under way."""

    tabs: int
    pages: int


@dataclass(frozen=True, slots=True)
class Decision:
    """What may be begun until the next reading. `cause` is what holds something back, None where nothing does; `words`
    say it for display, "" where there is nothing to say. `is_forced`: a page goes on for want of any other way."""

    allowance: Allowance
    cause: Cause | None = None
    words: str = ""
    is_forced: bool = False


class Decider:
    """Decides with every reading. `tabs` and `pages` are what a crawl has where nothing is held back; 0 tabs: it
    renders nothing."""

    def __init__(self, tabs: int, pages: int) -> None:
        self.all = Allowance(tabs, pages)
        self._memory_steps = memory_steps(tabs, pages)
        self._cpu_steps = cpu_steps(tabs, pages)
        self._memory = Watermarks(MEMORY_MARKS, len(self._memory_steps) - 1)
        self._cpu = Watermarks(CPU_MARKS, len(self._cpu_steps) - 1)
        self._cost = PageCost()
        self._finished = 0
        self._closed_since = 0.0

    def decide(self, reading: Reading, load: Load, now: float) -> Decision:
        """For one reading. `now` in seconds, never going back."""
        by_memory = self._by_memory(reading, load, now)
        # With one page at the model and none behind it, it would soon stand idle.
        by_cpu = self._cpu_steps[self._cpu.step(reading.cpu if load.waiting > 1 else 0.0, now)]
        is_forced = self._is_out_of_patience(by_memory, load, now)
        if is_forced:
            by_memory = Allowance(max(by_memory.tabs, min(1, self.all.tabs)), max(by_memory.pages, 1))
        allowance = Allowance(min(by_memory.tabs, by_cpu.tabs), min(by_memory.pages, by_cpu.pages))
        if by_memory != self.all:
            figures = f"memory {in_words(reading.used)} of {in_words(reading.limit)}"
            return Decision(allowance, "memory", f"{figures}: {self._told(allowance)}", is_forced)
        if by_cpu != self.all:
            figures = f"processors {100 * reading.cpu:.0f} % busy"
            return Decision(allowance, "processors", f"{figures}: {self._told(allowance)}")
        return Decision(allowance)

    def _by_memory(self, reading: Reading, load: Load, now: float) -> Allowance:
        self._cost.learn(reading.used, load.under_way, load.finished)
        idle = self._cost.idle
        room = reading.limit - idle
        share = (reading.used - idle) / room if room > 0 else math.inf
        step = self._memory_steps[self._memory.step(share, now)]
        affordable = self._cost.room(reading.used, load.under_way, idle + MEMORY_MARKS.high * room)
        return Allowance(step.tabs, min(step.pages, max(1, affordable)))

    def _is_out_of_patience(self, by_memory: Allowance, load: Load, now: float) -> bool:
        """Whether nothing of ours will give memory back: others hold it, or it never was enough."""
        is_closed = not by_memory.pages or (load.under_way > 0 and by_memory.tabs < min(1, self.all.tabs))
        if not is_closed or load.finished != self._finished:
            self._closed_since, self._finished = now, load.finished
        return is_closed and now >= self._closed_since + (STUCK_PATIENCE_S if load.is_any else IDLE_PATIENCE_S)

    def _told(self, allowance: Allowance) -> str:
        if not allowance.pages:
            return "no new pages"
        parts = []
        if allowance.tabs < min(self.all.tabs, allowance.pages):
            parts.append(_counted(allowance.tabs, "tab"))
        if allowance.pages < self.all.pages:
            parts.append(f"{_counted(allowance.pages, 'page')} at a time")
        return ", ".join(parts)


def memory_steps(tabs: int, pages: int) -> tuple[Allowance, ...]:
    """From everything to nothing: tabs by halves to none, then no page."""
    steps = [Allowance(tabs, pages)]
    while steps[-1].tabs:
        steps.append(Allowance(steps[-1].tabs // 2, pages))
    return (*steps, Allowance(0, 0))


def cpu_steps(tabs: int, pages: int) -> tuple[Allowance, ...]:
    """From everything to one page at a time: half of each with every step."""
    steps = [Allowance(tabs, pages)]
    while steps[-1].pages > 1 or steps[-1].tabs > 1:
        last = steps[-1]
        steps.append(Allowance(max(min(1, tabs), last.tabs // 2), max(1, last.pages // 2)))
    return tuple(steps)


def _counted(count: int, noun: str) -> str:
    return f"{count or 'no'} {noun}{'s' if count != 1 else ''}"
