from dataclasses import dataclass, field

import pytest

from fetchly_llm.speculation.grow import grow
from fetchly_llm.speculation.verify import needed_rows, verify
from fetchly_llm.tree import DraftTree

EOS = frozenset({99})


@dataclass
class CountingMatcher:
    """Terminates after `limit` tokens."""

    limit: int = 1000
    accepted: list[int] = field(default_factory=list)

    @property
    def is_terminated(self) -> bool:
        return len(self.accepted) >= self.limit

    def accept(self, token: int) -> None:
        self.accepted.append(token)


def tree(tokens: tuple[int, ...], parents: tuple[int, ...]) -> DraftTree:
    return DraftTree(tokens, parents, ("plain",) + ("lookup",) * (len(tokens) - 1))


def target(answer: list[int]):  # type: ignore[no-untyped-def]
    return lambda node, depth: answer[depth]


def test_the_walk_descends_through_non_first_children_and_ends_with_the_bonus_token() -> None:
    bushy = tree((7, 1, 2, 3, 4, 5), (-1, 0, 0, 1, 2, 2))
    matcher = CountingMatcher()
    step = verify(bushy, (), matcher, target([2, 5, 8]), EOS)
    assert step.path.nodes == (0, 2, 5)
    assert step.tokens == (2, 5, 8)
    assert step.sources == ("lookup", "lookup", "plain")
    assert step.path.bonus_token == 8
    assert matcher.accepted == [2, 5, 8]
    assert not step.stopped


@pytest.mark.parametrize("tokens", [(7,), (7, 2), (7, 2, 5), (7, 3, 4), (7, 2, 99)])
def test_what_is_emitted_never_depends_on_the_draft(tokens: tuple[int, ...]) -> None:
    answer = [2, 5, 8, 1]
    emitted: list[int] = []
    while len(emitted) < 4:
        chain = DraftTree.chain(tokens, "lookup")
        step = verify(chain, (), CountingMatcher(), target([*answer[len(emitted) :], 0, 0, 0, 0]), EOS)
        emitted.extend(step.tokens)
    assert emitted[:4] == answer


def test_an_end_of_sequence_stops_and_is_not_output_even_when_drafted() -> None:
    chain = DraftTree.chain((7, 2, 99), "lookup")
    step = verify(chain, (), CountingMatcher(), target([2, 99]), EOS)
    assert step.tokens == (2,)
    assert step.stopped


def test_a_terminated_grammar_stops_the_walk_inside_the_tree() -> None:
    chain = DraftTree.chain((7, 1, 2, 3), "forced")
    step = verify(chain, (), CountingMatcher(limit=2), target([1, 2, 3]), EOS)
    assert step.tokens == (1, 2)
    assert step.stopped
    assert step.path.nodes == (0, 1)


def test_forced_tokens_need_no_logits_and_the_token_after_a_cut_run_is_known() -> None:
    forced = (1, 2, 3, 4)
    chain = grow(7, forced, rows=3)
    assert chain.tokens == (7, 1, 2)
    assert needed_rows(chain, forced) == ()

    def draw(node: int, depth: int) -> int:
        raise AssertionError("the grammar knows the token")

    step = verify(chain, forced, CountingMatcher(), draw, EOS)
    assert step.tokens == (1, 2, 3)
    assert step.sources == ("forced", "forced", "plain")


def test_the_end_of_a_forced_run_needs_its_logits() -> None:
    chain = grow(7, (1, 2), rows=8)
    assert needed_rows(chain, (1, 2)) == (2,)
    assert needed_rows(DraftTree.root(7), ()) == (0,)
    assert needed_rows(DraftTree.root(7), (1, 2)) == ()


def test_one_row_is_plain_decoding() -> None:
    assert grow(7, (1, 2, 3), rows=1) == DraftTree.root(7)
