"""What steps of so many rows cost, and passes of streams, in; how many rows of a draft tree to verify out."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

FUSED_ANCHORS: Final = 3
"""Nodes of a tree that streams start from beside its verification, at most: those where it is likeliest to stop."""


@dataclass(frozen=True, slots=True)
class CostCurve:
    """c(M): milliseconds of a step of M rows, at the ascending numbers of rows `rows`. Never falling.

    `stream_ms` are those of a pass of speculative streams from one node, from two ...; empty where there are none.
    """

    rows: tuple[int, ...]
    ms: tuple[float, ...]
    stream_ms: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        assert self.rows, "a curve has a point"
        assert self.rows[0] == 1, "one row is what others are compared with"
        assert list(self.rows) == sorted(set(self.rows))
        assert len(self.rows) == len(self.ms)
        assert all(0.0 < cost < inf for cost in self.ms)
        assert list(self.ms) == sorted(self.ms)
        assert all(0.0 <= cost < inf for cost in self.stream_ms)
        assert list(self.stream_ms) == sorted(self.stream_ms)

    @classmethod
    def typical(cls, most: int) -> CostCurve:
        """A row in ten more than the first costs about as much as it, and a pass of streams about half: no machine's
        curve, and the same on every one."""
        rows = tuple(range(1, most + 1))
        streams = tuple(0.5 + 0.1 * count for count in range(FUSED_ANCHORS))
        return cls(rows, tuple(1.0 + 0.1 * (count - 1) for count in rows), streams)

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

    def stream_cost(self, anchors: int) -> float:
        """Milliseconds of a pass of the streams of so many nodes; 0 where there are no streams."""
        return self.stream_ms[anchors - 1] if self.stream_ms else 0.0

    def anchors_within(self, allowance: float, most: int) -> int:
        """Of how many nodes, `most` at most, a pass of streams costs no more than `allowance` milliseconds."""
        return bisect_right(range(1, most + 1), allowance, key=self.stream_cost)

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
