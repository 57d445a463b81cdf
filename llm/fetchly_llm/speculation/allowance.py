"""What steps cost and gained in; how many milliseconds the next one may lose against plain decoding out."""

from __future__ import annotations

from fetchly_llm.cost_curve import CostCurve

# In plain steps: what a sequence may lose at first, what every token adds to that, and how much of what drafts have
# gained they may lose again.
_FIRST, _PER_TOKEN, _MOST = 2.0, 0.02, 8.0


class Allowance:
    """Bounds what wrong estimates can cost, whoever made them.

    A sequence of n tokens takes at most (1 + 2 %) * n + 2 plain steps by the cost curve, however its drafts fare: a
    step whose tree is all wrong may lose no more than is left.
    """

    def __init__(self, curve: CostCurve) -> None:
        self._curve = curve
        self._left = _FIRST * curve.cost(1)

    @property
    def left(self) -> float:
        """Milliseconds, at least 0."""
        return self._left

    def end_step(self, rows: int, tokens: int) -> None:
        """A step over `rows` rows has gained `tokens` tokens, the bonus token included."""
        plain = self._curve.cost(1)
        gain = (1.0 + _PER_TOKEN) * plain * tokens - self._curve.cost(rows)
        self._left = min(self._left + gain, _MOST * plain)
