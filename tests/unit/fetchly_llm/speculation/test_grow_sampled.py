"""Growing a tree for rejection sampling: children drawn all at once, from a normalised legal proposal."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fetchly_llm.speculation.draft import Draft
from fetchly_llm.speculation.source import Candidate
from tests.support.hashed_language import EOS, HashedLanguage, HashedSource, languages, seeds, source_lists
from tests.support.scripted_drafts import ROOT, OpenText, Path, Says, growth, paths, source

many = settings(max_examples=150)
rows_of_a_tree = st.integers(1, 14)


@many
@given(
    language=languages(),
    sources=source_lists(),
    rows=rows_of_a_tree,
    width=st.integers(1, 4),
    seed=seeds,
    branching=st.booleans(),
)
def test_drawn_children_come_last_all_at_once_and_from_a_normalised_legal_proposal(
    language: HashedLanguage, sources: list[HashedSource], rows: int, width: int, seed: int, branching: bool
) -> None:
    before = list(language.accepted)
    drawing = HashedSource("drawn", seed)
    draft = growth(language, sources, branching=branching).grow_sampled(
        ROOT, rows, drawing, width, np.random.default_rng(seed)
    )
    assert language.accepted == before
    tree, short = draft.tree, 0
    assert len(tree) <= rows
    assert not EOS & set(tree.tokens[1:])
    every = paths(draft)
    for node, children in enumerate(draft.children):
        drawn = [child for child in children if child in draft.sampled]
        points = children[: len(children) - len(drawn)]
        assert children == (*points, *drawn)
        assert len({tree.tokens[child] for child in children}) == len(children)
        assert branching or len(children) <= 1
        if node not in draft.proposals:
            assert not drawn
            continue
        proposal = draft.proposals[node]
        at = HashedLanguage(language.seed, language.sight, [*before, *every[node]])
        legal = at.following(at.accepted).legal
        assert draft.forced[node] is None
        assert list(proposal.tokens) == sorted(set(proposal.tokens.tolist()))
        assert set(proposal.tokens.tolist()) <= set(legal) - {tree.tokens[child] for child in points}
        assert proposal.probabilities.sum() == pytest.approx(1.0)
        assert (proposal.probabilities > 0.0).all()
        assert {tree.tokens[child] for child in drawn} <= set(proposal.tokens.tolist())
        assert 1 <= len(drawn) <= min(width, len(proposal.tokens))
        short += branching and len(drawn) < min(width, len(proposal.tokens))
    # Only the budget cuts, and so only the last node that is given children.
    assert short == 0 or (short == 1 and len(tree) == rows)
    assert all((tree.sources[node] == "drawn") == (node in draft.sampled) for node in range(len(tree)))


@many
@given(language=languages(), sources=source_lists(), rows=rows_of_a_tree, width=st.integers(1, 4), seed=seeds)
def test_what_is_drawn_does_not_decide_how_many_are_drawn_there(
    language: HashedLanguage, sources: list[HashedSource], rows: int, width: int, seed: int
) -> None:
    """Under the root, which is given its children first: as many, from the same proposal, whatever the noise."""

    def grown(noise: int) -> Draft:
        rng = np.random.default_rng(noise)
        return growth(language, sources).grow_sampled(ROOT, rows, HashedSource("drawn", seed), width, rng)

    drafts = [grown(noise) for noise in range(6)]
    roots = {
        (len(draft.children[0]), tuple(draft.proposals[0].probabilities) if 0 in draft.proposals else ())
        for draft in drafts
    }
    assert len(roots) == 1


def test_the_likeliest_node_is_given_children_next() -> None:
    says = source(_1=0.7, _2=0.2)
    drawing = Says("drawn", {(1,): [Candidate(3, 1.0)], (2,): [Candidate(4, 1.0)], (1, 3): [Candidate(5, 1.0)]})

    def drawn(rows: int) -> list[Path]:
        rng = np.random.default_rng(1)
        return sorted(paths(growth(OpenText(), [says]).grow_sampled(ROOT, rows, drawing, 2, rng)))

    assert drawn(4) == [(), (1,), (1, 3), (2,)]
    assert drawn(5) == [(), (1,), (1, 3), (1, 3, 5), (2,)]
    assert drawn(6) == [(), (1,), (1, 3), (1, 3, 5), (2,), (2, 4)]


def test_draws_follow_the_proposal() -> None:
    drawing = Says("drawn", {(): [Candidate(1, 0.5), Candidate(2, 0.25), Candidate(3, 0.25), Candidate(10, 0.9)]})
    rng = np.random.default_rng(5)
    counts = {1: 0, 2: 0, 3: 0}
    for _ in range(2000):
        draft = growth(OpenText(), []).grow_sampled(ROOT, 2, drawing, 2, rng)
        counts[draft.tree.tokens[1]] += 1
        assert draft.probabilities[1] == {1: 0.5, 2: 0.25, 3: 0.25}[draft.tree.tokens[1]]
    assert counts[1] == pytest.approx(1000, abs=90)  # four standard deviations
    assert counts[2] == pytest.approx(500, abs=80)


def test_a_source_that_is_drawn_from_names_no_points_besides() -> None:
    drawing = Says("drawn", {(): [Candidate(1, 0.5), Candidate(2, 0.5)]})
    draft = growth(OpenText(), [drawing]).grow_sampled(ROOT, 3, drawing, 2, np.random.default_rng(1))
    assert sorted(draft.tree.tokens[1:]) == [1, 2]
    assert draft.sampled == {1, 2}
