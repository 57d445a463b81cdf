"""A model's rotary settings and a number of positions in; the cosines and sines of those positions out. No torch."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fetchly_llm.config import ModelConfig, RopeScaling


class RotaryTable:
    """Rotary position embeddings (RoFormer, arXiv 2104.09864): `cosine` and `sine` of shape (positions, head_dim / 2).

    Angles are fp32 products, as in the implementations that checkpoints were trained with; everything else is taken in
    double precision and rounded once, so that machines agree.
    """

    def __init__(self, config: ModelConfig, positions: int) -> None:
        angles = np.arange(positions, dtype=np.float32)[:, None] * rotary_frequencies(config)[None, :]
        self.positions = positions
        self.cosine: NDArray[np.float32] = np.cos(angles.astype(np.float64)).astype(np.float32)
        self.sine: NDArray[np.float32] = np.sin(angles.astype(np.float64)).astype(np.float32)


def rotary_frequencies(config: ModelConfig) -> NDArray[np.float32]:
    """Inverse frequencies of shape (head_dim / 2,)."""
    exponents = np.arange(0, config.head_dim, 2, dtype=np.float64) / config.head_dim
    frequencies = 1.0 / config.rope_theta**exponents
    if config.rope_scaling is not None:
        frequencies = _llama3(frequencies, config.rope_scaling)
    return frequencies.astype(np.float32)


def _llama3(frequencies: NDArray[np.float64], scaling: RopeScaling) -> NDArray[np.float64]:
    """Llama 3.1's scaling: long wavelengths divided by `factor`, short ones kept, a linear blend between."""
    turns = scaling.original_max_position * frequencies / (2 * math.pi)  # within the original context
    blend = (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor)
    kept = np.clip(blend, 0.0, 1.0)
    scaled: NDArray[np.float64] = (1.0 - kept) * frequencies / scaling.factor + kept * frequencies
    return scaled
