"""Which parts streams have and a model's shape in; their parameters, to be trained, out, and a streams file of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fetchly_llm.config import ModelConfig
from fetchly_llm.safetensors_file import TensorSource, write_tensors
from fetchly_llm.stream_config import StreamConfig, check_streams, stream_metadata, stream_shapes
from fetchly_llm.training.lora import TrainableAdapter

_IDENTIFIER = 0.02
"""Standard deviation of what tells the streams apart at first: small beside a residual stream."""
_ZERO = frozenset(
    ("insertion.up.weight", "anchor.up.weight", "markov.next.weight", "confidence.weight", "confidence.bias")
)
"""Parts that say nothing at first, so that the streams begin as the main stream goes on."""


class StreamParameters:
    """All parts of the streams of `config`, fp32 on `device`; the same seed draws the same numbers on every device."""

    def __init__(self, config: StreamConfig, model: ModelConfig, seed: int, device: torch.device) -> None:
        check_streams(config, model, "this run")
        self.config = config
        self._model = model
        self.adapter = (
            TrainableAdapter(model, config.lora_rank, config.lora_alpha, seed, device, config.first_layer)
            if config.lora_rank
            else None
        )
        generator = torch.Generator().manual_seed(seed + 1)
        self._own = {
            name: _drawn(name, shape, generator).to(device).requires_grad_()
            for name, shape in stream_shapes(config, model).items()
            if not name.startswith("layers.")
        }

    def __getitem__(self, name: str) -> Tensor:
        """A part that is no adapter, by its name in a streams file."""
        return self._own[name]

    def __contains__(self, name: str) -> bool:
        return name in self._own

    def parameters(self) -> list[Tensor]:
        """Every tensor to be trained, in a fixed order."""
        return [*self._own.values(), *(self.adapter.parameters() if self.adapter else ())]

    def tensors(self) -> dict[str, NDArray[np.float32]]:
        """All parts by the names of a streams file."""
        own = {name: tensor.detach().cpu().numpy() for name, tensor in self._own.items()}
        return {**own, **(self.adapter.tensors() if self.adapter else {})}

    def load(self, tensors: Mapping[str, NDArray[np.float32]]) -> None:
        """Take all parts by the names of a streams file."""
        self.load_own({name: torch.from_numpy(np.ascontiguousarray(tensors[name])) for name in self._own})
        if self.adapter:
            self.adapter.load(tensors)

    def load_own(self, tensors: Mapping[str, Tensor]) -> None:
        """Take some of the parts that are no adapters."""
        with torch.no_grad():
            for name, tensor in tensors.items():
                self._own[name].copy_(tensor)

    def write(self, file: Path, notes: Mapping[str, str]) -> None:
        """The streams file, bf16. Raises OSError."""
        found = self.tensors()
        sources = [
            TensorSource(name, shape, [np.ascontiguousarray(found[name])])
            for name, shape in stream_shapes(self.config, self._model).items()
        ]
        part = file.with_name(f".{file.name}.part")
        write_tensors(part, sources, kind="BF16", metadata={**stream_metadata(self.config, self._model), **notes})
        part.replace(file)


def _drawn(name: str, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    if name in _ZERO:
        return torch.zeros(shape)
    if name == "embedding":
        return torch.empty(shape).normal_(0.0, _IDENTIFIER, generator=generator)
    bound = 1.0 / math.sqrt(shape[-1])
    return torch.empty(shape).uniform_(-bound, bound, generator=generator)
