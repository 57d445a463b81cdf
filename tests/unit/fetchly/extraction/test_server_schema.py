from __future__ import annotations

import json
from typing import Any

import jsonschema
import llguidance
import pytest
from hypothesis import HealthCheck, assume, given, settings

from fetchly.errors import SchemaError
from fetchly.extraction import shipped
from fetchly.extraction.decoding import bind_links, decoding_schema
from fetchly.extraction.schema import load_schema
from fetchly.extraction.server_schema import MOST_REPETITIONS, named_place, plain_schema
from tests.support.json_schemas import json_values, schemas

KNOWN = {
    "type", "enum", "const", "required", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "$ref", "$defs",
    "properties", "anyOf", "prefixItems", "items", "additionalProperties", "minLength", "maxLength", "minItems",
    "maxItems", "pattern", "format",
}  # fmt: skip


def nodes(schema: Any) -> list[dict[str, Any]]:
    """Every node of a plain schema."""
    found: list[dict[str, Any]] = []
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            found.append(node)
            for word in ("properties", "$defs"):
                waiting.extend(node.get(word, {}).values())
            for word in ("anyOf", "prefixItems"):
                waiting.extend(node.get(word, ()))
            waiting.extend(node.get(word) for word in ("items", "additionalProperties"))
    return found


def refusal(schema: Any) -> str:
    """What a grammar back-end of those servers says to a schema; empty where it takes it."""
    grammar = llguidance.LLMatcher.grammar_from_json_schema(json.dumps(schema))
    return str(llguidance.LLMatcher.validate_grammar(grammar))


def test_a_products_schema_becomes_plain() -> None:
    user = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "x-verbatim": True},
            "price": {"type": "number", "description": "in euros"},
            "url": {"type": "string", "format": "uri"},
            "tags": {"type": "array", "items": {"type": "string", "maxLength": 5000}, "uniqueItems": True},
            "code": {"type": "string", "pattern": "^[A-Z]+$", "maxLength": 9},
        },
        "required": ["name"],
    }
    plain = plain_schema(bind_links(decoding_schema(user), ("L1", "L4")))
    assert plain.schema == {
        "type": "object",
        "properties": {
            "name": {"type": ["string", "null"], "maxLength": 1000},
            "price": {"type": ["string", "null"], "maxLength": 64},
            "url": {"anyOf": [{"$ref": "#/$defs/page_links"}, {"type": "null"}]},
            "tags": {"type": ["array", "null"], "items": {"type": "string"}},
            "code": {"type": ["string", "null"], "pattern": "^[A-Z]+$"},
        },
        "required": ["name", "price", "url", "tags", "code"],
        "additionalProperties": False,
        "$defs": {"page_links": {"enum": ["L1", "L4"]}},
    }
    assert plain.loosened == {"x-verbatim", "maxLength"}
    assert refusal(plain.schema) == ""


@pytest.mark.parametrize(
    ("decoding", "expected", "loosened"),
    [
        ({"type": "number", "multipleOf": 5}, {"type": "number"}, {"multipleOf"}),
        ({"type": "array", "uniqueItems": True}, {"type": "array"}, {"uniqueItems"}),
        ({"type": "string", "format": "date"}, {"type": "string", "format": "date"}, set()),
        ({"type": "string", "format": "hostname"}, {"type": "string"}, {"format"}),
        ({"type": "string", "format": "uuid", "minLength": 3}, {"type": "string", "format": "uuid"}, {"minLength"}),
        ({"type": "string", "pattern": "a"}, {"type": "string"}, {"pattern"}),
        ({"type": "string", "pattern": "^(?!a)b$"}, {"type": "string"}, {"pattern"}),
        ({"type": "array", "maxItems": MOST_REPETITIONS}, {"type": "array", "maxItems": MOST_REPETITIONS}, set()),
        ({"type": "array", "maxItems": MOST_REPETITIONS + 1}, {"type": "array"}, {"maxItems"}),
        ({"type": "array", "items": True}, {"type": "array", "items": {}}, set()),
        ({"type": "array", "items": False}, {"type": "array", "maxItems": 0}, set()),
        (
            {"prefixItems": [{"type": "null"}, False, {}], "maxItems": 9},
            {"prefixItems": [{"type": "null"}], "maxItems": 1},
            set(),
        ),
        (
            {"type": "object", "patternProperties": {"^a": {"type": "null"}}, "additionalProperties": False},
            {"type": "object", "additionalProperties": {"type": "null"}},
            {"patternProperties"},
        ),
        (
            {"patternProperties": {"^a": {"type": "null"}, "b": {"const": 1}}, "additionalProperties": {"const": 1}},
            {"additionalProperties": {"anyOf": [{"type": "null"}, {"const": 1}]}},
            {"patternProperties"},
        ),
        ({"enum": [{"not": 1, "x-verbatim": 2}]}, {"enum": [{"not": 1, "x-verbatim": 2}]}, set()),
        ({"properties": {"not": {"type": "null"}}}, {"properties": {"not": {"type": "null"}}}, set()),
    ],
)
def test_what_a_server_would_refuse_is_left_to_the_check(decoding: Any, expected: Any, loosened: set[str]) -> None:
    plain = plain_schema(decoding)
    assert plain.schema == expected
    assert plain.loosened == loosened


def test_a_schema_that_nothing_satisfies_is_refused_here() -> None:
    with pytest.raises(SchemaError) as caught:
        plain_schema({"type": "object", "properties": {"a/b": {"not": {}}}})
    assert caught.value.pointer == "/properties/a~1b"


@pytest.mark.parametrize("name", shipped.names())
def test_every_shipped_schema_is_taken(name: str) -> None:
    plan = decoding_schema(load_schema(name).json)
    for links in ((), ("L1", "L2")):
        assert refusal(plain_schema(bind_links(plan, links)).schema) == ""


@given(schemas(), json_values)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
def test_no_answer_is_lost_and_no_schema_refused(user: dict[str, Any], value: Any) -> None:
    """Whatever the embedded engine may write, a server may; what it is sent is plain, and a back-end takes it."""
    try:
        decoding = decoding_schema(user).schema
        plain = plain_schema(decoding).schema
    except SchemaError:
        assume(False)
    assert all(node.keys() <= KNOWN for node in nodes(plain))
    refused = refusal(plain)
    assert refused == "" or "Unsatisfiable" in refused
    if jsonschema.Draft202012Validator(decoding).is_valid(value):
        assert jsonschema.Draft202012Validator(plain).is_valid(value)


def test_the_place_that_a_refusal_names() -> None:
    schema = {
        "type": "object",
        "properties": {"pattern": {"type": "null"}, "a": {"anyOf": [{"type": "null"}, {"pattern": "^x$"}]}},
    }
    assert named_place("Unsupported keyword 'pattern' in schema", schema) == "/properties/a/anyOf/1/pattern"
    assert named_place("minLength is not supported", schema) is None
    assert named_place("this type is bad", schema) is None
