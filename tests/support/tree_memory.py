"""The memory of a program and all that it has started, sampled while something goes on."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

import psutil

_PERIOD_S = 0.2


class TreeMemory:
    """`samples` are resident bytes, a few times a second, of this process and its descendants without those of `but`.
    A context manager."""

    def __init__(self, but: int | None = None) -> None:
        self.samples: list[int] = []
        self._but = but
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        own = psutil.Process()
        while not self._ended.wait(_PERIOD_S):
            self.samples.append(sum(map(self._of, (own, *own.children(recursive=True)))))

    def _of(self, process: psutil.Process) -> int:
        try:
            return 0 if process.pid == self._but else int(process.memory_info().rss)
        except psutil.NoSuchProcess:
            return 0
