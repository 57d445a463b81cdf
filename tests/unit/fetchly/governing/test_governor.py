"""What the governor does with what it reads: it looks when it is time, tells the browser, and keeps the figures."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

import pytest

from fetchly.errors import ConfigurationError
from fetchly.governing.decisions import Load
from fetchly.governing.governor import PERIOD_S, TIGHT_PERIOD_S, Governor, Holding, ProcessUse
from fetchly.governing.gpu_memory import GpuMemory, GpuUse
from fetchly.governing.host_memory import HostMemory, MemoryBound
from fetchly.governing.host_processors import HostProcessors
from fetchly.governing.memory_limit import MemoryLimit, memory_limit
from fetchly.governing.process_tree import Kind, ProcessTree, TreeReading

MB = 1_000_000


@dataclass
class Host:
    """A machine of 16 GB, whose processes hold what the test says."""

    now: float = 100.0
    fetchly: int = 400
    chromium: int = 0
    free: int = 8000
    tabs: int = 4
    cost_s: float = 0.0
    readings: int = 0
    told: list[int] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    most_tabs = property(lambda self: self.tabs)

    def set_tabs(self, count: int) -> None:
        self.told.append(count)

    def browser_pids(self) -> tuple[int, ...]:
        return ()

    def bounds(self) -> tuple[MemoryBound, ...]:
        return (MemoryBound(16_000 * MB, self.free * MB, "machine"), MemoryBound(10_000 * MB, 7000 * MB, "cgroup"))

    def read(self) -> TreeReading:
        self.readings += 1
        self.now += self.cost_s
        memory: dict[Kind, int] = {"fetchly": self.fetchly * MB}
        cpu: dict[Kind, float] = {"fetchly": 1.5}
        if self.chromium:
            memory["chromium"], cpu["chromium"] = self.chromium * MB, 0.5
        return TreeReading(memory, cpu, 2, frozenset(("chromium",) if self.chromium else ()))

    def governor(self, limit: MemoryLimit) -> Governor:
        return Governor(limit, 8, self, self.said.append, lambda: self.now, self.memory(), self.tree())

    def memory(self) -> HostMemory:
        return cast(HostMemory, SimpleNamespace(bounds=self.bounds))

    def tree(self) -> ProcessTree:
        return cast(ProcessTree, self)


class Gpus(GpuMemory):
    """One, of which each look finds more held."""

    def __init__(self) -> None:
        self.looks = 0
        self.closed = False

    def look(self) -> tuple[GpuUse, ...]:
        assert not self.closed
        self.looks += 1
        return (GpuUse("H0", self.looks, 7 - self.looks, 9),)

    def close(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def _idle_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HostProcessors, "busy", lambda self, tree, now: 0.0)


BUSY = Load(under_way=4, waiting=0, finished=0)


def test_a_reading_is_taken_when_it_is_time() -> None:
    host = Host()
    governor = host.governor(memory_limit("2GB"))
    assert [governor.pages(BUSY) for _ in range(5)] == [8] * 5
    assert host.readings == 1
    host.now += PERIOD_S
    governor.pages(BUSY)
    assert host.readings == 2


def test_it_looks_more_often_while_something_is_held_back() -> None:
    host = Host(fetchly=1990)
    governor = host.governor(memory_limit("2GB"))
    governor.pages(BUSY)
    assert governor.due_at == host.now + TIGHT_PERIOD_S


def test_readings_that_are_dear_are_rare() -> None:
    host = Host(cost_s=0.4)
    governor = host.governor(memory_limit("2GB"))
    governor.pages(BUSY)
    assert governor.due_at - host.now == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("limit", "most"),
    [
        ("2GB", 2000 * MB),
        ("50GB", 7400 * MB),
        ("50%", 5000 * MB),
        ("100%", 7400 * MB),
        (None, 7400 * MB),
    ],
)
def test_nobody_may_hold_more_than_there_is(limit: str | None, most: int) -> None:
    host = Host()
    governor = host.governor(memory_limit(limit))
    governor.look(BUSY)
    assert governor.use.memory_limit == most


def test_the_browser_is_told_once_and_gets_everything_back_at_the_end() -> None:
    host = Host(free=1000)
    governor = host.governor(memory_limit(None))
    governor.look(Load(0, 0, 0))
    host.chromium, host.free = 980, 20
    for _ in range(6):
        host.now += TIGHT_PERIOD_S
        governor.look(BUSY)
    assert host.told == [2, 1, 0], "each step once, from many tabs to none"
    assert governor.use.words == "memory 1.4 GB of 1.4 GB: no new pages"
    assert governor.pages(BUSY) == 0
    governor.close(BUSY)
    assert host.told[-1] == 4


def test_the_browser_gets_everything_back_also_where_the_last_reading_fails() -> None:
    host = Host(free=0)
    governor = host.governor(memory_limit(None))
    governor.look(BUSY)
    host.free = "none"  # type: ignore[assignment]
    with pytest.raises(TypeError):
        governor.close(BUSY)
    assert host.told[-1] == 4


def test_who_renders_nothing_is_told_nothing() -> None:
    host = Host(tabs=0)
    governor = host.governor(memory_limit(None))
    governor.look(Load(0, 0, 0))
    host.free, host.fetchly = 0, 8000
    governor.look(BUSY)
    governor.close(BUSY)
    assert host.told == []


def test_the_gpus_are_looked_at_with_every_reading_and_let_go_at_the_end() -> None:
    host = Host()
    gpus = Gpus()
    governor = Governor(
        memory_limit("2GB"), 8, None, host.said.append, lambda: host.now, host.memory(), host.tree(), gpus
    )
    governor.look(BUSY)
    governor.close(BUSY)
    assert governor.use.gpus == (GpuUse("H0", 2, 5, 9),)
    assert gpus.closed


def test_off_holds_nothing_back_and_still_counts() -> None:
    host = Host(free=0)
    governor = host.governor(memory_limit("off"))
    governor.look(Load(0, 0, 0))
    host.fetchly = 9000
    governor.look(BUSY)
    assert governor.pages(BUSY) == 8
    assert host.told == []
    assert governor.use.peak_memory == 9000 * MB
    assert governor.use.held_back == {}


def test_the_figures_are_the_most_so_far_and_what_was_held_back() -> None:
    host = Host(chromium=600, free=1000)
    governor = host.governor(memory_limit("2GB"))
    governor.look(Load(0, 0, 0))
    host.now, host.chromium = host.now + 1, 1590
    governor.look(BUSY)
    host.now, host.chromium = host.now + 2, 300
    governor.look(Load(0, 0, 900))
    use = governor.use
    assert use.processes == {"fetchly": ProcessUse(400 * MB, 1.5), "chromium": ProcessUse(1590 * MB, 0.5)}
    assert use.peak_memory == 1990 * MB
    assert use.by_rss == ("chromium",)
    assert use.held_back == {"memory": Holding(1, 3.0)}  # five pages fitted, at first
    host.now += 3
    governor.look(Load(0, 0, 1800))
    assert governor.use.held_back["memory"].times == 1


def test_going_on_without_memory_is_said_once() -> None:
    host = Host(free=1000, tabs=0)
    governor = host.governor(memory_limit("500MB"))
    for used in (400, 600, 600, 600, 600, 600, 600, 600, 600):
        host.fetchly, host.now = used, host.now + 1
        governor.look(Load(0, 0, 0))
    assert governor.pages(Load(0, 0, 0)) == 1
    assert host.said == ["memory 600 MB of 500 MB: 1 page at a time; no page is under way that would give any back"]


def test_a_limit_below_what_the_model_takes_is_refused_with_the_figures() -> None:
    with pytest.raises(ConfigurationError) as error:
        Host().governor(memory_limit("410MB")).check()
    assert error.value.message == ("the limit is 410 MB, and fetchly with its model holds 400 MB before the first page")
    assert (error.value.where, error.value.exit_code) == ("memory_limit", 2)
    assert error.value.hint is not None
    assert "900 MB" in error.value.hint
    Host().governor(memory_limit("420MB")).check()


def test_a_full_machine_alone_refuses_nobody() -> None:
    Host(free=0).governor(memory_limit(None)).check()
