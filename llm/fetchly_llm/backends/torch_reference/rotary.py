"""A model's rotary settings and a number of positions in; the cosine and sine tables of those positions out."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from fetchly_llm.config import ModelConfig, RopeScaling


class RotaryTable:
    """Rotary position embeddings (RoFormer, arXiv 2104.09864) in the half-split layout of Hugging Face checkpoints.

    `cosine` and `sine` have shape (positions, head_dim). The first half of `sine` is negated, so that rotating is
    x * cosine + swap_halves(x) * sine.
    """

    def __init__(self, config: ModelConfig, positions: int, device: torch.device) -> None:
        # Angles are fp32 products, as in the implementations that checkpoints were trained with; only the functions
        # are taken in double precision, so that an entry does not depend on where a vector unit meets it.
        frequencies = rotary_frequencies(config).numpy()
        angles = np.arange(positions, dtype=np.float32)[:, None] * frequencies[None, :]
        cosine = np.cos(angles.astype(np.float64)).astype(np.float32)
        sine = np.sin(angles.astype(np.float64)).astype(np.float32)
        self.positions = positions
        self.cosine = torch.from_numpy(np.concatenate((cosine, cosine), axis=1)).to(device)
        self.sine = torch.from_numpy(np.concatenate((-sine, sine), axis=1)).to(device)


def rotary_frequencies(config: ModelConfig) -> Tensor:
    """Inverse frequencies, fp32, of shape (head_dim / 2,)."""
    exponents = torch.arange(0, config.head_dim, 2, dtype=torch.int64).to(torch.float32) / config.head_dim
    frequencies = 1.0 / (config.rope_theta**exponents)
    return frequencies if config.rope_scaling is None else _llama3(frequencies, config.rope_scaling)


def _llama3(frequencies: Tensor, scaling: RopeScaling) -> Tensor:
    """Llama 3.1's scaling: long wavelengths divided by `factor`, short ones kept, a linear blend between."""
    wavelengths = 2 * math.pi / frequencies
    longest = scaling.original_max_position / scaling.low_freq_factor
    shortest = scaling.original_max_position / scaling.high_freq_factor
    blend = (scaling.original_max_position / wavelengths - scaling.low_freq_factor) / (
        scaling.high_freq_factor - scaling.low_freq_factor
    )
    blended = (1 - blend) * frequencies / scaling.factor + blend * frequencies
    scaled = torch.where(wavelengths > longest, frequencies / scaling.factor, frequencies)
    between = (wavelengths <= longest) & (wavelengths >= shortest)
    return torch.where(between, blended, scaled)


def rotate(heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotate `heads` of shape (heads, rows, head_dim) by table rows of shape (rows, head_dim)."""
    half = heads.shape[-1] // 2
    swapped = torch.cat((heads[..., half:], heads[..., :half]), dim=-1)
    return torch.addcmul(heads * cosine, swapped, sine)
