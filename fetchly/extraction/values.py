"""A decoded value and the context of its page in, the same value in the user's types out, with where it came from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import jsonschema_rs

from fetchly.extraction.decoding import SPAN_KINDS, LeafKind, leaf_kind, written_branches
from fetchly.extraction.page_context import PageContext
from fetchly.extraction.shape import Node, SchemaTree, below, same
from fetchly.extraction.span_values import read_span, shown

DEEPEST_ALTERNATIVES = 8
"""Alternatives within alternatives that are tried on one value and below; beyond, a value stays as it was decoded."""


@dataclass(frozen=True, slots=True)
class Converted:
    """`value` in the user's types; by JSON pointer, where it came from.

    `spans` are texts of the page that values were read from, `verbatim` those among them that must stand on the page as
    they are, `links` the ids of links whose URL was taken. `unread` says why there is null where the schema refuses it.
    """

    value: Any
    spans: Mapping[str, str]
    verbatim: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()
    links: Mapping[str, str] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)


def convert(user: Node, decoded: Any, context: PageContext) -> Converted:
    """Turn the spans and link ids of a decoded value into the types of the user's schema.

    A span that does not parse, or gives a value that its leaf refuses (bounds, lengths, pattern, format), gives null
    and a warning that names pointer, span and reason; null for an optional property that refuses null is left out. An
    object that cannot be valid without such a value is null, or left out, itself where that is allowed. So is an entry
    of a list, or one that repeats another where `uniqueItems` forbids it, as long as `minItems` holds without it.
    """
    walk = _Walk(SchemaTree(user), context)
    value = walk._or_null(user, walk.value(user, decoded, "", ""), "")
    warnings = tuple(f"{warning.pointer or '/'}: {warning.text}" for warning in walk.warnings)
    return Converted(value, walk.spans, frozenset(walk.verbatim), warnings, walk.links, walk.unread)


@dataclass(frozen=True, slots=True)
class _Warning:
    pointer: str
    text: str


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry of a list as it was converted, on a walk of its own; `flaw` says why it cannot be valid."""

    pointer: str
    value: Any
    walk: _Walk
    flaw: str


@dataclass(slots=True)
class _Walk:
    """Schema and value walked together; what was met on the way. `nested` counts alternatives within alternatives,
    `ids` the ids that were taken as links, `dropped` the objects and entries that could not be valid."""

    tree: SchemaTree
    context: PageContext
    nested: int = 0
    ids: int = 0
    dropped: int = 0
    spans: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    verbatim: set[str] = field(default_factory=set)
    unread: dict[str, str] = field(default_factory=dict)
    warnings: list[_Warning] = field(default_factory=list)

    def value(self, schema: Any, value: Any, pointer: str, name: str) -> Any:
        """A value at `pointer`; None, and `unread` says why, for a span that gave none."""
        if value is None:
            return None
        branches = self.tree.alternatives(schema)
        if branches and self.nested < DEEPEST_ALTERNATIVES:
            return self._branch(written_branches(self.tree, branches), value, pointer, name)
        if isinstance(value, dict):
            return self._object(self.tree.node(schema), value, pointer)
        if isinstance(value, list):
            node = self.tree.node(schema)
            return self._array(node, self._entries(node, value, pointer, name), pointer)
        kind = leaf_kind(self.tree, schema)
        if isinstance(value, str) and kind is not None and (kind in SPAN_KINDS or kind == "link"):
            return self._span(self.tree.node(schema), kind, value, pointer, name)
        return value

    def _branch(self, branches: tuple[Any, ...], value: Any, pointer: str, name: str) -> Any:
        """The first branch that the value fits without a warning, else with one, else that its span is no value of.

        The id of a link is that: never the number in it or a text, where some branch is a URL. Of branches that fit
        alike, the one that keeps most of the value, then the one that takes the most ids as links.
        """
        if self._is_link_id(value):
            branches = tuple(branch for branch in branches if self._is_link(branch)) or branches
        best: _Walk | None = None
        result, rank = value, (-1, 0, 0)
        for branch in branches:
            trial = _Walk(self.tree, self.context, self.nested + 1)
            found = trial.value(branch, value, pointer, name)
            if found is not None and self.tree.fits(branch, found):
                score = 2 if trial.warnings else 3
            else:
                score = 1 if found is None else 0
            if (score, -trial.dropped, trial.ids) > rank:
                best, result, rank = trial, found, (score, -trial.dropped, trial.ids)
        if best is not None:
            self._adopt(best)
        return result

    def _is_link_id(self, value: Any) -> bool:
        """Whether a value is the id of a link that the model could choose; links are known by their URLs as well."""
        return isinstance(value, str) and value in self.context.links and self.context.links[value].id == value

    def _is_link(self, schema: Any, depth: int = 0) -> bool:
        """Whether a node, or an alternative of it, is a URL."""
        if leaf_kind(self.tree, schema) == "link":
            return True
        branches = self.tree.alternatives(schema) if depth < DEEPEST_ALTERNATIVES else ()
        return any(self._is_link(branch, depth + 1) for branch in branches or ())

    def _object(self, node: Node, value: dict[str, Any], pointer: str) -> dict[str, Any]:
        properties = node.get("properties", {})
        required = node.get("required", ())
        out: dict[str, Any] = {}
        for key, item in value.items():
            schema = properties[key] if key in properties else _extra(node, key)
            place = below(pointer, key)
            found = self._or_null(schema, self.value(schema, item, place, key), place)
            flaw = self._flaw(place)
            if key not in required and (flaw or (found is None and not self.tree.accepts_null(schema))):
                if found is not None:
                    self._drop(place, f"{flaw}; the field was left out")
                self._forget(place)
                continue
            out[key] = found
        return out

    def _array(self, node: Node, entries: list[_Entry], pointer: str) -> list[Any]:
        kept = [entry for entry in entries if not entry.flaw]
        least = node.get("minItems", 0)
        if len(kept) < least:  # the record is refused: for what it holds, not for what was left out
            kept = entries
        for position, entry in enumerate(kept):
            self._adopt(entry.walk, entry.pointer, below(pointer, position))
        if len(kept) < len(entries):
            note = f", which holds its minItems of {least} without it" if least else ""
            for number, entry in enumerate(entries, 1):
                if entry.flaw:
                    self._drop(
                        pointer, f"{entry.flaw}; entry {number} of {len(entries)} was left out of the list{note}"
                    )
        return [entry.value for entry in kept]

    def _entries(self, node: Node, value: list[Any], pointer: str, name: str) -> list[_Entry]:
        """The entries of a list. Those at the places of a tuple are never flawed: the others would move up."""
        prefix, items = node.get("prefixItems", ()), node.get("items", True)
        if isinstance(items, list):
            prefix, items = items, node.get("additionalItems", True)
        entries: list[_Entry] = []
        for index, item in enumerate(value):
            fixed = index < len(prefix)
            place = below(pointer, index)
            walk = _Walk(self.tree, self.context, self.nested)
            schema = prefix[index] if fixed else items
            found = walk._or_null(schema, walk.value(schema, item, place, name), place)
            flaw = "" if fixed else walk._flaw(place)
            if not flaw and not fixed and node.get("uniqueItems") is True:
                repeated = any(same(found, earlier.value) for earlier in entries if not earlier.flaw)
                flaw = f"{_text(found)} is there already, and uniqueItems wants each once" if repeated else ""
            entries.append(_Entry(place, found, walk, flaw))
        return entries

    def _span(self, node: Node, kind: LeafKind, span: str, pointer: str, name: str) -> Any:
        """One span in its type, or None with a warning."""
        found = read_span(node, kind, span, self.context, name, dialect=self.tree.dialect)
        if found.value is None:
            self.unread[pointer] = found.refusal
            self.warnings.append(_Warning(pointer, f"{found.refusal}; null was taken"))
            return None
        if found.remark:
            self.warnings.append(_Warning(pointer, f"{shown(span)}: {found.remark}"))
        if kind == "link":
            self.links[pointer] = self.context.links[span].id
            self.ids += self._is_link_id(span)
        else:
            self.spans[pointer] = span
        if kind == "verbatim":
            self.verbatim.add(pointer)
        return found.value

    def _or_null(self, schema: Any, found: Any, pointer: str) -> Any:
        """What was found at a place; null where that cannot be valid and null is allowed.

        An object or list is given up only where the schema speaks of null: one without a type accepts it unasked.
        """
        flaw = self._flaw(pointer)
        if not flaw or not self.tree.accepts_null(schema) or (found is not None and not self.tree.names_null(schema)):
            return found
        if found is not None:
            self._drop(pointer, f"{flaw}; null was taken")
        self._forget(pointer)
        return None

    def _drop(self, pointer: str, why: str) -> None:
        """Tell of an object, a list or an entry that cannot be valid."""
        self.dropped += 1
        self.warnings.append(_Warning(pointer, why))

    def _flaw(self, pointer: str) -> str:
        """Why what stands at a place cannot be valid: the first null at or below it that the schema refuses."""
        for place, why in self.unread.items():
            if _is_within(place, pointer):
                return f"at {place[len(pointer) :]} {why}" if place != pointer else why
        return ""

    def _forget(self, pointer: str) -> None:
        """Drop where values at or below a place came from; the warnings stay."""
        for known in (self.spans, self.links, self.unread):
            for place in [place for place in known if _is_within(place, pointer)]:
                del known[place]
        self.verbatim = {place for place in self.verbatim if not _is_within(place, pointer)}

    def _adopt(self, other: _Walk, old: str = "", new: str = "") -> None:
        """Take over what another walk met; what it met below `old` stands below `new`."""

        def moved(place: str) -> str:
            return new + place[len(old) :]

        self.spans.update({moved(place): span for place, span in other.spans.items()})
        self.links.update({moved(place): number for place, number in other.links.items()})
        self.verbatim.update(map(moved, other.verbatim))
        self.unread.update({moved(place): why for place, why in other.unread.items()})
        self.warnings.extend(_Warning(moved(warning.pointer), warning.text) for warning in other.warnings)
        self.ids += other.ids
        self.dropped += other.dropped


def _is_within(place: str, pointer: str) -> bool:
    """Whether a pointer is another one, or leads to something inside it."""
    return place == pointer or place.startswith(f"{pointer}/")


def _text(value: Any) -> str:
    """A value as JSON, as messages show it."""
    return shown(json.dumps(value, ensure_ascii=False))


def _extra(node: Node, key: str) -> Any:
    """The schema of a property that is not declared by name."""
    for pattern, schema in node.get("patternProperties", {}).items():
        if _names_match(pattern).is_valid(key):
            return schema
    return node.get("additionalProperties", True)


@lru_cache(maxsize=128)
def _names_match(pattern: str) -> jsonschema_rs.Validator:
    """A pattern in JSON Schema's dialect of regular expressions (ECMA-262), which python's re does not read."""
    return jsonschema_rs.validator_for({"pattern": pattern}, offline=True)
