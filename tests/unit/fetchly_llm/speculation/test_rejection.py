"""Every decision of rejection sampling, with the uniform numbers written down."""

from collections.abc import Iterable, Mapping

import numpy as np
import pytest

from fetchly_llm.speculation.draft import Draft, Proposal
from fetchly_llm.speculation.rejection import choose_by_rejection
from fetchly_llm.tree import DraftTree

ROOT = 7


class Uniform:
    """A generator that answers what it is told to, and nothing more."""

    def __init__(self, *numbers: float) -> None:
        self._numbers = list(numbers)

    def random(self) -> float:
        return self._numbers.pop(0)

    @property
    def left(self) -> int:
        return len(self._numbers)


def draft(tokens: Iterable[int], proposal: Mapping[int, float] | None = None, drawn: int = 0) -> Draft:
    """The root with children `tokens`, the last `drawn` of which were drawn from `proposal`."""
    tokens = (ROOT, *tokens)
    count = len(tokens)
    proposals = {}
    if proposal is not None:
        proposals[0] = Proposal(np.array(list(proposal), dtype=np.int64), np.array(list(proposal.values())))
    return Draft(
        tree=DraftTree(tokens, (-1,) + (0,) * (count - 1), ("plain",) * count),
        probabilities=(1.0,) * count,
        forced=(None,) * count,
        ends=(False,) * count,
        candidates=(None,) * count,
        children=(tuple(range(1, count)), *((),) * (count - 1)),
        proposals=proposals,
        sampled=frozenset(range(count - drawn, count)),
    )


def choose(of: Draft, target: Mapping[int, float], *numbers: float) -> int:
    """The token, all of `numbers` being used up."""
    uniform = Uniform(*numbers)
    tokens = np.array(list(target), dtype=np.int64)
    chosen = choose_by_rejection(of, 0, tokens, np.array(list(target.values())), uniform)  # type: ignore[arg-type]
    assert uniform.left == 0
    return chosen


TARGET = {1: 0.1, 2: 0.6, 3: 0.3}


def test_without_children_the_token_is_the_one_that_the_number_falls_on() -> None:
    drawn = [choose(draft(()), TARGET, number) for number in (0.0, 0.099, 0.11, 0.69, 0.71, 1.0 - 2**-53)]
    assert drawn == [1, 1, 2, 2, 3, 3]


def test_a_point_is_taken_with_the_targets_probability_and_else_left_out() -> None:
    assert choose(draft([2]), TARGET, 0.599) == 2
    # What is left is 1/4 to 3/4 over the tokens 1 and 3.
    assert choose(draft([2]), TARGET, 0.601, 0.24) == 1
    assert choose(draft([2]), TARGET, 0.601, 0.26) == 3
    assert choose(draft([2]), TARGET, 0.601, 0.999) == 3


def test_the_next_point_is_tried_against_what_is_left() -> None:
    assert choose(draft([2, 3]), TARGET, 0.7, 0.749) == 3
    assert choose(draft([2, 3]), TARGET, 0.7, 0.751, 0.5) == 1
    assert choose(draft([2, 3, 1]), TARGET, 0.7, 0.751, 0.999) == 1


def test_a_drawn_token_is_taken_with_p_over_q() -> None:
    proposal = {1: 0.4, 2: 0.3, 3: 0.3}
    assert choose(draft([1], proposal, 1), TARGET, 0.249) == 1
    assert choose(draft([2], proposal, 1), TARGET, 0.999) == 2  # p > q: always
    # Refused, 1 is out of the question, as is 3: all that the target has above the proposal is at 2.
    for number in (0.0, 0.5, 0.999):
        assert choose(draft([1], proposal, 1), TARGET, 0.251, number) == 2


def test_the_second_draw_is_from_what_the_proposal_has_left() -> None:
    proposal = {1: 0.8, 2: 0.1, 3: 0.1}
    # After 1 is refused: the target has 5/7 at 2 and 2/7 at 3, the proposal a half at each.
    assert choose(draft([1, 3], proposal, 2), TARGET, 0.2, 2 / 7 / 0.5 - 0.001) == 3
    assert choose(draft([1, 3], proposal, 2), TARGET, 0.2, 2 / 7 / 0.5 + 0.001, 0.0) == 2
    assert choose(draft([1, 2], proposal, 2), TARGET, 0.2, 0.999) == 2


def test_points_come_before_what_is_drawn() -> None:
    proposal = {1: 0.5, 3: 0.5}
    # After 2 is refused the target is 1/4 at 1, 3/4 at 3.
    assert choose(draft([2, 1], proposal, 1), TARGET, 0.61, 0.499) == 1
    assert choose(draft([2, 1], proposal, 1), TARGET, 0.61, 0.501, 0.9) == 3


def test_a_refused_token_never_comes_back() -> None:
    rng = np.random.default_rng(4)
    for _ in range(500):
        shares = rng.dirichlet(np.ones(5))
        target = dict(zip(range(10, 15), shares.tolist(), strict=True))
        proposal = dict(zip(range(10, 15), rng.dirichlet(np.ones(5)).tolist(), strict=True))
        tokens = rng.permutation(np.arange(10, 15))[:2].tolist()
        refusing = draft(tokens, proposal, 2)
        refused = {
            token for place, token in enumerate(tokens) if place == 0 and target[token] < 0.999999 * proposal[token]
        }
        if refused:
            chosen = choose_by_rejection(
                refusing,
                0,
                np.arange(10, 15),
                shares,
                _First(0.9999999, rng),  # type: ignore[arg-type]
            )
            assert chosen not in refused


class _First:
    """One number that is given, then those of a generator."""

    def __init__(self, number: float, rng: np.random.Generator) -> None:
        self._numbers = [number]
        self._rng = rng

    def random(self) -> float:
        return self._numbers.pop() if self._numbers else float(self._rng.random())


def test_a_target_of_probability_zero_is_never_drawn() -> None:
    target = {1: 0.0, 2: 0.5, 3: 0.0, 4: 0.5, 5: 0.0}
    drawn = {choose(draft(()), target, number) for number in (0.0, 0.4999, 0.5, 0.75, 1.0 - 2**-53)}
    assert drawn == {2, 4}
    assert choose(draft([3]), target, 0.0, 0.0) == 2  # even a number of 0 is not below a probability of 0


def test_a_proposal_equal_to_the_target_is_always_taken() -> None:
    for token in TARGET:
        assert choose(draft([token], TARGET, 1), TARGET, 1.0 - 2**-53) == token


def test_a_certain_target_takes_its_token_and_no_other() -> None:
    target = {1: 0.0, 2: 1.0}
    assert choose(draft([2]), target, 1.0 - 2**-53) == 2
    assert choose(draft([1, 2]), target, 0.0, 0.999) == 2
    assert choose(draft([1, 2], {1: 0.7, 2: 0.3}, 2), target, 0.5, 0.999) == 2


@pytest.mark.parametrize("proposal", [{0: 1.0}, {2: 0.5, 9: 0.5}])
def test_a_proposal_outside_the_mask_is_our_bug(proposal: dict[int, float]) -> None:
    with pytest.raises((AssertionError, IndexError)):
        choose(draft([2], proposal, 1), TARGET, 0.5, 0.5)
