"""The walk through a draft: it emits what the target draws, whatever was drafted, and stops where the text ends."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fetchly_llm.metrics import PLAIN
from fetchly_llm.speculation.calibration import Calibration
from fetchly_llm.speculation.draft import Draft
from fetchly_llm.speculation.grow import Growth
from fetchly_llm.speculation.verify import Choose, verify
from fetchly_llm.tree import DraftTree
from tests.support.hashed_language import EOS as HASHED_EOS
from tests.support.hashed_language import HashedLanguage, HashedSource

EOS = frozenset({98, 99})
many = settings(max_examples=200)
seeds = st.integers(0, 2**32)


@dataclass(slots=True)
class CountingMatcher:
    """Takes any text of `limit` tokens; tokens that must come are `forced`, from the text's beginning on."""

    limit: int = 1000
    forced: tuple[int, ...] = ()
    accepted: list[int] = field(default_factory=list)

    @property
    def is_terminated(self) -> bool:
        return len(self.accepted) >= self.limit

    def forced_tokens(self) -> tuple[int, ...]:
        return self.forced[len(self.accepted) :]

    def is_legal(self, token: int) -> bool:
        return True

    def accept(self, token: int) -> None:
        assert not self.is_terminated, "nothing follows the end"
        assert token not in EOS, "an end of sequence is no text"
        self.accepted.append(token)

    def rollback(self, count: int) -> None:
        del self.accepted[len(self.accepted) - count :]


def draft(tokens: Sequence[int], parents: Sequence[int] = (), forced: Sequence[int | None] = ()) -> Draft:
    """A chain, or the tree with `parents`; nothing in it is forced, or what `forced` says."""
    count = len(tokens)
    tree = DraftTree(tuple(tokens), tuple(parents or range(-1, count - 1)), (PLAIN, *["lookup"] * (count - 1)))
    return Draft(
        tree=tree,
        probabilities=(1.0,) * count,
        forced=tuple(forced or [None] * count),
        ends=(False,) * count,
        candidates=(None,) * count,
        children=tuple(tree.children(node) for node in range(count)),
    )


def target(answer: Sequence[int]) -> Choose:
    return lambda node, depth: answer[depth]


def unasked(node: int, depth: int) -> int:
    raise AssertionError("the grammar knows the token")


def grown(matcher: CountingMatcher, rows: int) -> Draft:
    return Growth(matcher, (), Calibration(), EOS, forced=True).grow(7, rows)


def test_the_walk_descends_through_non_first_children_and_ends_with_the_bonus_token() -> None:
    bushy = draft((7, 1, 2, 3, 4, 5), (-1, 0, 0, 1, 2, 2))
    matcher = CountingMatcher()
    asked: list[tuple[int, int]] = []

    def choose(node: int, depth: int) -> int:
        asked.append((node, depth))
        return (2, 5, 8)[depth]

    step = verify(bushy, matcher, choose, EOS)
    assert asked == [(0, 0), (2, 1), (5, 2)]
    assert step.path.nodes == (0, 2, 5)
    assert step.path.acceptance_length == 3
    assert step.tokens == (2, 5, 8)
    assert step.sources == ("lookup", "lookup", PLAIN)
    assert step.path.bonus_token == 8
    assert matcher.accepted == [2, 5, 8]
    assert not step.stopped


@pytest.mark.parametrize("tokens", [(7,), (7, 2), (7, 2, 5), (7, 3, 4), (7, 2, 99), (7, 2, 5, 8, 1, 1)])
def test_what_is_emitted_never_depends_on_the_draft(tokens: tuple[int, ...]) -> None:
    answer = [2, 5, 8, 1]
    emitted: list[int] = []
    while len(emitted) < 4:
        step = verify(draft(tokens), CountingMatcher(), target([*answer[len(emitted) :], *[0] * 9]), EOS)
        emitted.extend(step.tokens)
        assert len(step.tokens) == len(step.sources) == len(step.path.nodes)
    assert emitted[:4] == answer


@pytest.mark.parametrize("end", sorted(EOS))
@pytest.mark.parametrize("tokens", [(7,), (7, 2), (7, 2, 98), (7, 2, 99), (7, 2, 3, 4)])
def test_an_end_of_sequence_stops_and_is_not_output_even_when_drafted(tokens: tuple[int, ...], end: int) -> None:
    matcher = CountingMatcher()
    first = verify(draft(tokens), matcher, target([2, end]), EOS)
    if len(tokens) == 1:  # the bonus token comes first
        assert (first.tokens, first.stopped) == ((2,), False)
        first = verify(draft((2,)), matcher, target([end]), EOS)
        assert (first.tokens, first.path.nodes) == ((), (0,))
    else:
        assert (first.tokens, first.path.nodes) == ((2,), (0, 1))
    assert first.stopped
    assert first.path.bonus_token == end
    assert matcher.accepted == [2]


def test_a_terminated_grammar_stops_the_walk_inside_the_tree_and_nothing_is_asked_of_it() -> None:
    matcher = CountingMatcher(limit=2)
    step = verify(draft((7, 1, 2, 3)), matcher, target([1, 2]), EOS)
    assert step.tokens == (1, 2)
    assert step.sources == ("lookup", "lookup")
    assert step.stopped
    assert step.path.nodes == (0, 1)
    assert step.path.bonus_token == 2


def test_a_bonus_token_can_end_the_text() -> None:
    step = verify(draft((7, 1)), CountingMatcher(limit=2), target([1, 2]), EOS)
    assert (step.tokens, step.sources, step.stopped) == ((1, 2), ("lookup", PLAIN), True)


def test_forced_tokens_need_no_logits_and_the_token_after_a_cut_run_is_known() -> None:
    matcher = CountingMatcher(forced=(1, 2, 3, 4))
    chain = grown(matcher, rows=3)
    assert chain.tree.tokens == (7, 1, 2)
    assert chain.needed_rows == ()
    step = verify(chain, matcher, unasked, EOS)
    assert step.tokens == (1, 2, 3)
    assert step.sources == ("forced", "forced", PLAIN)
    assert matcher.accepted == [1, 2, 3]


def test_the_end_of_a_forced_run_needs_its_logits() -> None:
    assert grown(CountingMatcher(forced=(1, 2)), rows=8).needed_rows == (2,)
    assert grown(CountingMatcher(), rows=8).needed_rows == (0,)
    assert grown(CountingMatcher(forced=(1, 2)), rows=1).needed_rows == ()
    assert grown(CountingMatcher(forced=(1, 2), limit=2), rows=8).needed_rows == ()


def test_a_forced_token_is_taken_though_others_were_drafted() -> None:
    wrong = draft((7, 5, 6), (-1, 0, 0), (4, None, None))
    step = verify(wrong, CountingMatcher(), unasked, EOS)
    assert (step.tokens, step.sources, step.path.nodes) == ((4,), (PLAIN,), (0,))
    right = draft((7, 5, 4), (-1, 0, 0), (4, None, None))
    step = verify(right, CountingMatcher(), target([9, 9]), EOS)
    assert (step.tokens, step.sources, step.path.nodes) == ((4, 9), ("lookup", PLAIN), (0, 2))


@dataclass(frozen=True, slots=True)
class HashedTarget:
    """Draws what follows a text of a hashed language: an end of sequence now and then, where one may come."""

    language: HashedLanguage
    seed: int

    def __call__(self) -> int:
        text = self.language.accepted
        following = self.language.following(text)
        lot = random.Random(f"target {self.seed} {text}")
        return lot.choice([*following.legal, *(sorted(HASHED_EOS) if following.ends else ())])


def plainly(language: HashedLanguage, seed: int) -> list[int]:
    """The text that is written token by token."""
    choose = HashedTarget(language, seed)
    while not language.is_terminated:
        token = choose()
        if token in HASHED_EOS:
            break
        language.accept(token)
    return language.accepted


@many
@given(
    seed=seeds,
    sight=st.integers(1, 4),
    rows=st.integers(1, 12),
    count=st.integers(0, 3),
    options=st.tuples(*[st.booleans()] * 3),
)
def test_step_by_step_any_drafts_write_the_plain_text(
    seed: int, sight: int, rows: int, count: int, options: tuple[bool, bool, bool]
) -> None:
    forced, branching, drawn = options
    language = HashedLanguage(seed, sight)
    sources = [HashedSource(name, seed) for name in ("lookup", "streams", "other")[:count]]
    choose = HashedTarget(language, seed)
    calibration, rng = Calibration(), np.random.default_rng(seed)
    written: list[int] = []
    last, stopped = 77, False
    while not stopped:
        growing = Growth(language, sources, calibration, HASHED_EOS, forced=forced, branching=branching)
        if drawn:
            made = growing.grow_sampled(last, rows, HashedSource("drawn", seed), 2, rng)
        else:
            made = growing.grow(last, rows)
        assert language.accepted == written
        asked: list[int] = []

        def target_of(node: int, depth: int, asked: list[int] = asked) -> int:
            asked.append(node)
            return choose()

        step = verify(made, language, target_of, HASHED_EOS)
        assert set(asked) <= set(made.needed_rows)
        assert step.path.nodes == made.tree.path(step.path.nodes[-1])
        assert len(step.tokens) <= len(step.path.nodes) <= len(made.tree)
        written.extend(step.tokens)
        assert language.accepted == written
        for each in sources:
            each.extend(step.tokens)
        last, stopped = step.path.bonus_token, step.stopped
    assert written == plainly(HashedLanguage(seed, sight), seed)
