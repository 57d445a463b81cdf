from __future__ import annotations

import numpy as np
import pytest

from fetchly_llm.backends.torch_reference.tree_plan import BLOCK, plan_tree, tail_length
from fetchly_llm.tree import DraftTree

#      0
#    1   2
#    3   4 5
TREE = DraftTree((10, 11, 12, 13, 14, 15), (-1, 0, 0, 1, 2, 2), ("test",) * 6)


@pytest.mark.parametrize("width", [1, 2, 8, 16, 64, 100])
def test_a_tail_holds_all_that_may_be_uncommitted(width: int) -> None:
    for position in range(width - 1, 4 * BLOCK + width):
        start = BLOCK * (max(position - width + 1, 0) // BLOCK)
        assert start <= position - width + 1  # even at the tree's greatest depth the whole blocks are committed
        assert position - start < tail_length(width)


@pytest.mark.parametrize("committed", [0, 3, 62, 63, 64, 66, 70, 71, 130])
def test_tails_follow_each_row_s_own_ancestors(committed: int) -> None:
    plan = plan_tree(TREE, committed, 8)
    for row, tokens in enumerate(plan.tokens[: len(TREE)]):
        assert tokens == TREE.tokens[row]
        path = TREE.path(row)
        assert plan.positions[row] == committed + len(path) - 1
        logical = [*range(committed), *(committed + node for node in path)]  # slot of every visible position
        start = BLOCK * plan.whole_blocks[row]
        seen = plan.tail_slots[row][~plan.tail_hidden[row]]
        assert seen.tolist() == logical[start:]
        assert set(plan.tail_slots[row][plan.tail_hidden[row]]) <= {committed + row}


def test_padding_rows_stand_on_their_own_slots() -> None:
    plan = plan_tree(TREE, 100, 8)
    assert plan.slots.tolist() == list(range(100, 108))
    assert plan.tokens[6:].tolist() == [10, 10]
    assert plan.positions[6:].tolist() == [100, 100]
    for row in (6, 7):
        own = 100 + row
        seen = plan.tail_slots[row][~plan.tail_hidden[row]]
        assert seen.tolist() == [*range(BLOCK, 100), own]


def test_the_layout_of_a_position_does_not_depend_on_its_depth() -> None:
    deep = plan_tree(DraftTree.chain(range(8), "test"), 123, 8)
    for row in range(8):
        plain = plan_tree(DraftTree.root(row), 123 + row, 8)
        assert plain.whole_blocks[0] == deep.whole_blocks[row]
        assert np.array_equal(plain.tail_hidden[0], deep.tail_hidden[row])
