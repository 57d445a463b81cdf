"""A checkpoint folder in; its tensors as views of the mapped files, checked against the configuration, out.

Any tensor of a Hugging Face checkpoint of the Llama family has one `Part` of the model and a layer. No torch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from typing import Final

from fetchly_llm.backends.native.stored_tensor import ModelTensor, StoredTensor, stored_tensors
from fetchly_llm.checkpoint import weight_files
from fetchly_llm.checkpoint_shapes import check_checkpoint, checkpoint_shapes
from fetchly_llm.config import ModelConfig
from fetchly_llm.errors import WeightsMismatch
from fetchly_llm.safetensors_file import TensorPlace, read_header


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


_PARTS: Final = {
    "model.embed_tokens.weight": Part.EMBEDDING,
    "model.norm.weight": Part.FINAL_NORM,
    "lm_head.weight": Part.HEAD,
    "input_layernorm.weight": Part.ATTENTION_NORM,
    "self_attn.q_proj.weight": Part.QUERY,
    "self_attn.k_proj.weight": Part.KEY,
    "self_attn.v_proj.weight": Part.VALUE,
    "self_attn.q_proj.bias": Part.QUERY_BIAS,
    "self_attn.k_proj.bias": Part.KEY_BIAS,
    "self_attn.v_proj.bias": Part.VALUE_BIAS,
    "self_attn.q_norm.weight": Part.QUERY_NORM,
    "self_attn.k_norm.weight": Part.KEY_NORM,
    "self_attn.o_proj.weight": Part.OUTPUT,
    "self_attn.o_proj.bias": Part.OUTPUT_BIAS,
    "post_attention_layernorm.weight": Part.MLP_NORM,
    "mlp.gate_proj.weight": Part.GATE,
    "mlp.up_proj.weight": Part.UP,
    "mlp.down_proj.weight": Part.DOWN,
}
_LAYER: Final = re.compile(r"model\.layers\.(\d+)\.(.+)")


def model_tensors(config: ModelConfig) -> tuple[ModelTensor, ...]:
    """All tensors that a checkpoint of this configuration has, in the order in which a step reads them."""
    return tuple(_model_tensor(name, shape) for name, shape in checkpoint_shapes(config).items())


def read_tensors(folder: Path, config: ModelConfig) -> Iterator[StoredTensor]:
    """The tensors of the checkpoint in `folder`, one by one, as views that last as long as something holds them.

    Raises WeightsMismatch, before the first, for missing, unexpected or misshapen tensors and for files that are not
    safetensors, and ModelUnsupported for tensors that are not fp32, fp16 or bf16.
    """
    places: dict[str, TensorPlace] = {}
    for file in weight_files(folder):
        for name, place in read_header(file).items():
            if name in places:
                raise WeightsMismatch(f"{file} repeats tensor {name!r} of another file of the checkpoint")
            places[name] = place
    check_checkpoint(str(folder), checkpoint_shapes(config), {name: place.shape for name, place in places.items()})
    yield from stored_tensors(f"the weights in {folder}", model_tensors(config), places)


def _model_tensor(name: str, shape: tuple[int, ...]) -> ModelTensor:
    match = _LAYER.fullmatch(name)
    return ModelTensor(name, int(match[1]) if match else 0, _PARTS[match[2] if match else name], *shape)
