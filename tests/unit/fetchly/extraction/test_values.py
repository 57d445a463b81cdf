from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fetchly.extraction.page_context import PageContext, page_context
from fetchly.extraction.span_values import convert_span, time_unit
from fetchly.extraction.values import Converted, convert
from fetchly.goods import Link
from tests.support.documents import make_document


def one(schema: Any, value: Any, *, lang: str | None = "en", required: bool = True) -> Converted:
    user = {"type": "object", "properties": {"a": schema}, "required": ["a"] if required else []}
    return convert(user, {"a": value}, PageContext(lang))


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
    found = convert(user, {"a": span}, PageContext(lang))
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
    found = convert(user, ["1", "x", "2"], PageContext("en"))
    assert found.value == [1, 2]
    assert found.spans == {"/0": "1", "/1": "2"}
    assert found.warnings == ("/: “x” was read as no number; entry 2 of 3 was left out of the list",)
    kept = convert({"type": "array", "items": {"type": ["number", "null"]}}, ["1", "x"], PageContext("en"))
    assert kept.value == [1, None]


def test_nested_and_odd_keys() -> None:
    user = {"type": "object", "properties": {"a/b": {"type": "object", "properties": {"c~d": {"type": "integer"}}}}}
    assert convert(user, {"a/b": {"c~d": "5"}}, PageContext("en")).spans == {"/a~1b/c~0d": "5"}


def test_maps_and_values_that_are_numbers_already() -> None:
    user = {
        "type": "object",
        "additionalProperties": {"type": "number"},
        "patternProperties": {"^d_": {"type": "string", "format": "date"}},
    }
    found = convert(user, {"x": 4.5, "y": "4,5", "d_x": "2024-01-02"}, PageContext("de"))
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
    assert convert(user, {"kind": "a", "n": "5"}, PageContext("en")).value == {"kind": "a", "n": "5"}
    assert convert(user, {"kind": "b", "n": "5"}, PageContext("en")).value == {"kind": "b", "n": 5}


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
        ("warranty", "Warranty in months", "month"),
        ("experience_years", "", "year"),
    ],
)
def test_time_units(name: str, description: str, unit: str | None) -> None:
    assert time_unit(name, description) == unit


def test_huge_numbers_stay_exact() -> None:
    assert one({"type": "integer"}, "9" * 30).value == {"a": int("9" * 30)}


LINKS = {
    "L1": Link("L1", "One", "https://x.test/1"),
    "L2": Link("L2", "Mail", "mailto:a@x.test"),
    "L3": Link("L3", "Rel", "/three"),
}
WITH_LINKS = PageContext("en", links={**LINKS, **{link.url: link for link in LINKS.values()}})


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string", "format": "uri"}, "https://x.test/1"),
        ({"type": "string", "format": "iri"}, "https://x.test/1"),
        ({"type": "string", "x-link": True}, "https://x.test/1"),
        ({"anyOf": [{"type": "string", "format": "uri", "minLength": 1}, {"type": "null"}]}, "https://x.test/1"),
        ({"anyOf": [{"type": "string", "format": "uri"}, {"type": "string"}]}, "https://x.test/1"),
        ({"type": "string", "format": "uri", "x-computed": True}, "L1"),
        ({"type": "string", "format": "uri", "pattern": "^L"}, "L1"),
        ({"type": "string", "enum": ["L1"], "format": "uri"}, "L1"),
    ],
)
def test_ids_become_urls(schema: Any, value: str) -> None:
    found = convert({"properties": {"a": schema}}, {"a": "L1"}, WITH_LINKS)
    assert found.value == {"a": value}
    assert found.links == ({"/a": "L1"} if value != "L1" else {})
    assert found.spans == {}


URI = {"type": "string", "format": "uri"}
COPIED = {"type": "string", "x-verbatim": True}
WRAPPED = [
    ({"properties": {"a": None}}, {"a": None}, "/a"),
    ({"additionalProperties": None}, {"x": None}, "/x"),
    ({"prefixItems": [None]}, [None], "/0"),
    ({"items": None}, [None], "/0"),
]


def put(frame: Any, content: Any) -> Any:
    """A frame with its one None replaced."""
    if isinstance(frame, dict):
        return {key: put(part, content) for key, part in frame.items()}
    return [put(part, content) for part in frame] if isinstance(frame, list) else content


@pytest.mark.parametrize(("schema", "value", "pointer"), WRAPPED)
@pytest.mark.parametrize(
    "branches",
    [
        [{"type": "number"}, URI],
        [{"type": "integer"}, URI, {"type": "null"}],
        [COPIED, URI],
        [{"type": "string"}, URI],
        [{"type": "integer"}, {"anyOf": [URI, {"type": "null"}]}],
    ],
)
def test_an_offered_id_is_a_link_whatever_else_it_could_be(
    branches: Any, schema: Any, value: Any, pointer: str
) -> None:
    found = convert(put(schema, {"anyOf": branches}), put(value, "L1"), WITH_LINKS)
    assert found.value == put(value, "https://x.test/1")
    assert (found.links, found.spans, found.verbatim) == ({pointer: "L1"}, {}, frozenset())
    other = put(schema, {"anyOf": [{"type": "object", "properties": {"b": branch}} for branch in branches]})
    assert convert(other, put(value, {"b": "L1"}), WITH_LINKS).value == put(value, {"b": "https://x.test/1"})


@pytest.mark.parametrize(("schema", "value", "pointer"), WRAPPED)
def test_what_only_looks_like_an_id_stays_a_span(schema: Any, value: Any, pointer: str) -> None:
    for text in ("L9", "https://x.test/1"):
        found = convert(put(schema, {"anyOf": [COPIED, URI]}), put(value, text), WITH_LINKS)
        assert found.value == put(value, text)
        assert (found.links, found.verbatim) == ({}, {pointer})


def test_an_offered_id_without_a_url_of_the_format_is_no_number() -> None:
    found = convert({"properties": {"a": {"anyOf": [{"type": "number"}, URI]}}}, {"a": "L3"}, WITH_LINKS)
    assert found.value == {}
    assert found.warnings == ("/a: “L3” was read as no absolute URL of this page; null was taken",)


def test_an_id_that_was_not_shown_is_no_id() -> None:
    document = replace(make_document("Model L2"), links=tuple(LINKS.values()))
    context = page_context(document, ("L1",))
    user = {"items": {"anyOf": [COPIED, URI]}}
    assert convert(user, ["L2", "L1"], context).value == ["L2", "https://x.test/1"]
    assert convert(user, ["L2"], page_context(document)).value == ["mailto:a@x.test"]


def test_a_url_is_never_made_up() -> None:
    user = {"type": "array", "items": {"type": "string", "format": "uri"}}
    found = convert(user, ["L2", "L9", "https://invented.test/", "L3", "https://x.test/1"], WITH_LINKS)
    assert found.value == ["mailto:a@x.test", "https://x.test/1"]
    assert "“L9” was read as no absolute URL of this page" in found.warnings[0]
    assert found.links == {"/0": "L2", "/1": "L1"}
    relative = convert({**user, "items": {"type": "string", "format": "uri-reference"}}, ["L3"], WITH_LINKS)
    assert relative.value == ["/three"]


def test_maps_and_tuples_of_urls() -> None:
    user = {
        "properties": {
            "map": {"type": "object", "additionalProperties": {"type": "string", "format": "uri"}},
            "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "string", "format": "uri"}]},
        }
    }
    found = convert(user, {"map": {"x": "L1"}, "pair": ["L1", "L1"]}, WITH_LINKS)
    assert found.value == {"map": {"x": "https://x.test/1"}, "pair": ["L1", "https://x.test/1"]}


@pytest.mark.parametrize(
    ("span", "value"),
    [
        ("a.b+c@x.test", "a.b+c@x.test"),
        ("Mail: info@x.test.", "info@x.test"),
        ("mailto:info@x.test", "info@x.test"),
        ("info [at] x.test", None),
        ("info@localhost", None),
    ],
)
def test_addresses(span: str, value: str | None) -> None:
    assert one({"type": "string", "format": "email"}, span).value == {"a": value}


def test_one_leaf_as_the_whole_record_has_it() -> None:
    context = WITH_LINKS
    assert convert_span({"type": "number"}, "number", "1,234.5 kg", context) == 1234.5
    assert convert_span({"type": "integer"}, "integer", "1 hr", context, "total_minutes") == 60
    assert convert_span({"format": "date"}, "date", "3 May 2024", context) == "2024-05-03"
    assert convert_span({"format": "duration"}, "duration", "3 h", context) == "PT3H"
    assert convert_span({"format": "uri"}, "link", "L1", context) == "https://x.test/1"
    assert convert_span({}, "verbatim", " x ", context) == " x "
    assert convert_span({"type": "number"}, "number", "none", context) is None


def test_booleans_and_enums_stay_as_they_were_written() -> None:
    assert one({"type": ["boolean", "null"]}, True).value == {"a": True}
    assert one({"type": ["boolean", "null"]}, None).value == {"a": None}
    assert one({"type": "boolean"}, False).spans == {}
    assert one({"enum": ["12", "yes"]}, "12").value == {"a": "12"}


def test_a_price_that_is_asked_as_text_stays_text() -> None:
    found = one({"type": "string", "x-verbatim": True, "description": "decimal price"}, "€ 1.299,00")
    assert found.value == {"a": "€ 1.299,00"}


def test_what_gave_no_value_says_why() -> None:
    found = one({"type": "number"}, "free")
    assert found.unread == {"/a": "“free” was read as no number"}
    kept = convert({"type": "array", "items": {"type": "number"}}, ["x", "2"], PageContext("en"))
    assert (kept.value, kept.unread) == ([2], {})
