"""Prepared schemas: their form, what they enforce, and how a refusal is raised."""

from __future__ import annotations

from typing import Any

import pytest

from fetchly_llm.errors import SchemaRefused
from fetchly_llm.grammar.findings import Residual
from fetchly_llm.grammar.prepare import ALL_ESCAPES, NO_UNICODE_ESCAPES, prepare
from tests.support.schema_suite import ByteMatcher


def matcher(schema: Any, mode: str = "strict") -> ByteMatcher:
    prepared = prepare(schema, mode=mode)  # type: ignore[arg-type]
    compiled = ByteMatcher(prepared.enforced, prepared.allowed_escapes)
    assert compiled.refusal == ""
    return compiled


def accepted(schema: Any, instances: list[Any], mode: str = "strict") -> list[Any]:
    compiled = matcher(schema, mode)
    return [instance for instance in instances if compiled.accepts(instance)]


def obj(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **more}


TEXT = {"type": "string", "maxLength": 2000}
INTEGER = {"type": "integer", "minimum": -999999999999999, "maximum": 999999999999999}


def test_the_form_of_a_prepared_schema() -> None:
    schema = obj(
        {
            "name": {"type": "string", "x-verbatim": True, "maxLength": 80, "description": "as printed"},
            "stock": {"type": ["integer", "null"]},
            "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}},
        },
        required=["name"],
        **{"$defs": {"tag": {"type": "string", "x-computed": True}}},
    )
    prepared = prepare(schema)
    assert prepared.enforced == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 80, "x-verbatim": True},
            "stock": {"anyOf": [INTEGER, {"type": "null"}]},
            "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "maxItems": 200},
        },
        "required": ["name"],
        "additionalProperties": False,
        "$defs": {"tag": {**TEXT, "x-computed": True}},
    }
    assert prepared.residual == ()
    assert (prepared.allowed_escapes, prepared.has_open_objects) == (ALL_ESCAPES, False)


def test_the_original_is_left_alone() -> None:
    schema = obj({"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}})
    before = repr(schema)
    prepare(schema)
    assert repr(schema) == before


def test_strict_mode_raises_the_first_error_and_counts_the_rest() -> None:
    schema = obj({"a": {"type": "array", "uniqueItems": True}, "b": {"type": "array", "uniqueItems": True}})
    with pytest.raises(SchemaRefused) as caught:
        prepare(schema)
    assert (caught.value.code, caught.value.pointer) == ("SCHEMA_KEYWORD_NOT_ENFORCED", "/properties/a/uniqueItems")
    assert "1 more error" in caught.value.message


def test_check_mode_lists_what_it_leaves_out() -> None:
    schema = obj({"a": {"type": "array", "items": {"type": "null"}, "uniqueItems": True}})
    prepared = prepare(schema, mode="check")
    assert prepared.residual == (Residual("/properties/a/uniqueItems", "uniqueItems"),)
    assert "uniqueItems" not in repr(prepared.enforced)
    assert accepted(schema, [{"a": [None, None]}], "check") == [{"a": [None, None]}]


def test_unique_choices_are_enforced_and_bounded_by_their_number() -> None:
    tags = {"type": "array", "items": {"$ref": "#/$defs/tag"}, "uniqueItems": True}
    schema = obj({"a": tags, "b": {**tags, "maxItems": 2}}, **{"$defs": {"tag": {"enum": ["x", "y", "xy"]}}})
    prepared = prepare(schema)
    assert prepared.residual == ()
    assert [finding.code for finding in prepared.findings] == ["SCHEMA_OBJECT_CLOSED"]
    assert prepared.enforced["properties"] == {
        "a": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "maxItems": 3, "uniqueItems": True},
        "b": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "maxItems": 2, "uniqueItems": True},
    }
    records = [{"a": ["x", "xy", "y"]}, {"a": ["x", "x"]}, {"a": [], "b": ["y", "y"]}, {"b": ["y", "xy"]}]
    assert accepted(schema, records) == [records[0], records[3]]


@pytest.mark.parametrize(
    "items",
    [
        {"enum": ["x", "y"]},
        {"const": "x"},
        {"anyOf": [{"const": "x"}, {"$ref": "#/$defs/y"}]},
        {"type": "string", "x-verbatim": True},
        {"allOf": [{"type": "string"}, {"enum": ["x", "y", 3]}]},
    ],
)
def test_choices_are_what_can_be_held_to_occur_once(items: Any) -> None:
    schema = {"type": ["array", "null"], "items": items, "uniqueItems": True, "$defs": {"y": {"enum": ["y", "z"]}}}
    assert prepare(schema).residual == ()
    assert prepare(schema, mode="check").residual == ()


@pytest.mark.parametrize(
    "schema",
    [
        {"items": {"enum": ["x", None]}, "uniqueItems": True},
        {"items": {"enum": ["x", 1]}, "uniqueItems": True},
        {"items": {"enum": ["x\ny", "z"]}, "uniqueItems": True},
        {"items": {"type": ["string", "null"], "x-verbatim": True}, "uniqueItems": True},
        {"items": {"anyOf": [{"const": "x"}, {"type": "string", "x-verbatim": True}]}, "uniqueItems": True},
        {"items": {"enum": ["x", "y"]}, "prefixItems": [{"const": "x"}], "uniqueItems": True},
        {"items": {"$ref": "#"}, "uniqueItems": True},
    ],
)
def test_what_else_must_be_unique_is_left_to_the_validator(schema: Any) -> None:
    schema = {"type": "array", "maxItems": 5, **schema}
    assert prepare(schema, mode="check").residual == (Residual("/uniqueItems", "uniqueItems"),)
    with pytest.raises(SchemaRefused) as caught:
        prepare(schema)
    assert (caught.value.code, caught.value.pointer) == ("SCHEMA_KEYWORD_NOT_ENFORCED", "/uniqueItems")


def test_unique_choices_that_the_text_does_not_show_are_left_to_the_validator() -> None:
    unique = {"type": "array", "items": {"enum": ["x", "y"]}, "maxItems": 5, "uniqueItems": True}
    several = {"type": "array", "items": {"enum": ["x", "y"]}, "maxItems": 5}
    schema: dict[str, Any] = {
        "anyOf": [obj({"k": {"const": 1}, "t": unique}), obj({"k": {"const": 2}, "t": several, "u": unique})]
    }
    prepared = prepare(schema, mode="check")
    assert prepared.residual == (Residual("/anyOf/0/properties/t/uniqueItems", "uniqueItems"),)
    twice = {"k": 2, "t": ["x", "x"], "u": ["x", "y"]}
    assert accepted(schema, [twice, {**twice, "u": ["x", "x"]}], "check") == [twice]
    values = obj({}, additionalProperties=unique)
    assert prepare(values, mode="check").residual == (Residual("/additionalProperties/uniqueItems", "uniqueItems"),)


def test_every_keyword_that_asks_for_unique_items_is_named_where_none_is_heeded() -> None:
    unique = {"type": "array", "items": {"enum": ["x", "y"]}, "uniqueItems": True, "allOf": [{"uniqueItems": True}]}
    assert prepare(unique).enforced["uniqueItems"] is True
    residual = prepare(obj({}, additionalProperties=unique), mode="check").residual
    assert [item.pointer for item in residual] == [
        "/additionalProperties/uniqueItems",
        "/additionalProperties/allOf/0/uniqueItems",
    ]


def test_a_schema_that_grows_beyond_the_grammar_is_refused_before_it_is_compiled() -> None:
    inner = obj({"a": {"required": ["c"], "$ref": "#"}})
    with pytest.raises(SchemaRefused) as caught:
        prepare({"type": "object", "additionalProperties": inner})
    assert caught.value.code == "SCHEMA_TOO_LARGE"


def test_a_keyword_about_another_type_is_no_residual() -> None:
    assert prepare({"type": "string", "uniqueItems": True, "maxLength": 3}).enforced == {
        "type": "string",
        "maxLength": 3,
    }


def test_an_enum_makes_every_other_keyword_exact() -> None:
    schema = {"enum": ["a", "b", 3, [1, 1], [1, 2]], "not": {"type": "string", "pattern": "^a"}, "uniqueItems": True}
    assert prepare(schema).enforced == {"enum": ["b", 3, [1, 2]]}


def test_values_that_python_confuses_stay_apart() -> None:
    values = [1, True, 0, False, "1"]
    assert accepted({"enum": values}, [1, True, 0, False, "1", 2]) == values
    assert accepted({"enum": [1, 0]}, [1, True, False, 0]) == [1, 0]


ONE = {"type": "integer"}


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (
            obj({"a": ONE, "b": ONE}, oneOf=[{"required": ["a"]}, {"required": ["b"]}]),
            [{"a": 1}, {"b": 1}],
            [{}, {"a": 1, "b": 1}],
        ),
        (
            obj({"a": ONE, "b": ONE}, dependentRequired={"a": ["b"]}),
            [{}, {"b": 1}, {"a": 1, "b": 1}],
            [{"a": 1}],
        ),
        (
            obj({"a": ONE}, dependentSchemas={"a": {"properties": {"c": ONE}, "required": ["c"]}}),
            [{}, {"a": 1, "c": 1}],
            [{"a": 1}],
        ),
        (
            obj(
                {"kind": {"enum": ["x", "y"]}, "z": ONE},
                required=["kind"],
                **{"if": {"properties": {"kind": {"const": "x"}}}, "then": {"required": ["z"]}},
                **{"else": {"properties": {"z": False}}},
            ),
            [{"kind": "x", "z": 1}, {"kind": "y"}],
            [{"kind": "x"}, {"kind": "y", "z": 1}],
        ),
        ({"type": "string", "not": {"enum": ["ab", ""]}}, ["a", "abc", "b"], ["ab", ""]),
        ({"type": "integer", "not": {"const": 0}}, [1, -1], [0]),
        ({"not": {"type": ["string", "number"]}}, [None, True], ["a", 1]),
        (obj({"a": ONE, "b": ONE}, **{"not": {"required": ["a", "b"]}}), [{}, {"a": 1}, {"b": 1}], [{"a": 1, "b": 1}]),
        ({"type": "array", "not": {"const": []}, "items": ONE}, [[1]], [[]]),
        (obj({"a": ONE, "b": ONE, "c": ONE}, minProperties=2), [{"a": 1, "c": 1}], [{"a": 1}, {}]),
        (obj({"a": ONE, "b": ONE, "c": ONE}, maxProperties=1), [{"c": 1}, {}], [{"a": 1, "b": 1}]),
        (
            {"allOf": [obj({"a": ONE}), obj({"b": ONE}, required=["b"])]},
            [{"b": 1}, {"a": 1, "b": 1}],
            [{"a": 1}, {"b": 1, "c": 1}],
        ),
        (
            {"type": "object", "propertyNames": {"pattern": "^[a-c]$"}, "additionalProperties": ONE},
            [{"a": 1}, {"b": 1, "c": 1}, {}],
            [{"d": 1}, {"ab": 1}],
        ),
        ({"type": "object", "propertyNames": {"enum": ["a"]}, "additionalProperties": ONE}, [{"a": 1}], [{"b": 1}]),
        (
            obj({"a": ONE}, allOf=[obj({"b": ONE})], unevaluatedProperties=False, required=["a"]),
            [{"a": 1}, {"a": 1, "b": 1}],
            [{"a": 1, "c": 1}],
        ),
        (
            {"type": "array", "prefixItems": [ONE], "unevaluatedItems": False},
            [[], [1]],
            [[1, 2], ["a"]],
        ),
        (
            {"$schema": "http://json-schema.org/draft-04/schema#", "type": "number", "minimum": 0}
            | {"exclusiveMinimum": True, "maximum": 0.5},
            [0.5, 0.25],
            [0, 0.75],
        ),
        (
            {"$schema": "http://json-schema.org/draft-07/schema#", "type": "array", "items": [ONE, {"type": "null"}]}
            | {"additionalItems": False},
            [[1, None], [1]],
            [[1, None, 1], [None]],
        ),
    ],
)
def test_desugared_keywords_are_enforced(schema: Any, good: list[Any], bad: list[Any]) -> None:
    assert accepted(schema, good + bad) == good


def test_a_oneof_of_tagged_objects_through_references() -> None:
    schema = {
        "oneOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}],
        "$defs": {
            "a": obj({"kind": {"const": "a"}, "x": ONE}, required=["kind"]),
            "b": obj({"kind": {"const": "b"}, "inner": {"$ref": "#"}}, required=["kind"]),
        },
    }
    good = [{"kind": "a", "x": 1}, {"kind": "b", "inner": {"kind": "a"}}]
    assert accepted(schema, [*good, {"kind": "a", "inner": None}, {"kind": "c"}]) == good


def test_a_oneof_that_overlaps_is_written_apart_or_refused() -> None:
    overlapping = {"type": "integer", "oneOf": [{"minimum": 2}, {"maximum": 5}]}
    assert accepted(overlapping, [1, 2, 5, 6]) == [1, 6]
    with pytest.raises(SchemaRefused, match="not provably exclusive"):
        prepare({"type": "string", "oneOf": [{"pattern": "a"}, {"pattern": "b"}]})


def test_local_references_by_anchor_and_identifier() -> None:
    schema = {
        "$id": "https://example.org/root.json",
        "type": "array",
        "prefixItems": [{"$ref": "#tag"}, {"$ref": "other.json"}, {"$ref": "/other.json#/$defs/deep"}],
        "items": False,
        "$defs": {
            "t": {"$anchor": "tag", "const": "t"},
            "o": {"$id": "other.json", "const": "o", "$defs": {"deep": {"const": "d"}}},
        },
    }
    assert accepted(schema, [["t", "o", "d"], ["o", "t", "d"]]) == [["t", "o", "d"]]


def test_a_draft_07_reference_hides_its_siblings() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$ref": "#/definitions/a",
        "maxLength": 1,
        "definitions": {"a": {"type": "string", "maxLength": 3}},
    }
    assert accepted(schema, ["abc", "abcd"]) == ["abc"]


def test_open_objects_lose_the_escape_that_respells_names() -> None:
    prepared = prepare(obj({"a": {"const": "foo"}, "b": ONE}, required=["b"], additionalProperties={"type": "string"}))
    assert (prepared.allowed_escapes, prepared.has_open_objects) == (NO_UNICODE_ESCAPES, True)
    respelt = '{"b": 1, "\\u0061": "BAD"}'
    assert not ByteMatcher(prepared.enforced, prepared.allowed_escapes).accepts_text(respelt)
    assert ByteMatcher(prepared.enforced, ALL_ESCAPES).accepts_text(respelt)


def test_explicit_additional_properties_are_kept() -> None:
    schema = obj({"a": ONE}, additionalProperties={"type": "null"})
    assert accepted(schema, [{"a": 1}, {"a": 1, "z": None}, {"a": 1, "z": 1}]) == [{"a": 1}, {"a": 1, "z": None}]


def test_an_object_without_names_stays_open() -> None:
    assert accepted({"type": "object"}, [{}, {"k": {"l": [1, "x", None]}}, 3]) == [{}, {"k": {"l": [1, "x", None]}}]


def test_an_object_that_needs_more_than_it_names_stays_open() -> None:
    schema = obj({"a": ONE}, minProperties=2)
    with pytest.raises(SchemaRefused, match="minProperties"):
        prepare(schema)
    assert accepted(schema, [{"a": 1, "z": 2}, {"a": "x", "z": 2}], "check") == [{"a": 1, "z": 2}]
    assert accepted({"type": "object", "not": {"required": ["a"]}}, [{"b": 1}, {"a": 1}]) == [{"b": 1}]


def test_a_type_is_implied_only_where_it_can_be() -> None:
    assert accepted({"properties": {"a": ONE}}, [{"a": 1}, {"a": "x"}, "text", None]) == [{"a": 1}]
    assert accepted({"minimum": 5, "maximum": 3}, [4, "text", None]) == ["text", None]
    endless = {"minItems": 2, "items": {"$ref": "#"}}
    assert accepted(endless, [["a", ["b", None]], ["a"], "a"]) == [["a", ["b", None]], "a"]
    assert accepted({"minLength": 2, "minimum": 5}, ["ab", "a", 6, 4, None]) == ["ab", 6]


def test_recursion_ends_up_in_definitions() -> None:
    schema = obj({"value": ONE, "children": {"type": "array", "items": {"$ref": "#"}}})
    tree = {"value": 1, "children": [{"children": []}, {"value": 2}]}
    assert accepted(schema, [tree, {"children": [{"x": 1}]}]) == [tree]


def test_parts_that_never_end_are_left_out() -> None:
    schema = obj(
        {"a": ONE, "endless": {"$ref": "#/$defs/e"}, "list": {"type": "array", "items": {"$ref": "#/$defs/e"}}},
        **{"$defs": {"e": obj({"again": {"$ref": "#/$defs/e"}}, required=["again"])}},
    )
    assert prepare(schema).enforced == {
        "type": "object",
        "properties": {"a": INTEGER, "list": {"type": "array", "items": False, "maxItems": 0}},
        "additionalProperties": False,
    }


def test_too_many_alternatives_are_refused_or_left_out() -> None:
    many = {"allOf": [{"anyOf": [{"const": i} | {"title": str(j)} for j in range(20)]} for i in range(1)]}
    assert prepare(many).enforced == {"enum": [0]}
    names = [f"n{i}" for i in range(40)]
    dependent = obj({name: ONE for name in names}, dependentRequired={name: [names[0]] for name in names[1:20]})
    with pytest.raises(SchemaRefused, match="256 alternatives"):
        prepare(dependent)
    assert any(residual.keyword == "dependentRequired" for residual in prepare(dependent, mode="check").residual)
