"""A share of what there is in, again and again; how far to draw back out: up at the high mark, down at the low one."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Marks:
    """Shares of what there is. Above `high` a step is drawn back with every reading; a step is given back whenever
    nothing was above `low` for `settle_s`. Between the two everything stays as it is."""

    high: float
    low: float
    settle_s: float


class Watermarks:
    """Remembers a level: 0 holds nothing back, `deepest` is as far as it goes.

    Of two that are told shares at the same times, the one whose shares are all the higher is never at the lower level.
    After a share above the low mark no step is given back within `settle_s`; below it for `deepest` times as long the
    level is 0 again.
    """

    def __init__(self, marks: Marks, deepest: int) -> None:
        self._marks = marks
        self._deepest = deepest
        self._calm_since = -math.inf
        self.level = 0

    def step(self, share: float, now: float) -> int:
        """The level from now on. `now` never goes back."""
        if share > self._marks.low:
            self._calm_since = math.inf
            if share > self._marks.high:
                self.level = min(self._deepest, self.level + 1)
        else:
            self._calm_since = min(self._calm_since, now)
            if now >= self._calm_since + self._marks.settle_s:
                self._calm_since = now
                self.level = max(0, self.level - 1)
        return self.level
