"""A process in; the memory and processor time of it and of all that it has started, by kind of process, out.

Memory is PSS, the proportional set size of proc(5): shared pages count once over all that share them. The resident set
(RSS) counts them in each of Chromium's dozen processes; it is taken only where the kernel does not give PSS.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

Kind = Literal["fetchly", "readers", "driver", "chromium", "other"]
"""We with the model; the processes that read documents; Playwright's driver; the browser; whatever else we started."""

_MOVED = 1_000_000  # bytes of RSS: walking the pages of a process takes milliseconds, so that it is not done for less
_KEPT_READINGS = 10  # though what others share may have changed
Ident = tuple[int, float]  # a process id and its start: ids are used again


@dataclass(frozen=True, slots=True)
class TreeReading:
    """Bytes held and processor seconds used so far, ended processes included, by kind; `processes` are alive.
    `by_rss` are the kinds of which PSS could not be read in full."""

    memory: Mapping[Kind, int]
    cpu_s: Mapping[Kind, float]
    processes: int
    by_rss: frozenset[Kind]

    @property
    def total(self) -> int:
        """Bytes of all kinds."""
        return sum(self.memory.values())


@dataclass(slots=True)
class _Known:
    """What was last seen of a process."""

    kind: Kind
    cpu_s: float = 0.0
    rss: int = 0
    memory: int = 0
    is_pss: bool = True
    age: int = _KEPT_READINGS


class ProcessTree:
    """Reads a tree of processes again and again. `others` are processes of the browser that may have left the tree.
    The time that a process uses after its last reading, before it ends, is not seen. One thread at a time."""

    def __init__(
        self, root: int | None = None, others: Callable[[], Iterable[int]] = tuple, proc: Path = Path("/proc")
    ) -> None:
        self._root = psutil.Process(root)
        self._others = others
        self._proc = proc
        self._known: dict[Ident, _Known] = {}
        self._ended: dict[Kind, float] = {}  # seconds

    def read(self) -> TreeReading:
        """What is held now. Processes that end meanwhile are left out."""
        living: dict[Ident, _Known] = {}
        kinds: dict[int, Kind] = {}
        for process in self._processes():
            try:
                with process.oneshot():
                    ident = (process.pid, process.create_time())
                    known = self._known.get(ident) or _Known("other")
                    if known.kind == "other":  # also: forked, and not yet the program that it will be
                        known.kind = _kind(process, self._root.pid, kinds)
                    self._update(known, process)
            except psutil.Error:
                continue
            living[ident] = known
            kinds[process.pid] = known.kind
        for ident, known in self._known.items():
            if ident not in living:
                self._ended[known.kind] = self._ended.get(known.kind, 0.0) + known.cpu_s
        self._known = living
        memory: Counter[Kind] = Counter()
        cpu = dict(self._ended)
        for known in living.values():
            memory[known.kind] += known.memory
            cpu[known.kind] = cpu.get(known.kind, 0.0) + known.cpu_s
        by_rss = frozenset(known.kind for known in living.values() if not known.is_pss)
        return TreeReading(memory, cpu, len(living), by_rss)

    def _processes(self) -> list[psutil.Process]:
        """Parents before their children."""
        processes = [self._root, *self._root.children(recursive=True)]
        seen = {process.pid for process in processes}
        for pid in self._others():
            if pid not in seen:
                try:
                    processes.append(psutil.Process(pid))
                except psutil.Error:
                    continue
        return processes

    def _update(self, known: _Known, process: psutil.Process) -> None:
        times = process.cpu_times()
        known.cpu_s = times.user + times.system
        rss = process.memory_info().rss
        known.age += 1
        if known.age > _KEPT_READINGS or abs(rss - known.rss) >= _MOVED:
            pss = self._pss(process.pid)
            if pss is None and psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE:
                pss = 0  # it has ended meanwhile; one that is gone altogether has raised NoSuchProcess
            known.rss, known.memory, known.is_pss, known.age = rss, rss if pss is None else pss, pss is not None, 0

    def _pss(self, pid: int) -> int | None:
        try:
            return pss_of((self._proc / str(pid) / "smaps_rollup").read_text("ascii", "replace"))
        except OSError:  # another system, an old kernel, or a process that shuts itself off, as sandboxed ones do
            return None


def pss_of(rollup: str) -> int | None:
    """The PSS in bytes in the text of /proc/PID/smaps_rollup; None where it is not there, as of a zombie."""
    for line in rollup.splitlines():
        fields = line.split()
        if len(fields) == 3 and fields[0] == "Pss:" and fields[1].isdigit() and fields[2] == "kB":
            return int(fields[1]) * 1024
    return None


def _kind(process: psutil.Process, root: int, kinds: Mapping[int, Kind]) -> Kind:
    """By what started it and by its command line."""
    if process.pid == root:
        return "fetchly"
    parent = kinds.get(process.ppid())
    if parent in ("driver", "chromium"):
        return "chromium"
    if parent is None:  # not below us: only the browser names processes of its own
        return "chromium"
    if parent == "readers":
        return parent
    arguments = process.cmdline()
    if any("fetchly.document.child" in argument for argument in arguments):
        return "readers"
    if "run-driver" in arguments and any("playwright" in os.path.normcase(argument) for argument in arguments):
        return "driver"
    return "other"
