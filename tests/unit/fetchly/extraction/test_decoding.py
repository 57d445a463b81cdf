from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from pydantic import AnyUrl, BaseModel, HttpUrl

from fetchly.errors import SchemaError
from fetchly.extraction.decoding import LINKS, SPAN_LENGTH, VERBATIM_LENGTH, asks_for_links, bind_links, decoding_schema
from fetchly.extraction.schema import load_schema
from fetchly_llm.grammar.prepare import prepare

NUMBER = {"type": ["string", "null"], "x-verbatim": True, "maxLength": SPAN_LENGTH["number"]}
DATE = {"type": ["string", "null"], "x-verbatim": True, "maxLength": SPAN_LENGTH["date"]}
VERBATIM = {"type": ["string", "null"], "x-verbatim": True, "maxLength": VERBATIM_LENGTH}


def leaf(schema: Any, **options: Any) -> Any:
    user = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    return decoding_schema(user, **options).schema["properties"]["a"]


@pytest.mark.parametrize(
    ("user", "decoded"),
    [
        ({"type": "string"}, {"type": ["string", "null"]}),
        ({"type": "string", "x-verbatim": True, "pattern": "^x"}, VERBATIM),
        ({"type": "string", "x-verbatim": True, "maxLength": 5}, {**VERBATIM, "maxLength": 5}),
        ({"type": "number", "minimum": 3}, NUMBER),
        ({"type": ["integer", "null"]}, NUMBER),
        ({"type": "integer", "x-computed": True, "minimum": 0}, {"type": ["integer", "null"], "minimum": 0}),
        ({"type": "string", "format": "date"}, DATE),
        ({"type": "string", "format": "date-time"}, DATE),
        ({"type": "string", "format": "duration"}, DATE),
        ({"type": "string", "format": "email"}, {**VERBATIM, "maxLength": SPAN_LENGTH["email"]}),
        (
            {"type": "string", "format": "email", "pattern": "^a"},
            {"type": ["string", "null"], "format": "email", "pattern": "^a"},
        ),
        ({"type": "string", "format": "hostname"}, {"type": ["string", "null"], "format": "hostname"}),
        ({"type": "boolean"}, {"type": ["boolean", "null"]}),
        ({"enum": [1, 2]}, {"enum": [1, 2, None]}),
        ({"type": "string", "enum": ["a", None]}, {"enum": ["a", None]}),
        ({"const": "x"}, {"const": "x"}),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": ["string", "null"]}),
        ({"anyOf": [{"type": "integer"}, {"type": "number"}]}, NUMBER),
        (
            {"oneOf": [{"type": "number"}, {"type": "boolean"}]},
            {"anyOf": [{"type": "string", "x-verbatim": True, "maxLength": 64}, {"type": "boolean"}, {"type": "null"}]},
        ),
        ({"anyOf": [{"type": "number"}, {"type": "string", "pattern": "^[0-9]+$"}]}, NUMBER),
        (
            {"anyOf": [{"type": "number"}, {"type": "string"}]},
            {"anyOf": [{"type": "number"}, {"type": "string"}, {"type": "null"}]},
        ),
        ({"allOf": [{"type": "string"}, {"maxLength": 3}]}, {"type": ["string", "null"], "maxLength": 3}),
        (
            {"type": "array", "items": {"type": "number"}, "maxItems": 4},
            {"type": "array", "items": {**NUMBER, "type": "string"}, "maxItems": 4},
        ),
        ({"type": "array", "items": {"type": ["number", "null"]}}, {"type": "array", "items": NUMBER}),
        (
            {"type": "array", "uniqueItems": True, "items": {"type": "string"}},
            {"type": "array", "items": {"type": "string"}},
        ),
        (
            {"type": "array", "prefixItems": [{"type": "number"}]},
            {"type": "array", "prefixItems": [{"type": "number"}]},
        ),
        (
            {"type": "object", "additionalProperties": {"type": "number"}},
            {"type": "object", "additionalProperties": {"type": ["number", "null"]}},
        ),
    ],
)
def test_leaves_and_structure(user: Any, decoded: Any) -> None:
    assert leaf(user) == decoded


def test_objects_are_closed_and_complete() -> None:
    user = {
        "title": "T",
        "type": "object",
        "properties": {
            "b": {"type": "string", "description": "x"},
            "a": {"type": "object", "properties": {"c": {"type": "boolean"}}},
        },
        "required": ["b"],
        "minProperties": 1,
    }
    schema = decoding_schema(user).schema
    assert schema == {
        "type": "object",
        "properties": {
            "b": {"type": ["string", "null"]},
            "a": {
                "type": ["object", "null"],
                "properties": {"c": {"type": ["boolean", "null"]}},
                "required": ["c"],
                "additionalProperties": False,
            },
        },
        "required": ["b", "a"],
        "additionalProperties": False,
    }


def test_references_and_recursion() -> None:
    user = {
        "$ref": "#/$defs/Node",
        "$defs": {
            "Node": {
                "type": "object",
                "properties": {
                    "n": {"$ref": "#/$defs/N"},
                    "next": {"$ref": "#/$defs/Node"},
                    "all": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
                },
                "required": ["n", "all"],
            },
            "N": {"type": "integer"},
        },
    }
    schema = decoding_schema(user).schema
    node = schema["$defs"]["Node"]
    assert schema["$ref"] == "#/$defs/Node"
    assert node["properties"]["n"] == NUMBER
    assert node["properties"]["next"] == {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}
    assert node["properties"]["all"]["items"] == {"$ref": "#/$defs/Node"}
    assert list(schema["$defs"]) == ["Node"]


def test_a_schema_that_narrows_itself_ends() -> None:
    """Each level demands what the level above demands, and the same once more: written down, it would double."""
    user = {"type": "object", "properties": {"t": {"$ref": "#", "properties": {"t": {"$ref": "#"}}}}}
    schema = decoding_schema(user).schema
    assert len(schema["$defs"]) <= 3


def test_a_reference_into_the_structure_becomes_a_definition() -> None:
    user = {
        "type": "object",
        "properties": {
            "a": {"type": "object", "properties": {"x": {"type": "string"}}},
            "b": {"$ref": "#/properties/a"},
        },
    }
    schema = decoding_schema(user).schema
    assert schema["properties"]["b"]["anyOf"][0] == {"$ref": "#/$defs/a"}
    assert schema["$defs"]["a"]["properties"]["x"] == {"type": ["string", "null"]}


@pytest.mark.parametrize(
    ("user", "code"),
    [
        ({"properties": {"a": {"$ref": "#/$defs/none"}}}, "SCHEMA_REF_UNRESOLVED"),
        ({"properties": {"a": {"$ref": "https://example.org/x"}}}, "SCHEMA_REF_UNRESOLVED"),
        ({"properties": {"a": {"$ref": "#a"}}}, "SCHEMA_REF_UNRESOLVED"),
        ({"properties": {"a": {}}, "additionalProperties": {"$ref": "#/$defs/none"}}, "SCHEMA_REF_UNRESOLVED"),
        ({"$ref": "#"}, "SCHEMA_REFERENCE"),
        ({"anyOf": [{"$ref": "#"}, {"const": "a"}]}, "SCHEMA_REFERENCE"),
        ({"type": "string", "oneOf": [{"$ref": "#"}, {"minLength": 3}]}, "SCHEMA_REFERENCE"),
        (
            {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"allOf": [{"$ref": "#/$defs/a"}]}}},
            "SCHEMA_REFERENCE",
        ),
    ],
)
def test_bad_references(user: Any, code: str) -> None:
    with pytest.raises(SchemaError) as caught:
        decoding_schema(user)
    assert caught.value.code == code


def test_too_deep() -> None:
    user: dict[str, Any] = {"type": "string"}
    for _ in range(150):
        user = {"type": "object", "properties": {"a": user}}
    with pytest.raises(SchemaError) as caught:
        decoding_schema(user)
    assert caught.value.code == "SCHEMA_TOO_DEEP"
    with pytest.raises(SchemaError):
        decoding_schema(user, verbatim="auto")


def test_anchors() -> None:
    user = {"type": "object", "properties": {"a": {"$ref": "#it"}}, "$defs": {"x": {"$anchor": "it", "type": "number"}}}
    assert decoding_schema(user).schema["properties"]["a"] == NUMBER


def test_auto_marks_plain_strings_only() -> None:
    assert leaf({"type": "string"}, verbatim="auto") == VERBATIM
    assert leaf({"anyOf": [{"type": "string"}, {"type": "null"}]}, verbatim="auto") == VERBATIM
    assert leaf({"type": ["array", "null"], "items": {"type": "string"}}, verbatim="auto")["items"]["x-verbatim"]
    for kept in ({"pattern": "^a"}, {"format": "uri"}, {"enum": ["a"]}, {"x-computed": True}, {"x-verbatim": False}):
        assert "x-verbatim" not in leaf({"type": "string", **kept}, verbatim="auto")
    mapped = leaf({"type": "object", "additionalProperties": {"type": "string"}}, verbatim="auto")
    assert mapped["additionalProperties"] == {"type": ["string", "null"]}


def test_alternatives_of_objects_keep_what_stands_beside_them() -> None:
    user = {
        "type": "object",
        "properties": {"kind": {"type": "string"}},
        "required": ["kind"],
        "anyOf": [{"properties": {"a": {"type": "boolean"}}}, {"properties": {"b": {"type": "boolean"}}}],
    }
    schema = decoding_schema(user).schema
    names = [branch["$ref"].removeprefix("#/$defs/") for branch in schema["anyOf"]]
    assert [list(schema["$defs"][name]["properties"]) for name in names] == [["kind", "a"], ["kind", "b"]]


def test_only_required_differs() -> None:
    user = {
        "type": "object",
        "properties": {"a": {"type": "boolean"}, "b": {"type": "boolean"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
    }
    derived = decoding_schema(user).schema
    assert all(list(d["properties"]) == ["a", "b"] for d in derived["$defs"].values())


LINK = {"anyOf": [{"$ref": f"#/$defs/{LINKS}"}, {"type": "null"}]}


@pytest.mark.parametrize(
    ("user", "decoded"),
    [
        ({"type": "string", "format": "uri"}, LINK),
        ({"type": ["string", "null"], "format": "url", "maxLength": 8000}, LINK),
        ({"anyOf": [{"type": "string", "format": "uri-reference"}, {"type": "null"}]}, LINK),
        ({"type": "string", "x-link": True}, LINK),
        (
            {"type": "array", "items": {"type": "string", "format": "iri"}, "minItems": 3, "maxItems": 9},
            {"type": "array", "items": LINK["anyOf"][0], "maxItems": 9, "uniqueItems": True},
        ),
        (
            {"type": "object", "additionalProperties": {"type": "string", "format": "uri"}},
            {"type": "object", "additionalProperties": LINK},
        ),
        (
            {"type": "array", "prefixItems": [{"type": "string", "format": "uri"}]},
            {"type": "array", "prefixItems": [LINK["anyOf"][0]]},
        ),
    ],
)
def test_urls_are_ids_of_links(user: Any, decoded: Any) -> None:
    assert leaf(user) == decoded
    assert leaf(user, verbatim="auto") == decoded


@pytest.mark.parametrize(
    "user",
    [
        {"type": "string", "format": "uri", "x-computed": True},
        {"type": "string", "format": "uri", "pattern": "^https"},
        {"type": "string", "x-link": True, "pattern": "^https"},
        {"type": "string", "format": "uri", "enum": ["https://x.test/"]},
        {"const": "https://x.test/", "format": "uri"},
        {"type": "string", "format": "uri", "x-verbatim": True},
        {"type": "string"},
        {"type": "object", "properties": {"format": {"type": "string"}, "uri": {"type": "integer"}}},
    ],
)
def test_what_is_no_id_of_a_link(user: Any) -> None:
    schema = {"type": "object", "properties": {"a": user}}
    assert not asks_for_links(schema)
    plan = decoding_schema(schema)
    assert bind_links(plan, ["L1"]) is plan.schema


def test_links_behind_references_are_found() -> None:
    schema = {
        "properties": {"a": {"$ref": "#/$defs/page_links"}, "b": {"$ref": "#/$defs/u"}},
        "$defs": {"page_links": {"type": "object", "properties": {"x": {"type": "string"}}}, "u": {"format": "uri"}},
    }
    assert asks_for_links(schema)
    derived = bind_links(decoding_schema(schema), ["L7", "I1"])
    assert derived["$defs"][LINKS] == {"enum": ["L7", "I1"]}
    assert derived["properties"]["b"] == LINK
    own = derived["properties"]["a"]["anyOf"][0]["$ref"].removeprefix("#/$defs/")
    assert "x" in derived["$defs"][own]["properties"]


def test_a_page_without_links_leaves_null_and_empty_lists() -> None:
    url = {"type": "string", "format": "uri"}
    user = {
        "properties": {
            "url": url,
            "all": {"type": "array", "items": url, "maxItems": 9},
            "some": {"type": "array", "items": {"anyOf": [url, {"type": "null"}]}, "minItems": 2},
            "things": {"type": "array", "items": {"type": "object", "properties": {"u": url}}},
        }
    }
    plan = decoding_schema(user)
    bound = bind_links(plan, [])
    validator = jsonschema_rs.validator_for(bound, offline=True)
    assert validator.is_valid({"url": None, "all": [], "some": [], "things": [{"u": None}]})
    for wrong in ({"url": "L1"}, {"all": ["L1"]}, {"all": [None]}, {"some": [None]}, {"things": [{"u": "L1"}]}):
        assert not validator.is_valid({"url": None, "all": [], "some": [], "things": [], **wrong})
    assert plan.schema["properties"]["all"]["maxItems"] == 9, "the plan serves other pages"
    full = jsonschema_rs.validator_for(bind_links(plan, ["L1", "L2"]), offline=True)
    assert full.is_valid({"url": "L2", "all": ["L1", "L2"], "some": [None, "L1"], "things": []})
    assert not full.is_valid({"url": "L3", "all": ["L1", "L2"], "some": [], "things": []})


@pytest.mark.parametrize("ids", [[], ["L1"], ["L1", "I1", "L2"]])
def test_the_grammar_enforces_every_bound_schema(ids: list[str]) -> None:
    url = {"type": "string", "format": "uri"}
    user = {
        "type": "object",
        "properties": {"u": url, "l": {"type": "array", "items": url, "minItems": 2, "uniqueItems": True}},
        "required": ["u", "l"],
    }
    prepared = prepare(bind_links(decoding_schema(user), ids), mode="check")
    assert prepared.residual == ()


def test_pydantic_urls() -> None:
    class Page(BaseModel):
        url: HttpUrl
        other: AnyUrl | None = None

    derived = decoding_schema(load_schema(Page).json).schema
    assert derived["properties"] == {"url": LINK, "other": LINK}
