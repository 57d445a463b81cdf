"""A checkpoint folder in; every tensor of the model, fused and in fp32, out. Strict about names and shapes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from fetchly_llm.backends.torch_reference.tensor_files import TensorFiles, TensorReader
from fetchly_llm.checkpoint import weight_files
from fetchly_llm.checkpoint_shapes import check_checkpoint, checkpoint_shapes, has_output_bias
from fetchly_llm.config import ModelConfig


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
    expected = checkpoint_shapes(config)
    with TensorFiles(weight_files(folder), hint="Delete it and pull the model again.") as files:
        check_checkpoint(str(folder), expected, files.shapes())
        reader = TensorReader(files, expected, device)
        embedding = reader.fused("model.embed_tokens.weight")
        layers = tuple(_layer(reader, config, f"model.layers.{number}") for number in range(config.num_layers))
        head = embedding if config.tie_word_embeddings else reader.fused("lm_head.weight")
        return ModelWeights(embedding, layers, reader.fused("model.norm.weight"), head)


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
