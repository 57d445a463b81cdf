"""The kernel's files in; how much memory there is and how much of it is still free, by every bound, out.

Sources: the kernel's cgroup-v2.rst and cgroup-v1/memory.rst.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from fetchly.governing.cgroups import PROC, Group, groups

_KEPT = 0.05
"""Of what there is, left to others and to the kernel: whoever takes the last of it is killed."""


@dataclass(frozen=True, slots=True)
class MemoryBound:
    """Bytes: `total` there are, `free` of them may still be taken before `by` comes to what is kept for others."""

    total: int
    free: int
    by: Literal["machine", "cgroup"]


@dataclass(frozen=True, slots=True)
class _Names:
    """The files of a version of cgroups: limits, of which the lowest holds, usage, and the key of reclaimable cache."""

    limits: tuple[str, ...]
    usage: str
    cache: str


_NAMES: Mapping[int, _Names] = {
    1: _Names(("memory.limit_in_bytes",), "memory.usage_in_bytes", "total_inactive_file"),
    2: _Names(("memory.max", "memory.high"), "memory.current", "inactive_file"),
}


class HostMemory:
    """The bounds of this machine and of the control groups that this process is in. Where a group cannot be read it is
    none: what is left then is the machine."""

    def __init__(self, proc: Path = PROC) -> None:
        self._groups = groups("memory", proc)

    def bounds(self) -> tuple[MemoryBound, ...]:
        """The machine's, and that of every group with a limit, from the process upward."""
        machine = psutil.virtual_memory()
        bounds = [_bound(machine.total, machine.total - machine.available, "machine")]
        for group in self._groups:
            limit, used = _limit(group), _used(group)
            if limit is not None and used is not None and limit < machine.total:
                bounds.append(_bound(limit, used, "cgroup"))
        return tuple(bounds)


def _bound(total: int, used: int, by: Literal["machine", "cgroup"]) -> MemoryBound:
    return MemoryBound(total, max(0, total - int(_KEPT * total) - used), by)


def _limit(group: Group) -> int | None:
    """The lowest limit; None without one."""
    limits = [group.number(name) for name in _NAMES[group.version].limits]
    return min((limit for limit in limits if limit is not None), default=None)


def _used(group: Group) -> int | None:
    """What counts against the limit, without the file cache that the kernel drops before it kills anybody."""
    names = _NAMES[group.version]
    used = group.number(names.usage)
    return None if used is None else max(0, used - (group.number("memory.stat", names.cache) or 0))
