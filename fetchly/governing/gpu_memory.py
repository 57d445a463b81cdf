"""NVIDIA's management library in; what of its GPUs' memory this process has held, and what was left, out.

It is asked through pynvml (the package nvidia-ml-py), which is optional. Without it, or without a driver or a GPU,
there is nothing to tell, and nothing is said.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class GpuUse:
    """Bytes of a GPU's memory so far: the most that this process held, the least that was free, and all that there is.
    `peak_memory` is None while the driver does not list this process: it has nothing there, or is in a container whose
    process numbers are its own."""

    name: str
    peak_memory: int | None
    least_free: int
    total: int


class GpuMemory:
    """Looks at all GPUs of the machine again and again. The first look loads the library."""

    def __init__(self) -> None:
        self._library: Any = None
        self._handles: list[Any] | None = None
        self._uses: dict[int, GpuUse] = {}

    def look(self) -> tuple[GpuUse, ...]:
        """Their figures by now; a GPU that is not to be asked keeps its last ones."""
        if self._handles is None:
            self._handles = self._opened()
        for number, handle in enumerate(self._handles):
            with suppress(self._library.NVMLError):
                self._uses[number] = self._used(number, handle)
        return tuple(self._uses.values())

    def close(self) -> None:
        """Let the library go; its figures stay."""
        if self._handles:
            with suppress(self._library.NVMLError):
                self._library.nvmlShutdown()
        self._handles = []

    def _opened(self) -> list[Any]:
        try:
            import pynvml
        except ImportError:
            return []
        self._library = pynvml
        try:
            pynvml.nvmlInit()
            return [pynvml.nvmlDeviceGetHandleByIndex(number) for number in range(pynvml.nvmlDeviceGetCount())]
        except pynvml.NVMLError:
            return []

    def _used(self, number: int, handle: Any) -> GpuUse:
        memory = self._library.nvmlDeviceGetMemoryInfo(handle)
        listed = self._library.nvmlDeviceGetComputeRunningProcesses(handle)
        amounts = [process.usedGpuMemory for process in listed if process.pid == os.getpid()]
        known = [int(amount) for amount in amounts if amount is not None]
        before = self._uses.get(number)
        if before is None:
            before = GpuUse(str(self._library.nvmlDeviceGetName(handle)), None, memory.free, memory.total)
        if known:
            before = replace(before, peak_memory=max(sum(known), before.peak_memory or 0))
        return replace(before, least_free=min(before.least_free, memory.free))
