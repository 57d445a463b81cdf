"""Rejection sampling over real trees with its real noise gives the target's law, whatever was proposed or drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat

import numpy as np
import pytest

from fetchly_llm.request import SamplingParams
from fetchly_llm.sampling import draft_noise, verification_noise
from fetchly_llm.speculation.calibration import Calibration
from fetchly_llm.speculation.draft import Draft, Proposal
from fetchly_llm.speculation.grow import Growth
from fetchly_llm.speculation.rejection import choose_by_rejection
from fetchly_llm.speculation.source import Candidate
from tests.support.chi_square import ChiSquare, check_law

ROOT, EOS = 0, 9
PARAMS = SamplingParams(temperature=1.0, seed=17)


@dataclass(slots=True)
class AnyOf:
    """A matcher for which the same tokens are legal always."""

    legal: frozenset[int]
    accepted: list[int] = field(default_factory=list)

    @property
    def is_terminated(self) -> bool:
        return False

    def forced_tokens(self) -> tuple[int, ...]:
        return ()

    def is_legal(self, token: int) -> bool:
        return token in self.legal

    def accept(self, token: int) -> None:
        assert token in self.legal
        self.accepted.append(token)

    def rollback(self, count: int) -> None:
        del self.accepted[len(self.accepted) - count :]


@dataclass(frozen=True, slots=True)
class Points:
    """Names the same tokens with certainty, whatever the path."""

    tokens: tuple[int, ...]
    name: str = "points"

    def extend(self, tokens: Sequence[int]) -> None: ...

    def propose(self, path: Sequence[int]) -> Sequence[Candidate]:
        return tuple(Candidate(token, 0.3) for token in self.tokens)


@dataclass(frozen=True, slots=True)
class Draws:
    """Draws from `chances` by token, whatever the path. Asked for proposals, it would name its best, as streams do."""

    chances: dict[int, float]
    name: str = "draws"

    def extend(self, tokens: Sequence[int]) -> None: ...

    def propose(self, path: Sequence[int]) -> Sequence[Candidate]:
        return (Candidate(max(self.chances, key=self.chances.__getitem__), 0.9),)

    def distribution(self, path: Sequence[int]) -> Proposal | None:
        if not self.chances:
            return None
        return Proposal(np.array(list(self.chances), dtype=np.int64), np.array(list(self.chances.values())))


def drafts(legal: Sequence[int], points: Points, draws: Draws, rows: int, width: int) -> Iterator[Draft]:
    """Trees after ROOT, one for every position."""
    calibration = Calibration()
    position = 0
    while True:
        growth = Growth(AnyOf(frozenset(legal)), [points, draws], calibration, frozenset({EOS}), forced=True)
        yield growth.grow_sampled(ROOT, rows, draws, width, draft_noise(PARAMS, position))
        position += 1


def written(draft: Draft, target: dict[int, float], position: int, longest: int) -> tuple[int, ...]:
    """What a step writes, at most `longest` tokens."""
    legal = np.array(sorted(target), dtype=np.int64)
    chances = np.array([target[int(token)] for token in legal])
    rng = verification_noise(PARAMS, position)
    node: int | None = 0
    text: list[int] = []
    while node is not None and len(text) < longest:
        text.append(choose_by_rejection(draft, node, legal, chances, rng))
        node = draft.child(node, text[-1])
    return tuple(text)


TARGET = {1: 0.1, 2: 0.6, 3: 0.3}


@pytest.mark.parametrize(
    ("points", "draws", "count"),
    [
        (Points((2,)), Draws({}), 100_000),
        (Points((1,)), Draws({}), 30_000),
        (Points((3, 1, 2)), Draws({}), 30_000),
        (Points(()), Draws({1: 0.3, 2: 0.3, 3: 0.4}), 100_000),
        (Points(()), Draws({1: 0.8, 2: 0.1, 3: 0.1}), 30_000),
        (Points((2,)), Draws({1: 0.5, 2: 0.2, 3: 0.3}), 30_000),
    ],
    ids=["likeliest", "unlikeliest", "all", "sampled", "sampled-wrong", "both"],
)
def test_10_60_30_percent_stay_so(points: Points, draws: Draws, count: int) -> None:
    """Where noise is reused, 10.2/63.0/26.8 % has been seen (vLLM, issue 54282)."""
    trees = drafts((1, 2, 3), points, draws, rows=3, width=2)
    if not draws.chances:
        trees = repeat(next(trees))
    texts = (written(draft, TARGET, position, 1)[0] for position, draft in zip(range(count), trees, strict=False))
    check_law(texts, TARGET)


@pytest.mark.parametrize("case", range(6))
def test_any_target_and_any_proposals_under_a_mask(case: int) -> None:
    """Two levels of a tree whose rows run out; of the drawn tokens some are illegal, and some named, too."""
    rng = np.random.default_rng(case)
    tokens = np.arange(1, 9)
    legal = sorted(rng.choice(tokens, 5, replace=False).tolist())
    target = dict(zip([*legal, EOS], rng.dirichlet(np.full(6, 0.7)).tolist(), strict=True))
    chances = dict(zip(tokens.tolist(), rng.dirichlet(np.full(8, 0.7)).tolist(), strict=True))
    points = Points(tuple(rng.choice(tokens, int(rng.integers(0, 3)), replace=False).tolist()))
    rows, width = int(rng.integers(3, 7)), int(rng.integers(1, 4))
    trees = drafts(legal, points, Draws(chances), rows, width)
    firsts: dict[int, int] = {}
    seconds: dict[tuple[bool, int], dict[int, int]] = {}
    for position, draft in zip(range(5_000), trees, strict=False):
        text = written(draft, target, position, 2)
        firsts[text[0]] = firsts.get(text[0], 0) + 1
        if len(text) == 2:
            counts = seconds.setdefault((bool(draft.children[0]), text[0]), {})
            counts[text[1]] = counts.get(text[1], 0) + 1
    square = ChiSquare()
    square.add(firsts, target)
    for counts in seconds.values():
        square.add(counts, target)
    square.check()


def test_a_drawn_childs_fate_does_not_decide_whether_it_was_drafted() -> None:
    """All that is drawn at a node is in the tree: as many children as the rows left room for before the draw."""
    trees = drafts((1, 2, 3), Points(()), Draws({1: 0.9, 2: 0.09, 3: 0.01}), rows=6, width=2)
    for _, draft in zip(range(300), trees, strict=False):
        assert len(draft.tree) == 6
        with_children = [node for node in range(6) if draft.children[node]]
        assert sorted(len(draft.children[node]) for node in with_children) == [1, 2, 2]
        assert set(draft.proposals) == set(with_children)


def test_a_source_that_is_drawn_from_names_nothing_besides() -> None:
    trees = drafts((1, 2, 3), Points((3,)), Draws({1: 0.6, 2: 0.4}), rows=3, width=2)
    for _, draft in zip(range(50), trees, strict=False):
        sources = [draft.tree.sources[child] for child in draft.children[0]]
        assert sources == ["points", "draws"]
        assert draft.children[0][1] in draft.sampled
        assert draft.children[0][0] not in draft.sampled


def test_what_is_drawn_from_is_legal_untried_and_sums_to_1() -> None:
    chances = {1: 0.4, 2: 0.3, 5: 0.2, EOS: 0.1}
    draft = next(drafts((1, 2, 3, EOS), Points((2,)), Draws(chances), rows=4, width=3))
    proposal = draft.proposals[0]
    assert proposal.tokens.tolist() == [1]
    assert proposal.probabilities.tolist() == [1.0]


def test_drawing_is_one_after_the_other_without_replacement() -> None:
    chances = {1: 0.5, 2: 0.3, 3: 0.15, 4: 0.05}
    trees = drafts((1, 2, 3, 4), Points(()), Draws(chances), rows=4, width=3)
    law = {
        (a, b, c): chances[a] * chances[b] / (1 - chances[a]) * chances[c] / (1 - chances[a] - chances[b])
        for a in chances
        for b in chances
        for c in chances
        if len({a, b, c}) == 3
    }
    drawn = (
        tuple(draft.tree.tokens[child] for child in draft.children[0])
        for _, draft in zip(range(8_000), trees, strict=False)
    )
    check_law(drawn, law)
