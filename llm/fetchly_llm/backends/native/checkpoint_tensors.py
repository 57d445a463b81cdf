"""A checkpoint folder in; its tensors as views of the mapped files, checked against the configuration, out.

Any tensor of a Hugging Face checkpoint of the Llama family has one `Part` of the model and a layer. No torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fetchly_llm.checkpoint import weight_files
from fetchly_llm.config import ModelConfig
from fetchly_llm.errors import ModelUnsupported, WeightsMismatch
from fetchly_llm.safetensors_file import TensorPlace, check_shapes, read_header

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


_TYPES = {"F32": 0, "F16": 1, "BF16": 2}  # `Type` of source/weights.hpp


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
    entries: dict[str, TensorPlace] = {}
    for file in weight_files(folder):
        for name, entry in read_header(file).items():
            if name in entries:
                raise WeightsMismatch(f"{file} repeats tensor {name!r} of another file of the checkpoint")
            entries[name] = entry
    wanted = model_tensors(config)
    _check(folder, {tensor.name: tensor for tensor in wanted}, entries)
    maps = {entry.file: np.memmap(entry.file, dtype=np.uint8, mode="r") for entry in entries.values()}
    for tensor in wanted:
        entry = entries[tensor.name]
        yield StoredTensor(tensor, _TYPES[entry.kind], maps[entry.file][entry.start : entry.end])


def _check(folder: Path, wanted: dict[str, ModelTensor], entries: dict[str, TensorPlace]) -> None:
    redundant = {name for name in entries if name.endswith(_DERIVED_SUFFIXES) or name == "lm_head.weight"}
    check_shapes(
        f"the weights in {folder} do not fit its config.json",
        {
            name: (tensor.rows,) if tensor.part.name.endswith(("NORM", "BIAS")) else (tensor.rows, tensor.columns)
            for name, tensor in wanted.items()
        },
        {name: entry.shape for name, entry in entries.items() if name in wanted or name not in redundant},
        hint="Check that config.json and the weights belong to the same model, or pull the model again.",
    )
    types = sorted({entries[name].kind for name in wanted} - _TYPES.keys())
    if types:
        raise ModelUnsupported(
            f"the weights in {folder} are stored as {', '.join(types)}; the native back-end reads {', '.join(_TYPES)}",
            hint="Use device cpu.",
        )
