"""A model's shape in; a small random adapter for it out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fetchly_llm.adapter import Adapter, AdapterConfig, adapter_shapes, write_adapter
from fetchly_llm.config import ModelConfig

BASE = "0123456789abcdef" * 4


def tiny_adapter(
    model: ModelConfig, seed: int = 0, *, rank: int = 3, alpha: float = 4.0, base: str = BASE, prompt_format: str = "7"
) -> Adapter:
    """Large enough to change every linear visibly; alpha / rank is no power of two."""
    config = AdapterConfig(rank, alpha, base, prompt_format)
    random = np.random.default_rng([seed, 815])
    tensors = {
        name: random.standard_normal(shape, dtype=np.float32) * np.float32(0.3)
        for name, shape in adapter_shapes(config, model).items()
    }
    return Adapter(config, tensors)


def make_tiny_adapter(file: Path, model: ModelConfig, seed: int = 0, **settings: str) -> Path:
    """Write a random adapter and return its file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_adapter(file, tiny_adapter(model, seed, **settings), model)  # type: ignore[arg-type]
    return file


def updates(adapter: Adapter) -> dict[str, NDArray[np.float64]]:
    """What the adapter adds to each weight of a checkpoint, by the weight's name, the plain way."""
    parts = dict.fromkeys("qkvo", "self_attn") | dict.fromkeys(("gate", "up", "down"), "mlp")
    found: dict[str, NDArray[np.float64]] = {}
    for name, up in adapter.tensors.items():
        if name.endswith(".lora_B"):
            _, number, linear, _ = name.split(".")
            down = adapter.tensors[name.replace("lora_B", "lora_A")]
            scale = adapter.config.alpha / adapter.config.rank
            weight = f"model.layers.{number}.{parts[linear.removesuffix('_proj')]}.{linear}.weight"
            found[weight] = scale * np.einsum("or,ri->oi", up.astype(np.float64), down.astype(np.float64))
    return found
