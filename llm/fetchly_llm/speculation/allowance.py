"""What steps and passes of streams cost and gained in; what the next may lose against plain decoding, in ms, out."""

from __future__ import annotations

from fetchly_llm.cost_curve import CostCurve

# In plain steps: what a sequence may lose at first, what every token adds to that, and how much of what drafts have
# gained they may lose again.
_FIRST, _PER_TOKEN, _MOST = 2.0, 0.02, 8.0


class Allowance:
    """Bounds what wrong estimates can cost, whoever made them.

    A sequence of n tokens takes at most (1 + 2 %) * n + 2 plain steps by the cost curve, however its drafts fare: a
    step whose tree is all wrong, and a pass of streams that nothing comes of, may lose no more than is left.
    """

    def __init__(self, curve: CostCurve) -> None:
        self._curve = curve
        self._left = _FIRST * curve.cost(1)

    @property
    def left(self) -> float:
        """Milliseconds, at least 0."""
        return self._left

    def anchors_after(self, rows: int, tokens: int, most: int) -> int:
        """Of how many nodes, `most` at most, streams may be run beside a step over `rows` rows that gains `tokens`."""
        return self._curve.anchors_within(self._left_after(rows, tokens), most)

    def charge(self, anchors: int) -> float:
        """The streams of so many nodes have been run; how many plain steps that has cost."""
        cost = self._curve.stream_cost(anchors)
        self._left -= cost
        return cost / self._curve.cost(1)

    def end_step(self, rows: int, tokens: int) -> None:
        """A step over `rows` rows has gained `tokens` tokens, the bonus token included."""
        self._left = min(self._left_after(rows, tokens), _MOST * self._curve.cost(1))

    def _left_after(self, rows: int, tokens: int) -> float:
        return self._left + (1.0 + _PER_TOKEN) * self._curve.cost(1) * tokens - self._curve.cost(rows)
