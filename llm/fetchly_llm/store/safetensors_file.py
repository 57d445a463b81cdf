"""Tensors a block of rows at a time in, one safetensors file out; the header of such a file as plain numbers.

The library's own writer takes all tensors at once: twice the model in memory. The format is eight bytes of header
length, a JSON header, the data (https://github.com/huggingface/safetensors#format).
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fetchly_llm.errors import WeightsMismatch

_HEADER_LIMIT = 100_000_000


@dataclass(frozen=True, slots=True)
class TensorSource:
    """A tensor to be written: name, shape, and its fp32 values in row order, in blocks."""

    name: str
    shape: tuple[int, ...]
    blocks: Iterable[NDArray[np.float32]]


def write_float32(path: Path, tensors: list[TensorSource]) -> None:
    """Write `tensors` in the given order, and have them on the disk on return."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for tensor in tensors:
        size = 4 * math.prod(tensor.shape)
        header[tensor.name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for tensor in tensors:
            written = 0
            for block in tensor.blocks:
                assert block.dtype == np.dtype("<f4")
                assert block.flags.c_contiguous
                file.write(block.data)
                written += block.nbytes
            assert written == 4 * math.prod(tensor.shape), tensor.name
        file.flush()
        os.fsync(file.fileno())


def count_parameters(path: Path) -> int:
    """The number of values in a safetensors file, from its header alone. Raises WeightsMismatch where it is damaged."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= _HEADER_LIMIT:
            raise WeightsMismatch(f"{path} is not a safetensors file")
        text = file.read(length)
        if len(text) < length:
            raise WeightsMismatch(f"{path} is not a safetensors file: it is cut short")
    try:
        header = json.loads(text)
        return sum(math.prod(entry["shape"]) for name, entry in header.items() if name != "__metadata__")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise WeightsMismatch(f"{path} is not a safetensors file: {error}") from error
