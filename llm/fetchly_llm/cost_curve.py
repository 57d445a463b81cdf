"""What steps of so many rows cost in; how many rows of a draft tree to verify out."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True)
class CostCurve:
    """c(M): milliseconds of a step of M rows, at the ascending numbers of rows `rows`. Never falling."""

    rows: tuple[int, ...]
    ms: tuple[float, ...]

    def __post_init__(self) -> None:
        assert self.rows, "a curve has a point"
        assert self.rows[0] == 1, "one row is what others are compared with"
        assert list(self.rows) == sorted(set(self.rows))
        assert len(self.rows) == len(self.ms)
        assert all(0.0 < cost < inf for cost in self.ms)
        assert list(self.ms) == sorted(self.ms)

    @classmethod
    def typical(cls, most: int) -> CostCurve:
        """A row in ten more than the first costs about as much as it: no machine's curve, and the same on every one."""
        rows = tuple(range(1, most + 1))
        return cls(rows, tuple(1.0 + 0.1 * (count - 1) for count in rows))

    @property
    def most(self) -> int:
        """The largest number of rows that was measured."""
        return self.rows[-1]

    def cost(self, rows: int) -> float:
        """Milliseconds of a step of `rows` rows, 1 <= rows <= `most`; linear between measured points."""
        assert 1 <= rows <= self.most
        at = bisect_left(self.rows, rows)
        if self.rows[at] == rows:
            return self.ms[at]
        low, high = self.rows[at - 1], self.rows[at]
        share = (rows - low) / (high - low)
        return self.ms[at - 1] + share * (self.ms[at] - self.ms[at - 1])

    def best_rows(self, probabilities: Sequence[float], allowance: float = inf) -> int:
        """How many of a tree's first nodes to verify: the most expected tokens per millisecond.

        `probabilities` are the estimates that a node is accepted, the root's 1 first, in the order in which nodes were
        added. The expected tokens of a step are their sum, as the root's place counts for the bonus token. `allowance`
        is how many milliseconds a tree may lose against plain decoding where only its certain nodes are accepted.
        """
        best, best_rate, expected, certain = 1, 0.0, 0.0, 0
        for rows, probability in enumerate(probabilities[: self.most], start=1):
            expected += probability
            certain += probability == 1.0
            if rows > 1 and self.cost(rows) - certain * self.cost(1) > allowance:
                continue
            rate = expected / self.cost(rows)
            if rate > best_rate:
                best, best_rate = rows, rate
        return best

    def rows_within(self, allowance: float) -> int:
        """How many rows a step may have and lose at most `allowance` milliseconds if it gains one token."""
        return bisect_right(range(1, self.most + 1), self.cost(1) + allowance, key=self.cost)
