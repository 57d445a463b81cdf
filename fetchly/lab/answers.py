"""A schema, the shown part of a page and what is known of the page in; the text that the model ought to write out.

The text is the decoded record in the grammar's own layout: keys in schema order, ", " and ": ", raw UTF-8, spans as the
page spells them. It is made by search, as `extraction/values.py` is a function and its inverse is none, and nothing is
believed: the finished record is converted and every value of it scored before it is given out.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fetchly.extraction.page_context import page_context
from fetchly.extraction.prompt import PagePrompt
from fetchly.extraction.shape import Node
from fetchly.extraction.values import convert
from fetchly.goods import Document
from fetchly.lab.candidates import Candidates
from fetchly.lab.choice import Choice
from fetchly.lab.leaf_search import LeafSearch, SearchedPage
from fetchly.lab.places import Places, SourceLine
from fetchly.lab.skeleton import Entries, Leaf, Members, Shape, SkeletonBuilder, leaves, lists
from fetchly.lab.truth import Truth


@dataclass(frozen=True, slots=True)
class Answer:
    """`text` is what the model ought to write, None where `lost` names fields (path: reason) for which no honest answer
    is known: take them out of the schema and ask again. `found` counts the values by how they were found."""

    text: str | None
    record: Any
    lost: Mapping[str, str]
    found: Mapping[str, int]

    @property
    def says_something(self) -> bool:
        """Whether any value was found on the page."""
        return bool(self.found.keys() - {"null", "cut", "literal"})


def unknown_fields(schema: Node, truth: Truth) -> dict[str, str]:
    """The fields (path: reason) of which nothing is known, whatever the page shows."""
    shape = SkeletonBuilder(schema, truth, lambda place, _: Leaf(place.path, place.pointer, "literal")).build()
    return _losses(shape)


class AnswerWriter:
    """Writes answers about one document. The whole document is searched only where the shown part was not enough."""

    def __init__(self, document: Document) -> None:
        self._context = page_context(document)
        self._document = document
        self._whole: Candidates | None = None
        self._shown: Candidates | None = None
        self._source = ""

    def write(self, schema: Node, shown: PagePrompt, truth: Truth) -> Answer:
        """The answer for one schema and one prompt. `schema` is the user's, marks of `auto` included."""
        page = self._searched(shown)
        searched = SearchedPage(page, self._all, shown, self._context, self._document.links)
        shape = SkeletonBuilder(schema, truth, LeafSearch(schema, truth, searched).leaf).build()
        lost = {**_losses(shape), **Choice(page).settle(shape)}
        if not lost:
            decoded, written = _written(shape)
            record = convert(schema, decoded, self._context).value
            lost = _wrong(record, written) or _alike(shape, decoded)
            if not lost:
                return Answer(json.dumps(decoded, ensure_ascii=False), record, {}, _how(shape))
        return Answer(None, None, lost, {})

    def _all(self) -> Candidates:
        """The document, shown or not."""
        if self._whole is None:
            lines = [SourceLine(block.text, block.line, block.kind) for block in self._document.blocks]
            self._whole = Candidates(Places(lines), self._document.lang)
        return self._whole

    def _searched(self, shown: PagePrompt) -> Candidates:
        """The shown lines. Narrowing a schema seldom changes them, so the last ones are kept."""
        source = shown.prompt.source
        if self._shown is None or source != self._source:
            blocks = self._document.blocks
            lines = [SourceLine(part.text, part.line, blocks[part.index].kind) for part in shown.sections.shown]
            assert "\n".join(line.text for line in lines) == source, "spans are taken from the shown blocks, one a line"
            self._shown, self._source = Candidates(Places(lines), self._document.lang), source
        return self._shown


@dataclass(frozen=True, slots=True)
class _Written:
    """A leaf and the keys that lead to it in the record."""

    leaf: Leaf
    keys: tuple[str | int, ...]


def _wrong(record: Any, written: list[_Written]) -> dict[str, str]:
    """The fields whose values are not right once the whole record is converted."""
    return {
        each.leaf.path: "not right once converted"
        for each in written
        if each.leaf.is_right is not None and not each.leaf.is_right(_value_at(record, each.keys))
    }


def _losses(shape: Shape) -> dict[str, str]:
    """Fields of which a value is lost, with the commonest reason."""
    reasons: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for leaf in leaves(shape):
        if leaf.status == "lost":
            reasons[leaf.path][leaf.reason] += 1
    return {path: counts.most_common(1)[0][0] for path, counts in reasons.items()}


def _alike(shape: Shape, decoded: Any) -> dict[str, str]:
    """Lists of records with two equal ones: what tells them apart was taken out, and the mask forbids the second."""
    if isinstance(shape, Leaf) or decoded is None:
        return {}
    if isinstance(shape, Members):
        return {k: v for name, part in shape.members.items() for k, v in _alike(part, decoded[name]).items()}
    records = [json.dumps(record) for record in decoded if isinstance(record, dict)]
    if len(set(records)) < len(records):
        return {shape.path: "entries are alike"}
    return {k: v for part, value in zip(shape.entries, decoded, strict=True) for k, v in _alike(part, value).items()}


def _how(shape: Shape) -> Counter[str]:
    """The values of an answer by how they were found; the entries of lists that are not shown count as cut."""
    counts: Counter[str] = Counter(leaf.chosen.how if leaf.chosen else leaf.status for leaf in leaves(shape))
    counts["cut"] += sum(part.cut for part in lists(shape))
    return +counts


def _written(shape: Shape) -> tuple[Any, list[_Written]]:
    """The decoded record and where its leaves stand in it."""
    written: list[_Written] = []

    def value(part: Shape, keys: tuple[str | int, ...]) -> Any:
        if isinstance(part, Leaf):
            written.append(_Written(part, keys))
            return part.chosen.place.text if part.chosen else part.value
        if keys and part.nullable and _is_cut(part):
            return None
        if isinstance(part, Members):
            return {name: value(member, (*keys, name)) for name, member in part.members.items()}
        return [value(entry, (*keys, index)) for index, entry in enumerate(part.entries)]

    return value(shape, ()), written


def _is_cut(part: Entries | Members) -> bool:
    """Whether the page says something of an object or list, but not where it is shown."""
    statuses = {leaf.status for leaf in leaves(part)}
    return not statuses & {"found", "literal"} and ("cut" in statuses or isinstance(part, Entries))


def _value_at(record: Any, keys: tuple[str | int, ...]) -> Any:
    """What a converted record holds at a place; None where it left something out."""
    for key in keys:
        if isinstance(record, dict) and isinstance(key, str):
            record = record.get(key)
        elif isinstance(record, list) and isinstance(key, int) and key < len(record):
            record = record[key]
        else:
            return None
    return record
