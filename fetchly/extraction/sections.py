"""The blocks of a document, a schema and a token budget in, the blocks that the model is shown out.

The blocks likeliest to hold a wanted value first, shown in reading order. Everything left out is counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fetchly.extraction.relevance import relevance
from fetchly.goods import Block

CountTokens = Callable[[list[str]], list[int]]

GAP_MARK = "…"
LONGEST_SHARE = 0.5
"""A block over this share of the budget is cut: one paragraph must not crowd out the page."""
MOST_BLOCKS = 6000
"""Blocks that are weighed; of a longer document the middle is left out, boilerplate first."""

COST_WEIGHT = 0.4
"""Blocks are ranked by probability / tokens ** COST_WEIGHT: between the likeliest and the most for a token."""
LEAST_LIKELY = 0.2
"""Of a page beyond the budget no block is shown that holds a wanted value with less than this probability (of right
and other blocks made equally many): of dev articles it costs 0.003 of the right values and saves 7 % of the tokens."""
RUN_SHARE = 0.6
"""How much of a list item's rank is its list's: the entries of a list are shown together, or not at all."""
_LISTED = frozenset(("list_item", "table_row"))
_CHEAPEST = 4  # tokens: below, a block is not cheaper, only shorter
_CONTEXT = 40  # characters: a line this short before a chosen one may be its label
_PIECE = re.compile(r"[^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+|\S")


@dataclass(frozen=True, slots=True)
class ShownBlock:
    """A chosen block: `line` as the model sees it, `text` as its values are copied from, `index` in the document."""

    index: int
    line: str
    text: str


@dataclass(frozen=True, slots=True)
class SectionChoice:
    """`shown` in reading order; a cut block counts as left out, with the characters that it lost."""

    shown: tuple[ShownBlock, ...]
    left_out_blocks: int
    left_out_characters: int

    def page(self, total: int) -> str:
        """The shown lines, one a line, with a mark where something of the document's `total` blocks was left out."""
        lines: list[str] = []
        following = 0
        for block in self.shown:
            if block.index != following:
                lines.append(GAP_MARK)
            lines.append(block.line)
            following = block.index + 1
        if following < total:
            lines.append(GAP_MARK)
        return "\n".join(lines)


def choose_sections(
    schema: Mapping[str, Any], blocks: Sequence[Block], budget: int, count_tokens: CountTokens
) -> SectionChoice:
    """The blocks whose lines fit `budget` tokens, marks for gaps included; the best block is always shown, cut."""
    if not blocks:
        return SectionChoice((), 0, 0)
    weighed = _weighed(blocks)
    kept = [blocks[index] for index in weighed]
    costs = count_tokens([f"{block.line}\n" for block in kept])
    if len(kept) == len(blocks) and sum(costs) <= budget:
        return SectionChoice(tuple(ShownBlock(i, b.line, b.text) for i, b in enumerate(blocks)), 0, 0)
    likely = _by_run(kept, relevance(schema, kept, costs)).round(6)
    picking = _Picking(blocks, weighed, costs, budget, count_tokens)
    value = [float(p) / max(cost, _CHEAPEST) ** COST_WEIGHT for p, cost in zip(likely, costs, strict=True)]
    for rank in sorted(range(len(kept)), key=lambda i: (-value[i], i)):
        if likely[rank] >= LEAST_LIKELY or picking.is_empty:
            picking.take(rank)
    return picking.choice()


def _by_run(blocks: Sequence[Block], likely: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities in which the entries of one list, or the rows of one table, have come nearer to their mean."""
    nearer = likely.copy()
    start = 0
    for index in range(1, len(blocks) + 1):
        if index == len(blocks) or blocks[index].kind != blocks[start].kind:
            if blocks[start].kind in _LISTED:
                run = slice(start, index)
                nearer[run] += RUN_SHARE * (likely[run].mean() - likely[run])
            start = index
    return nearer


def _weighed(blocks: Sequence[Block]) -> list[int]:
    """The indices of at most MOST_BLOCKS blocks: what is no boilerplate, from both ends of the document."""
    if len(blocks) <= MOST_BLOCKS:
        return list(range(len(blocks)))
    body = [index for index, block in enumerate(blocks) if block.kind != "other"] or list(range(len(blocks)))
    if len(body) <= MOST_BLOCKS:
        return body
    return body[: MOST_BLOCKS * 2 // 3] + body[-(MOST_BLOCKS - MOST_BLOCKS * 2 // 3) :]


class _Picking:
    """Takes blocks while they fit. `take` is asked best first; a short line before a block comes with it."""

    def __init__(
        self, blocks: Sequence[Block], weighed: Sequence[int], costs: Sequence[int], budget: int, count: CountTokens
    ) -> None:
        self._blocks, self._weighed, self._costs, self._budget, self._count = blocks, weighed, costs, budget, count
        self._mark = count([f"{GAP_MARK}\n"])[0]
        self._longest = max(1, min(budget - 2 * self._mark, int(budget * LONGEST_SHARE)))
        self._taken: dict[int, ShownBlock] = {}
        self._used = 0
        self._gaps = 1  # the whole document is one gap
        self._best: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing was taken yet."""
        return not self._taken

    def take(self, rank: int) -> None:
        """Take the rank-th weighed block, cut where it is long, with its label where both fit."""
        self._best = rank if self._best is None else self._best
        label = rank - 1
        if self._needs_label(rank):
            cost = self._costs[label] + min(self._costs[rank], self._longest)
            if self._used + cost + self._mark * (self._gaps + 1) <= self._budget:
                self._add(label)
        self._add(rank)

    def _needs_label(self, rank: int) -> bool:
        """Whether the line before may say what a short block is: `Prep time` above `20 min`."""
        if rank == 0 or self._weighed[rank - 1] in self._taken or self._weighed[rank - 1] + 1 != self._weighed[rank]:
            return False
        here, before = self._blocks[self._weighed[rank]], self._blocks[self._weighed[rank - 1]]
        plain = before.kind in ("paragraph", "heading", "list_item") and here.kind in ("paragraph", "list_item")
        return plain and max(len(here.text), len(before.text)) <= _CONTEXT

    def _add(self, rank: int) -> None:
        index = self._weighed[rank]
        if index in self._taken:
            return
        block = self._blocks[index]
        shown, cost = ShownBlock(index, block.line, block.text), self._costs[rank]
        if cost > self._longest:
            shown = _cut(shown, self._longest, self._count)
            cost = self._count([f"{shown.line}\n"])[0]
        gaps = self._gaps + self._more_gaps(index)
        if self._used + cost + self._mark * gaps <= self._budget:
            self._taken[index] = shown
            self._used += cost
            self._gaps = gaps

    def _more_gaps(self, index: int) -> int:
        """How many more marks are needed once a block is taken: it fills a gap, shortens it, or splits it."""
        before = index == 0 or index - 1 in self._taken
        after = index == len(self._blocks) - 1 or index + 1 in self._taken
        return 1 - before - after

    def choice(self) -> SectionChoice:
        """What was taken; where nothing fits, the beginning of the best block."""
        if not self._taken:
            index = self._weighed[self._best or 0]
            block = ShownBlock(index, self._blocks[index].line, self._blocks[index].text)
            self._taken[index] = _cut(block, self._budget, self._count)
        choice = self._summary()
        # Tokens of joined lines may be more than the sum of the lines': the last taken go first.
        while len(self._taken) > 1 and self._count([choice.page(len(self._blocks))])[0] > self._budget:
            del self._taken[next(reversed(self._taken))]
            choice = self._summary()
        return choice

    def _summary(self) -> SectionChoice:
        shown = tuple(self._taken[index] for index in sorted(self._taken))
        whole = sum(block.text == self._blocks[block.index].text for block in shown)
        characters = sum(len(block.text) for block in self._blocks) - sum(len(block.text) for block in shown)
        return SectionChoice(shown, len(self._blocks) - whole, characters)


def _cut(block: ShownBlock, budget: int, count_tokens: CountTokens) -> ShownBlock:
    """The longest beginning of a block, ending at a word, that fits; at least one character."""
    prefix = block.line[: -len(block.text)] if block.text and block.line.endswith(block.text) else ""
    body = block.text if prefix or block.line == block.text else block.line
    ends = [match.end() for match in _PIECE.finditer(body)] or [len(body)]
    if count_tokens([f"{prefix}{body[: ends[0]]}\n"])[0] > budget:
        ends = list(range(1, ends[0] + 1))  # one word longer than the budget
    low, high = 0, len(ends) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if count_tokens([f"{prefix}{body[: ends[middle]]}\n"])[0] <= budget:
            low = middle
        else:
            high = middle - 1
    kept = body[: ends[low]]
    return ShownBlock(block.index, prefix + kept, kept if body == block.text else _shown_beginning(block.text, kept))


def _shown_beginning(text: str, line: str) -> str:
    """The beginning of a text whose words stand in a line, in order, among labels and marks that are not its own."""
    end = at = 0
    for word in re.finditer(r"\S+", text):
        found = line.find(word[0], at)
        if found < 0:
            break
        end, at = word.end(), found + len(word[0])
    return text[:end]
