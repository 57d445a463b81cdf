"""A draft, the target's answers and the matcher in; the accepted path out. The matcher moves with the path."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fetchly_llm.metrics import PLAIN
from fetchly_llm.speculation.draft import Draft
from fetchly_llm.speculation.legality import Legality
from fetchly_llm.tree import AcceptedPath

Choose = Callable[[int, int], int]
"""The token after a node at a depth, drawn from the target under the matcher's present mask."""


@dataclass(frozen=True, slots=True)
class Verification:
    """`path` as accepted; `tokens` are the output tokens of the step in order, each with its source's name.

    `stopped` says that the sequence is complete (grammar terminated or end-of-sequence drawn; the latter is not among
    the tokens).
    """

    path: AcceptedPath
    tokens: tuple[int, ...]
    sources: tuple[str, ...]
    stopped: bool


def verify(draft: Draft, matcher: Legality, choose: Choose, eos_token_ids: frozenset[int]) -> Verification:
    """Walk from the root: take the target's token at each node, descend while a child proposed it.

    `choose(node, depth)` is not asked where the grammar forces the token. With sample-and-match it is a function of
    the path alone, so that output equals plain decoding whatever was drafted, and no exact rule accepts more of a
    given tree: the accepted prefix must be a prefix of a draw from the target.
    """
    node = 0
    nodes = [0]
    tokens: list[int] = []
    sources: list[str] = []
    while True:
        forced = draft.forced[node]
        token = choose(node, len(nodes) - 1) if forced is None else forced
        if token in eos_token_ids:
            return Verification(AcceptedPath(tuple(nodes), token), tuple(tokens), tuple(sources), True)
        matcher.accept(token)
        tokens.append(token)
        child = draft.child(node, token)
        sources.append(PLAIN if child is None else draft.tree.sources[child])
        if matcher.is_terminated or child is None:
            return Verification(AcceptedPath(tuple(nodes), token), tuple(tokens), tuple(sources), matcher.is_terminated)
        node = child
        nodes.append(node)
