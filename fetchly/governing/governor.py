"""A crawl's load in, whenever it asks; what it may begin out, and who has used what. The one that looks and acts.

It holds back what was not begun and nothing else: what is under way comes to its end, and the model is never stopped.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

from fetchly.errors import ConfigurationError
from fetchly.governing.decisions import Cause, Decider, Decision, Load, Reading
from fetchly.governing.gpu_memory import GpuMemory, GpuUse
from fetchly.governing.host_memory import HostMemory
from fetchly.governing.host_processors import HostProcessors
from fetchly.governing.memory_limit import MemoryLimit, in_words
from fetchly.governing.page_cost import LEAST_BYTES
from fetchly.governing.process_tree import Kind, ProcessTree, TreeReading

PERIOD_S = 1.0
TIGHT_PERIOD_S = 0.25
"""Between two readings, and while something is held back."""
_LEAST_REST = 10.0  # times what a reading took: it never takes more than a tenth of a core


@runtime_checkable
class Tabs(Protocol):
    """Whatever renders pages, and does so in fewer tabs when it is told."""

    @property
    def most_tabs(self) -> int:
        """Pages side by side where nothing is held back; 0: nothing is ever rendered."""

    def set_tabs(self, count: int) -> None:
        """At most so many from now on, from any thread; those that are open stay to their end."""

    def browser_pids(self) -> tuple[int, ...]:
        """The browser's processes."""


@dataclass(frozen=True, slots=True)
class ProcessUse:
    """What a kind of process has used: the most bytes at a time, and processor seconds."""

    peak_memory: int
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Holding:
    """How often something was held back for a cause, and for how many seconds in all."""

    times: int
    seconds: float


@dataclass(frozen=True, slots=True)
class HostUse:
    """What was used so far: bytes and processor seconds by kind of process, `peak_memory` of all together at a time,
    under which `memory_limit` (bytes; None before the first reading). `by_rss` are the kinds of which the kernel gave
    no PSS. `words` say what is held back now, "" for nothing. `gpus` are those of the machine that could be asked; of
    their memory nothing is held back."""

    memory_limit: int | None = None
    peak_memory: int = 0
    processes: Mapping[Kind, ProcessUse] = field(default_factory=dict)
    held_back: Mapping[Cause, Holding] = field(default_factory=dict)
    by_rss: tuple[Kind, ...] = ()
    words: str = ""
    gpus: tuple[GpuUse, ...] = ()


class Governor:
    """Takes a reading when one is due. One thread at a time; `use` may be looked at from any.

    `say` is told, once, that a crawl goes on page by page though there is no memory for it.
    """

    def __init__(
        self,
        limit: MemoryLimit,
        pages: int,
        tabs: Tabs | None = None,
        say: Callable[[str], None] = lambda line: None,
        clock: Callable[[], float] = time.monotonic,
        host: HostMemory | None = None,
        tree: ProcessTree | None = None,
        gpus: GpuMemory | None = None,
    ) -> None:
        self._limit = limit
        self._tabs = tabs if tabs is not None and tabs.most_tabs else None
        self._say = say
        self._clock = clock
        self._host = host or HostMemory()
        self._tree = tree or ProcessTree(others=self._tabs.browser_pids if self._tabs else tuple)
        self._processors = HostProcessors()
        self._gpus = gpus or GpuMemory()
        self._decider = Decider(self._tabs.most_tabs if self._tabs else 0, pages)
        self._decision = Decision(self._decider.all)
        self._decided_at = clock()
        self._has_said = False
        self.due_at = -math.inf
        self.use = HostUse()

    def check(self) -> None:
        """Raise ConfigurationError where the limit that was asked for is below what is held already, before any page:
        the program, and the model in it."""
        used = self._tree.read().total
        least = used + LEAST_BYTES
        if (self._limit.size or self._limit.share) and self._most(used) < least:
            raise ConfigurationError(
                f"the limit is {in_words(self._most(used))}, and fetchly with its model holds {in_words(used)} before"
                " the first page",
                where="memory_limit",
                hint=f"give it {in_words(math.ceil(2 * least / 1e8) * 1e8)}, or take a smaller model",
            )

    def pages(self, load: Load) -> int:
        """How many pages may be under way now."""
        if self._clock() >= self.due_at:
            self.look(load)
        return self._decision.allowance.pages

    def look(self, load: Load) -> None:
        """Take a reading now, and act on it."""
        began = self._clock()
        tree = self._tree.read()
        reading = Reading(tree.total, self._most(tree.total), self._processors.busy(tree, began))
        before, decision = self._decision, Decision(self._decider.all)
        if self._limit.is_governed:
            decision = self._decider.decide(reading, load, began)
        self.use = self._used(tree, reading, decision, began)
        self._decision, self._decided_at = decision, began
        if self._tabs is not None and decision.allowance.tabs != before.allowance.tabs:
            self._tabs.set_tabs(decision.allowance.tabs)
        if decision.is_forced and not self._has_said:
            self._has_said = True
            self._say(f"{decision.words}; no page is under way that would give any back")
        now = self._clock()
        period = TIGHT_PERIOD_S if decision.cause else PERIOD_S
        self.due_at = now + max(period, _LEAST_REST * (now - began))

    def close(self, load: Load) -> None:
        """Take a last reading, and hold nothing back any more, whatever comes of it."""
        try:
            self.look(load)
        finally:
            self._gpus.close()
            self.use = replace(self.use, words="")
            if self._tabs is not None:
                self._tabs.set_tabs(self._tabs.most_tabs)

    def _most(self, used: int) -> int:
        """What we may hold: what was asked for, and no more than what we hold and what is free besides."""
        bounds = self._host.bounds()
        most = [used + bound.free for bound in bounds]
        if self._limit.size is not None:
            most.append(self._limit.size)
        if self._limit.share is not None:
            most.append(int(self._limit.share * min(bound.total for bound in bounds)))
        return min(most)

    def _used(self, tree: TreeReading, reading: Reading, decision: Decision, now: float) -> HostUse:
        use, before = self.use, self._decision
        processes = {
            kind: ProcessUse(
                max(tree.memory.get(kind, 0), use.processes[kind].peak_memory if kind in use.processes else 0), cpu_s
            )
            for kind, cpu_s in tree.cpu_s.items()
        }
        held = dict(use.held_back)
        if before.cause is not None:
            last = held[before.cause]
            held[before.cause] = replace(last, seconds=last.seconds + now - self._decided_at)
        if decision.cause is not None and decision.cause != before.cause:
            last = held.get(decision.cause, Holding(0, 0.0))
            held[decision.cause] = replace(last, times=last.times + 1)
        return HostUse(
            memory_limit=reading.limit,
            peak_memory=max(use.peak_memory, reading.used),
            processes=processes,
            held_back=held,
            by_rss=tuple(sorted(tree.by_rss | set(use.by_rss))),
            words=decision.words,
            gpus=self._gpus.look(),
        )
