"""Places in safetensors files in; the tensors there, as views of the mapped files, out. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fetchly_llm.errors import ModelUnsupported
from fetchly_llm.safetensors_file import TensorPlace

_TYPES: Final = {"F32": 0, "F16": 1, "BF16": 2}  # `Type` of source/packing.hpp


@dataclass(frozen=True, slots=True)
class ModelTensor:
    """One tensor that a model, or its streams, have: `part` says which of a layer's, or of those that have no layer.

    A vector has one column.
    """

    name: str
    layer: int
    part: IntEnum
    rows: int
    columns: int = 1


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor, its type as a number of `Type`, and its bytes."""

    tensor: ModelTensor
    type: int
    data: NDArray[np.uint8]


def stored_tensors(
    what: str, tensors: Sequence[ModelTensor], places: Mapping[str, TensorPlace]
) -> Iterator[StoredTensor]:
    """The tensors, one by one, as views that last as long as something holds them.

    Raises ModelUnsupported, before the first, where one is not fp32, fp16 or bf16; `what` says whose they are.
    """
    others = sorted({places[tensor.name].kind for tensor in tensors} - _TYPES.keys())
    if others:
        raise ModelUnsupported(
            f"{what} are stored as {', '.join(others)}; the native back-end reads {', '.join(_TYPES)}",
            hint="Use device cpu.",
        )
    files = {places[tensor.name].file for tensor in tensors}
    maps = {file: np.memmap(file, dtype=np.uint8, mode="r") for file in files}
    for tensor in tensors:
        place = places[tensor.name]
        yield StoredTensor(tensor, _TYPES[place.kind], maps[place.file][place.start : place.end])
