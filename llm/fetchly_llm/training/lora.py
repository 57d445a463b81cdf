"""A model's shape in; the parameters of a low-rank adapter, to be trained, out, and back as an adapter file's tensors.

LoRA (arXiv 2106.09685) on every linear of some layers. Linears that read the same input are fused, as the model's own
are: their `down` factors are stacked, their `up` factors are the diagonal blocks of one matrix.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fetchly_llm.config import ModelConfig


@dataclass(frozen=True, slots=True)
class LowRankParameters:
    """The adapter of fused linears: y += scale * up @ down @ x.

    `down` (parts * rank, inputs) and `up` (outputs, parts * rank) are fp32 and wanted; `blocks` are the rows of `up`
    that belong to each part: part k has the columns k * rank to (k + 1) * rank, and the rest of `up` stays zero.
    """

    down: Tensor
    up: Tensor
    blocks: tuple[slice, ...]

    @property
    def rank(self) -> int:
        """Rank of one part."""
        return self.down.shape[0] // len(self.blocks)

    def keep_blocks(self, gradient: Tensor) -> Tensor:
        """A gradient of `up` without what lies outside the blocks."""
        kept = torch.zeros_like(gradient)
        for number, rows in enumerate(self.blocks):
            columns = slice(number * self.rank, (number + 1) * self.rank)
            kept[rows, columns] = gradient[rows, columns]
        return kept


@dataclass(frozen=True, slots=True)
class LayerParameters:
    """The four fused linears of a decoder layer."""

    qkv: LowRankParameters
    output: LowRankParameters
    gate_up: LowRankParameters
    down: LowRankParameters


_PARTS: Mapping[str, tuple[str, ...]] = {
    "qkv": ("q", "k", "v"),
    "output": ("o",),
    "gate_up": ("gate", "up"),
    "down": ("down",),
}


class TrainableAdapter:
    """All parameters, fp32 on `device`: `down` drawn as a linear layer's weights are, `up` zero, so that training
    begins at the base model. The same seed draws the same numbers on every device. `layers` are those of decoder
    layers `first`.., in order."""

    def __init__(
        self, model: ModelConfig, rank: int, alpha: float, seed: int, device: torch.device, first: int = 0
    ) -> None:
        self._first = first
        self.rank = rank
        self.alpha = alpha
        generator = torch.Generator().manual_seed(seed)
        sizes = _sizes(model)
        self.layers = tuple(
            LayerParameters(**{name: _drawn(sizes[name], rank, generator, device) for name in _PARTS})
            for _ in range(first, model.num_layers)
        )

    @property
    def scale(self) -> float:
        """What the product of the factors is multiplied by."""
        return self.alpha / self.rank

    def parameters(self) -> list[Tensor]:
        """Every tensor to be trained, in a fixed order."""
        return [
            tensor
            for layer in self.layers
            for name in _PARTS
            for tensor in (getattr(layer, name).down, getattr(layer, name).up)
        ]

    def tensors(self) -> dict[str, NDArray[np.float32]]:
        """The factors of each linear by the names of an adapter file."""
        return {view.name: _array(view.tensor) for view in self._views()}

    def load(self, tensors: Mapping[str, NDArray[np.float32]]) -> None:
        """Take the factors from an adapter file of the same shape."""
        with torch.no_grad():
            for view in self._views():
                view.tensor.copy_(torch.from_numpy(np.ascontiguousarray(tensors[view.name])))

    def _views(self) -> Iterator[_Named]:
        for number, layer in enumerate(self.layers, self._first):
            for name, parts in _PARTS.items():
                fused: LowRankParameters = getattr(layer, name)
                for part, (linear, rows) in enumerate(zip(parts, fused.blocks, strict=True)):
                    columns = slice(part * self.rank, (part + 1) * self.rank)
                    prefix = f"layers.{number}.{linear}_proj"
                    yield _Named(f"{prefix}.lora_A", fused.down.detach()[columns])
                    yield _Named(f"{prefix}.lora_B", fused.up.detach()[rows, columns])


@dataclass(frozen=True, slots=True)
class _Named:
    name: str
    tensor: Tensor


def _sizes(model: ModelConfig) -> dict[str, tuple[int, ...]]:
    """For each fused linear its inputs, then the outputs of each part."""
    hidden, inner = model.hidden_size, model.intermediate_size
    queries, keys = model.num_heads * model.head_dim, model.num_kv_heads * model.head_dim
    return {
        "qkv": (hidden, queries, keys, keys),
        "output": (queries, hidden),
        "gate_up": (hidden, inner, inner),
        "down": (inner, hidden),
    }


def _drawn(sizes: tuple[int, ...], rank: int, generator: torch.Generator, device: torch.device) -> LowRankParameters:
    inputs, *outputs = sizes
    bound = 1.0 / math.sqrt(inputs)
    down = torch.empty(len(outputs) * rank, inputs).uniform_(-bound, bound, generator=generator)
    up = torch.zeros(sum(outputs), len(outputs) * rank)
    ends = list(accumulate(outputs))
    blocks = tuple(slice(end - size, end) for end, size in zip(ends, outputs, strict=True))
    return LowRankParameters(down.to(device).requires_grad_(), up.to(device).requires_grad_(), blocks)


def _array(tensor: Tensor) -> NDArray[np.float32]:
    return np.ascontiguousarray(tensor.cpu().numpy())
