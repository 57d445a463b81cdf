from __future__ import annotations

import re
from typing import Any

import pytest

from fetchly_llm.errors import SchemaRefused
from fetchly_llm.grammar.lark import span_pattern, standalone
from fetchly_llm.grammar.schema_graph import MAX_DEPTH, SchemaGraph
from fetchly_llm.grammar.spans import SpanBounds
from tests.support.grammar_walks import accepts, toy_compiler

SPAN = {"type": "string", "x-verbatim": True}
MAYBE = {"type": ["string", "null"], "x-verbatim": True}


def closed(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


SOURCE = 'Blue kettle "deluxe"\nprice: $ 19.99\tnow\n北京烤鸭 C:\\dir'


@pytest.mark.parametrize(
    "value",
    [
        "Blue",
        "Blue kettle",
        'kettle "deluxe"',
        "$ 19.99\tnow",
        "烤鸭 C:\\dir",
        "京烤",
        ":",
    ],
)
def test_spans_of_the_source_are_accepted(value: str) -> None:
    assert accepts(toy_compiler().compile(SPAN, SOURCE), value)


@pytest.mark.parametrize(
    "value",
    [
        "",
        " ",
        "blue",
        "Blu",
        "lue kettle",
        "Blue ",
        " kettle",
        "now\t",
        'kettle "deluxe"\nprice',
        'kettle "deluxe" price',
        "9.99",
        None,
        "red",
    ],
)
def test_other_strings_are_not(value: str | None) -> None:
    assert not accepts(toy_compiler().compile(SPAN, SOURCE), value)


def test_length_counts_characters_of_the_value_not_of_its_spelling() -> None:
    source = '""""" \\\\\\\\\\ ééééé'
    grammar = toy_compiler().compile({**SPAN, "minLength": 2, "maxLength": 4}, source)
    for character in '"\\':
        for length in range(1, 6):
            assert accepts(grammar, character * length) == (2 <= length <= 4)
    assert not accepts(grammar, "ééééé")


def test_default_length_is_300_and_can_be_raised() -> None:
    source = "x " * 400
    default, longer = toy_compiler().compile(SPAN, source), toy_compiler().compile({**SPAN, "maxLength": 500}, source)
    assert accepts(default, source[:299])
    assert not accepts(default, source[:301])
    assert accepts(longer, source[:499])
    assert not accepts(longer, source[:501])


def test_control_characters_are_escaped() -> None:
    source = "a\x01b\x07c\x1fd\x7fe"
    grammar = toy_compiler().compile(SPAN, source)
    assert accepts(grammar, source)
    assert accepts(grammar, "\x01b\x07")
    assert not accepts(grammar, "\x1fd")  # white space, says Unicode


@pytest.mark.parametrize("space", [" ", "\t", "\u00a0", "\u2003", "\u3000"])
def test_white_space_is_inside_a_span_or_nowhere(space: str) -> None:
    grammar = toy_compiler().compile(SPAN, f"{space}foo{space}{space}bar{space}")
    assert accepts(grammar, f"foo{space}{space}bar")
    for value in (f"{space}foo", f"bar{space}", space, f"{space}{space}", f"foo{space}"):
        assert not accepts(grammar, value)


def test_null_is_allowed_where_the_type_says_so() -> None:
    for schema in (
        MAYBE,
        {"x-verbatim": True, "anyOf": [{"type": "string"}, {"type": "null"}]},
        {"anyOf": [SPAN, {"type": "null"}]},
    ):
        grammar = toy_compiler().compile(schema, SOURCE)
        assert accepts(grammar, None)
        assert accepts(grammar, "Blue")
        assert not accepts(grammar, "red")


@pytest.mark.parametrize("source", ["", " \n\t", "\ud800"])
def test_a_source_without_spans_leaves_null(source: str) -> None:
    schema = {
        **closed(a=MAYBE, b={"type": "array", "items": SPAN, "maxItems": 3}),
        "properties": {
            "a": MAYBE,
            "b": {"type": "array", "items": SPAN, "maxItems": 3},
            "c": SPAN,
        },
    }
    grammar = toy_compiler().compile(schema, source)
    assert accepts(grammar, {"a": None, "b": []})
    with pytest.raises(SchemaRefused) as refused:
        toy_compiler().compile(closed(a=closed(x=SPAN)), source)
    assert (refused.value.code, refused.value.pointer) == ("SCHEMA_UNSATISFIABLE", "/properties/a/properties/x")


def test_object_keys_come_in_schema_order_and_optional_ones_may_be_left_out() -> None:
    properties = {"a": SPAN, "b": SPAN, "c": {"type": "integer", "maximum": 9}, "d": SPAN}
    schema = {**closed(**properties), "required": ["b", "d"]}
    grammar = toy_compiler().compile(schema, "x y")
    for value in (
        {"b": "x", "d": "y"},
        {"a": "x", "b": "x", "d": "y"},
        {"b": "x", "c": 3, "d": "y"},
        {"a": "x", "b": "x", "c": 3, "d": "y"},
    ):
        assert accepts(grammar, value)
    for value in ({"d": "x", "b": "y"}, {"b": "x"}, {"d": "x"}, {}, {"a": "x", "b": "x", "d": "y", "e": "x"}):
        assert not accepts(grammar, value)


@pytest.mark.parametrize(
    "key", ["", " ", "\x07", "\n", "\x7f", "\x80", "\u2028", "é", '"', "\\", '\\"', "//", "/*", "#", "😀", "a: b"]
)
def test_any_key_can_be_written(key: str) -> None:
    free = key.replace("\x7f", "")  # llguidance writes no raw DEL in strings of its own
    grammar = toy_compiler().compile(closed(**{key: SPAN, "free": {"enum": [free]}}), "x")
    assert accepts(grammar, {key: "x", "free": free})


def test_all_optional() -> None:
    grammar = toy_compiler().compile({**closed(a=SPAN, b=MAYBE), "required": []}, "x y")
    values: list[Any] = [{}, {"a": "x"}, {"b": None}, {"a": "x", "b": "y"}]
    for value in values:
        assert accepts(grammar, value)


def test_array_bounds() -> None:
    for least in range(3):
        for most in range(least, 4):
            schema = {"type": "array", "items": SPAN, "minItems": least, "maxItems": most}
            grammar = toy_compiler().compile(schema, "a b c d e")
            for length in range(6):
                assert accepts(grammar, list("abcde"[:length])) == (least <= length <= most)


def test_nullable_containers() -> None:
    array = {"type": ["array", "null"], "items": SPAN, "maxItems": 2}
    grammar = toy_compiler().compile({**closed(a=array), "type": ["null", "object"]}, "x")
    values: list[Any] = [None, {"a": None}, {"a": []}, {"a": ["x"]}]
    for value in values:
        assert accepts(grammar, value)


def test_recursion_through_references() -> None:
    schema = {
        **closed(name={"$ref": "#/$defs/span"}, kids={"type": "array", "items": {"$ref": "#"}, "maxItems": 2}),
        "$defs": {"span": {"allOf": [SPAN]}},
    }
    grammar = toy_compiler().compile(schema, "x y")
    assert accepts(grammar, {"name": "x", "kids": [{"name": "y", "kids": []}, {"name": "x y", "kids": []}]})
    assert not accepts(grammar, {"name": "x", "kids": [{"name": "z", "kids": []}]})


def test_a_span_beside_other_strings_and_objects_loses_nothing() -> None:
    schema = {
        "anyOf": [
            {"enum": ["unknown", "u", 3]},
            SPAN,
            closed(a={"type": "integer", "maximum": 9}),
            closed(a=SPAN, b=MAYBE),
            {"type": "string", "pattern": "^[xyz]{2,3}$"},
        ]
    }
    grammar = toy_compiler().compile(schema, "unk useful\nxyzzy")
    fitting: list[Any] = ["unknown", "u", 3, "unk", "useful", "xyzzy", "xyz", {"a": 1}, {"a": "unk", "b": None}]
    others: list[Any] = ["unkn", "xyzz", 4, {"a": "unknown", "b": None}, {"a": 1, "b": None}]
    assert [value for value in fitting if not accepts(grammar, value)] == []
    assert [value for value in others if accepts(grammar, value)] == []


def test_subtrees_without_verbatim_keep_their_schema() -> None:
    schema = closed(
        span=SPAN,
        free={"$ref": "#/$defs/tree"},
        anything={"enum": [{"$ref": "#/nowhere"}, True]},
        yes=True,
    )
    del schema["properties"]["yes"]
    schema["required"].remove("yes")
    schema["$defs"] = {
        "tree": {
            "type": "object",
            "properties": {"t": {"type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 1}},
            "additionalProperties": False,
        }
    }
    grammar = toy_compiler().compile(schema, "x")
    assert accepts(grammar, {"span": "x", "free": {"t": [{"t": []}]}, "anything": {"$ref": "#/nowhere"}})
    assert not accepts(grammar, {"span": "x", "free": {"t": [{"u": []}]}, "anything": True})


def test_standalone_copies_what_it_refers_to() -> None:
    graph = SchemaGraph(
        {
            "properties": {
                "a~/b": {"type": "object", "properties": {"x": {"$ref": "#/properties/c"}}},
                "c": {"const": 1},
            },
            "$defs": {"unused": {"const": 2}},
        }
    )
    assert standalone(graph, "/properties/a~0~1b") == {
        "type": "object",
        "properties": {"x": {"$ref": "#/$defs/d0"}},
        "$defs": {"d0": {"const": 1}},
    }


def test_references_may_use_any_pointer() -> None:
    schema = closed(**{"a b~/": SPAN, "c": {"$ref": "#/properties/a%20b~0~1"}})
    assert accepts(toy_compiler().compile(schema, "x"), {"a b~/": "x", "c": "x"})


@pytest.mark.parametrize(
    ("schema", "code", "pointer"),
    [
        ({**SPAN, "pattern": "a"}, "SCHEMA_KEYWORD_NOT_ENFORCED", "/pattern"),
        ({**SPAN, "format": "date"}, "SCHEMA_KEYWORD_NOT_ENFORCED", "/format"),
        ({**SPAN, "enum": ["a"]}, "SCHEMA_KEYWORD_NOT_ENFORCED", "/enum"),
        ({"type": ["string", "integer"], "x-verbatim": True}, "SCHEMA_KEYWORD_NOT_ENFORCED", "/type"),
        ({"type": "integer", "x-verbatim": True}, "SCHEMA_KEYWORD_NOT_ENFORCED", ""),
        ({"type": "null", "x-verbatim": True}, "SCHEMA_INVALID", "/type"),
        ({"type": "string", "x-verbatim": "yes"}, "SCHEMA_INVALID", "/x-verbatim"),
        ({"type": "string", "x-verbatim": 1}, "SCHEMA_INVALID", "/x-verbatim"),
        ({**closed(a=SPAN), "additionalProperties": True}, "SCHEMA_KEYWORD_NOT_ENFORCED", "/additionalProperties"),
        ({"type": "object", "properties": {"a": SPAN}}, "SCHEMA_KEYWORD_NOT_ENFORCED", ""),
        ({**closed(a=SPAN), "minProperties": 1}, "SCHEMA_KEYWORD_NOT_ENFORCED", "/minProperties"),
        (
            {**closed(a=SPAN), "patternProperties": {"b": SPAN}},
            "SCHEMA_KEYWORD_NOT_ENFORCED",
            "/patternProperties",
        ),
        ({"properties": {"a": SPAN}, "additionalProperties": False}, "SCHEMA_KEYWORD_NOT_ENFORCED", ""),
        (
            closed(l={"type": "array", "prefixItems": [SPAN], "items": SPAN}),
            "SCHEMA_KEYWORD_NOT_ENFORCED",
            "/properties/l/prefixItems",
        ),
        ({"type": "array", "items": [SPAN]}, "SCHEMA_KEYWORD_NOT_ENFORCED", "/items"),
        (
            {"type": "array", "items": {**SPAN, "type": ["string", "null"]}, "uniqueItems": True},
            "SCHEMA_KEYWORD_NOT_ENFORCED",
            "/uniqueItems",
        ),
        ({"type": "array", "contains": SPAN}, "SCHEMA_KEYWORD_NOT_ENFORCED", "/contains"),
        ({"oneOf": [SPAN, {"type": "null"}]}, "SCHEMA_KEYWORD_NOT_ENFORCED", ""),
        ({"allOf": [SPAN, {"maxLength": 3}]}, "SCHEMA_KEYWORD_NOT_ENFORCED", "/allOf"),
        ({"anyOf": [SPAN], "maxLength": 3}, "SCHEMA_KEYWORD_NOT_ENFORCED", "/maxLength"),
        (
            {"$ref": "#/$defs/s", "maxLength": 3, "$defs": {"s": SPAN}},
            "SCHEMA_KEYWORD_NOT_ENFORCED",
            "/maxLength",
        ),
        ({**closed(a=SPAN), "x-verbatim": True}, "SCHEMA_KEYWORD_NOT_ENFORCED", ""),
        ({"not": SPAN, "type": "object"}, "SCHEMA_KEYWORD_NOT_ENFORCED", "/not"),
        (closed(a=SPAN, b={"$ref": "other.json"}), "SCHEMA_REFERENCE", "/properties/b/$ref"),
        (closed(a={"$ref": "#s"}, b=SPAN), "SCHEMA_REFERENCE", "/properties/a/$ref"),
        (
            closed(a=SPAN, b={"type": "string", "format": "color"}),
            "SCHEMA_KEYWORD_NOT_ENFORCED",
            "/properties/b/format",
        ),
        (closed(a={**SPAN, "minLength": 4, "maxLength": 2}), "SCHEMA_UNSATISFIABLE", "/properties/a"),
        (
            closed(a={"type": "array", "items": SPAN, "minItems": 3, "maxItems": 3}),
            "SCHEMA_UNSATISFIABLE",
            "/properties/a",
        ),
    ],
)
def test_what_cannot_be_enforced_is_refused_with_its_place(schema: dict[str, Any], code: str, pointer: str) -> None:
    with pytest.raises(SchemaRefused) as refused:
        toy_compiler().compile(schema, "x y" if code != "SCHEMA_UNSATISFIABLE" else "x")
    assert (refused.value.code, refused.value.pointer) == (code, pointer)


def test_too_deep_a_schema_is_refused() -> None:
    schema: dict[str, Any] = SPAN
    for _ in range(MAX_DEPTH + 1):
        schema = closed(a=schema)
    with pytest.raises(SchemaRefused) as refused:
        toy_compiler().compile(schema, "x")
    assert refused.value.code == "SCHEMA_TOO_LARGE"
    assert refused.value.pointer.startswith("/properties/a/properties/a")


def test_span_pattern_needs_solid_ends() -> None:
    one, several = re.compile(span_pattern(SpanBounds(1, 1))), re.compile(span_pattern(SpanBounds(2, 5)))
    assert [bool(one.fullmatch(text)) for text in ("a", '\\"', "\\u0001", " ", "\\t", "ab", '"', "")] == [True] * 3 + [
        False
    ] * 5
    assert [bool(several.fullmatch(text)) for text in ("ab", "a b", 'a\\t\\t"', "a", " ab", "ab\\t", "abcdef")] == (
        [True] * 2 + [False] * 5
    )
    assert several.fullmatch("a\\t\\tb")
