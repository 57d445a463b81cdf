"""The last token, the sources and the matcher in; the best draft tree within the row budget out. Integers only.

Best-first (as DDTree, arXiv 2604.12989, does over marginals): the node whose path is likeliest comes next. All sources
propose into one prefix tree; a token that two of them propose is one node, the likelier estimate's. Illegal tokens and
ends of sequence never become nodes. Where the grammar forces a token, that one is the only child, with probability 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import NamedTuple, Protocol

import numpy as np

from fetchly_llm.cost_curve import CostCurve
from fetchly_llm.metrics import PLAIN
from fetchly_llm.speculation.calibration import Calibration
from fetchly_llm.speculation.draft import Draft, Proposal
from fetchly_llm.speculation.legality import Legality
from fetchly_llm.speculation.source import Candidate, DraftSource
from fetchly_llm.tree import DraftTree

FORCED = "forced"
_LEAST = 0.02  # a path less likely than this pays on no machine


class SampledSource(DraftSource, Protocol):
    """A source that has a distribution to draw from."""

    def distribution(self, path: Sequence[int]) -> Proposal | None:
        """What tokens may follow, with probabilities; None where the source has nothing to say."""


@dataclass(slots=True)
class _Node:
    token: int
    parent: int
    probability: float
    source: str
    candidate: Candidate | None = None
    is_sampled: bool = False
    depth: int = 0
    forced: int | None = None
    is_end: bool = False
    children: list[int] = field(default_factory=list)


class _Waiting(NamedTuple):
    """A node to be, the likeliest first, then the deepest: a forced run comes out in one go."""

    cost: float
    height: int
    order: int
    parent: int
    token: int
    source: str
    candidate: Candidate | None


class Growth:
    """Grows one tree. The matcher stands after the root's token, and does so again at the end."""

    def __init__(
        self,
        matcher: Legality,
        sources: Sequence[DraftSource],
        calibration: Calibration,
        eos_token_ids: frozenset[int],
        *,
        forced: bool,
        branching: bool = True,
    ) -> None:
        """`forced`: follow what the grammar forces, too. Without `branching` the tree is a chain."""
        self._matcher = matcher
        self._sources = sources
        self._calibration = calibration
        self._eos = eos_token_ids
        self._forced = forced
        self._branching = branching
        self._nodes: list[_Node] = []
        self._at = 0
        self._heap: list[_Waiting] = []
        self._order = count()

    def grow(self, token: int, rows: int, curve: CostCurve | None = None, allowance: float = inf) -> Draft:
        """A tree of at most `rows` nodes after the output so far, whose last token is `token`.

        With a cost curve, as many of them as give the most expected tokens per millisecond, and lose at most
        `allowance` milliseconds where all estimates are wrong.
        """
        assert rows >= 1
        least = 0.0 if curve is None else _LEAST
        self._add(_Node(token, -1, 1.0, PLAIN))
        while True:
            if len(self._nodes) < rows:
                self._propose(len(self._nodes) - 1, least)
            if len(self._nodes) == rows or not self._heap:
                break
            best = heappop(self._heap)
            self._add(_Node(best.token, best.parent, -best.cost, best.source, best.candidate))
        self._go(0)
        if curve is not None:
            self._cut(curve.best_rows([node.probability for node in self._nodes], allowance))
        return _finished(self._nodes, {})

    def grow_sampled(self, token: int, rows: int, source: SampledSource, width: int, rng: np.random.Generator) -> Draft:
        """A tree for rejection sampling: children of `source` are drawn, `width` at a node, those of the others not.

        Exact only because a node's children are decided all at once, before one of them is drawn, and none is left
        out afterwards: what is in the tree must not depend on which tokens were drawn there (DSpark, arXiv
        2607.05147, appendix A). The likeliest node by its path's probability is given children next.
        """
        self._sources = [other for other in self._sources if other is not source]
        proposals: dict[int, Proposal] = {}
        self._add(_Node(token, -1, 1.0, PLAIN))
        waiting: list[tuple[float, int]] = [(-1.0, 0)]
        while waiting and len(self._nodes) < rows:
            node = heappop(waiting)[1]
            first = len(self._nodes)
            points = [] if self._nodes[node].is_end else self._best(node)[: rows - first]
            room = min(width, rows - first - len(points)) if self._branching else 1 - len(points)
            proposal = None
            if room and not self._nodes[node].is_end and self._nodes[node].forced is None:
                self._go(node)
                proposal = self._legal(source.distribution(self._path(node)), {point.token for point in points})
            for point in points:
                self._add(_Node(point.token, node, -point.cost, point.source, point.candidate))
            if proposal is not None:
                proposals[node] = proposal
                for drawn, chance in _draw(proposal, room, rng):
                    probability = self._nodes[node].probability * chance
                    candidate = Candidate(drawn, chance)
                    self._add(_Node(drawn, node, probability, source.name, candidate, is_sampled=True))
            for child in range(first, len(self._nodes)):
                heappush(waiting, (-self._nodes[child].probability, child))
        self._go(0)
        return _finished(self._nodes, proposals)

    def _legal(self, proposal: Proposal | None, tried: set[int]) -> Proposal | None:
        if proposal is None:
            return None
        pairs = zip(proposal.tokens.tolist(), proposal.probabilities.tolist(), strict=True)
        kept = sorted(
            (token, chance)
            for token, chance in pairs
            if chance > 0.0 and token not in tried and token not in self._eos and self._matcher.is_legal(token)
        )
        if not kept:
            return None
        chances = np.array([chance for _, chance in kept])
        return Proposal(np.array([token for token, _ in kept], dtype=np.int64), chances / chances.sum())

    def _add(self, node: _Node) -> None:
        """Make `node` the next of the tree, stand there, and ask what the grammar says."""
        self._nodes.append(node)
        number = len(self._nodes) - 1
        if node.parent >= 0:
            node.depth = self._nodes[node.parent].depth + 1
            self._nodes[node.parent].children.append(number)
            self._go(number)
        node.is_end = self._matcher.is_terminated
        if not node.is_end:
            forced = self._matcher.forced_tokens()
            node.forced = forced[0] if forced else None

    def _propose(self, number: int, least: float) -> None:
        """Put the candidates that may follow a node, if their paths are likely enough, among the waiting ones."""
        if self._nodes[number].is_end:
            return
        for waiting in self._best(number):
            if -waiting.cost >= least:
                heappush(self._heap, waiting)

    def _cut(self, rows: int) -> None:
        """Forget all but the first `rows` nodes."""
        del self._nodes[rows:]
        for node in self._nodes:
            node.children = [child for child in node.children if child < rows]

    def _best(self, number: int) -> list[_Waiting]:
        """The legal proposals to follow a node, best first, their shares together at most the node's own."""
        node = self._nodes[number]
        if node.forced is not None and self._forced:
            return [self._waiting(number, node.forced, node.probability, FORCED, None)]
        self._go(number)
        path = self._path(number)
        best: dict[int, tuple[float, str, Candidate]] = {}
        for source in self._sources:
            for candidate in source.propose(path):
                chance = self._calibration.probability(source.name, candidate)
                known = best.get(candidate.token)
                if known is None or known[0] < chance:
                    best[candidate.token] = (chance, source.name, candidate)
        legal = [
            (chance, name, candidate)
            for chance, name, candidate in best.values()
            if candidate.token not in self._eos and self._matcher.is_legal(candidate.token)
        ]
        legal.sort(key=lambda entry: -entry[0])
        if not self._branching:
            del legal[1:]
        whole = max(1.0, sum(chance for chance, _, _ in legal))
        return [
            self._waiting(number, candidate.token, node.probability * chance / whole, name, candidate)
            for chance, name, candidate in legal
        ]

    def _waiting(
        self, parent: int, token: int, probability: float, source: str, candidate: Candidate | None
    ) -> _Waiting:
        return _Waiting(-probability, -self._nodes[parent].depth, next(self._order), parent, token, source, candidate)

    def _path(self, number: int) -> list[int]:
        path: list[int] = []
        while number:
            path.append(self._nodes[number].token)
            number = self._nodes[number].parent
        return path[::-1]

    def _go(self, number: int) -> None:
        """Move the matcher to a node."""
        if number == self._at:
            return
        down: list[int] = []
        here, there = self._at, number
        while self._nodes[there].depth > self._nodes[here].depth:
            down.append(there)
            there = self._nodes[there].parent
        up = 0
        while here != there:
            if self._nodes[here].depth > self._nodes[there].depth:
                here = self._nodes[here].parent
                up += 1
            else:
                down.append(there)
                there = self._nodes[there].parent
        if up:
            self._matcher.rollback(up)
        for node in reversed(down):
            self._matcher.accept(self._nodes[node].token)
        self._at = number


def _draw(proposal: Proposal, count: int, rng: np.random.Generator) -> list[tuple[int, float]]:
    """Up to `count` tokens, one after the other without replacement, with their chances in the whole proposal."""
    ranks = rng.choice(
        len(proposal.tokens), size=min(count, len(proposal.tokens)), replace=False, p=proposal.probabilities
    )
    return [(int(proposal.tokens[rank]), float(proposal.probabilities[rank])) for rank in ranks]


def _finished(nodes: Sequence[_Node], proposals: dict[int, Proposal]) -> Draft:
    """Number the nodes depth first, the likeliest child first: accepting that chain moves no row of the KV cache."""
    order: list[int] = []
    stack = [0]
    while stack:
        number = stack.pop()
        order.append(number)
        stack.extend(sorted(nodes[number].children, key=lambda child: nodes[child].probability))
    place = {number: rank for rank, number in enumerate(order)}
    ranked = [nodes[number] for number in order]
    tree = DraftTree(
        tuple(node.token for node in ranked),
        tuple(place[node.parent] if node.parent >= 0 else -1 for node in ranked),
        tuple(node.source for node in ranked),
    )
    return Draft(
        tree=tree,
        probabilities=tuple(node.probability for node in ranked),
        forced=tuple(node.forced for node in ranked),
        ends=tuple(node.is_end for node in ranked),
        candidates=tuple(node.candidate for node in ranked),
        children=tuple(tuple(place[child] for child in node.children) for node in ranked),
        proposals={place[number]: proposal for number, proposal in proposals.items()},
        sampled=frozenset(rank for rank, node in enumerate(ranked) if node.is_sampled),
    )
