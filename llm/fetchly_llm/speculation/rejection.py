"""The target's distribution after a node and the node's children in; one token, exactly so distributed, out.

Speculative sampling (Leviathan et al. 2023, arXiv 2211.17192; Chen et al. 2023, arXiv 2302.01318) over the children of
a node in turn: recursive rejection without replacement, as in Sequoia (arXiv 2402.12374).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fetchly_llm.speculation.draft import Draft


def choose_by_rejection(
    draft: Draft, node: int, tokens: NDArray[np.int64], target: NDArray[np.float64], rng: np.random.Generator
) -> int:
    """A token drawn from `target`, shape (legal,), over the ascending ids `tokens`; a child's wherever it can be.

    A child that a source named with certainty is a point mass: it is taken with the target's probability of it. One
    that was drawn is taken with min(1, p / q), q being what it was drawn with. After a refusal the target loses what
    the child stood for and the next one is tried against the rest. `rng` must be independent of the draws in `draft`.
    """
    rest = target.copy()
    proposal = draft.proposals.get(node)
    proposed = np.zeros_like(rest)
    if proposal is not None:
        at = np.searchsorted(tokens, proposal.tokens)
        assert (tokens[at] == proposal.tokens).all(), "only legal tokens are drafted"
        proposed[at] = proposal.probabilities
    for child in draft.children[node]:
        token = draft.tree.tokens[child]
        rank = int(np.searchsorted(tokens, token))
        assert tokens[min(rank, len(tokens) - 1)] == token, "only legal tokens are drafted"
        chance = proposed[rank] if child in draft.sampled else 1.0
        if rng.random() * chance < rest[rank]:
            return token
        if child in draft.sampled:
            rest = np.maximum(rest - proposed, 0.0)
            proposed[rank] = 0.0
            left = proposed.sum()
            proposed = proposed / left if left > 0.0 else proposed
        else:
            rest[rank] = 0.0
        total = rest.sum()
        if total <= 0.0:  # the child's chance of a refusal was zero but for rounding
            return token
        rest /= total
    return int(tokens[_rank(rest, rng.random())])


def _rank(probabilities: NDArray[np.float64], uniform: float) -> int:
    """The entry that `uniform`, in [0, 1), falls on; never one of probability zero."""
    edges = np.cumsum(probabilities)
    rank = int(np.searchsorted(edges, uniform * edges[-1], side="right"))
    return min(rank, int(np.flatnonzero(probabilities)[-1]))
