"""The kernel's files in; how much memory there is and how much of it is still free, by every bound, out.

Sources: the kernel's cgroup-v2.rst and cgroup-v1/memory.rst, proc(5).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

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


_V2 = _Names(("memory.max", "memory.high"), "memory.current", "inactive_file")
_V1 = _Names(("memory.limit_in_bytes",), "memory.usage_in_bytes", "total_inactive_file")


@dataclass(frozen=True, slots=True)
class _Group:
    """A cgroup that bounds us: its folder, and how its files are named."""

    folder: Path
    names: _Names


class HostMemory:
    """The bounds of this machine and of the control groups that this process is in. Where a group cannot be read it is
    none: what is left then is the machine."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._groups = _groups(proc)

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


def _limit(group: _Group) -> int | None:
    """The lowest limit; None without one ("max", or a file that is not there)."""
    limits = [int(text) for name in group.names.limits if (text := _read(group.folder / name).strip()).isdigit()]
    return min(limits, default=None)


def _used(group: _Group) -> int | None:
    """What counts against the limit, without the file cache that the kernel drops before it kills anybody."""
    text = _read(group.folder / group.names.usage).strip()
    if not text.isdigit():
        return None
    rows = [line.split() for line in _read(group.folder / "memory.stat").splitlines()]
    cache = sum(int(row[1]) for row in rows if len(row) == 2 and row[0] == group.names.cache and row[1].isdigit())
    return max(0, int(text) - cache)


def _groups(proc: Path) -> tuple[_Group, ...]:
    """The groups of this process for memory, innermost first; a group is bounded by all that it stands in."""
    found: list[_Group] = []
    paths = dict(_memberships(_read(proc / "self" / "cgroup")))
    for line in _read(proc / "self" / "mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if len(fields) < 5 or len(kind) < 3:
            continue
        if kind[0] == "cgroup2" and "" in paths:
            path, names = paths[""], _V2
        elif kind[0] == "cgroup" and "memory" in kind[2].split(",") and "memory" in paths:
            path, names = paths["memory"], _V1
        else:
            continue
        mounted, root = Path(_unescaped(fields[4])), Path(_unescaped(fields[3]))
        # Inside a container the path may be one of the host, above or beside what is mounted: then the mount is ours.
        inside = path.relative_to(root) if path.is_relative_to(root) and ".." not in path.parts else Path()
        found += [_Group(mounted / step, names) for step in (inside, *inside.parents)]
    return tuple(dict.fromkeys(found))


def _memberships(text: str) -> list[tuple[str, Path]]:
    """By controller, "" for the one hierarchy of version 2."""
    members: list[tuple[str, Path]] = []
    for line in text.splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3:
            members += [(controller, Path(parts[2])) for controller in parts[1].split(",")]
    return members


def _unescaped(text: str) -> str:
    """proc(5): blanks in mount points are written in octal."""
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8", "replace")
    except OSError:
        return ""
