"""A draft tree and the number of committed tokens in; the positions, slots and masks of a fixed-width step out.

Where a key lies and how it is reduced is decided here, from a row's absolute position p and the width W alone:

- the *whole blocks* of row p are the blocks of BLOCK positions that end at or below p - W + 1. A tree is at most W
  deep, so all of them are committed, whether p is reached by plain decoding or at the end of a draft;
- the *tail* of row p is everything from there to p itself: at most BLOCK + W - 1 positions, gathered along the row's
  own ancestors into logical order, in a segment of one fixed length.

So the same position always meets the same keys in the same places of the same shapes, and neither the tree around it
nor the slots of its ancestors can change a bit. No tensors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fetchly_llm.tree import DraftTree

BLOCK = 64
_LANES = 8


def tail_length(width: int) -> int:
    """Keys in every row's tail segment: BLOCK + width - 1, rounded up to whole vectors."""
    return -(-(BLOCK + width - 1) // _LANES) * _LANES


@dataclass(frozen=True, slots=True)
class TreePlan:
    """Where the rows of one step stand and what they see.

    With W rows and T = `tail_length(W)`: `tokens`, `positions`, `slots` and `whole_blocks` have shape (W,),
    `tail_slots` and `tail_hidden` (W, T). `slots[i]` is the cache position that row i's own key is written to;
    `tail_slots[i, j]` the one that holds the key of logical position BLOCK * whole_blocks[i] + j on row i's path, or
    row i's own slot where `tail_hidden[i, j]` says that the position lies beyond the row.
    """

    tokens: NDArray[np.int64]
    positions: NDArray[np.int64]
    slots: NDArray[np.int64]
    whole_blocks: NDArray[np.int64]
    tail_slots: NDArray[np.int64]
    tail_hidden: NDArray[np.bool_]


def plan_tree(tree: DraftTree, committed: int, width: int) -> TreePlan:
    """Lay out `tree` after `committed` tokens in a step of `width` rows.

    Rows beyond the tree repeat the root at its own position; nothing reads them.
    """
    assert len(tree) <= width, "the caller bounds the tree"
    tokens = np.full(width, tree.tokens[0], dtype=np.int64)
    tokens[: len(tree)] = tree.tokens
    depths = np.zeros(width, dtype=np.int64)
    depths[: len(tree)] = tree.depths
    positions = committed + depths
    slots = committed + np.arange(width, dtype=np.int64)
    whole_blocks = np.maximum(positions - width + 1, 0) // BLOCK

    path_slots = _path_slots(tree, slots, depths)
    tail_positions = BLOCK * whole_blocks[:, None] + np.arange(tail_length(width), dtype=np.int64)  # (W, T)
    tail_hidden = tail_positions > positions[:, None]
    on_path = np.take_along_axis(path_slots, np.clip(tail_positions - committed, 0, width - 1), axis=1)
    tail_slots = np.where(tail_positions < committed, tail_positions, on_path)
    tail_slots = np.where(tail_hidden, slots[:, None], tail_slots)
    return TreePlan(tokens, positions, slots, whole_blocks, tail_slots, tail_hidden)


def _path_slots(tree: DraftTree, slots: NDArray[np.int64], depths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Slots of shape (W, W): entry (i, d) is that of row i's ancestor at depth d, of itself from its own depth on."""
    width = len(slots)
    path_slots = np.repeat(slots[:, None], width, axis=1)
    for node in range(1, len(tree)):
        depth = depths[node]
        path_slots[node, :depth] = path_slots[tree.parents[node], :depth]
    return path_slots
