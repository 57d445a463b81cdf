"""The number of a step in; the share of the learning rate that it takes out."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Schedule:
    """Linear warm-up, a constant stretch, and a decay by 1 - sqrt(x) over the last part (arXiv 2405.18392).

    All but the decay is independent of `steps`: a run in its constant stretch may be given more or fewer of them.
    """

    steps: int
    warmup: int = 20
    decay: float = 0.3

    @property
    def decay_begins(self) -> int:
        """The first step of the decay."""
        return self.steps - math.ceil(self.decay * self.steps)

    def share(self, step: int) -> float:
        """Between 0 (excluded) and 1, for step 0 and after."""
        rising = min(1.0, (step + 1) / max(1, self.warmup))
        if step < self.decay_begins:
            return rising
        done = (step - self.decay_begins + 1) / (self.steps - self.decay_begins + 1)
        return rising * (1.0 - math.sqrt(done))
