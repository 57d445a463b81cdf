"""Candidate tokens with their parents in; a draft tree with depths and ancestor bits out. No tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class DraftTree:
    """A prefix tree of candidate tokens, in topological order.

    Node 0 is the last committed token, whose keys and values are not yet written; its parent is -1. Every other
    node's parent has a smaller index. A node's absolute position is `committed + depth`, where `committed` is
    the number of tokens whose keys and values are in the cache. `sources` names where each node came from.
    """

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    sources: tuple[str, ...]

    def __post_init__(self) -> None:
        assert self.tokens, "a draft tree has at least its root"
        assert len(self.tokens) == len(self.parents) == len(self.sources)
        assert self.parents[0] == -1
        assert all(0 <= parent < node for node, parent in enumerate(self.parents) if node)

    @classmethod
    def root(cls, token: int) -> DraftTree:
        """The one-node tree: plain decoding."""
        return cls((token,), (-1,), ("plain",))

    @classmethod
    def chain(cls, tokens: Sequence[int], source: str) -> DraftTree:
        """A root followed by a single line of candidates."""
        return cls(
            tuple(tokens),
            tuple(range(-1, len(tokens) - 1)),
            ("plain",) + (source,) * (len(tokens) - 1),
        )

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def depths(self) -> tuple[int, ...]:
        """Distance of each node from the root."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(0 if parent < 0 else depths[parent] + 1)
        return tuple(depths)

    @property
    def ancestors(self) -> NDArray[np.uint64]:
        """Bit sets of shape (nodes, ceil(nodes / 64)): bit j of row i says that j is i or an ancestor of i."""
        bits = np.zeros((len(self), -(-len(self) // 64)), dtype=np.uint64)
        for node, parent in enumerate(self.parents):
            if parent >= 0:
                bits[node] = bits[parent]
            bits[node, node // 64] |= np.uint64(1) << np.uint64(node % 64)
        return bits

    def children(self, node: int) -> tuple[int, ...]:
        """Indices of the children of `node`, in index order."""
        return tuple(index for index, parent in enumerate(self.parents) if parent == node)

    def path(self, node: int) -> tuple[int, ...]:
        """Node indices from the root to `node`, both included."""
        path = [node]
        while (node := self.parents[node]) >= 0:
            path.append(node)
        return tuple(reversed(path))


@dataclass(frozen=True, slots=True)
class AcceptedPath:
    """What one verification kept.

    `nodes` are the accepted node indices, the root first; `bonus_token` is the token sampled at the last of them,
    which no node proposed. `acceptance_length` counts the bonus token.
    """

    nodes: tuple[int, ...]
    bonus_token: int

    @property
    def acceptance_length(self) -> int:
        """Tokens gained by the step."""
        return len(self.nodes)
