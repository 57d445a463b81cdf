"""Complements: exactly the values that the schema refuses, by the validator's word."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from fetchly_llm.grammar.complement import complement, none_of
from fetchly_llm.grammar.judge import matches

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, 2, 3, 2.5, -1, "", "a", "ab", "abc", "b", "]", "^", "-", "\n", [], [1], [1, 2]),
    *({}, {"a": 1}, {"b": 1}, {"a": "x", "b": 2}, {"a": 1, "b": 1, "c": 1}),
)


@pytest.mark.parametrize(
    "schema",
    [
        True,
        False,
        {},
        {"type": "string"},
        {"type": ["null", "number"]},
        {"const": "a"},
        {"enum": ["a", "ab", 1, 2.5, None, True, [], {}]},
        {"required": ["a", "b"]},
        {"required": []},
        {"properties": {"a": {"type": "string"}, "b": True}},
        {"properties": {"a": {"const": 1}}, "required": ["a"]},
        {"minimum": 1, "exclusiveMaximum": 3},
        {"minLength": 1, "maxLength": 2},
        {"minItems": 1},
        {"maxItems": 1},
        {"minProperties": 1, "maxProperties": 2},
        {"anyOf": [{"type": "string"}, {"minimum": 2}]},
        {"allOf": [{"type": "string"}, {"maxLength": 1}]},
        {"not": {"type": "string"}},
        {"type": "string", "title": "ignored", "enum": ["a", 1]},
        {"$ref": "#/x"},
    ],
)
def test_the_complement_is_exact(schema: Any) -> None:
    opposite = complement(schema, lambda reference: {"type": "array"})
    assert opposite is not None
    assert "not" not in repr(opposite).replace("'not': {'type': 'string'}", "") or schema == {"not": {"type": "string"}}
    whole = {"type": "array"} if isinstance(schema, dict) and "$ref" in schema else schema
    inside, outside = jsonschema_rs.validator_for(whole), jsonschema_rs.validator_for(opposite)
    for value in VALUES:
        assert inside.is_valid(value) != outside.is_valid(value), value


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer"},
        {"pattern": "a"},
        {"const": [1]},
        {"multipleOf": 2},
        {"items": {"type": "null"}},
        {"oneOf": [{}, {}]},
        {"format": "date"},
        {"anyOf": [{"pattern": "a"}, {}]},
        {"$ref": "#/nowhere"},
    ],
)
def test_what_has_no_writable_complement_says_so(schema: Any) -> None:
    assert complement(schema, lambda reference: None) is None


def test_none_of_finds_every_other_text() -> None:
    barred = ["ab", "abc", "", "]x", "^", "\n", "\\"]
    pattern = none_of(barred)
    for text in (*barred, "a", "abcd", "b", "]", "]xy", "^^", "\n\n", "-", "x"):
        assert matches(pattern, text) == (text not in barred), text
