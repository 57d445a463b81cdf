"""Finite numbers and texts, judged by the grammar that llguidance makes of them."""

from __future__ import annotations

import itertools
import json
from typing import Any

import jsonschema_rs
import pytest

from fetchly_llm.errors import SchemaRefused
from fetchly_llm.grammar.prepare import prepare
from tests.support.schema_suite import ByteMatcher

NUMBERS = (
    "0 -0 0.0 -0.0 1 1.0 1.00 -1 -1.0 0.5 0.50 0.49 0.51 -0.5 -0.51 -0.49 2 2.5 10 10.0 10.01 0.1 0.09 0.001 100 99"
    " 101 -2 -1.99 -2.01 3 5 4.99 5.01 2.000001"
)


def matcher(schema: Any) -> ByteMatcher:
    prepared = prepare(schema)
    return ByteMatcher(prepared.enforced, prepared.allowed_escapes)


@pytest.mark.parametrize("kind", ["number", "integer"])
def test_bounds_mean_what_the_validator_says(kind: str) -> None:
    ends = (None, 0, 1, -0.5, 2, 0.1, 5)
    checked = 0
    for low, high in itertools.product(ends, ends):
        for lower, upper in itertools.product(("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
            bounds = {name: end for name, end in ((lower, low), (upper, high)) if end is not None}
            schema = {"type": kind, **bounds}
            try:
                grammar = matcher(schema)
            except SchemaRefused:
                continue
            validator = jsonschema_rs.validator_for(schema)
            for text in NUMBERS.split():
                if grammar.accepts_text(text):
                    assert validator.is_valid(json.loads(text)), (schema, text)
                    checked += 1
    assert checked > 400


def test_numbers_end() -> None:
    grammar = matcher({"type": "number"})
    taken = ("123456789.654321", "-999999999999999", "0.5", "1")
    refused = ("1" * 16, "0.1234567", "1e5", "0.0000000", "1234567890.5")
    assert [text for text in taken + refused if grammar.accepts_text(text)] == list(taken)


def test_a_narrow_range_keeps_its_digits() -> None:
    grammar = matcher({"type": "number", "minimum": -90, "maximum": 90})
    assert grammar.accepts_text("48.8566101")
    assert not grammar.accepts_text("90.1")


def test_multiples() -> None:
    grammar = matcher({"type": "number", "multipleOf": 0.01, "exclusiveMinimum": 0, "maximum": 1})
    assert [text for text in ("0", "0.01", "0.015", "1", "1.01") if grammar.accepts_text(text)] == ["0.01", "1"]
    both = matcher({"allOf": [{"type": "integer", "multipleOf": 4}, {"multipleOf": 6}]})
    assert [n for n in range(30) if both.accepts(n)] == [0, 12, 24]


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"format": "date"}, ["2024-02-29", "2000-02-29", "1999-12-31"], ["2023-02-29", "1900-02-29", "2021-04-31"]),
        ({"format": "time"}, ["23:59:59Z", "01:02:03.5+01:00"], ["23:59:60Z", "24:00:00Z", "12:00"]),
        ({"format": "date-time"}, ["2024-02-29T23:59:59Z"], ["2023-02-29T23:59:59Z", "2024-02-29 23:59:59Z"]),
        ({"format": "date", "pattern": "^2"}, ["2024-02-28"], ["1999-12-31", "2023-02-29"]),
        ({"format": "colour"}, ["anything"], []),
        ({"pattern": "^a", "allOf": [{"pattern": "b$"}], "maxLength": 4}, ["ab", "axxb"], ["a", "axxxb"]),
        ({"minLength": 2, "maxLength": 2}, ["ab", "é\n", "𝒳𝒳"], ["a", "abc"]),
    ],
)
def test_texts(schema: dict[str, Any], good: list[str], bad: list[str]) -> None:
    grammar = matcher({"type": "string", **schema})
    assert [text for text in good + bad if grammar.accepts(text)] == good


def test_texts_and_arrays_end() -> None:
    assert prepare({"type": "string", "minLength": 3000}).enforced["maxLength"] == 3000
    assert prepare({"type": "string", "maxLength": 10**400}).enforced["maxLength"] == 10**6
    assert prepare({"type": "array", "items": {"type": "null"}, "minItems": 300}).enforced["maxItems"] == 300
    assert not matcher({"type": "array", "items": {"type": "null"}}).accepts([None] * 201)
