"""A checkpoint folder in; every tensor of the model, fused and in fp32, out. Strict about names and shapes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from fetchly_llm.checkpoint import weight_files
from fetchly_llm.config import ModelConfig
from fetchly_llm.errors import WeightsMismatch

# Derived from the configuration; older checkpoints store them all the same.
_DERIVED_SUFFIXES = (".rotary_emb.inv_freq", ".attn.bias", ".masked_bias")
_NAMES_SHOWN = 8


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
    with _Checkpoint(folder) as checkpoint:
        _check(folder, expected, checkpoint.shapes())
        reader = _Reader(checkpoint, expected, device)
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


def _layer(reader: _Reader, config: ModelConfig, prefix: str) -> LayerWeights:
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


class _Checkpoint:
    """The memory-mapped files of a folder, open together."""

    def __init__(self, folder: Path) -> None:
        self._files = weight_files(folder)
        self._homes: dict[str, Any] = {}  # tensor name -> open file

    def __enter__(self) -> _Checkpoint:
        for file in self._files:
            try:
                handle = safe_open(file, framework="pt", device="cpu")
            except (SafetensorError, OSError) as error:
                raise WeightsMismatch(
                    f"{file} cannot be read as safetensors: {error}", hint="Delete it and pull the model again."
                ) from error
            for name in handle.keys():  # type: ignore[no-untyped-call]  # noqa: SIM118
                if name in self._homes:
                    raise WeightsMismatch(f"{file} repeats tensor {name!r} of another file of the checkpoint")
                self._homes[name] = handle
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._homes.clear()  # the maps close with their last reference

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of every tensor, from the headers alone."""
        return {name: tuple(home.get_slice(name).get_shape()) for name, home in self._homes.items()}

    def tensor(self, name: str) -> Tensor:
        """A view of the mapped file."""
        tensor: Tensor = self._homes[name].get_tensor(name)
        return tensor


class _Reader:
    """Copies tensors out of the maps: fused, fp32, and aligned as torch aligns, which the maps are not."""

    def __init__(self, checkpoint: _Checkpoint, shapes: Mapping[str, tuple[int, ...]], device: torch.device) -> None:
        self._checkpoint = checkpoint
        self._shapes = shapes
        self._device = device

    def fused(self, *names: str) -> Tensor:
        """The named tensors stacked along their first axis."""
        rows = [self._shapes[name][0] for name in names]
        target = torch.empty((sum(rows), *self._shapes[names[0]][1:]), dtype=torch.float32, device=self._device)
        for part, name in zip(torch.split(target, rows), names, strict=True):
            part.copy_(self._checkpoint.tensor(name))
        return target


def _check(folder: Path, expected: Mapping[str, tuple[int, ...]], found: Mapping[str, tuple[int, ...]]) -> None:
    missing = sorted(expected.keys() - found.keys())
    unexpected = sorted(name for name in found.keys() - expected.keys() if not _is_redundant(name, expected))
    misshapen = [
        f"{name} is {found[name]}, not {shape}"
        for name, shape in expected.items()
        if name in found and found[name] != shape
    ]
    problems = [
        f"{kind}: {_listed(names)}"
        for kind, names in (("missing", missing), ("unexpected", unexpected), ("wrong shape", misshapen))
        if names
    ]
    if problems:
        raise WeightsMismatch(
            f"the weights in {folder} do not fit its config.json: {'; '.join(problems)}",
            hint="Check that config.json and the weights belong to the same model, or pull the model again.",
        )


def _is_redundant(name: str, expected: Mapping[str, tuple[int, ...]]) -> bool:
    """A stored copy of what the configuration already says: rotary frequencies, or the head of a tied checkpoint."""
    return name.endswith(_DERIVED_SUFFIXES) or (name == "lm_head.weight" and name not in expected)


def _listed(names: list[str]) -> str:
    rest = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
