"""Tensors a block of rows at a time in, one safetensors file out; what such a file holds, as plain numbers.

The library's own writer takes all tensors at once: twice the model in memory. The format is eight bytes of header
length, a JSON header, the data (https://github.com/huggingface/safetensors#format).
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from fetchly_llm.errors import WeightsMismatch

_LONGEST_HEADER: Final = 100_000_000  # bytes; the limit of the safetensors library
_NAMES_SHOWN: Final = 8

Kind = Literal["F32", "F16", "BF16"]
"""How a file stores numbers. NumPy has no bf16: its bits travel as uint16."""


WIDTHS: Final[Mapping[str, int]] = {"F32": 4, "F16": 2, "BF16": 2}
"""Bytes of a number."""


@dataclass(frozen=True, slots=True)
class TensorPlace:
    """Where a file keeps a tensor: its bytes from `start` to `end`. `kind` may be one that is not a Kind."""

    file: Path
    kind: str
    shape: tuple[int, ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TensorSource:
    """A tensor to be written: name, shape, and its fp32 values in row order, in blocks of whole rows."""

    name: str
    shape: tuple[int, ...]
    blocks: Iterable[NDArray[np.float32]]


def write_tensors(
    path: Path, tensors: list[TensorSource], *, kind: Kind = "F32", metadata: Mapping[str, str] | None = None
) -> None:
    """Write `tensors` in the given order and have them on the disk on return.

    Each number is rounded to the nearest of `kind`, ties to even; `kind` can hold all of them.
    """
    width, stored = WIDTHS[kind], _STORED[kind]
    header: dict[str, object] = {"__metadata__": {"format": "pt"} if metadata is None else dict(metadata)}
    offset = 0
    for tensor in tensors:
        size = width * math.prod(tensor.shape)
        header[tensor.name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [offset, offset + size]}
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
                file.write(stored(block).data)
                written += block.size
            assert written == math.prod(tensor.shape), tensor.name
        file.flush()
        os.fsync(file.fileno())


def widened(data: bytes | bytearray | NDArray[np.uint8], kind: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """The fp32 values of what a file stores as `kind`, a Kind; exact."""
    assert kind in WIDTHS, kind
    if kind == "BF16":
        bits = np.frombuffer(data, dtype="<u2").astype(np.uint32) << 16
        return bits.view(np.float32).reshape(shape)
    return np.frombuffer(data, dtype="<f2" if kind == "F16" else "<f4").astype(np.float32).reshape(shape)


def read_header(file: Path) -> dict[str, TensorPlace]:
    """The tensors of a safetensors file: eight bytes of length, a JSON object, data. Raises WeightsMismatch."""
    return _header(file)[0]


def read_metadata(file: Path) -> dict[str, str]:
    """What a safetensors file says about itself. Raises WeightsMismatch."""
    return _header(file)[1]


def add_metadata(file: Path, values: Mapping[str, str]) -> None:
    """Have a safetensors file say more about itself; its tensors stay as they are. All or nothing.

    Raises WeightsMismatch for what is no such file, and OSError.
    """
    _header(file)  # is one
    content = file.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    header["__metadata__"] = {**header.get("__metadata__", {}), **values}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    part = file.with_name(f".{file.name}.part")
    try:
        part.write_bytes(len(text).to_bytes(8, "little") + text + content[end:])
        os.replace(part, file)
    finally:
        part.unlink(missing_ok=True)


def _header(file: Path) -> tuple[dict[str, TensorPlace], dict[str, str]]:
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            if not 2 <= length <= min(size - 8, _LONGEST_HEADER):
                raise ValueError(f"a header of {length} bytes in a file of {size}")
            header = json.loads(stream.read(length))
        if not isinstance(header, dict):
            raise ValueError("the header is not an object")
        facts = header.pop("__metadata__", None) or {}
        if not isinstance(facts, dict) or not all(isinstance(fact, str) for fact in facts.values()):
            raise ValueError("the metadata is not an object of texts")
        return {name: _place(file, entry, 8 + length, size) for name, entry in header.items()}, facts
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise WeightsMismatch(
            f"{file} cannot be read as safetensors: {error}", hint="Delete it and pull the model again."
        ) from error


def count_parameters(file: Path) -> int:
    """The number of values in a safetensors file, from its header alone. Raises WeightsMismatch where it is damaged."""
    return sum(math.prod(place.shape) for place in read_header(file).values())


def check_shapes(
    what: str, expected: Mapping[str, tuple[int, ...]], found: Mapping[str, tuple[int, ...]], *, hint: str
) -> None:
    """Raise WeightsMismatch where `found` is not `expected`: "`what`: missing ...; unexpected ...; wrong shape ..."."""
    misshapen = [
        f"{name} is {found[name]}, not {shape}"
        for name, shape in expected.items()
        if name in found and found[name] != shape
    ]
    kinds = {
        "missing": sorted(expected.keys() - found.keys()),
        "unexpected": sorted(found.keys() - expected.keys()),
        "wrong shape": misshapen,
    }
    problems = [f"{kind}: {listed(names)}" for kind, names in kinds.items() if names]
    if problems:
        raise WeightsMismatch(f"{what}: {'; '.join(problems)}", hint=hint)


def listed(names: list[str]) -> str:
    """The first names, and how many more there are."""
    rest = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def _place(file: Path, entry: Any, data: int, size: int) -> TensorPlace:
    kind, shape, (start, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
    if not all(isinstance(number, int) and number >= 0 for number in (*shape, start, end)):
        raise ValueError("a shape or an offset is not a whole number")
    if not isinstance(kind, str) or start > end or data + end > size:
        raise ValueError("a tensor lies outside the file")
    if kind in WIDTHS and end - start != math.prod(shape) * WIDTHS[kind]:
        raise ValueError("a tensor's bytes do not fit its shape")
    return TensorPlace(file, kind, shape, data + start, data + end)


def _bf16(values: NDArray[np.float32]) -> NDArray[Any]:
    """The bits of the nearest bf16, ties to even; a NaN has none."""
    bits = values.view(np.uint32)
    return ((bits + (((bits >> 16) & 1) + 0x7FFF)) >> 16).astype("<u2")


def _fp16(values: NDArray[np.float32]) -> NDArray[Any]:
    return values.astype("<f2")


def _fp32(values: NDArray[np.float32]) -> NDArray[Any]:
    return values


_STORED: Final[Mapping[Kind, Callable[[NDArray[np.float32]], NDArray[Any]]]] = {
    "F32": _fp32,
    "F16": _fp16,
    "BF16": _bf16,
}
