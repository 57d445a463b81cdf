"""The kernel's files in; the control groups that bound this process, by controller, out.

Sources: the kernel's cgroup-v2.rst and cgroup-v1, proc(5).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Group:
    """A control group that bounds us: its folder, and by which version its files are named."""

    folder: Path
    version: Literal[1, 2]

    def text(self, name: str) -> str:
        """What stands in a file of it, "" where that cannot be read."""
        return _read(self.folder / name).strip()

    def number(self, name: str, key: str | None = None) -> int | None:
        """The number in a file, or that of a key in a file of many; None without one ("max", "-1", no file)."""
        if key is None:
            return _number(self.text(name))
        rows = [line.split() for line in self.text(name).splitlines()]
        return next((_number(row[1]) for row in rows if len(row) == 2 and row[0] == key), None)


def groups(controller: str, proc: Path = PROC) -> tuple[Group, ...]:
    """The groups of this process for a controller (`memory`, `cpu`), innermost first; a group is bounded by all that it
    stands in. Where a group cannot be found it is none."""
    found: list[Group] = []
    paths = dict(_memberships(_read(proc / "self" / "cgroup")))
    for line in _read(proc / "self" / "mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if len(fields) < 5 or len(kind) < 3:
            continue
        version: Literal[1, 2]
        if kind[0] == "cgroup2" and "" in paths:
            path, version = paths[""], 2
        elif kind[0] == "cgroup" and controller in kind[2].split(",") and controller in paths:
            path, version = paths[controller], 1
        else:
            continue
        mounted, root = Path(_unescaped(fields[4])), Path(_unescaped(fields[3]))
        # Inside a container the path may be one of the host, above or beside what is mounted: then the mount is ours.
        inside = path.relative_to(root) if path.is_relative_to(root) and ".." not in path.parts else Path()
        found += [Group(mounted / step, version) for step in (inside, *inside.parents)]
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


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8", "replace")
    except OSError:
        return ""
