"""A draft tree with all that its verification needs: what the grammar forces, where it ends, who proposed what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fetchly_llm.speculation.source import Candidate
from fetchly_llm.tree import DraftTree


@dataclass(frozen=True, slots=True)
class Proposal:
    """Legal tokens (ascending ids) and the probabilities, summing to 1, that the sampled children of a node were drawn
    with, one after the other without replacement. Both of shape (support,)."""

    tokens: NDArray[np.int64]
    probabilities: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Draft:
    """One step's draft. All tuples have one entry a node.

    `probabilities` are the estimates that a node will be on the accepted path. `forced` is the token that the grammar
    forces after the node, or None; `ends` says that nothing can follow it. `candidates` are the proposals behind the
    nodes (None for the root and for forced ones). `children` are in the order in which rejection sampling tries them.
    `proposals` has an entry for every node with sampled children, which come last among its children; `sampled` names
    those children.
    """

    tree: DraftTree
    probabilities: tuple[float, ...]
    forced: tuple[int | None, ...]
    ends: tuple[bool, ...]
    candidates: tuple[Candidate | None, ...]
    children: tuple[tuple[int, ...], ...]
    proposals: Mapping[int, Proposal] = field(default_factory=dict)
    sampled: frozenset[int] = frozenset()

    @property
    def needed_rows(self) -> tuple[int, ...]:
        """Nodes whose logits a walk can ask for: those where the grammar leaves a choice."""
        return tuple(node for node, token in enumerate(self.forced) if token is None and not self.ends[node])

    def child(self, node: int, token: int) -> int | None:
        """The child of `node` that proposes `token`."""
        return next((child for child in self.children[node] if self.tree.tokens[child] == token), None)

    def likely_stops(self, count: int) -> tuple[int, ...]:
        """The nodes at which the walk is likeliest to stop, P(path) * (1 - sum P(children)), best first.

        Where the grammar ends or forces the next token there is nothing to draft for.
        """
        stops = [
            (self.probabilities[node] - sum(self.probabilities[child] for child in self.children[node]), -node)
            for node in self.needed_rows
        ]
        return tuple(-node for _, node in sorted(stops, reverse=True)[:count])
