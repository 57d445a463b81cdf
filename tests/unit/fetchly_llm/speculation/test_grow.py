"""Growing a tree: the likeliest legal paths within the budget, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fetchly_llm.cost_curve import CostCurve
from fetchly_llm.metrics import PLAIN
from fetchly_llm.speculation.grow import FORCED
from fetchly_llm.speculation.source import Candidate
from tests.support.hashed_language import EOS, HashedLanguage, HashedSource, languages, source_lists
from tests.support.scripted_drafts import ROOT, OpenText, Path, Says, growth, paths, source

LEAST = 0.02  # with a cost curve, of a path that is worth a row
many = settings(max_examples=150)
rows_of_a_tree = st.integers(1, 14)


@dataclass(slots=True)
class Possible:
    """Every node that there could be, by another hand."""

    language: HashedLanguage
    sources: Sequence[HashedSource]
    follows_forced: bool = True
    branching: bool = True
    found: dict[Path, float] = field(default_factory=dict)

    def walk(self, path: Path = (), probability: float = 1.0) -> dict[Path, float]:
        """Paths with their probabilities."""
        self.found[path] = probability
        at = HashedLanguage(self.language.seed, self.language.sight, [*self.language.accepted, *path])
        following = at.following(at.accepted)
        forced = len(following.legal) == 1 and not following.ends
        if forced and self.follows_forced:
            self.walk((*path, *following.legal), probability)
            return self.found
        chances: dict[int, float] = {}
        for each in self.sources:
            for candidate in each.propose(path):
                if candidate.token in following.legal:
                    chance = min(candidate.probability, 0.999)
                    chances[candidate.token] = max(chance, chances.get(candidate.token, 0.0))
        if not self.branching:
            best = max(chances.values(), default=0.0)
            chances = dict([(token, chance) for token, chance in chances.items() if chance == best][:1])
        whole = max(1.0, sum(sorted(chances.values(), reverse=True)))
        for token, chance in chances.items():
            self.walk((*path, token), probability * chance / whole)
        return self.found


@many
@given(language=languages(), sources=source_lists(), rows=rows_of_a_tree, forced=st.booleans())
def test_a_tree_has_the_likeliest_paths_that_are_legal(
    language: HashedLanguage, sources: list[HashedSource], rows: int, forced: bool
) -> None:
    before = list(language.accepted)
    draft = growth(language, sources, forced=forced).grow(ROOT, rows)
    assert language.accepted == before  # the matcher is back
    possible = Possible(language, sources, forced).walk()
    grown = dict(zip(paths(draft), draft.probabilities, strict=True))
    assert len(grown) == len(draft.tree) == min(rows, len(possible))
    assert grown == pytest.approx({path: possible[path] for path in grown}, abs=1e-12)  # legal, all of them
    likeliest = sorted(possible.values(), reverse=True)[: len(grown)]
    assert sorted(grown.values(), reverse=True) == pytest.approx(likeliest, abs=1e-12)
    assert not EOS & set(draft.tree.tokens[1:])
    assert draft.tree.tokens[0] == ROOT


@many
@given(language=languages(), sources=source_lists(), rows=rows_of_a_tree, forced=st.booleans())
def test_a_draft_knows_what_the_grammar_says_after_each_node(
    language: HashedLanguage, sources: list[HashedSource], rows: int, forced: bool
) -> None:
    draft = growth(language, sources, forced=forced).grow(ROOT, rows)
    for node, path in enumerate(paths(draft)):
        fresh = HashedLanguage(language.seed, language.sight, [*language.accepted, *path])
        assert draft.ends[node] == fresh.is_terminated
        assert draft.forced[node] == (fresh.forced_tokens()[0] if fresh.forced_tokens() else None)
        assert (node in draft.needed_rows) == (not fresh.is_terminated and not fresh.forced_tokens())
        if draft.forced[node] is not None and forced:
            for child in draft.children[node]:
                assert draft.children[node] == (child,)
                assert draft.tree.sources[child] == FORCED
                assert draft.tree.tokens[child] == draft.forced[node]
                assert draft.probabilities[child] == draft.probabilities[node]
                assert draft.candidates[child] is None
        if not forced:
            assert draft.tree.sources[node] != FORCED


@many
@given(language=languages(), sources=source_lists(), rows=rows_of_a_tree)
def test_siblings_share_what_their_parent_has_and_nodes_are_numbered_the_likeliest_first(
    language: HashedLanguage, sources: list[HashedSource], rows: int
) -> None:
    draft = growth(language, sources).grow(ROOT, rows)
    tree = draft.tree
    for node, children in enumerate(draft.children):
        assert sorted(children) == list(tree.children(node))
        assert len({tree.tokens[child] for child in children}) == len(children)
        assert sum(draft.probabilities[child] for child in children) <= draft.probabilities[node] + 1e-12
        in_order = [draft.probabilities[child] for child in tree.children(node)]
        assert in_order == sorted(in_order, reverse=True)
        if children:
            assert min(children) == node + 1  # depth first
    node = 0
    while draft.children[node]:  # the likeliest chain lies where its rows belong
        node = max(draft.children[node], key=lambda child: (draft.probabilities[child], -child))
        assert tree.path(node) == tuple(range(node + 1))


@many
@given(language=languages(), sources=source_lists(), rows=rows_of_a_tree)
def test_without_branching_a_tree_is_the_chain_of_the_likeliest(
    language: HashedLanguage, sources: list[HashedSource], rows: int
) -> None:
    draft = growth(language, sources, branching=False).grow(ROOT, rows)
    assert draft.tree.parents == tuple(range(-1, len(draft.tree) - 1))
    possible = Possible(language, sources, branching=False).walk()
    # Where two are equally likely the first proposed comes first, here as there.
    assert paths(draft) == sorted(possible, key=len)[:rows]


@many
@given(language=languages(), sources=source_lists(), rows=rows_of_a_tree, count=st.integers(0, 5))
def test_likely_stops_are_those_of_a_search(
    language: HashedLanguage, sources: list[HashedSource], rows: int, count: int
) -> None:
    draft = growth(language, sources).grow(ROOT, rows)
    chances = {}
    for node, probability in enumerate(draft.probabilities):
        taken = sum(draft.probabilities[child] for child in range(len(draft.tree)) if draft.tree.parents[child] == node)
        if draft.forced[node] is None and not draft.ends[node]:
            chances[node] = probability - taken
    found = draft.likely_stops(count)
    assert len(set(found)) == len(found) == min(count, len(chances))
    likeliest = sorted(chances.values(), reverse=True)[: len(found)]
    assert [chances[node] for node in found] == pytest.approx(likeliest, abs=1e-12)


@many
@given(
    language=languages(),
    sources=source_lists(),
    rows=rows_of_a_tree,
    steps=st.lists(st.floats(0.0, 1.0), min_size=14, max_size=14),
)
def test_with_a_cost_curve_only_the_rows_that_pay_are_kept(
    language: HashedLanguage, sources: list[HashedSource], rows: int, steps: list[float]
) -> None:
    curve = CostCurve(tuple(range(1, 15)), tuple(1.0 + float(cost) for cost in np.cumsum(steps)))
    draft = growth(language, sources).grow(ROOT, rows, curve)
    possible = Possible(language, sources).walk()
    whole = [chance for chance in sorted(possible.values(), reverse=True) if chance >= LEAST][:rows]
    rates = [sum(whole[:count]) / curve.cost(count) for count in range(1, len(whole) + 1)]
    assert sorted(draft.probabilities, reverse=True) == pytest.approx(whole[: len(draft.tree)], abs=1e-12)
    assert rates[len(draft.tree) - 1] == pytest.approx(max(rates), rel=1e-9)
    assert all(child < len(draft.tree) for children in draft.children for child in children)


def test_a_token_proposed_twice_is_one_node_and_the_likelier_estimate_stands() -> None:
    first = Says("lookup", {(): [Candidate(3, 0.3, 1), Candidate(4, 0.2, 1)]})
    second = Says("streams", {(): [Candidate(3, 0.1, 2), Candidate(3, 0.6, 3), Candidate(3, 0.5, 4)]})
    for sources in ([first, second], [second, first]):
        draft = growth(OpenText(), sources).grow(ROOT, 8)
        assert draft.tree.tokens == (ROOT, 3, 4)
        assert draft.tree.sources == (PLAIN, "streams", "lookup")
        assert draft.candidates == (None, Candidate(3, 0.6, 3), Candidate(4, 0.2, 1))
        assert draft.probabilities == (1.0, 0.6, 0.2)


def test_a_forced_run_that_the_grammar_tells_piece_by_piece_is_followed_to_its_end() -> None:
    told = {(): (1, 2), (1,): (2,), (1, 2): (3, 4, 5), (1, 2, 3): (4, 5), (1, 2, 3, 4): (5,)}
    draft = growth(OpenText(told), [source(_1_2_3_4_5_6=0.5)]).grow(ROOT, 10)
    assert draft.tree.tokens == (ROOT, 1, 2, 3, 4, 5, 6)
    assert draft.tree.sources == (PLAIN, *[FORCED] * 5, "lookup")
    assert draft.probabilities == (1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.5)
    assert draft.forced == (1, 2, 3, 4, 5, None, None)
    assert draft.needed_rows == (5, 6)


def test_the_token_after_a_run_that_the_budget_cuts_is_known() -> None:
    draft = growth(OpenText({(): (1, 2, 3), (1,): (2, 3), (1, 2): (3,)}), []).grow(ROOT, 3)
    assert draft.tree.tokens == (ROOT, 1, 2)
    assert draft.forced == (1, 2, 3)
    assert draft.needed_rows == ()


def test_a_run_that_ends_the_text_is_its_last_node() -> None:
    ended = OpenText({(): (1, 2), (1,): (2,)}, frozenset({(1, 2)}))
    draft = growth(ended, [source(_1_2_3=1.0)]).grow(ROOT, 8)
    assert draft.tree.tokens == (ROOT, 1, 2)
    assert draft.ends == (False, False, True)
    assert draft.needed_rows == ()
    assert draft.likely_stops(3) == ()


def test_the_likeliest_path_comes_first_wherever_it_branches() -> None:
    """By hand: 0.5, 0.4, 0.5 * 0.9, 0.4 * 0.99, ..."""
    says = source(_1=0.5, _2=0.4, _3=0.1, _1_4=0.9, _2_5=0.99, _1_4_6=0.5, _2_5_7=0.2)
    grown = [set(paths(growth(OpenText(), [says]).grow(ROOT, rows))) for rows in range(1, 9)]
    order = [next(iter(after - before)) for before, after in zip([set(), *grown], grown, strict=False)]
    assert order == [(), (1,), (1, 4), (2,), (2, 5), (1, 4, 6), (3,), (2, 5, 7)]


def test_one_row_is_plain_decoding_and_asks_nobody() -> None:
    class Unasked:
        name = "lookup"

        def extend(self, tokens: Sequence[int]) -> None:
            raise AssertionError

        def propose(self, path: Sequence[int]) -> Sequence[Candidate]:
            raise AssertionError

    draft = growth(OpenText(), [Unasked()]).grow(ROOT, 1)
    assert (draft.tree.tokens, draft.needed_rows) == ((ROOT,), (0,))
