"""Counts by site in, the interval that F1 would lie in with other sites out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fetchly.lab.scoring import Counts

RESAMPLES = 2000
COVERAGE = 0.95
SEED = 0


@dataclass(frozen=True, slots=True)
class Interval:
    """Both ends, 0 to 1."""

    low: float
    high: float


def f1_interval(by_site: Sequence[Counts]) -> Interval | None:
    """95 % percentile bootstrap of F1 over sites (Efron and Tibshirani, 1993, chapter 13), with a fixed seed.

    Sites, not pages, are drawn: the pages of a site share one template, and rise and fall together. None for fewer
    than two sites, of which no spread can be told.
    """
    if len(by_site) < 2:
        return None
    import numpy as np  # loaded when figures are drawn, not with the command line

    counts = np.array([(c.right, c.wrong, c.missed) for c in by_site], dtype=float)  # (sites, 3)
    n = len(by_site)
    draws = np.random.default_rng(SEED).multinomial(n, np.full(n, 1 / n), size=RESAMPLES)  # (resamples, sites)
    right, wrong, missed = (draws @ counts).T
    twice = 2 * right
    whole = twice + wrong + missed
    f1 = np.divide(twice, whole, out=np.zeros_like(whole), where=whole > 0)
    low, high = np.quantile(f1, [(1 - COVERAGE) / 2, (1 + COVERAGE) / 2])
    return Interval(float(low), float(high))
