"""A schema and a document's blocks in; out, per block, how likely it holds a value that the schema asks for.

Each block is described by features that any schema has: what it shares with field names (translated) and descriptions,
the label or heading above it, its distance from the heading that repeats the page's title, links, digits, prices,
dates, its kind and length. Boosted trees (`relevance.json`, made by `fetchly lab fit-relevance`) turn them into a
probability. Trees only compare and add, so that a page gets the same sections on every machine.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fetchly.extraction.fields import WantedFields, telling_words, wanted_fields
from fetchly.extraction.lexicon import words_of
from fetchly.goods import Block

HEADING_REACH = 40
"""How many blocks a heading speaks for, where no other heading comes before."""
_TITLE_LIKE = 0.35

_CURRENCY = re.compile(r"[€$£¥₹₽]|\b(?:usd|eur|gbp|chf|sek|kr|zł|kč|ft|lei)\b", re.IGNORECASE)
_DATE = re.compile(r"\b(?:19|20)\d\d\b|\b\d{1,2}[./-]\d{1,2}[./-]\d{2,4}\b")
_DURATION = re.compile(r"\d\s*(?:min|hr|hour|std|stunde|h\b|heure|uur|ore|timmar)", re.IGNORECASE)
_AMOUNT = re.compile(r"\d\s*(?:g|kg|ml|l|oz|lb|cup|tbsp|tsp|el|tl|cl|dl|cm|mm|inch|km)\b", re.IGNORECASE)
_PHONE = re.compile(r"\+?\d[\d ()/.-]{6,}\d")
_PERSON = re.compile(r"(?:by |von |par |di |por |door )?[A-ZÄÖÜ][\w'’.-]+(?: [A-ZÄÖÜ][\w'’.-]+){1,3}")
_ASIDE = re.compile(
    r"comment|kommentar|review|related|similar|recommend|also like|you may|popular|trending|latest|newsletter"
    r"|subscribe|share|follow|more from|read more|most read|sign up|log ?in|search|menu|cookie|privacy|copyright"
    r"|all rights|reply|más|artículos|ähnlich|verwandt|auch interessant|meistgelesen|à lire|gerelateerd|leggi anche"
    r"|facebook|twitter|instagram|pinterest|whatsapp",
    re.IGNORECASE,
)
_SHAPES = (
    ("date", _DATE),
    ("price", _CURRENCY),
    ("duration", _DURATION),
    ("amount", _AMOUNT),
    ("phone", _PHONE),
    ("mail", re.compile("@")),
    ("number", re.compile(r"\d")),
    ("person", re.compile(rf"{_PERSON.pattern}\Z")),
)
_KINDS = ("title", "heading", "paragraph", "list_item", "table_row", "pair", "data", "other", "image")
_LISTED = frozenset(("list_item", "table_row"))

FEATURES = (
    *(f"is_{kind}" for kind in _KINDS),
    *("named", "labelled", "fields_named", "label_alone", "described", "titled", "label_before", "label_near"),
    *("heading_named", "list_heading_named", "heading_described", "list_lead_named", "list_lead_of_list"),
    *("after_heading", "position", "after_main_heading", "before_main_heading", "just_after_main", "main_heading"),
    *("share_of_page", "length", "is_short", "is_long", "is_sentence", "starts_with_digit", "has_colon"),
    *("links", "links_around", "like_title", "under_title_like", "is_aside", "under_aside", "repeated"),
    *("in_run", "run_length", "list_wanted", "prose_wanted", "long_prose_wanted"),
    *(f"has_{name}" for name, _ in _SHAPES),
    *(f"wanted_{name}" for name, _ in _SHAPES),
    *("price_near_main", "date_near_main", "person_near_main"),
)


def relevance(schema: Mapping[str, Any], blocks: Sequence[Block], costs: Sequence[int]) -> NDArray[np.float64]:
    """The probability, by block, that it holds a wanted value. `costs` are the tokens of each block's line."""
    return _model().probability(features(wanted_fields(schema), blocks, costs))


def features(wanted: WantedFields, blocks: Sequence[Block], costs: Sequence[int]) -> NDArray[np.float64]:
    """One row a block, one column a feature (FEATURES)."""
    page = _Page(wanted, blocks, costs)
    return np.array([page.row(index) for index in range(len(blocks))], dtype=np.float64).reshape(-1, len(FEATURES))


class _Page:
    """What is asked of every block, computed once; `row` must be called in reading order (headings are remembered)."""

    def __init__(self, wanted: WantedFields, blocks: Sequence[Block], costs: Sequence[int]) -> None:
        self._wanted = wanted
        self._blocks = blocks
        self._words = [list(words_of(block.line)) for block in blocks]
        self._sets = [frozenset(words) for words in self._words]
        self._spread = Counter(word for found in self._sets for word in found)
        self._matched: list[list[int]] = []
        self._named: list[float] = []
        self._labelled: list[float] = []
        for index in range(len(blocks)):
            self._match(index)
        title = next((block.text for block in blocks if block.kind == "title"), "")
        self._title = telling_words(title)
        self._likeness = [self._like_title(found) for found in self._sets]
        self._main = self._main_heading()
        self._before = [0, *accumulate(costs)]
        self._times = Counter(block.text for block in blocks)
        self._runs = _run_lengths(blocks)
        self._run = 0
        self._since = HEADING_REACH
        self._heading_named = self._heading_described = self._heading_like_title = 0.0
        self._under_aside = False
        self._lead = self._lead_of_list = 0.0

    def _rarity(self, word: str) -> float:
        count = len(self._blocks)
        return math.log(1 + count / self._spread[word]) / math.log(1 + count)

    def _match(self, index: int) -> None:
        """Which fields a block names, how tellingly, and whether it begins with such a name."""
        found, text = self._sets[index], self._blocks[index].text
        start = frozenset(self._words[index][:4])
        matched: list[int] = []
        best = label = 0.0
        for number, field in enumerate(self._wanted.fields):
            shared = found & field.words
            if shared:
                matched.append(number)
                rarity = max(self._rarity(word) for word in shared)
                best = max(best, rarity)
                label = max(label, rarity) if start & shared else label
        if self._wanted.unspaced and not text.isascii():
            for number, word in self._wanted.unspaced:
                if word in text:
                    matched.append(number)
                    best, label = max(best, 0.7), 0.7 if word in text[:8] else label
        self._matched.append(matched)
        self._named.append(best / math.sqrt(1 + len(found) / 12))
        self._labelled.append(label if len(text) < 160 else 0.3 * label)

    def _like_title(self, found: frozenset[str]) -> float:
        return len(found & self._title) / math.sqrt((len(found) or 1) * (len(self._title) or 1))

    def _main_heading(self) -> int:
        """The heading that says best what the title says; the first block where there is none."""
        best, place = _TITLE_LIKE, 0
        for index, block in enumerate(self._blocks):
            if block.kind == "heading":
                likeness = self._likeness[index] + (0.2 if block.line.startswith("# ") else 0.0)
                if likeness > best:
                    best, place = likeness, index
        return place

    def _list_named(self, index: int) -> float:
        return self._named[index] if any(self._wanted.fields[n].is_list for n in self._matched[index]) else 0.0

    def _pass(self, index: int, block: Block) -> None:
        """Remember the heading, and the line that leads a list in."""
        listed = block.kind in _LISTED
        if block.kind in ("heading", "title"):
            self._since = 0
            self._heading_named, self._heading_described = self._named[index], self._described(index)
            self._heading_like_title = self._likeness[index]
            self._under_aside = _ASIDE.search(block.text) is not None
            self._lead, self._lead_of_list = self._named[index], self._list_named(index)
        else:
            self._since += 1
            leads = block.kind == "paragraph" and block.text.endswith(":")
            if (not listed and block.kind != "other" and len(block.text) < 40) or leads:
                near = self._since < 3
                self._lead = max(self._named[index], self._lead if near else 0.0)
                self._lead_of_list = max(self._list_named(index), self._lead_of_list if near else 0.0)
            elif not listed and len(block.text) > 80:
                self._lead = self._lead_of_list = 0.0
        self._run = self._run + 1 if listed else 0

    def _described(self, index: int) -> float:
        return self._shared(index, self._wanted.description_words)

    def _shared(self, index: int, words: frozenset[str]) -> float:
        found = self._sets[index]
        return min(2.0, sum(self._rarity(word) for word in sorted(found & words)) / math.sqrt(1 + len(found) / 10))

    def row(self, index: int) -> list[float]:
        """The features of a block."""
        block, wanted = self._blocks[index], self._wanted
        self._pass(index, block)
        text, length, last = block.text, len(block.text), len(self._blocks) - 1
        listed = block.kind in _LISTED
        reached = 0 < self._since <= HEADING_REACH
        tokens = self._before[index]
        beyond = math.log1p(max(0, tokens - self._before[self._main]) / 100)
        near_main = math.exp(-beyond) if index >= self._main else 0.0
        links = [self._blocks[i].link_share for i in range(max(0, index - 2), min(last, index + 2) + 1)]
        shapes = [
            float(pattern.match(text) is not None if name == "person" else pattern.search(text) is not None)
            for name, pattern in _SHAPES
        ]
        asked = [shape if name in wanted.wants else 0.0 for shape, (name, _) in zip(shapes, _SHAPES, strict=True)]
        by_name = dict(zip((name for name, _ in _SHAPES), asked, strict=True))
        prose = "prose" in wanted.wants
        return [
            *(float(block.kind == kind) for kind in _KINDS),
            self._named[index],
            self._labelled[index],
            math.log1p(len(self._matched[index])),
            self._labelled[index] if length < 40 else 0.0,
            self._described(index),
            self._shared(index, wanted.title_words),
            self._labelled[index - 1] if index else 0.0,
            max((self._labelled[i] for i in (index - 2, index + 1) if 0 <= i <= last), default=0.0),
            self._heading_named * reached,
            self._heading_named * reached * listed,
            self._heading_described * reached,
            self._lead * listed,
            self._lead_of_list * listed,
            math.log1p(min(self._since, 60)),
            math.log1p(tokens / 100),
            beyond,
            float(index < self._main),
            float(0 <= index - self._main <= 6),
            float(index == self._main and index > 0),
            index / (last + 1),
            math.log1p(length),
            float(length < 25),
            float(length > 300),
            float(text.endswith((".", "!", "?", "。"))),
            float(text[:1].isdigit()),
            float(":" in text[:40]),
            block.link_share,
            sum(links) / 5,
            self._likeness[index],
            self._heading_like_title * reached,
            float(length < 80 and _ASIDE.search(text) is not None),
            float(self._under_aside and self._since > 0),
            float(self._times[text] > 1),
            math.log1p(self._run),
            math.log1p(self._runs[index]) * listed,
            float(listed and wanted.any_list),
            float(prose and block.kind == "paragraph"),
            float(prose and length > 120),
            *shapes,
            *asked,
            by_name["price"] * near_main,
            by_name["date"] * near_main,
            by_name["person"] * near_main,
        ]


def _run_lengths(blocks: Sequence[Block]) -> list[int]:
    """By block, how many blocks of its kind stand in a row there."""
    lengths: list[int] = []
    start = 0
    for index in range(1, len(blocks) + 1):
        if index == len(blocks) or blocks[index].kind != blocks[start].kind:
            lengths += [index - start] * (index - start)
            start = index
    return lengths


class BoostedTrees:
    """A sum of decision trees under a logistic link.

    `nodes` by tree: feature, threshold, left, right, value; a leaf has feature -1. A row goes left where its feature is
    at most the threshold.
    """

    def __init__(self, bias: float, trees: Sequence[Mapping[str, Sequence[float]]]) -> None:
        self._bias = bias
        self._trees = [{name: np.array(column) for name, column in tree.items()} for tree in trees]

    def probability(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """By row, the probability of the positive class."""
        score = np.full(len(rows), self._bias)
        every = np.arange(len(rows))
        for tree in self._trees:
            feature, threshold = tree["feature"].astype(np.int64), tree["threshold"]
            left, right = tree["left"].astype(np.int64), tree["right"].astype(np.int64)
            at = np.zeros(len(rows), dtype=np.int64)
            while True:
                inner = feature[at] >= 0
                if not inner.any():
                    break
                goes_left = rows[every, feature[at]] <= threshold[at]
                at = np.where(inner, np.where(goes_left, left[at], right[at]), at)
            score += tree["value"][at]
        return np.asarray(1.0 / (1.0 + np.exp(-score)))


@lru_cache(maxsize=1)
def _model() -> BoostedTrees:
    stored = json.loads(Path(__file__).with_name("relevance.json").read_text(encoding="utf-8"))
    assert tuple(stored["features"]) == FEATURES, "relevance.json belongs to other features: fetchly lab fit-relevance"
    return BoostedTrees(stored["bias"], stored["trees"])
