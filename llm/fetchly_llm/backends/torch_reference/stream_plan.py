"""The nodes that streams start from in; the streams' positions and the slots of the keys that they see out.

All anchors see the whole blocks of committed positions; the rest of each anchor's path, up to the anchor itself, is a
tail that is gathered from the cache. Before a commit the tail's end lies in tree slots, after it in its final place.
No tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fetchly_llm.backends.torch_reference.tree_plan import BLOCK
from fetchly_llm.tree import DraftTree


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """Where the streams of A anchors stand and what they see of the main stream.

    `positions` has shape (A, gamma): stream j of an anchor at position p stands at p + j. `blocks` is the number of
    whole blocks of the cache that every stream sees; `tail_slots` and `tail_hidden` have shape (A, T), entry (a, i)
    about the key of position BLOCK * blocks + i on the path of anchor a. A hidden entry repeats the anchor's own slot.
    """

    positions: NDArray[np.int64]
    blocks: int
    tail_slots: NDArray[np.int64]
    tail_hidden: NDArray[np.bool_]


def plan_streams(tree: DraftTree, nodes: Sequence[int], base: int, length: int, gamma: int) -> StreamPlan:
    """Lay out `gamma` streams from each of `nodes` of `tree`, whose root stands at position `base`.

    `length` tokens are committed: `base` of them before the tree's commit, and base + len(path) after it, when the last
    node of that path is the one that can be an anchor. Positions below `length` then lie in the slots of their number.
    """
    paths = [tree.path(node) for node in nodes]
    ends = np.array([base + len(path) for path in paths], dtype=np.int64)  # one after the anchor's position
    blocks = length // BLOCK
    first = BLOCK * blocks
    tail = int(ends.max()) - first
    slots = np.empty((len(paths), tail), dtype=np.int64)
    for row, (path, end) in enumerate(zip(paths, ends.tolist(), strict=True)):
        own = [spot if spot < length else base + path[spot - base] for spot in range(first, end)]
        slots[row] = own + own[-1:] * (tail - len(own))
    hidden = first + np.arange(tail, dtype=np.int64) >= ends[:, None]
    ahead = np.arange(1, gamma + 1, dtype=np.int64)
    return StreamPlan(ends[:, None] - 1 + ahead, blocks, slots, hidden)
