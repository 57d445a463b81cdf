"""What part of its processor time a crawl's host has used, from files as the kernel writes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest

from fetchly.governing.host_processors import HostProcessors
from fetchly.governing.process_tree import TreeReading
from tests.support.cgroups import group, proc, v2


class Times(NamedTuple):
    """Of a processor, as psutil gives them: a guest's time is part of the user's."""

    user: float
    idle: float
    iowait: float = 0.0
    guest: float = 0.0


@dataclass
class Machine:
    """Processors, those that we are bound to, and seconds spent so far."""

    count: int = 8
    bound: tuple[int, ...] = tuple(range(8))
    now: float = 0.0
    busy: dict[int, float] = field(default_factory=dict)  # seconds by processor
    ours: float = 50.0

    def times(self, percpu: bool) -> list[Times]:
        assert percpu
        busy = [self.busy.get(number, 0.0) for number in range(self.count)]
        return [Times(each, self.now - each, 0.0, each / 2) for each in busy]

    def tree(self) -> TreeReading:
        return TreeReading({}, {"fetchly": self.ours - 10, "chromium": 10.0}, 2, frozenset())


Look = Callable[..., float]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr("psutil.cpu_times", machine.times)
    monkeypatch.setattr("psutil.Process.cpu_affinity", lambda process: list(machine.bound), raising=False)
    return machine


def second(processors: HostProcessors, machine: Machine, ours: float = 0.0, **busy: float) -> float:
    """What is seen when a second has passed, in which so much was spent: by us, and by processor (`p3=0.5`)."""
    machine.now += 1
    machine.ours += ours
    for name, seconds in busy.items():
        machine.busy[int(name[1:])] = machine.busy.get(int(name[1:]), 0.0) + seconds
    return processors.busy(machine.tree(), machine.now)


def begun(machine: Machine, folder: Path) -> HostProcessors:
    processors = HostProcessors(folder)
    assert second(processors, machine) == 0.0
    return processors


def test_without_groups_it_is_the_machine(machine: Machine, tmp_path: Path) -> None:
    processors = begun(machine, tmp_path / "nowhere")
    assert second(processors, machine, **{f"p{number}": 0.75 for number in range(8)}) == pytest.approx(0.75)
    assert second(processors, machine, ours=4) == pytest.approx(0.5)
    assert second(processors, machine) == 0.0
    assert second(processors, machine, ours=100) == 1.0


def test_only_the_processors_that_we_are_bound_to_count(machine: Machine, tmp_path: Path) -> None:
    machine.bound = (2, 5)
    processors = begun(machine, tmp_path / "nowhere")
    others = {f"p{number}": 1.0 for number in (0, 1, 3, 4, 6, 7)}
    assert second(processors, machine, **others) == 0.0
    assert second(processors, machine, ours=1.5) == pytest.approx(0.75)


def test_a_container_that_is_shown_other_numbers_counts_what_it_is_shown(machine: Machine, tmp_path: Path) -> None:
    machine.count, machine.bound = 2, (34, 50)
    processors = begun(machine, tmp_path / "nowhere")
    assert second(processors, machine, p0=1.0) == pytest.approx(0.5)


def test_version_2_the_quota_is_the_whole_and_all_of_the_group_spend_it(machine: Machine, tmp_path: Path) -> None:
    top = tmp_path / "cgroup"
    group(top / "pod", cpu__max="200000 100000", cpu__stat="usage_usec 5000000\nuser_usec 1")
    group(top / "pod" / "box", cpu__max="max 100000", cpu__stat="usage_usec 900000")
    processors = begun(machine, proc(tmp_path, "0::/pod/box\n", v2(top)))
    assert second(processors, machine, ours=1) == pytest.approx(0.5)
    group(top / "pod", cpu__stat="usage_usec 6800000\nuser_usec 1")  # others of the pod
    assert second(processors, machine, ours=0.2) == pytest.approx(0.9)
    group(top / "pod", cpu__stat="usage_usec 6800000\nuser_usec 1")
    assert second(processors, machine) == 0.0


def test_version_2_the_tightest_of_nested_groups_counts(machine: Machine, tmp_path: Path) -> None:
    top = tmp_path / "cgroup"
    group(top / "a", cpu__max="400000 100000")
    group(top / "a" / "b", cpu__max="25000 50000")
    processors = begun(machine, proc(tmp_path, "0::/a/b\n", v2(top)))
    assert second(processors, machine, ours=0.4) == pytest.approx(0.8)


def test_a_quota_that_is_changed_counts_from_then_on(machine: Machine, tmp_path: Path) -> None:
    top = tmp_path / "cgroup"
    group(top / "a", cpu__max="max 100000")
    processors = begun(machine, proc(tmp_path, "0::/a\n", v2(top)))
    assert second(processors, machine, ours=1) == pytest.approx(1 / 8)
    group(top / "a", cpu__max="100000 100000")
    assert second(processors, machine, ours=0.75) == pytest.approx(0.75)


def test_version_1(machine: Machine, tmp_path: Path) -> None:
    top = tmp_path / "cgroup"
    group(top, cpu__cfs_quota_us=-1, cpu__cfs_period_us=100000, cpuacct__usage=10**12)
    group(top / "box", cpu__cfs_quota_us=400000, cpu__cfs_period_us=100000, cpuacct__usage=7 * 10**9)
    mount = f"/ {top} rw - cgroup cgroup rw,cpu,cpuacct"
    processors = begun(machine, proc(tmp_path, "4:cpu,cpuacct:/box\n2:memory:/other\n", mount))
    assert second(processors, machine, ours=2) == pytest.approx(0.5)
    group(top / "box", cpuacct__usage=10 * 10**9)
    assert second(processors, machine, ours=1) == pytest.approx(0.75)


@pytest.mark.parametrize("quota", ["", "max", "nonsense 100000", "0 100000", "100000", "100000 0", "-1 100000"])
def test_what_cannot_be_read_is_no_quota(machine: Machine, tmp_path: Path, quota: str) -> None:
    top = tmp_path / "cgroup"
    group(top / "a", cpu__max=quota)
    processors = begun(machine, proc(tmp_path, "0::/a\n", v2(top)))
    assert second(processors, machine, ours=4) == pytest.approx(0.5)


def test_two_looks_at_the_same_moment_say_nothing(machine: Machine, tmp_path: Path) -> None:
    processors = begun(machine, tmp_path / "nowhere")
    machine.ours += 5
    assert processors.busy(machine.tree(), machine.now) == 0.0


def test_the_real_machine_has_a_share() -> None:
    processors = HostProcessors()
    tree = TreeReading({}, {}, 0, frozenset())
    assert processors.busy(tree, 1.0) == 0.0
    assert 0.0 <= processors.busy(tree, 2.0) <= 1.0
