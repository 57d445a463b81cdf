"""A decoded value and the context of its page in, the same value in the user's types out, with where it came from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Any

import jsonschema_rs

from fetchly.extraction.dates import parse_date
from fetchly.extraction.decoding import SPAN_KINDS, LeafKind, leaf_kind
from fetchly.extraction.durations import TimeUnit, parse_duration, parse_iso_duration
from fetchly.extraction.numbers import parse_number, plain
from fetchly.extraction.page_context import PageContext
from fetchly.extraction.shape import Node, SchemaTree, below
from fetchly.extraction.urls import formatted_url

DEEPEST_ALTERNATIVES = 8
"""Alternatives within alternatives that are tried on one value and below; beyond, a value stays as it was decoded."""

_IN_UNIT = re.compile(
    r"\bin (?:whole |full )?(minut|second|sekund|hour|stunde|day|tage|week|woche|month|monat|year|jahre)", re.IGNORECASE
)
_EMAIL = re.compile(r"[^\s@<>()\[\],;:\"]+@[^\W_](?:[\w.-]*[^\W_])?\.[^\W\d_]{2,}")
_WANTED: dict[LeafKind, str] = {
    "integer": "whole number",
    "number": "number",
    "date": "date",
    "date-time": "date-time",
    "time": "time",
    "duration": "length of time",
    "email": "e-mail address",
    "link": "absolute URL of this page",
}
_STEMS: dict[str, TimeUnit] = {
    "minut": "minute",
    "second": "second",
    "sekund": "second",
    "hour": "hour",
    "stunde": "hour",
    "day": "day",
    "tage": "day",
    "week": "week",
    "woche": "week",
    "month": "month",
    "monat": "month",
    "year": "year",
    "jahre": "year",
}
_NAME_WORDS: dict[str, TimeUnit] = {
    "minutes": "minute",
    "mins": "minute",
    "minuten": "minute",
    "hours": "hour",
    "seconds": "second",
    "secs": "second",
    "days": "day",
    "weeks": "week",
    "months": "month",
    "years": "year",
    "yrs": "year",
}


@dataclass(frozen=True, slots=True)
class Converted:
    """`value` in the user's types; by JSON pointer, where it came from.

    `spans` are texts of the page that values were read from, `verbatim` those among them that must stand on the page as
    they are, `links` the ids of links whose URL was taken. `unread` says why a span gave no value.
    """

    value: Any
    spans: Mapping[str, str]
    verbatim: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()
    links: Mapping[str, str] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SpanValue:
    """`value` None: the span is no value of its field. `remark` says what was open and how it was read."""

    value: Any
    remark: str = ""


def convert(user: Node, decoded: Any, context: PageContext) -> Converted:
    """Turn the spans and link ids of a decoded value into the types of the user's schema.

    A span that does not parse gives null and a warning that names pointer and span; null for an optional property
    that refuses null is left out; a list entry that does not parse is left out, with a warning. Bounds and formats are
    the validator's business.
    """
    walk = _Walk(SchemaTree(user), context)
    value = walk.value(user, decoded, "", "")
    warnings = tuple(walk.warnings)
    return Converted(value, walk.spans, frozenset(walk.verbatim), warnings, walk.links, walk.unread)


def convert_span(node: Node, kind: LeafKind, span: str, context: PageContext, name: str = "") -> Any:
    """The value of one leaf as `convert` would give it, or None: `span` is what the model writes, a link's id included.

    `node` is the leaf's schema with references followed (SchemaTree.node); `name` the property it stands under.
    """
    return read_span(node, kind, span, context, name).value


def read_span(node: Node, kind: LeafKind, span: str, context: PageContext, name: str = "") -> SpanValue:
    """As convert_span, with what a reader should know about the reading."""
    lang, conventions = context.lang, context.conventions
    if kind in ("integer", "number"):
        unit = time_unit(name, str(node.get("description", "")))
        found = parse_duration(span, lang, unit, conventions) if unit else parse_number(span, lang, conventions)
        return SpanValue(_json_number(found.value, kind), found.remark)
    if kind in ("date", "date-time", "time"):
        moment = parse_date(span, lang, kind, conventions)
        return SpanValue(moment.value, moment.remark)
    if kind == "duration":
        length = parse_iso_duration(span, lang, conventions)
        return SpanValue(length.value, length.remark)
    if kind == "email":
        address = _EMAIL.search(plain(span))
        fits = address is not None and _has_format(str(node.get("format", "email"))).is_valid(address[0])
        return SpanValue(address[0] if address is not None and fits else None)
    if kind == "link":
        link = context.links.get(span)
        form = node.get("format")
        return SpanValue(
            formatted_url(link.url, form if isinstance(form, str) else None, context.charset) if link else None
        )
    return SpanValue(span)


def time_unit(name: str, description: str) -> TimeUnit | None:
    """The unit that a field counts time in, as its name ("total_minutes") or description ("in minutes") says."""
    for word in re.split(r"[^a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()):
        if word in _NAME_WORDS:
            return _NAME_WORDS[word]
    if found := _IN_UNIT.search(description):
        return _STEMS[found[1].lower()]
    return "minute" if re.search(r"\bminut", description, re.IGNORECASE) else None


@dataclass(slots=True)
class _Walk:
    """Schema and value walked together; what was met on the way. `nested` counts alternatives within alternatives,
    `ids` the ids that were taken as links."""

    tree: SchemaTree
    context: PageContext
    nested: int = 0
    ids: int = 0
    spans: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    verbatim: set[str] = field(default_factory=set)
    unread: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def value(self, schema: Any, value: Any, pointer: str, name: str) -> Any:
        if value is None:
            return None
        branches = self.tree.alternatives(schema)
        if branches and self.nested < DEEPEST_ALTERNATIVES:
            return self._branch(branches, value, pointer, name)
        if isinstance(value, dict):
            return self._object(self.tree.node(schema), value, pointer)
        if isinstance(value, list):
            return self._array(self.tree.node(schema), value, pointer, name)
        kind = leaf_kind(self.tree, schema)
        if isinstance(value, str) and kind is not None and (kind in SPAN_KINDS or kind == "link"):
            return self._span(self.tree.node(schema), kind, value, pointer, name)
        return value

    def _branch(self, branches: tuple[Any, ...], value: Any, pointer: str, name: str) -> Any:
        """The first branch that the value fits without a warning, else with one, else that its span is no value of.

        The id of a link is that: never the number in it or a text, where some branch is a URL. Of branches that fit
        alike, the one that takes the most ids as links.
        """
        if self._is_link_id(value):
            branches = tuple(branch for branch in branches if self._is_link(branch)) or branches
        best: _Walk | None = None
        result, rank = value, (-1, 0)
        for branch in branches:
            trial = _Walk(self.tree, self.context, self.nested + 1)
            found = trial.value(branch, value, pointer, name)
            if found is not None and self.tree.fits(branch, found):
                score = 2 if trial.warnings else 3
            else:
                score = 1 if found is None else 0
            if (score, trial.ids) > rank:
                best, result, rank = trial, found, (score, trial.ids)
        if best is not None:
            self.spans.update(best.spans)
            self.links.update(best.links)
            self.verbatim.update(best.verbatim)
            self.unread.update(best.unread)
            self.warnings.extend(best.warnings)
            self.ids += best.ids
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
            found = self.value(schema, item, below(pointer, key), key)
            if found is None and key not in required and not self.tree.accepts_null(schema):
                continue
            out[key] = found
        return out

    def _array(self, node: Node, value: list[Any], pointer: str, name: str) -> list[Any]:
        prefix, items = node.get("prefixItems", ()), node.get("items", True)
        if isinstance(items, list):
            prefix, items = items, node.get("additionalItems", True)
        out: list[Any] = []
        for index, item in enumerate(value):
            fixed = index < len(prefix)
            schema = prefix[index] if fixed else items
            found = self.value(schema, item, below(pointer, len(out)), name)
            if found is None and item is not None and not fixed and not self.tree.accepts_null(schema):
                self.warnings.append(f"{below(pointer, index)}: the entry was left out of the list")
                continue
            out.append(found)
        return out

    def _span(self, node: Node, kind: LeafKind, span: str, pointer: str, name: str) -> Any:
        """One span in its type, or None with a warning."""
        found = read_span(node, kind, span, self.context, name)
        if found.value is None:
            self.unread[pointer] = f"{_shown(span)} was read as no {_WANTED[kind]}"
            self.warnings.append(f"{pointer or '/'}: {self.unread[pointer]}; null was taken")
            return None
        self.unread.pop(pointer, None)  # of a list entry that was left out
        if found.remark:
            self.warnings.append(f"{pointer or '/'}: {_shown(span)}: {found.remark}")
        if kind == "link":
            self.links[pointer] = self.context.links[span].id
            self.ids += self._is_link_id(span)
        else:
            self.spans[pointer] = span
        if kind == "verbatim":
            self.verbatim.add(pointer)
        return found.value


def _json_number(value: Decimal | None, kind: str) -> int | float | None:
    """A decimal as JSON number; None for a fraction where a whole number is asked."""
    if value is None:
        return None
    if value == value.to_integral_value():
        return int(value)
    return None if kind == "integer" else float(value)


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


@lru_cache(maxsize=8)
def _has_format(form: str) -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for({"format": form}, validate_formats=True, offline=True)


def _shown(span: str) -> str:
    text = span if len(span) <= 60 else span[:59] + "…"
    return f"“{text}”"
