"""Safetensors files in; their tensors, in fp32 and under exactly the names and shapes that were expected, out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from fetchly_llm.errors import WeightsMismatch


class TensorFiles:
    """Memory-mapped safetensors files, open together.

    Raises WeightsMismatch for files that are not safetensors; `hint` says what to do about them.
    """

    def __init__(self, files: Collection[Path], *, hint: str) -> None:
        self._files = files
        self._hint = hint
        self._homes: dict[str, Any] = {}  # tensor name -> open file
        self._metadata: dict[str, str] = {}

    def __enter__(self) -> TensorFiles:
        for file in self._files:
            try:
                handle = safe_open(file, framework="pt", device="cpu")
            except (SafetensorError, OSError) as error:
                raise WeightsMismatch(f"{file} cannot be read as safetensors: {error}", hint=self._hint) from error
            self._metadata |= handle.metadata() or {}  # type: ignore[no-untyped-call]
            for name in handle.keys():  # type: ignore[no-untyped-call]  # noqa: SIM118
                if name in self._homes:
                    raise WeightsMismatch(f"{file} repeats tensor {name!r} of another file of the checkpoint")
                self._homes[name] = handle
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._homes.clear()  # the maps close with their last reference

    @property
    def metadata(self) -> Mapping[str, str]:
        """What the files say of themselves."""
        return self._metadata

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of every tensor, from the headers alone."""
        return {name: tuple(home.get_slice(name).get_shape()) for name, home in self._homes.items()}

    def tensor(self, name: str) -> Tensor:
        """A view of the mapped file."""
        tensor: Tensor = self._homes[name].get_tensor(name)
        return tensor


class TensorReader:
    """Copies tensors out of the maps: fused, fp32, and aligned as torch aligns, which the maps are not."""

    def __init__(self, files: TensorFiles, shapes: Mapping[str, tuple[int, ...]], device: torch.device) -> None:
        self._files = files
        self._shapes = shapes
        self._device = device

    def fused(self, *names: str) -> Tensor:
        """The named tensors stacked along their first axis."""
        rows = [self._shapes[name][0] for name in names]
        target = torch.empty((sum(rows), *self._shapes[names[0]][1:]), dtype=torch.float32, device=self._device)
        for part, name in zip(torch.split(target, rows), names, strict=True):
            part.copy_(self._files.tensor(name))
        return target
