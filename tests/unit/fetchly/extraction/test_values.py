from __future__ import annotations

from typing import Any

import pytest

from fetchly.extraction.values import Converted, convert, time_unit


def one(schema: Any, value: Any, *, lang: str | None = "en", required: bool = True) -> Converted:
    user = {"type": "object", "properties": {"a": schema}, "required": ["a"] if required else []}
    return convert(user, {"a": value}, lang)


@pytest.mark.parametrize(
    ("schema", "span", "lang", "value"),
    [
        ({"type": "number"}, "1.234,50 €", "de", 1234.5),
        ({"type": "number"}, "1,234", "en", 1234),
        ({"type": "integer"}, "4.0", "en", 4),
        ({"type": "integer", "description": "in minutes"}, "1 hr 20 min", "en", 80),
        ({"type": "string", "format": "date"}, "3. März 2024", "de", "2024-03-03"),
        ({"type": "string", "x-verbatim": True}, " as it is ", "en", " as it is "),
        ({"anyOf": [{"type": "null"}, {"type": "number"}]}, "5 EUR", "de", 5),
        ({"anyOf": [{"type": "integer"}, {"type": "string", "format": "date"}]}, "3 May 2024", "en", "2024-05-03"),
        ({"$ref": "#/properties/b"}, "7", "en", 7),
    ],
)
def test_spans_become_values(schema: Any, span: str, lang: str, value: Any) -> None:
    user = {"type": "object", "properties": {"a": schema, "b": {"type": "integer"}}, "required": ["a"]}
    found = convert(user, {"a": span}, lang)
    assert found.value == {"a": value}
    assert type(found.value["a"]) is type(value)
    assert found.spans == {"/a": span}


def test_what_does_not_parse_is_null_with_a_warning() -> None:
    found = one({"type": "integer"}, "4.5 stars")
    assert found.value == {"a": None}
    assert found.warnings == ("/a: “4.5 stars” was read as no whole number; null was taken",)
    assert found.spans == {}
    assert "no date" in one({"type": "string", "format": "date"}, "soon").warnings[0]


def test_null_of_an_optional_property_is_left_out_only_where_it_is_refused() -> None:
    assert one({"type": "string"}, None, required=False).value == {}
    assert one({"type": "string"}, None).value == {"a": None}
    assert one({"type": ["string", "null"]}, None, required=False).value == {"a": None}
    assert one({"anyOf": [{"type": "string"}, {"type": "null"}]}, None, required=False).value == {"a": None}
    assert one({"enum": ["x", None]}, None, required=False).value == {"a": None}
    assert one({"enum": ["x"]}, None, required=False).value == {}
    assert one({"type": "number"}, "none", required=False).value == {}


def test_list_entries() -> None:
    user = {"type": "array", "items": {"type": "number"}}
    found = convert(user, ["1", "x", "2"], "en")
    assert found.value == [1, 2]
    assert found.spans == {"/0": "1", "/1": "2"}
    assert found.warnings[-1] == "/1: the entry was left out of the list"
    kept = convert({"type": "array", "items": {"type": ["number", "null"]}}, ["1", "x"], "en")
    assert kept.value == [1, None]


def test_nested_and_odd_keys() -> None:
    user = {"type": "object", "properties": {"a/b": {"type": "object", "properties": {"c~d": {"type": "integer"}}}}}
    assert convert(user, {"a/b": {"c~d": "5"}}, "en").spans == {"/a~1b/c~0d": "5"}


def test_maps_and_values_that_are_numbers_already() -> None:
    user = {
        "type": "object",
        "additionalProperties": {"type": "number"},
        "patternProperties": {"^d_": {"type": "string", "format": "date"}},
    }
    found = convert(user, {"x": 4.5, "y": "4,5", "d_x": "2024-01-02"}, "de")
    assert found.value == {"x": 4.5, "y": 4.5, "d_x": "2024-01-02"}


def test_the_branch_that_fits_is_taken() -> None:
    user = {
        "oneOf": [
            {
                "type": "object",
                "properties": {"kind": {"const": "a"}, "n": {"type": "string"}},
                "required": ["kind", "n"],
            },
            {
                "type": "object",
                "properties": {"kind": {"const": "b"}, "n": {"type": "integer"}},
                "required": ["kind", "n"],
            },
        ]
    }
    assert convert(user, {"kind": "a", "n": "5"}, "en").value == {"kind": "a", "n": "5"}
    assert convert(user, {"kind": "b", "n": "5"}, "en").value == {"kind": "b", "n": 5}


def test_verbatim_values_are_named() -> None:
    assert one({"type": "string", "x-verbatim": True}, "x").verbatim == frozenset({"/a"})
    assert one({"type": "number"}, "1").verbatim == frozenset()


@pytest.mark.parametrize(
    ("name", "description", "unit"),
    [
        ("total_minutes", "", "minute"),
        ("cookMins", "", "minute"),
        ("time", "Time in minutes", "minute"),
        ("time", "Total, in whole hours", "hour"),
        ("dauer", "Dauer (Minuten)", "minute"),
        ("min_price", "lowest price", None),
        ("second_name", "the second name", None),
        ("days", "", "day"),
    ],
)
def test_time_units(name: str, description: str, unit: str | None) -> None:
    assert time_unit(name, description) == unit


def test_huge_numbers_stay_exact() -> None:
    assert one({"type": "integer"}, "9" * 30).value == {"a": int("9" * 30)}
