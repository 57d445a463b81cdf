"""A streams file and its model in; which parts the streams have, and their tensors as views, out. No torch."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final

from safetensors import SafetensorError, safe_open

from fetchly_llm.backends.native.stored_tensor import ModelTensor, StoredTensor, stored_tensors
from fetchly_llm.config import ModelConfig
from fetchly_llm.errors import ModelMissing, WeightsMismatch
from fetchly_llm.safetensors_file import check_shapes, read_header
from fetchly_llm.stream_config import STREAMS_HINT, StreamConfig, read_stream_config, stream_shapes


class StreamPart(IntEnum):
    """`StreamPart` of source/stream_weights.hpp."""

    EMBEDDING = 0
    INSERTION_DOWN = 1
    INSERTION_UP = 2
    ANCHOR_DOWN = 3
    ANCHOR_UP = 4
    MARKOV_PREVIOUS = 5
    MARKOV_NEXT = 6
    MARKOV_GATE = 7
    CONFIDENCE = 8
    CONFIDENCE_BIAS = 9
    Q_DOWN = 10
    K_DOWN = 11
    V_DOWN = 12
    O_DOWN = 13
    GATE_DOWN = 14
    UP_DOWN = 15
    DOWN_DOWN = 16
    Q_UP = 17
    K_UP = 18
    V_UP = 19
    O_UP = 20
    GATE_UP = 21
    UP_UP = 22
    DOWN_UP = 23


_VECTORS: Final = (
    StreamPart.EMBEDDING,
    StreamPart.CONFIDENCE,
    StreamPart.CONFIDENCE_BIAS,
)  # one number after the other
_ADAPTER: Final = re.compile(r"layers\.(\d+)\.(\w+)_proj\.lora_([AB])")


@dataclass(frozen=True, slots=True)
class StoredStreams:
    """What the file `path` holds, its tensors as views."""

    path: Path
    config: StreamConfig
    tensors: tuple[StoredTensor, ...]


def read_streams(path: Path, model: ModelConfig) -> StoredStreams:
    """Read a streams file (`fetchly_llm.stream_config` says what is in one).

    Raises ModelMissing where there is no file; WeightsMismatch for another version or base model, for missing,
    unexpected or misshapen tensors, and for a file that is not safetensors; ModelUnsupported for tensors that are not
    fp32, fp16 or bf16.
    """
    if not path.is_file():
        raise ModelMissing(
            f"no streams file {path}",
            hint="Name another file, or none: the streams in the model's folder are taken then.",
        )
    try:
        with safe_open(path, framework="numpy") as file:
            metadata: dict[str, str] = file.metadata() or {}
    except (SafetensorError, OSError) as error:
        raise WeightsMismatch(f"{path} cannot be read as safetensors: {error}", hint=STREAMS_HINT) from error
    config, places = read_stream_config(metadata, model, str(path)), read_header(path)
    shapes = stream_shapes(config, model)
    found = {name: place.shape for name, place in places.items()}
    check_shapes(f"the tensors in {path} do not fit its metadata", shapes, found, hint=STREAMS_HINT)
    tensors = [_tensor(name, shape) for name, shape in shapes.items()]
    return StoredStreams(path, config, tuple(stored_tensors(f"the streams in {path}", tensors, places)))


def _tensor(name: str, shape: tuple[int, ...]) -> ModelTensor:
    match = _ADAPTER.fullmatch(name)
    if match:
        return ModelTensor(name, int(match[1]), _adapter_part(match[2], match[3]), *shape)
    part = StreamPart[_part_name(name)]
    return ModelTensor(name, 0, part, math.prod(shape)) if part in _VECTORS else ModelTensor(name, 0, part, *shape)


def _adapter_part(linear: str, factor: str) -> StreamPart:
    return StreamPart[f"{linear.upper()}_{'DOWN' if factor == 'A' else 'UP'}"]


def _part_name(name: str) -> str:
    """ "insertion.down.weight" -> "INSERTION_DOWN"."""
    return name.removesuffix(".weight").replace(".", "_").upper()
