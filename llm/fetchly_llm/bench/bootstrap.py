"""One figure a document in; their median, and the interval that other documents would put it in, out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 2000
COVERAGE = 0.95
SEED = 0


@dataclass(frozen=True, slots=True)
class Median:
    """`value` is None without a document, `interval` (low, high) with fewer than two."""

    value: float | None
    interval: tuple[float, float] | None


def bootstrap_median(values: Sequence[float]) -> Median:
    """95 % percentile bootstrap of the median over documents (Efron and Tibshirani, 1993, chapter 13), seed fixed."""
    if not values:
        return Median(None, None)
    figures = np.asarray(values, dtype=np.float64)
    if len(figures) < 2:
        return Median(float(figures[0]), None)
    drawn = np.random.default_rng(SEED).integers(0, len(figures), (RESAMPLES, len(figures)))
    medians = np.median(figures[drawn], axis=1)
    low, high = np.quantile(medians, [(1 - COVERAGE) / 2, (1 + COVERAGE) / 2])
    return Median(float(np.median(figures)), (float(low), float(high)))
