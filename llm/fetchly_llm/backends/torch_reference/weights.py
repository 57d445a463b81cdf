"""A checkpoint folder in; every tensor of the model, fused and in fp32, out. Strict about names and shapes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from fetchly_llm.backends.torch_reference.tensor_files import TensorFiles, TensorReader
from fetchly_llm.checkpoint import weight_files
from fetchly_llm.config import ModelConfig
from fetchly_llm.safetensors_file import check_shapes

# Derived from the configuration; older checkpoints store them all the same.
_DERIVED_SUFFIXES = (".rotary_emb.inv_freq", ".attn.bias", ".masked_bias")


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One decoder layer. Matrices are (outputs, inputs); query, key and value are stacked, and so are gate and up."""

    attention_norm: Tensor
    qkv: Tensor
    qkv_bias: Tensor | None
    query_norm: Tensor | None
    key_norm: Tensor | None
    output: Tensor
    output_bias: Tensor | None
    mlp_norm: Tensor
    gate_up: Tensor
    down: Tensor


@dataclass(frozen=True, slots=True)
class ModelWeights:
    """The whole model. `head` is `embedding` itself where the checkpoint ties them."""

    embedding: Tensor
    layers: tuple[LayerWeights, ...]
    final_norm: Tensor
    head: Tensor


def load_weights(folder: Path, config: ModelConfig, device: torch.device) -> ModelWeights:
    """Read the safetensors files of `folder` (Hugging Face names) as fp32 tensors on `device`.

    Raises WeightsMismatch for missing, unexpected or misshapen tensors, and for files that are not safetensors.
    """
    expected = expected_shapes(config)
    with TensorFiles(weight_files(folder)) as files:
        check_shapes(
            f"the weights in {folder} do not fit its config.json",
            expected,
            {name: shape for name, shape in files.shapes().items() if not _is_redundant(name, expected)},
            hint="Check that config.json and the weights belong to the same model, or pull the model again.",
        )
        reader = TensorReader(files, expected, device)
        embedding = reader.fused("model.embed_tokens.weight")
        layers = tuple(_layer(reader, config, f"model.layers.{number}") for number in range(config.num_layers))
        head = embedding if config.tie_word_embeddings else reader.fused("lm_head.weight")
        return ModelWeights(embedding, layers, reader.fused("model.norm.weight"), head)


def expected_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the tensors that a checkpoint of this configuration has."""
    hidden, inner, dim = config.hidden_size, config.intermediate_size, config.head_dim
    queries, keys = config.num_heads * dim, config.num_kv_heads * dim
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (config.vocab_size, hidden),
        "model.norm.weight": (hidden,),
    }
    if not config.tie_word_embeddings:
        shapes["lm_head.weight"] = (config.vocab_size, hidden)
    layer: dict[str, tuple[int, ...]] = {
        "input_layernorm.weight": (hidden,),
        "self_attn.q_proj.weight": (queries, hidden),
        "self_attn.k_proj.weight": (keys, hidden),
        "self_attn.v_proj.weight": (keys, hidden),
        "self_attn.o_proj.weight": (hidden, queries),
        "post_attention_layernorm.weight": (hidden,),
        "mlp.gate_proj.weight": (inner, hidden),
        "mlp.up_proj.weight": (inner, hidden),
        "mlp.down_proj.weight": (hidden, inner),
    }
    if config.qkv_bias:
        layer |= {f"self_attn.{name}_proj.bias": (size,) for name, size in (("q", queries), ("k", keys), ("v", keys))}
    if has_output_bias(config):
        layer["self_attn.o_proj.bias"] = (hidden,)
    if config.qk_norm:
        layer |= {"self_attn.q_norm.weight": (dim,), "self_attn.k_norm.weight": (dim,)}
    for number in range(config.num_layers):
        shapes |= {f"model.layers.{number}.{name}": shape for name, shape in layer.items()}
    return shapes


def has_output_bias(config: ModelConfig) -> bool:
    """Whether the attention's output projection has a bias too: `attention_bias` of Llama and Qwen3, never of Qwen2."""
    return config.qkv_bias and config.family in ("llama", "qwen3")


def _layer(reader: TensorReader, config: ModelConfig, prefix: str) -> LayerWeights:
    attention = f"{prefix}.self_attn"
    return LayerWeights(
        attention_norm=reader.fused(f"{prefix}.input_layernorm.weight"),
        qkv=reader.fused(*(f"{attention}.{name}_proj.weight" for name in "qkv")),
        qkv_bias=reader.fused(*(f"{attention}.{name}_proj.bias" for name in "qkv")) if config.qkv_bias else None,
        query_norm=reader.fused(f"{attention}.q_norm.weight") if config.qk_norm else None,
        key_norm=reader.fused(f"{attention}.k_norm.weight") if config.qk_norm else None,
        output=reader.fused(f"{attention}.o_proj.weight"),
        output_bias=reader.fused(f"{attention}.o_proj.bias") if has_output_bias(config) else None,
        mlp_norm=reader.fused(f"{prefix}.post_attention_layernorm.weight"),
        gate_up=reader.fused(f"{prefix}.mlp.gate_proj.weight", f"{prefix}.mlp.up_proj.weight"),
        down=reader.fused(f"{prefix}.mlp.down_proj.weight"),
    )


def _is_redundant(name: str, expected: Mapping[str, tuple[int, ...]]) -> bool:
    """A stored copy of what the configuration already says: rotary frequencies, or the head of a tied checkpoint."""
    return name.endswith(_DERIVED_SUFFIXES) or (name == "lm_head.weight" and name not in expected)
