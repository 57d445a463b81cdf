"""What a driver says of its GPUs, by a library that only pretends."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from fetchly.governing.gpu_memory import GpuMemory, GpuUse

GB = 1_000_000_000


class NVMLError(Exception):
    """As pynvml's."""


@dataclass
class Library:
    """pynvml with GPUs of 80 GB; `held` is by GPU: process -> bytes."""

    held: list[dict[int, int | None]]
    broken: set[str] = field(default_factory=set)
    closed: int = 0

    NVMLError = NVMLError

    def nvmlInit(self) -> None:
        self._fail("nvmlInit")

    def nvmlShutdown(self) -> None:
        self.closed += 1
        self._fail("nvmlShutdown")

    def nvmlDeviceGetCount(self) -> int:
        return len(self.held)

    def nvmlDeviceGetHandleByIndex(self, number: int) -> int:
        return number

    def nvmlDeviceGetName(self, handle: int) -> str:
        return f"H{handle}"

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> SimpleNamespace:
        self._fail(f"memory {handle}")
        used = sum(held or 0 for held in self.held[handle].values())
        return SimpleNamespace(total=80 * GB, free=80 * GB - used, used=used)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[SimpleNamespace]:
        return [SimpleNamespace(pid=pid, usedGpuMemory=held) for pid, held in self.held[handle].items()]

    def _fail(self, what: str) -> None:
        if what in self.broken:
            raise NVMLError(what)


def library(monkeypatch: pytest.MonkeyPatch, *held: dict[int, int | None], broken: str = "") -> Library:
    made = Library(list(held), {broken})
    monkeypatch.setitem(sys.modules, "pynvml", made)
    return made


OURS, OTHERS = os.getpid(), -1


def test_the_most_that_we_held_and_the_least_that_was_free(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = library(monkeypatch, {OURS: 2 * GB, OTHERS: 10 * GB}, {OTHERS: GB})
    gpus = GpuMemory()
    assert gpus.look() == (GpuUse("H0", 2 * GB, 68 * GB, 80 * GB), GpuUse("H1", None, 79 * GB, 80 * GB))
    driver.held[0] = {OURS: 5 * GB}
    driver.held[1] = {OURS: GB, OTHERS: GB}
    gpus.look()
    driver.held[0] = {OURS: GB}
    assert gpus.look() == (GpuUse("H0", 5 * GB, 68 * GB, 80 * GB), GpuUse("H1", GB, 78 * GB, 80 * GB))
    gpus.close()
    gpus.close()
    assert driver.closed == 1
    assert len(gpus.look()) == 2, "the figures stay"


def test_a_driver_that_keeps_an_amount_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    library(monkeypatch, {OURS: None})
    assert GpuMemory().look() == (GpuUse("H0", None, 80 * GB, 80 * GB),)


def test_a_gpu_that_is_not_to_be_asked_is_left_out_or_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = library(monkeypatch, {OURS: GB}, {OURS: GB}, broken="memory 0")
    gpus = GpuMemory()
    assert [gpu.name for gpu in gpus.look()] == ["H1"]
    driver.broken = {"memory 1", "nvmlShutdown"}
    assert {gpu.name: gpu.peak_memory for gpu in gpus.look()} == {"H0": GB, "H1": GB}
    gpus.close()


@pytest.mark.parametrize("broken", ["nvmlInit", "nothing"])
def test_without_a_driver_or_a_gpu_there_is_nothing_to_tell(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    held: list[dict[int, int | None]] = [{OURS: GB}] if broken == "nvmlInit" else []
    driver = library(monkeypatch, *held, broken=broken)
    gpus = GpuMemory()
    assert gpus.look() == ()
    gpus.close()
    assert driver.closed == 0


def test_without_the_library_there_is_nothing_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    gpus = GpuMemory()
    assert gpus.look() == ()
    gpus.close()
