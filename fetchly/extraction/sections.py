"""The blocks of a document, a schema and a token budget in, the blocks that the model is shown out.

Best first by relevance to the schema, shown in reading order. Everything left out is counted.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from fetchly.extraction.shape import every_node
from fetchly.goods import Block

CountTokens = Callable[[list[str]], list[int]]

GAP_MARK = "…"
LONGEST_SHARE = 0.5
"""A block over this share of the budget is cut: one paragraph must not crowd out the page."""

_PIECE = re.compile(r"[^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+|\S")
_WORD = re.compile(r"[^\W\d_]{3,}")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_KIND_BONUS = {"title": 3.0, "heading": 1.0, "pair": 2.0, "table_row": 0.5, "list_item": 0.2, "paragraph": 0.2}
_NEIGHBOUR_SHARE = 0.7
_HEADING_SHARE = 0.8
HEADING_REACH = 40
"""How many blocks a heading speaks for, where no other heading comes before."""


@dataclass(frozen=True, slots=True)
class ShownBlock:
    """A chosen block: `line` as the model sees it, `text` as its values are copied from, `index` in the document."""

    index: int
    line: str
    text: str


@dataclass(frozen=True, slots=True)
class SectionChoice:
    """`shown` in reading order; a cut block counts as left out, with the tokens that it lost."""

    shown: tuple[ShownBlock, ...]
    left_out_blocks: int
    left_out_tokens: int

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
    costs = count_tokens([f"{block.line}\n" for block in blocks])
    whole = sum(costs)
    if whole <= budget:
        return SectionChoice(tuple(ShownBlock(i, b.line, b.text) for i, b in enumerate(blocks)), 0, 0)
    mark = count_tokens([f"{GAP_MARK}\n"])[0]
    longest = max(1, min(budget - 2 * mark, int(budget * LONGEST_SHARE)))
    scores = relevance(schema, blocks)
    chosen: dict[int, ShownBlock] = {}
    used = 0
    ranked = sorted(range(len(blocks)), key=lambda i: (-scores[i], i))
    for index in ranked:
        shown, cost = ShownBlock(index, blocks[index].line, blocks[index].text), costs[index]
        if cost > longest:
            shown = _cut(shown, longest, count_tokens)
            cost = count_tokens([f"{shown.line}\n"])[0]
        if used + cost <= budget and used + cost + mark * _gaps([*chosen, index], len(blocks)) <= budget:
            chosen[index] = shown
            used += cost
    if not chosen:
        best = ranked[0]
        chosen[best] = _cut(ShownBlock(best, blocks[best].line, blocks[best].text), budget, count_tokens)
    choice = _summary(chosen, blocks, whole)
    while len(chosen) > 1 and count_tokens([choice.page(len(blocks))])[0] > budget:
        del chosen[min(chosen, key=lambda i: (scores[i], -i))]
        choice = _summary(chosen, blocks, whole)
    left = whole - sum(count_tokens([f"{block.line}\n" for block in choice.shown]))
    return SectionChoice(choice.shown, choice.left_out_blocks, max(0, left))


def relevance(schema: Mapping[str, Any], blocks: Sequence[Block]) -> list[float]:
    """A score for each block: words shared with the schema (rare ones count more, long blocks less), what its
    neighbours and the heading above it share, its place on the page, its kind, and whether it holds digits."""
    wanted = schema_words(schema)
    words = [frozenset(_words(block.line)) for block in blocks]
    spread = Counter(word for found in words for word in found)
    own = [
        sum(math.log(1 + len(blocks) / spread[word]) for word in found & wanted) / math.sqrt(1 + len(found) / 10)
        for found in words
    ]
    scores: list[float] = []
    section, since = 0.0, HEADING_REACH
    for index, block in enumerate(blocks):
        heads = block.kind in ("heading", "title")
        section, since = (own[index], 0) if heads else (section, since + 1)
        above = section if 0 < since <= HEADING_REACH else 0.0
        near = max((own[i] for i in (index - 2, index - 1, index + 1) if 0 <= i < len(blocks)), default=0.0)
        place = 2.0 / (1.0 + index / 12.0) - 0.7 * math.log(1.0 + index / 10.0)
        form = 0.3 * min(1.0, len(block.text) / 80.0) + 0.7 * any(char.isdigit() for char in block.text)
        shared = own[index] + _NEIGHBOUR_SHARE * near + _HEADING_SHARE * above
        scores.append(shared + place + form + _KIND_BONUS.get(block.kind, 0.0))
    return scores


def schema_words(schema: Mapping[str, Any]) -> frozenset[str]:
    """The words of a schema's property names, titles, descriptions and enum values."""
    return frozenset(word for text in _schema_texts(schema) for word in _words(text))


def _schema_texts(schema: Mapping[str, Any]) -> Iterator[str]:
    for node in every_node(schema):
        properties = node.get("properties")
        if isinstance(properties, Mapping):
            yield from (str(name) for name in properties)
        yield from (node[key] for key in ("title", "description") if isinstance(node.get(key), str))
        options = node.get("enum")
        if isinstance(options, list):
            yield from (option for option in options if isinstance(option, str))


def _words(text: str) -> Iterator[str]:
    for word in _WORD.findall(_CAMEL.sub(" ", text.replace("_", " "))):
        folded = word.casefold()
        yield folded[:-1] if len(folded) > 3 and folded.endswith("s") else folded


def _gaps(indices: Sequence[int], total: int) -> int:
    """How many marks a choice needs."""
    ordered = sorted(indices)
    inner = sum(b - a > 1 for a, b in pairwise(ordered))
    return inner + (ordered[0] > 0) + (ordered[-1] < total - 1)


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
    text = kept if body == block.text else block.text[: len(kept)].rsplit(" ", 1)[0]
    return ShownBlock(block.index, prefix + kept, text)


def _summary(chosen: Mapping[int, ShownBlock], blocks: Sequence[Block], whole: int) -> SectionChoice:
    shown = tuple(chosen[index] for index in sorted(chosen))
    missing = sum(index not in chosen or chosen[index].text != block.text for index, block in enumerate(blocks))
    return SectionChoice(shown, missing, whole)
