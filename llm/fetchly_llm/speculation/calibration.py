"""Proposals and what became of them in; corrected probabilities of later proposals out."""

from __future__ import annotations

from dataclasses import dataclass

from fetchly_llm.speculation.source import Candidate

_PRIOR_WEIGHT = 4.0  # right proposals that a source's own estimate is worth
_MEMORY = 0.998  # of what was counted, how much is left after one more step
_MOST = 0.999


@dataclass(slots=True)
class _Count:
    """Proposals of one source and grade: how many were right, and how many its own estimates said."""

    right: float = 0.0
    expected: float = 0.0
    step: int = 0

    def forget_until(self, step: int) -> None:
        kept = _MEMORY ** (step - self.step)
        self.right *= kept
        self.expected *= kept
        self.step = step


class Calibration:
    """Running acceptance by source and grade.

    A source's estimate is multiplied by right / expected, counted over the last few hundred steps, to which a few
    right ones are added on both sides: a source that is always wrong sinks towards zero, and is tried again when that
    is forgotten. It decides how large a tree is and of what, never what is written.
    """

    def __init__(self) -> None:
        self._counts: dict[tuple[str, int], _Count] = {}
        self._step = 0

    def probability(self, source: str, candidate: Candidate) -> float:
        """The corrected estimate, in (0, 0.999]."""
        count = self._counts.get((source, candidate.grade))
        if count is None:
            return min(candidate.probability, _MOST)
        kept = _MEMORY ** (self._step - count.step)
        factor = (kept * count.right + _PRIOR_WEIGHT) / (kept * count.expected + _PRIOR_WEIGHT)
        return min(candidate.probability * factor, _MOST)

    def learn(self, source: str, candidate: Candidate, is_right: bool) -> None:
        """The target has answered at the place where `candidate` was proposed."""
        count = self._counts.setdefault((source, candidate.grade), _Count(step=self._step))
        count.forget_until(self._step)
        count.right += is_right
        count.expected += candidate.probability

    def end_step(self) -> None:
        """One more step is done: what was counted weighs a little less."""
        self._step += 1
