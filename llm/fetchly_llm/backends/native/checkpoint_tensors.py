"""A checkpoint folder in; its tensors as views of the mapped files, checked against the configuration, out.

Any tensor of a Hugging Face checkpoint of the Llama family has one `Part` of the model and a layer. No torch.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fetchly_llm.checkpoint import weight_files
from fetchly_llm.config import ModelConfig
from fetchly_llm.errors import ModelUnsupported, WeightsMismatch

_LONGEST_HEADER = 100_000_000  # bytes; the limit of the safetensors library
_NAMES_SHOWN = 8
# Derived from the configuration; older checkpoints store them all the same.
_DERIVED_SUFFIXES = (".rotary_emb.inv_freq", ".attn.bias", ".masked_bias")


class Part(IntEnum):
    """`Part` of source/weights.hpp."""

    EMBEDDING = 0
    FINAL_NORM = 1
    HEAD = 2
    ATTENTION_NORM = 3
    QUERY = 4
    KEY = 5
    VALUE = 6
    QUERY_BIAS = 7
    KEY_BIAS = 8
    VALUE_BIAS = 9
    QUERY_NORM = 10
    KEY_NORM = 11
    OUTPUT = 12
    OUTPUT_BIAS = 13
    MLP_NORM = 14
    GATE = 15
    UP = 16
    DOWN = 17


_TYPES = {"F32": (0, 4), "F16": (1, 2), "BF16": (2, 2)}  # `Type` of source/weights.hpp, and bytes


@dataclass(frozen=True, slots=True)
class ModelTensor:
    """One tensor that a model of a configuration has. A vector has one column."""

    name: str
    layer: int
    part: Part
    rows: int
    columns: int = 1


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor, its type as a number of `Type`, and its bytes."""

    tensor: ModelTensor
    type: int
    data: NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class _Entry:
    """Where a file keeps a tensor."""

    file: Path
    type: str
    shape: tuple[int, ...]
    start: int
    end: int


def model_tensors(config: ModelConfig) -> tuple[ModelTensor, ...]:
    """All tensors that a checkpoint of this configuration has, in the order in which a step reads them."""
    hidden, inner, dim = config.hidden_size, config.intermediate_size, config.head_dim
    queries, keys = config.num_heads * dim, config.num_kv_heads * dim
    found = [ModelTensor("model.embed_tokens.weight", 0, Part.EMBEDDING, config.vocab_size, hidden)]
    for number in range(config.num_layers):
        layer = [
            ("input_layernorm.weight", Part.ATTENTION_NORM, hidden, 1),
            ("self_attn.q_proj.weight", Part.QUERY, queries, hidden),
            ("self_attn.k_proj.weight", Part.KEY, keys, hidden),
            ("self_attn.v_proj.weight", Part.VALUE, keys, hidden),
            ("self_attn.o_proj.weight", Part.OUTPUT, hidden, queries),
            ("post_attention_layernorm.weight", Part.MLP_NORM, hidden, 1),
            ("mlp.gate_proj.weight", Part.GATE, inner, hidden),
            ("mlp.up_proj.weight", Part.UP, inner, hidden),
            ("mlp.down_proj.weight", Part.DOWN, hidden, inner),
        ]
        if config.qkv_bias:
            layer += [
                ("self_attn.q_proj.bias", Part.QUERY_BIAS, queries, 1),
                ("self_attn.k_proj.bias", Part.KEY_BIAS, keys, 1),
                ("self_attn.v_proj.bias", Part.VALUE_BIAS, keys, 1),
            ]
        if has_output_bias(config):
            layer.append(("self_attn.o_proj.bias", Part.OUTPUT_BIAS, hidden, 1))
        if config.qk_norm:
            layer += [
                ("self_attn.q_norm.weight", Part.QUERY_NORM, dim, 1),
                ("self_attn.k_norm.weight", Part.KEY_NORM, dim, 1),
            ]
        found += [
            ModelTensor(f"model.layers.{number}.{name}", number, part, rows, columns)
            for name, part, rows, columns in layer
        ]
    found.append(ModelTensor("model.norm.weight", 0, Part.FINAL_NORM, hidden))
    if not config.tie_word_embeddings:
        found.append(ModelTensor("lm_head.weight", 0, Part.HEAD, config.vocab_size, hidden))
    return tuple(found)


def has_output_bias(config: ModelConfig) -> bool:
    """Whether the attention's output projection has a bias too: `attention_bias` of Llama and Qwen3, never of Qwen2."""
    return config.qkv_bias and config.family in ("llama", "qwen3")


def read_tensors(folder: Path, config: ModelConfig) -> Iterator[StoredTensor]:
    """The tensors of the checkpoint in `folder`, one by one, as views that last as long as something holds them.

    Raises WeightsMismatch, before the first, for missing, unexpected or misshapen tensors and for files that are not
    safetensors, and ModelUnsupported for tensors that are not fp32, fp16 or bf16.
    """
    entries: dict[str, _Entry] = {}
    for file in weight_files(folder):
        for name, entry in _read_header(file).items():
            if name in entries:
                raise WeightsMismatch(f"{file} repeats tensor {name!r} of another file of the checkpoint")
            entries[name] = entry
    wanted = model_tensors(config)
    _check(folder, {tensor.name: tensor for tensor in wanted}, entries)
    maps = {entry.file: np.memmap(entry.file, dtype=np.uint8, mode="r") for entry in entries.values()}
    for tensor in wanted:
        entry = entries[tensor.name]
        yield StoredTensor(tensor, _TYPES[entry.type][0], maps[entry.file][entry.start : entry.end])


def _check(folder: Path, wanted: dict[str, ModelTensor], entries: dict[str, _Entry]) -> None:
    redundant = {name for name in entries if name.endswith(_DERIVED_SUFFIXES) or name == "lm_head.weight"}
    misshapen = []
    for name, tensor in wanted.items():
        expected = (tensor.rows,) if tensor.part.name.endswith(("NORM", "BIAS")) else (tensor.rows, tensor.columns)
        if name in entries and entries[name].shape != expected:
            misshapen.append(f"{name} is {entries[name].shape}, not {expected}")
    kinds = {
        "missing": sorted(wanted.keys() - entries.keys()),
        "unexpected": sorted(entries.keys() - wanted.keys() - redundant),
        "wrong shape": misshapen,
    }
    problems = [f"{kind}: {_listed(names)}" for kind, names in kinds.items() if names]
    if problems:
        raise WeightsMismatch(
            f"the weights in {folder} do not fit its config.json: {'; '.join(problems)}",
            hint="Check that config.json and the weights belong to the same model, or pull the model again.",
        )
    types = sorted({entries[name].type for name in wanted} - _TYPES.keys())
    if types:
        raise ModelUnsupported(
            f"the weights in {folder} are stored as {', '.join(types)}; the native back-end reads {', '.join(_TYPES)}",
            hint="Use device cpu.",
        )


def _listed(names: list[str]) -> str:
    rest = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def _read_header(file: Path) -> dict[str, _Entry]:
    """The tensors of a safetensors file: eight bytes of length, a JSON object, data."""
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            if not 2 <= length <= min(size - 8, _LONGEST_HEADER):
                raise ValueError(f"a header of {length} bytes in a file of {size}")
            header = json.loads(stream.read(length))
        if not isinstance(header, dict):
            raise ValueError("the header is not an object")
        header.pop("__metadata__", None)
        return {name: _entry(file, entry, 8 + length, size) for name, entry in header.items()}
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise WeightsMismatch(
            f"{file} cannot be read as safetensors: {error}", hint="Delete it and pull the model again."
        ) from error


def _entry(file: Path, entry: Any, data: int, size: int) -> _Entry:
    kind, shape, (start, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
    if not all(isinstance(number, int) and number >= 0 for number in (*shape, start, end)):
        raise ValueError("a shape or an offset is not a whole number")
    if not isinstance(kind, str) or start > end or data + end > size:
        raise ValueError("a tensor lies outside the file")
    if kind in _TYPES and end - start != math.prod(shape) * _TYPES[kind][1]:
        raise ValueError("a tensor's bytes do not fit its shape")
    return _Entry(file, kind, shape, data + start, data + end)
