"""A sequence's states, as streams start from them and as they see them, in; a safetensors file for each out, and back.

What streams learn from depends on the frozen model alone: it is computed once, by the back-end that will run them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
from numpy.typing import NDArray
from safetensors.numpy import save

from fetchly_llm.errors import RequestInvalid

VERSION = "fetchly-states-1"
TEACHERS = 16
"""Most likely tokens that are kept of each of the target's distributions."""
_ARRAYS = ("tokens", "chosen", "keys", "values", "taps", "likely", "chances")
_SETTINGS = "settings.json"


@dataclass(frozen=True, slots=True)
class StreamStates:
    """One sequence of T tokens, of which the last A are the answer; anchor a is the position before answer token a.

    `tokens` (T,) int32; `chosen` (A,) bool: the grammar left a choice there. `keys` and `values` (layers, kv_heads,
    T - 1, head_dim) fp16 are those of the layers from `first_layer` on, keys turned by their positions. `taps` (taps,
    A, hidden_size) fp32 is the residual stream at the anchors. `likely` (A, TEACHERS) int32 and `chances` fp32 are the
    target's most likely tokens after each anchor, by the grammar's mask, at temperature 1.
    """

    name: str
    tokens: NDArray[np.int32]
    chosen: NDArray[np.bool_]
    keys: NDArray[np.float16]
    values: NDArray[np.float16]
    taps: NDArray[np.float32]
    likely: NDArray[np.int32]
    chances: NDArray[np.float32]

    @property
    def prompt(self) -> int:
        """Tokens before the answer."""
        return len(self.tokens) - len(self.chosen)


class StateFolder:
    """States of one model, one file a sequence; `settings.json` says how they were made. Files appear whole."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self, settings: Mapping[str, Any]) -> None:
        """Make the folder, or go on with it. Raises RequestInvalid where it holds states of other settings."""
        self.path.mkdir(parents=True, exist_ok=True)
        file = self.path / _SETTINGS
        if not file.exists():
            self._put(file, json.dumps(settings, indent=2).encode())
            return
        found = self.settings()
        different = [name for name in settings if found.get(name) != settings[name]]
        if different:
            name = different[0]
            raise RequestInvalid(
                f"the states in {self.path} have {name} {found.get(name)!r}, not {settings[name]!r}",
                hint="go on with the settings that they were begun with, or name another folder",
            )

    def settings(self) -> dict[str, Any]:
        """How the states were made. Raises RequestInvalid for a folder that holds none."""
        try:
            found = json.loads((self.path / _SETTINGS).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RequestInvalid(
                f"{self.path} holds no states: {error}", hint="make them by `fetchly train states`"
            ) from None
        if not isinstance(found, dict):
            raise RequestInvalid(f"{self.path / _SETTINGS} is no object", hint="make the states anew")
        return found

    def files(self) -> list[Path]:
        """The files in the order of the examples."""
        return sorted(self.path.glob("[0-9]*.safetensors"))

    def file(self, number: int) -> Path:
        """Where those of example `number` go."""
        return self.path / f"{number:06d}.safetensors"

    def write(self, number: int, states: StreamStates) -> None:
        """Write one sequence's states. Raises OSError."""
        arrays = {name: getattr(states, name) for name in _ARRAYS}
        arrays["chosen"] = states.chosen.astype(np.uint8)
        data = save(
            {name: np.ascontiguousarray(array) for name, array in arrays.items()},
            {"version": VERSION, "name": states.name},
        )
        self._put(self.file(number), data)

    def leave_out(self, number: int, reason: str) -> None:
        """Say that example `number` gives no states, so that it is not tried again."""
        self._put(self.path / f"{number:06d}.left-out", reason.encode())

    def is_done(self, number: int) -> bool:
        """Whether example `number` needs no more work."""
        return self.file(number).exists() or (self.path / f"{number:06d}.left-out").exists()

    def _put(self, file: Path, data: bytes) -> None:
        part = file.with_name(f".{file.name}.part")
        with part.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(part, file)


def read_states(file: Path) -> StreamStates:
    """One sequence's states. Raises RequestInvalid for what is no such file."""
    try:
        with safetensors.safe_open(file, "np") as opened:
            facts = opened.metadata() or {}
            if facts.get("version") != VERSION:
                raise ValueError(f"it is no {VERSION}")
            arrays = {name: opened.get_tensor(name) for name in _ARRAYS}
        arrays["chosen"] = arrays["chosen"].astype(np.bool_)
        found = StreamStates(name=facts["name"], **arrays)
        length, answer = len(found.tokens), len(found.chosen)
        if not 0 < answer < length or found.keys.shape != found.values.shape or found.keys.shape[2] != length - 1:
            raise ValueError("its parts do not fit each other")
        if found.taps.shape[1] != answer or not found.likely.shape == found.chances.shape == (answer, TEACHERS):
            raise ValueError("its parts do not fit each other")
    except (OSError, ValueError, KeyError, TypeError, safetensors.SafetensorError) as error:
        raise RequestInvalid(f"{file} holds no states: {error}", hint="remove it, and make it again") from error
    return found
