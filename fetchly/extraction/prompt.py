"""A schema and a document in, the prompt out: instruction, the fields to fill, the chosen part of the page."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fetchly.extraction.decoding import leaf_kind
from fetchly.extraction.format import FORMAT_VERSION
from fetchly.extraction.sections import CountTokens, SectionChoice, ShownBlock, choose_sections
from fetchly.extraction.shape import DEEPEST, SchemaTree, fingerprint
from fetchly.goods import Document, Prompt

PAGE_BUDGET = 2000
"""Tokens of page shown by default, in extraction and in training: `fetchly lab recall` on real pages finds 0.97 or
more of the right values of recipes, articles, contacts and older detail pages within it, of products 0.96."""

SYSTEM = (
    f"Format {FORMAT_VERSION}. You read a web page and write one JSON record with the fields that are asked for. "
    "Copy values exactly as the page writes them. Write null for what the page does not say."
)

DEEPEST_FIELDS = 8
PAGE_HEAD = "\n\nPage:\n"
"""Ends the task, so that the page begins on a line of its own."""

_LINK_MARK = re.compile(r"\[([LI][1-9][0-9]*)\]")
_KINDS = {
    "verbatim": "text",
    "integer": "whole number",
    "number": "number",
    "date": "date",
    "date-time": "date and time",
    "time": "time",
    "duration": "length of time",
    "email": "e-mail address",
    "link": "id of a link",
}
_TYPES = {"string": "own words", "integer": "whole number", "boolean": "true or false", "null": "null"}


@dataclass(frozen=True, slots=True)
class PagePrompt:
    """The prompt for one page, and what of the page it shows."""

    prompt: Prompt
    sections: SectionChoice


def build_prompt(
    schema: Mapping[str, Any], document: Document, budget_tokens: int, count_tokens: CountTokens
) -> PagePrompt:
    """Everything that the model is told about one page; `system` and `task` depend on the schema alone."""
    sections = choose_sections(schema, document.blocks, budget_tokens, count_tokens)
    source = "\n".join(block.text for block in sections.shown)
    page = sections.page(len(document.blocks))
    links = _links(sections.shown, document)
    return PagePrompt(Prompt(SYSTEM, render_task(schema) + PAGE_HEAD, page, source, links), sections)


def _links(shown: Sequence[ShownBlock], document: Document) -> tuple[str, ...]:
    """The ids whose marks stand in the shown lines, in their order. What the page itself writes is no mark."""
    known = {link.id for link in document.links}
    marks: dict[str, None] = {}
    for block in shown:
        found = Counter(_LINK_MARK.findall(block.line))
        found.subtract(_LINK_MARK.findall(block.text))
        marks.update(dict.fromkeys(mark for mark, count in found.items() if count > 0 and mark in known))
    return tuple(marks)


def render_task(schema: Mapping[str, Any]) -> str:
    """The schema for a small model: one line a field (name, kind, description), nested ones indented."""
    tree = SchemaTree(schema)
    node = tree.node(schema)
    title, description = node.get("title"), _one_line(node.get("description"))
    head = ": ".join(part for part in (title if isinstance(title, str) else "", description) if part) or "Record"
    lines = list(_members(tree, schema, 0, frozenset()))
    return "\n".join([head, "Fields:", *lines] if lines else [head, f"Value: {_kind(tree, schema)}"])


def _members(tree: SchemaTree, schema: Any, depth: int, seen: frozenset[str]) -> Iterator[str]:
    """The lines of what a node holds: the properties of an object, of a list's entries, of every alternative."""
    if depth > DEEPEST_FIELDS or len(seen) > DEEPEST:
        return
    branches = tree.alternatives(schema)
    if branches or (isinstance(schema, Mapping) and ("$ref" in schema or "allOf" in schema)):
        key = fingerprint(schema)
        if key in seen:
            return
        seen = seen | {key}
    for branch in branches:
        yield from _members(tree, branch, depth, seen)
    if branches:
        return
    node = tree.node(schema)
    properties = node.get("properties")
    if isinstance(properties, Mapping):
        for name, part in properties.items():
            yield _line(tree, name, part, depth)
            yield from _members(tree, part, depth + 1, seen)
    items = node.get("items")
    if isinstance(items, Mapping):
        yield from _members(tree, items, depth, seen)
    extra = node.get("additionalProperties")
    if isinstance(extra, Mapping) and not properties:
        yield _line(tree, "(any name)", extra, depth)
        yield from _members(tree, extra, depth + 1, seen)


def _line(tree: SchemaTree, name: str, schema: Any, depth: int) -> str:
    description = _one_line(tree.node(schema).get("description"))
    tail = f": {description}" if description else ""
    return f"{'  ' * depth}- {name} ({_kind(tree, schema)}){tail}"


def _kind(tree: SchemaTree, schema: Any, depth: int = 0) -> str:
    """A few words for what a value looks like."""
    if depth > DEEPEST_FIELDS:
        return "value"
    branches = tree.alternatives(schema)
    if branches:
        kinds = [_kind(tree, branch, depth + 1) for branch in branches]
        return " or ".join(dict.fromkeys(kind for kind in kinds if kind != "null")) or "null"
    node = tree.node(schema)
    if "const" in node:
        return f"always {node['const']!s}"
    if isinstance(node.get("enum"), list):
        return "one of " + ", ".join(str(option) for option in node["enum"] if option is not None)
    kind = leaf_kind(tree, schema)
    if kind is not None and kind != "plain":
        return _KINDS[kind]
    types = tree.types(schema)
    if types == {"null"}:
        return "null"
    if "array" in types:
        items = node.get("items")
        return f"list of {_kind(tree, items, depth + 1)}" if isinstance(items, Mapping) else "list"
    if "object" in types:
        return "group"
    names = [
        str(node["format"]) if t == "string" and "format" in node else _TYPES.get(t, t)
        for t in sorted(types - {"null"})
    ]
    return " or ".join(names) or "value"


def _one_line(text: Any) -> str:
    return " ".join(text.split()) if isinstance(text, str) else ""
