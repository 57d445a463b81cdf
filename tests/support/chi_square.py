"""Counts of outcomes and the law that they should follow in; how far they are from it, in chi-square, out."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_Z = 3.719  # the 0.9999 quantile of the standard normal distribution
_LEAST = 5.0  # expected draws of a cell; rarer outcomes share one


@dataclass(slots=True)
class ChiSquare:
    """Pearson's statistic, added up over independent samples."""

    statistic: float = 0.0
    freedom: int = 0
    draws: int = 0

    def add(self, counts: Mapping[Any, int], law: Mapping[Any, float]) -> None:
        """One sample of a law whose probabilities sum to 1. Raises AssertionError for an outcome that cannot be."""
        assert abs(sum(law.values()) - 1.0) < 1e-9
        impossible = [outcome for outcome in counts if law.get(outcome, 0.0) == 0.0]
        assert not impossible, f"drawn, though of probability 0: {impossible[:3]}"
        draws = sum(counts.values())
        cells: list[tuple[float, float]] = []
        rare, rare_expected = 0.0, 0.0
        for outcome, probability in law.items():
            expected = draws * probability
            if expected < _LEAST:
                rare, rare_expected = rare + counts.get(outcome, 0), rare_expected + expected
            else:
                cells.append((counts.get(outcome, 0), expected))
        if rare_expected >= _LEAST:
            cells.append((rare, rare_expected))
        self.draws += draws
        self.freedom += max(len(cells) - 1, 0)
        self.statistic += sum((seen - expected) ** 2 / expected for seen, expected in cells) if len(cells) > 1 else 0.0

    @property
    def limit(self) -> float:
        """The 0.9999 quantile for these degrees of freedom, after Wilson and Hilferty (1931): up to 5 % too high."""
        assert self.freedom >= 2, "too few draws to say anything"
        share = 2.0 / (9.0 * self.freedom)
        return float(self.freedom * (1.0 - share + _Z * share**0.5) ** 3)

    def check(self) -> None:
        """Raise AssertionError where the counts are too far from the law."""
        assert self.statistic < self.limit, (
            f"chi-square {self.statistic:.1f} over the limit {self.limit:.1f} "
            f"({self.freedom} degrees of freedom, {self.draws} draws)"
        )


def check_law(outcomes: Iterable[Hashable], law: Mapping[Any, float]) -> ChiSquare:
    """Raise AssertionError unless `outcomes` look drawn from `law`; returns the statistic."""
    counts: dict[Hashable, int] = {}
    for outcome in outcomes:
        counts[outcome] = counts.get(outcome, 0) + 1
    square = ChiSquare()
    square.add(counts, law)
    square.check()
    return square
