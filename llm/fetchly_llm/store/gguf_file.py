"""The path of a GGUF file in; its metadata as plain values and its tensors as fp32 rows out. Memory-mapped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

from fetchly_llm.errors import ModelUnsupported, WeightsMismatch

# Elements dequantised at a time: 64 MiB of fp32, and about three times as much while the quantised form is taken apart.
CHUNK_ELEMENTS = 1 << 24


class GgufTensor:
    """One tensor: `shape` is (rows, columns) or (columns,), slowest axis first, as NumPy has it."""

    def __init__(self, tensor: gguf.ReaderTensor) -> None:
        self._tensor = tensor
        self.name: str = tensor.name
        self.shape: tuple[int, ...] = tuple(int(size) for size in reversed(tensor.shape))

    def chunks(self, order: NDArray[np.intp] | None = None) -> Iterator[NDArray[np.float32]]:
        """The values in fp32, a block of rows at a time, the rows taken in `order` (default: as they lie).

        Raises ModelUnsupported for a quantisation that the `gguf` package cannot undo.
        """
        if len(self.shape) == 1:
            data = self._tensor.data if order is None else self._tensor.data[order]
            yield self._float32(data).reshape(self.shape)
            return
        rows, columns = self.shape
        step = max(1, CHUNK_ELEMENTS // columns)
        for start in range(0, rows, step):
            stop = min(start + step, rows)
            data = self._tensor.data[start:stop] if order is None else self._tensor.data[order[start:stop]]
            yield self._float32(data).reshape(stop - start, columns)

    def values(self) -> NDArray[np.float32]:
        """The whole tensor in fp32."""
        return np.concatenate(list(self.chunks()))

    def _float32(self, data: NDArray[Any]) -> NDArray[np.float32]:
        try:
            values = gguf.dequantize(data, self._tensor.tensor_type)
        except NotImplementedError as error:
            kind = self._tensor.tensor_type.name
            raise ModelUnsupported(f"tensor {self.name} is quantised as {kind}, which cannot be undone") from error
        return np.ascontiguousarray(values, dtype="<f4")


class GgufFile:
    """A parsed GGUF file. Raises WeightsMismatch where it is damaged, ModelUnsupported where it is one of several."""

    def __init__(self, path: Path) -> None:
        try:
            self._reader = gguf.GGUFReader(path)
        except (ValueError, KeyError, IndexError, OverflowError, MemoryError) as error:
            raise WeightsMismatch(f"{path.name} is not a whole GGUF file: {error}", hint="fetch it again") from error
        if self.get("split.count", 1) > 1:
            raise ModelUnsupported(f"{path.name} is one part of several", hint="merge the parts with gguf-split")
        self.architecture: str = self.required("general.architecture")
        self.tensors = {tensor.name: GgufTensor(tensor) for tensor in self._reader.tensors}

    def get(self, key: str, default: Any = None) -> Any:
        """The metadata value under `key`: a number, a truth value, a text or a list of these."""
        field = self._reader.get_field(key)
        return default if field is None else field.contents()

    def required(self, key: str) -> Any:
        """The same, or ModelUnsupported."""
        value = self.get(key)
        if value is None:
            raise ModelUnsupported(f"the GGUF file has no {key}")
        return value

    def hyper(self, key: str, default: Any = None) -> Any:
        """The value under `<architecture>.<key>`."""
        return self.get(f"{self.architecture}.{key}", default)

    def hyper_required(self, key: str) -> Any:
        """The same, or ModelUnsupported."""
        return self.required(f"{self.architecture}.{key}")
