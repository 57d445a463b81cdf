"""A path of drafted tokens in; the tokens that a source proposes to follow it, with estimates, out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Candidate:
    """One token proposed to follow a path.

    `probability`, in (0, 1], is the source's own estimate that the target takes it after that path. Proposals of one
    `grade` are right about equally often: running acceptance is counted by source and grade, and corrects the
    estimate.
    """

    token: int
    probability: float
    grade: int = 0


class DraftSource(Protocol):
    """Proposes tokens for one sequence. Proposals may be illegal or wrong: output never depends on them."""

    @property
    def name(self) -> str:
        """As requests, statistics and the command line spell it."""

    def extend(self, tokens: Sequence[int]) -> None:
        """The output has grown by `tokens`; the next paths start after the last of them."""

    def propose(self, path: Sequence[int]) -> Sequence[Candidate]:
        """Candidates to follow the output so far and then `path` (which may be empty), no token twice."""
