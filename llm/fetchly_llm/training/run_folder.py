"""The folder of one training run: its settings, its log and its newest checkpoint, each written so that a kill -9 at
any moment loses at most what came after the last checkpoint.

    settings.json       what the run depends on
    log.jsonl           a line for each step and each look at the held-out examples
    checkpoint.safetensors   parameters, optimizer moments, the number of the next step
    adapter.safetensors the adapter as it would be shipped, or streams.safetensors the streams
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
from filelock import FileLock, Timeout
from safetensors.torch import save_file
from torch import Tensor

from fetchly_llm.errors import RequestInvalid

_SETTINGS, _LOG, _CHECKPOINT = "settings.json", "log.jsonl", "checkpoint.safetensors"
_LISTS = ("parameter", "first", "second")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where a run stands before step `step`: parameters and Adam's moments, in one order."""

    step: int
    parameters: Sequence[Tensor]
    first: Sequence[Tensor]
    second: Sequence[Tensor]


class RunFolder:
    """One run's files. `begin` a new run in a folder that holds none, or `resume` one. `result` is what it makes."""

    def __init__(self, path: Path, result: str = "adapter.safetensors") -> None:
        self.path = path
        self.result = path / result
        """Where what was learnt goes."""

    @property
    def plot(self) -> Path:
        """Where the picture goes."""
        return self.path / "loss.png"

    @contextmanager
    def held(self, *, resume: bool) -> Iterator[None]:
        """Keep the folder, which a new run makes, to this process. Raises RequestInvalid where another one has it, or
        where there is none to resume; OSError where it cannot be written."""
        if not resume:
            self.path.mkdir(parents=True, exist_ok=True)
        elif not self.path.is_dir():
            raise self._holds_no_run("there is no such folder")
        lock = FileLock(self.path / ".lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise RequestInvalid(
                f"another process trains in {self.path}", hint="wait for its end, or name another folder"
            ) from None
        try:
            yield
        finally:
            lock.release()

    def begin(self, settings: Mapping[str, Any]) -> None:
        """Raises RequestInvalid where a run is there already."""
        if (self.path / _SETTINGS).exists():
            raise RequestInvalid(f"{self.path} holds a run already", hint="go on with --resume, or name another folder")
        self.path.mkdir(parents=True, exist_ok=True)
        self._write(_SETTINGS, json.dumps(settings, indent=2) + "\n")

    def resume(
        self, settings: Mapping[str, Any], free: Callable[[Mapping[str, Any], int], Sequence[str]]
    ) -> Checkpoint | None:
        """The newest checkpoint, None before the first. `free` names the settings that may differ, given those that
        the run has and its next step; the file then says the new ones. Log lines that came after the checkpoint are
        dropped, and so is what a kill -9 left half written.

        Raises RequestInvalid where there is no run, where another setting differs, and for a damaged checkpoint.
        """
        found = self._settings()
        checkpoint = self._checkpoint()
        before = checkpoint.step if checkpoint else 0
        different = [key for key in settings if found.get(key) != settings[key]]
        fixed = [key for key in different if key not in found or key not in free(found, before)]
        if fixed:
            key = fixed[0]
            raise RequestInvalid(
                f"the run in {self.path} has {key} {found.get(key)!r}, not {settings[key]!r}",
                hint="resume with the settings that it began with, or begin a new run",
            )
        lines = [line for line in self.log() if line["step"] < before]
        for part in self.path.glob(f".{self.result.name}.*"):
            part.unlink()
        self._write(_SETTINGS, json.dumps(dict(settings), indent=2) + "\n")
        self._write(_LOG, "".join(json.dumps(line) + "\n" for line in lines))
        return checkpoint

    def add(self, line: Mapping[str, Any]) -> None:
        """Append a line to the log."""
        with (self.path / _LOG).open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")

    def log(self) -> list[dict[str, Any]]:
        """The lines of the log; a torn last one is left out. Raises RequestInvalid for what no run has written."""
        try:
            text = (self.path / _LOG).read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        try:
            lines = [json.loads(line) for line in text.split("\n")[:-1]]
            if not all(isinstance(line["step"], int) for line in lines):
                raise TypeError("a step is no number")
        except (ValueError, KeyError, TypeError) as error:
            raise RequestInvalid(f"{self.path / _LOG} is garbled: {error}", hint="begin the run anew") from None
        return lines

    def save(self, checkpoint: Checkpoint) -> None:
        """Replace the newest checkpoint. Raises OSError, and leaves the old one."""
        tensors = {
            f"{kind}.{number}": tensor.detach().contiguous()
            for kind, tensors in zip(_LISTS, (checkpoint.parameters, checkpoint.first, checkpoint.second), strict=True)
            for number, tensor in enumerate(tensors)
        }
        part = self.path / f".{_CHECKPOINT}.part"
        try:
            save_file(tensors, part, {"step": str(checkpoint.step)})
            self._put(part, _CHECKPOINT)
        except safetensors.SafetensorError as error:  # the library's word for a full disk, too
            raise OSError(str(error)) from error
        finally:
            part.unlink(missing_ok=True)

    def _settings(self) -> dict[str, Any]:
        try:
            found = json.loads((self.path / _SETTINGS).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise self._holds_no_run(str(error)) from None
        if not isinstance(found, dict):
            raise self._holds_no_run(f"{_SETTINGS} is no object")
        return found

    def _holds_no_run(self, why: str) -> RequestInvalid:
        return RequestInvalid(f"{self.path} holds no run to go on with: {why}", hint="begin without --resume")

    def _checkpoint(self) -> Checkpoint | None:
        file = self.path / _CHECKPOINT
        if not file.exists():
            return None
        try:
            with safetensors.safe_open(file, "pt") as opened:
                step = int(opened.metadata()["step"])
                count = len(opened.keys()) // len(_LISTS)
                lists = [[opened.get_tensor(f"{kind}.{number}") for number in range(count)] for kind in _LISTS]
        except (OSError, ValueError, KeyError, TypeError, safetensors.SafetensorError) as error:
            raise RequestInvalid(f"{file} cannot be read: {error}", hint="begin the run anew") from error
        return Checkpoint(step, *lists)

    def _write(self, name: str, text: str) -> None:
        part = self.path / f".{name}.part"
        part.write_text(text, encoding="utf-8")
        self._put(part, name)

    def _put(self, part: Path, name: str) -> None:
        with part.open("rb") as stream:
            os.fsync(stream.fileno())
        os.replace(part, self.path / name)
