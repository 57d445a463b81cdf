"""The kernel's files in; which part of the processor time that we may use is used, out.

What we may use is the processors that this process is bound to (its affinity, which a cpuset narrows), and of their
time the quota of every control group that it is in. Sources: the kernel's cgroup-v2.rst, scheduler/sched-bwc.rst and
cgroup-v1/cpuacct.rst.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import psutil

from fetchly.governing.cgroups import PROC, Group, groups
from fetchly.governing.process_tree import TreeReading


@dataclass(frozen=True, slots=True)
class _Spent:
    """Seconds so far: `busy` ones of `there` that our processors had, those of our processes, and by group those of all
    in it, where that is known."""

    at: float
    busy: float
    there: float
    ours: float
    groups: tuple[float | None, ...]


class HostProcessors:
    """What is spent between two looks, by us and by whoever shares our processors and our control groups with us."""

    def __init__(self, proc: Path = PROC) -> None:
        self._groups = groups("cpu", proc)
        self._last: _Spent | None = None

    def busy(self, tree: TreeReading, now: float) -> float:
        """0 to 1, since the last call (0 at the first one); `now` in seconds."""
        allowed = _allowed()
        last, spent = self._last, self._spent(tree, now, allowed)
        self._last = spent
        if last is None or spent.at <= last.at:
            return 0.0
        passed = spent.at - last.at
        quotas = tuple(map(_quota, self._groups))
        most = min([len(allowed), *(quota for quota in quotas if quota is not None)])
        shares = [(spent.ours - last.ours) / passed / most]
        if spent.there > last.there:
            shares.append((spent.busy - last.busy) / (spent.there - last.there))
        for quota, before, after in zip(quotas, last.groups, spent.groups, strict=True):
            if quota is not None and before is not None and after is not None:
                shares.append((after - before) / passed / quota)
        return min(1.0, max(0.0, *shares))

    def _spent(self, tree: TreeReading, now: float, allowed: tuple[int, ...]) -> _Spent:
        busy, there = _processors_s(allowed)
        return _Spent(now, busy, there, sum(tree.cpu_s.values()), tuple(map(_group_s, self._groups)))


def _quota(group: Group) -> float | None:
    """Processors' worth of time that a group may take; None where it may take all."""
    if group.version == 2:
        quota, _, period = group.text("cpu.max").partition(" ")
    else:
        quota, period = group.text("cpu.cfs_quota_us"), group.text("cpu.cfs_period_us")
    if not (quota.isdecimal() and period.isdecimal() and int(quota) and int(period)):
        return None  # "max", -1, no file
    return int(quota) / int(period)


def _group_s(group: Group) -> float | None:
    """Seconds that all processes of a group have used; version 1 tells them where cpu and cpuacct are one mount."""
    if group.version == 2:
        used, unit = group.number("cpu.stat", "usage_usec"), 1e6
    else:
        used, unit = group.number("cpuacct.usage"), 1e9
    return None if used is None else used / unit


def _processors_s(allowed: tuple[int, ...]) -> tuple[float, float]:
    """Busy and all seconds of these processors, together. Their guests' time is in the user's already."""
    times = psutil.cpu_times(percpu=True)
    if allowed[-1] < len(times):  # else a container is shown other numbers than those that it is bound to
        times = [times[number] for number in allowed]
    there = sum(sum(each) - getattr(each, "guest", 0.0) - getattr(each, "guest_nice", 0.0) for each in times)
    return there - sum(each.idle + getattr(each, "iowait", 0.0) for each in times), there


def _allowed() -> tuple[int, ...]:
    """The numbers of the processors that this process is bound to, ascending."""
    process = psutil.Process()
    bound = process.cpu_affinity() if hasattr(process, "cpu_affinity") else None
    return tuple(sorted(bound or range(psutil.cpu_count() or 1)))
