"""A GGUF file's tensors in; the same tensors under their Hugging Face names, rows in Hugging Face order, out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fetchly_llm.errors import ModelUnsupported, WeightsMismatch
from fetchly_llm.store.gguf_file import GgufFile, GgufTensor

_PARTS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_OUTSIDE = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
# Not a weight: gguf_config reads it.
_CONSTANTS = {"rope_freqs.weight"}


@dataclass(frozen=True, slots=True)
class NamedTensor:
    """A tensor of the converted checkpoint: its name, where its values come from, and the order of their rows."""

    name: str
    tensor: GgufTensor
    order: NDArray[np.intp] | None


def named_tensors(file: GgufFile, config: Mapping[str, Any]) -> list[NamedTensor]:
    """Every tensor of the checkpoint, by name. `config` is the converted config.json.

    Raises ModelUnsupported for a tensor that has no place, WeightsMismatch for one that is absent or misshapen.
    """
    expected = _expected_shapes(file.architecture, config)
    found: list[NamedTensor] = []
    for tensor in file.tensors.values():
        if tensor.name in _CONSTANTS:
            continue
        name = hf_name(tensor.name)
        shape = expected.pop(name, None)
        if shape is None:
            raise ModelUnsupported(
                f"the GGUF file holds {tensor.name}, which has no place in a {file.architecture} model"
            )
        if tensor.shape != shape:
            raise WeightsMismatch(f"tensor {tensor.name} has shape {tensor.shape}, not {shape}")
        found.append(NamedTensor(name, tensor, _order(file.architecture, name, config)))
    if expected:
        raise WeightsMismatch(f"the GGUF file lacks {len(expected)} tensors, the first of them {min(expected)}")
    return sorted(found, key=lambda named: named.name)


def hf_name(gguf_name: str) -> str:
    """`blk.3.attn_q.weight` -> `model.layers.3.self_attn.q_proj.weight`. Raises ModelUnsupported."""
    if gguf_name in _OUTSIDE:
        return _OUTSIDE[gguf_name]
    pieces = gguf_name.split(".")
    if len(pieces) != 4 or pieces[0] != "blk" or pieces[2] not in _PARTS:
        raise ModelUnsupported(f"the GGUF file holds the unknown tensor {gguf_name}")
    return f"model.layers.{pieces[1]}.{_PARTS[pieces[2]]}.{pieces[3]}"


def _order(architecture: str, name: str, config: Mapping[str, Any]) -> NDArray[np.intp] | None:
    """Which stored row becomes row i. llama.cpp interleaves the two rotary halves of each head for `llama` alone."""
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    projection = name.split(".")[-2]
    if architecture != "llama" or projection not in heads:
        return None
    return unpermuted_rows(heads[projection], config["head_dim"])


def unpermuted_rows(heads: int, head_dim: int) -> NDArray[np.intp]:
    """Stored row of each Hugging Face row: a head is stored as (head_dim / 2, 2), and was (2, head_dim / 2)."""
    stored = np.arange(heads * head_dim, dtype=np.intp)
    return stored.reshape(heads, head_dim // 2, 2).swapaxes(1, 2).reshape(-1)


def _expected_shapes(architecture: str, config: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    hidden, inner, head_dim = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, keys = config["num_attention_heads"] * head_dim, config["num_key_value_heads"] * head_dim
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (config["vocab_size"], hidden),
        "model.norm.weight": (hidden,),
    }
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (config["vocab_size"], hidden)
    layer: dict[str, tuple[int, ...]] = {
        "input_layernorm.weight": (hidden,),
        "post_attention_layernorm.weight": (hidden,),
        "self_attn.q_proj.weight": (queries, hidden),
        "self_attn.k_proj.weight": (keys, hidden),
        "self_attn.v_proj.weight": (keys, hidden),
        "self_attn.o_proj.weight": (hidden, queries),
        "mlp.gate_proj.weight": (inner, hidden),
        "mlp.up_proj.weight": (inner, hidden),
        "mlp.down_proj.weight": (hidden, inner),
    }
    if config["attention_bias"]:
        layer |= {
            f"self_attn.{part}_proj.bias": (size,) for part, size in zip("qkv", (queries, keys, keys), strict=True)
        }
    if architecture == "qwen3":
        layer |= {"self_attn.q_norm.weight": (head_dim,), "self_attn.k_norm.weight": (head_dim,)}
    for index in range(config["num_hidden_layers"]):
        shapes |= {f"model.layers.{index}.{name}": shape for name, shape in layer.items()}
    return shapes
