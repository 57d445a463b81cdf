"""A configuration and a seed in; random tensors for the native back-end, as a checkpoint would give them, out."""

from __future__ import annotations

import numpy as np

from fetchly_llm.backends.native.checkpoint_tensors import model_tensors
from fetchly_llm.backends.native.stored_tensor import ModelTensor, StoredTensor
from fetchly_llm.config import ModelConfig


def random_tensors(config: ModelConfig, seed: int = 0) -> list[StoredTensor]:
    """fp32 tensors whose products keep the size of what they multiply."""
    random = np.random.default_rng(seed)

    def values(tensor: ModelTensor) -> np.ndarray:
        if tensor.part.name.endswith("NORM"):
            return np.ones(tensor.rows, np.float32)
        scale = 1.0 if tensor.part.name == "EMBEDDING" else tensor.columns**-0.5
        return random.standard_normal((tensor.rows, tensor.columns), dtype=np.float32) * np.float32(scale)

    return [StoredTensor(tensor, 0, values(tensor).view(np.uint8).ravel()) for tensor in model_tensors(config)]
