"""A draft tree, the target's logits and the matcher in; the accepted path out. The matcher moves with the path."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from fetchly_llm.tree import AcceptedPath, DraftTree


class Verifier(Protocol):
    """The two verbs of a matcher that verification needs."""

    @property
    def is_terminated(self) -> bool:
        """The grammar is complete."""

    def accept(self, token: int) -> None:
        """Advance by one legal token."""


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


def needed_rows(tree: DraftTree, forced: Sequence[int]) -> tuple[int, ...]:
    """Nodes whose logits a walk can ask for: those that the grammar does not force the next token of.

    `forced` are the matcher's forced tokens at the root; along them the answer is known without the LM head.
    """
    known: set[int] = set()
    node = 0
    for token in forced:
        known.add(node)
        following = [child for child in tree.children(node) if tree.tokens[child] == token]
        if not following:
            break
        node = following[0]
    return tuple(index for index in range(len(tree)) if index not in known)


def verify(
    tree: DraftTree,
    forced: Sequence[int],
    matcher: Verifier,
    draw: Callable[[int, int], int],
    eos_token_ids: frozenset[int],
) -> Verification:
    """Walk from the root: take the target's token at each node, descend while a child proposed it.

    `draw(node, depth)` is the sampled token after `node` under the matcher's present mask; it is not asked where the
    grammar forces the token. The emitted token never depends on the tree (sample-and-match), so output equals plain
    decoding whatever was drafted.
    """
    node, depth = 0, 0
    nodes = [0]
    tokens: list[int] = []
    sources: list[str] = []
    while True:
        token = forced[depth] if depth < len(forced) else draw(node, depth)
        if token in eos_token_ids:
            return Verification(AcceptedPath(tuple(nodes), token), tuple(tokens), tuple(sources), True)
        matcher.accept(token)
        tokens.append(token)
        following = [child for child in tree.children(node) if tree.tokens[child] == token]
        sources.append(tree.sources[following[0]] if following else "plain")
        if matcher.is_terminated or not following:
            return Verification(AcceptedPath(tuple(nodes), token), tuple(tokens), tuple(sources), matcher.is_terminated)
        node = following[0]
        depth += 1
        nodes.append(node)
