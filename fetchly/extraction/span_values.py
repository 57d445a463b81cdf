"""One span of a page and the leaf of the schema that it was written for in, the value in the leaf's type out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

import jsonschema_rs

from fetchly.extraction.dates import parse_date
from fetchly.extraction.decoding import LeafKind
from fetchly.extraction.durations import TimeUnit, parse_duration, parse_iso_duration
from fetchly.extraction.leaf_rules import refusal
from fetchly.extraction.numbers import parse_number, plain
from fetchly.extraction.page_context import PageContext
from fetchly.extraction.shape import Node
from fetchly.extraction.urls import formatted_url

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
class SpanValue:
    """`value` None: the span is no value of its field, and `refusal` says why. `remark` says what was open and how it
    was read."""

    value: Any
    remark: str = ""
    refusal: str = ""


def convert_span(
    node: Node, kind: LeafKind, span: str, context: PageContext, name: str = "", *, dialect: str | None = None
) -> Any:
    """The value of one leaf as `convert` would give it, or None: `span` is what the model writes, a link's id included.

    `node` is the leaf's schema with references followed (SchemaTree.node); `name` the property it stands under;
    `dialect` the `$schema` of the whole schema.
    """
    return read_span(node, kind, span, context, name, dialect=dialect).value


def read_span(
    node: Node, kind: LeafKind, span: str, context: PageContext, name: str = "", *, dialect: str | None = None
) -> SpanValue:
    """As convert_span, with what a reader should know about the reading."""
    found = _read(node, kind, span, context, name)
    if found.value is None:
        return SpanValue(None, refusal=f"{shown(span)} was read as no {_WANTED[kind]}")
    broken = refusal(node, found.value, dialect)
    if broken:
        return SpanValue(None, refusal=f"{shown(span)}: {broken}")
    return found


def _read(node: Node, kind: LeafKind, span: str, context: PageContext, name: str) -> SpanValue:
    """A span in its type, whatever else the leaf asks of it."""
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
        url = formatted_url(link.url, form if isinstance(form, str) else None, context.charset) if link else None
        return SpanValue(url)
    return SpanValue(span)


def time_unit(name: str, description: str) -> TimeUnit | None:
    """The unit that a field counts time in, as its name ("total_minutes") or description ("in minutes") says."""
    for word in re.split(r"[^a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()):
        if word in _NAME_WORDS:
            return _NAME_WORDS[word]
    if found := _IN_UNIT.search(description):
        return _STEMS[found[1].lower()]
    return "minute" if re.search(r"\bminut", description, re.IGNORECASE) else None


def _json_number(value: Decimal | None, kind: str) -> int | float | None:
    """A decimal as JSON number; None for a fraction where a whole number is asked."""
    if value is None:
        return None
    if value == value.to_integral_value():
        return int(value)
    return None if kind == "integer" else float(value)


@lru_cache(maxsize=8)
def _has_format(form: str) -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for({"format": form}, validate_formats=True, offline=True)


def shown(span: str) -> str:
    """A span as messages show it: quoted, and cut where it is long."""
    text = span if len(span) <= 60 else span[:59] + "…"
    return f"“{text}”"
