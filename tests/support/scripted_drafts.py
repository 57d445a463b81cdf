"""What a grammar and a draft source shall say, written out, in; both of them, and what was grown from them, out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fetchly_llm.speculation.calibration import Calibration
from fetchly_llm.speculation.draft import Draft, Proposal
from fetchly_llm.speculation.grow import Growth
from fetchly_llm.speculation.legality import Legality
from fetchly_llm.speculation.source import Candidate, DraftSource
from tests.support.hashed_language import EOS

ROOT = 99
"""A root's token."""
Path = tuple[int, ...]


@dataclass(slots=True)
class Says:
    """A source with a fixed answer for each path."""

    name: str
    says: Mapping[Path, Sequence[Candidate]]

    def extend(self, tokens: Sequence[int]) -> None:
        raise AssertionError("growing tells sources nothing")

    def propose(self, path: Sequence[int]) -> Sequence[Candidate]:
        return self.says.get(tuple(path), ())

    def distribution(self, path: Sequence[int]) -> Proposal | None:
        said = self.propose(path)
        if not said:
            return None
        return Proposal(np.array([c.token for c in said]), np.array([c.probability for c in said]))


@dataclass(slots=True)
class OpenText:
    """Any token below 50 is legal, but for the `runs` that must follow a text; `ends` are texts that are complete."""

    runs: Mapping[Path, Path] = field(default_factory=dict)
    ends: frozenset[Path] = frozenset()
    accepted: list[int] = field(default_factory=list)

    @property
    def is_terminated(self) -> bool:
        return tuple(self.accepted) in self.ends

    def forced_tokens(self) -> Path:
        return self.runs.get(tuple(self.accepted), ())

    def is_legal(self, token: int) -> bool:
        return not self.is_terminated and token in (self.forced_tokens()[:1] or range(50))

    def accept(self, token: int) -> None:
        assert self.is_legal(token)
        self.accepted.append(token)

    def rollback(self, count: int) -> None:
        assert 0 < count <= len(self.accepted)
        del self.accepted[-count:]


def growth(matcher: Legality, sources: Sequence[DraftSource], **options: bool) -> Growth:
    """Of the next tree, forced runs included, unless `options` say otherwise."""
    return Growth(matcher, sources, Calibration(), EOS, **{"forced": True, **options})


def source(**says: float) -> Says:
    """Of paths spelt as `_1_2`: the probability of the last token after the others."""
    answers: dict[Path, list[Candidate]] = {}
    for spelling, probability in says.items():
        *before, token = map(int, spelling.strip("_").split("_"))
        answers.setdefault(tuple(before), []).append(Candidate(token, probability))
    return Says("lookup", answers)


def paths(draft: Draft) -> list[Path]:
    """The tokens from the root to each node, the root left out."""
    tree = draft.tree
    return [tuple(tree.tokens[node] for node in tree.path(number)[1:]) for number in range(len(tree))]
