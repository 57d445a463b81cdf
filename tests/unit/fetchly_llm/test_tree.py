import numpy as np
import pytest

from fetchly_llm.tree import AcceptedPath, DraftTree

BUSHY = DraftTree(tokens=(7, 1, 2, 3, 4, 5), parents=(-1, 0, 0, 1, 1, 2), sources=("plain",) + ("lookup",) * 5)


def test_depths_children_and_paths_follow_the_parents() -> None:
    assert BUSHY.depths == (0, 1, 1, 2, 2, 2)
    assert BUSHY.children(1) == (3, 4)
    assert BUSHY.path(5) == (0, 2, 5)


def test_ancestor_bits_include_the_node_itself_and_cross_the_word_boundary() -> None:
    assert [int(row[0]) for row in BUSHY.ancestors] == [0b1, 0b11, 0b101, 0b1011, 0b10011, 0b100101]
    chain = DraftTree.chain(range(70), "forced")
    assert chain.ancestors.shape == (70, 2)
    assert int(chain.ancestors[69, 0]) == 2**64 - 1
    assert int(chain.ancestors[69, 1]) == 0b111111


def test_the_root_alone_is_plain_decoding() -> None:
    assert len(DraftTree.root(3)) == 1
    assert DraftTree.root(3) == DraftTree.chain([3], "forced")


@pytest.mark.parametrize(
    ("tokens", "parents"), [((), ()), ((1, 2), (-1, 1)), ((1, 2), (0, 0)), ((1, 2), (-1, -1)), ((1,), (-1, 0))]
)
def test_malformed_trees_are_our_bug(tokens: tuple[int, ...], parents: tuple[int, ...]) -> None:
    with pytest.raises(AssertionError):
        DraftTree(tokens, parents, ("plain",) * len(tokens))


def test_acceptance_length_counts_the_bonus_token() -> None:
    assert AcceptedPath(nodes=(0,), bonus_token=4).acceptance_length == 1
    assert AcceptedPath(nodes=(0, 2, 5), bonus_token=4).acceptance_length == 3
    assert BUSHY.ancestors.dtype == np.uint64
