"""Spans that can be read, but give a value that the schema refuses: null where it may be, an error where it may not."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from pydantic import BaseModel, Field

from fetchly.errors import RecordInvalid
from fetchly.extraction.extractor import ExtractionOptions, Extractor
from fetchly.extraction.leaf_rules import refusal
from fetchly.extraction.page_context import PageContext
from fetchly.extraction.schema import load_schema
from fetchly.extraction.span_values import convert_span
from fetchly.extraction.values import convert
from fetchly.goods import Link
from tests.support.documents import make_document
from tests.support.scripted_generator import ScriptedGenerator

CONTEXT = PageContext("en", links={"L1": Link("L1", "One", "https://x.test/1")})
COPIED = {"type": ["string", "null"], "x-verbatim": True}
NUMBER = {"type": ["number", "null"]}
RATING = {"type": "number", "minimum": 1, "maximum": 5}
BROKEN: list[tuple[dict[str, Any], str, str]] = [
    ({**NUMBER, "minimum": -90, "maximum": 90}, "142.5", "greater than the maximum of 90"),
    ({**NUMBER, "minimum": 1}, "0.4", "less than the minimum of 1"),
    ({**NUMBER, "exclusiveMinimum": 0}, "0", "minimum of 0"),
    ({**NUMBER, "exclusiveMaximum": 10}, "10", "maximum of 10"),
    ({**NUMBER, "multipleOf": 0.5}, "4.7", "not a multiple of 0.5"),
    ({"type": ["integer", "null"], "maximum": 1440, "description": "in minutes"}, "2 days", "2880 is greater"),
    ({**NUMBER, "not": {"const": 0}}, "0", "not allowed"),
    ({**COPIED, "pattern": "^[A-Z]{2}$"}, "Germany", "does not match"),
    ({**COPIED, "maxLength": 3}, "four", "longer than 3"),
    ({**COPIED, "minLength": 5}, "four", "shorter than 5"),
    ({**COPIED, "format": "date"}, "5 March 2024", 'not a "date"'),
    ({"type": ["string", "null"], "format": "date", "pattern": "^20"}, "5 March 1999", '"1999-03-05" does not match'),
    ({"type": ["string", "null"], "format": "date-time", "maxLength": 20}, "5 March 2024, 10:00 EST", "longer than 20"),
    ({"type": ["string", "null"], "format": "duration", "pattern": "^PT"}, "3 days", "does not match"),
    ({"type": ["string", "null"], "format": "email", "maxLength": 5}, "info@x.test", "longer than 5"),
    ({"type": ["string", "null"], "format": "uri", "maxLength": 5}, "L1", "longer than 5"),
    ({"$ref": "#/$defs/rating"}, "9.7", "greater than the maximum of 5"),
    ({"allOf": [NUMBER, {"maximum": 5}]}, "9.7", "greater than the maximum of 5"),
    ({"anyOf": [RATING, {"type": "null"}]}, "9.7", "greater than the maximum of 5"),
    ({"anyOf": [RATING, {"type": "string", "pattern": "^[0-9.]+$"}, {"type": "null"}]}, "9.7", "maximum of 5"),
]


@pytest.mark.parametrize(("schema", "span", "reason"), BROKEN)
def test_null_is_taken_where_it_may_be(schema: dict[str, Any], span: str, reason: str) -> None:
    defs = {"rating": {**RATING, "type": ["number", "null"]}}
    user = {"type": "object", "properties": {"a": schema}, "required": ["a"], "$defs": defs}
    found = convert(user, {"a": span}, CONTEXT)
    assert found.value == {"a": None}
    (warning,) = found.warnings
    assert warning.startswith(f"/a: “{span}”: ")
    assert warning.endswith("; null was taken")
    assert reason in warning
    assert (found.spans, found.links, found.verbatim, found.unread) == ({}, {}, frozenset(), {})
    jsonschema_rs.validate(user, found.value, validate_formats=True)


@pytest.mark.parametrize(("schema", "span", "reason"), [row for row in BROKEN if isinstance(row[0].get("type"), list)])
def test_a_field_that_may_be_missing_is_left_out(schema: dict[str, Any], span: str, reason: str) -> None:
    one = {**schema, "type": schema["type"][0]}
    found = convert({"properties": {"a": one}}, {"a": span}, CONTEXT)
    assert (found.value, found.unread) == ({}, {})
    assert reason in found.warnings[0]
    required = convert({"properties": {"a": one}, "required": ["a"]}, {"a": span}, CONTEXT)
    assert required.value == {"a": None}
    assert reason in required.unread["/a"], "the error says why"


def test_bounds_of_an_older_dialect() -> None:
    four = {"$schema": "http://json-schema.org/draft-04/schema#"}
    schema = {"type": ["number", "null"], "maximum": 5, "exclusiveMaximum": True}
    user = {**four, "properties": {"a": schema, "b": schema}}
    assert convert(user, {"a": "5", "b": "4.9"}, CONTEXT).value == {"a": None, "b": 4.9}
    assert convert_span(schema, "number", "5", CONTEXT, dialect=four["$schema"]) is None
    assert convert_span({"type": "number", "maximum": 5}, "number", "5.1", CONTEXT) is None


def test_what_holds_is_kept() -> None:
    assert refusal({"type": "number", "maximum": 5}, 5) == ""
    assert refusal({"not": {"$ref": "#/$defs/elsewhere"}}, 5) == "", "the validator of the record decides"
    assert len(refusal({"type": "string", "maxLength": 1}, "x" * 5000)) <= 200
    user = {"properties": {"a": {"anyOf": [RATING, {"type": "integer", "minimum": 100}]}}}
    assert convert(user, {"a": "250"}, CONTEXT).value == {"a": 250}, "the alternative that takes it"


def ratings(**more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"ratings": {"type": "array", "items": RATING, **more}}}


@pytest.mark.parametrize(("least", "note"), [(0, ""), (2, ", which holds its minItems of 2 without it")])
def test_an_entry_is_left_out_as_long_as_the_list_stays_long_enough(least: int, note: str) -> None:
    found = convert(ratings(minItems=least), {"ratings": ["4.5", "9.7", "soon", "3"]}, CONTEXT)
    assert found.value == {"ratings": [4.5, 3]}
    assert found.spans == {"/ratings/0": "4.5", "/ratings/1": "3"}
    assert found.unread == {}
    assert found.warnings == (
        f"/ratings: “9.7”: 9.7 is greater than the maximum of 5; entry 2 of 4 was left out of the list{note}",
        f"/ratings: “soon” was read as no number; entry 3 of 4 was left out of the list{note}",
    )


def test_a_list_that_would_be_too_short_is_refused_for_the_entry() -> None:
    schema = {**ratings(minItems=2), "required": ["ratings"]}
    answer = json.dumps({"ratings": ["4.5", "9.7"]})
    made = Extractor(ScriptedGenerator(lambda _: answer), load_schema(schema), ExtractionOptions(attempts=2))
    with pytest.raises(RecordInvalid) as caught:
        made.extract(make_document("4.5 and 9.7"))
    assert caught.value.pointer == "/ratings/1"
    assert "“9.7”: 9.7 is greater than the maximum of 5, and the schema requires a value" in caught.value.line()
    assert "all 2 attempts failed" in caught.value.line()
    optional = convert(ratings(minItems=2), {"ratings": ["4.5", "9.7"]}, CONTEXT)
    assert (optional.value, optional.spans) == ({}, {})
    assert optional.warnings[-1].endswith("at /1 “9.7”: 9.7 is greater than the maximum of 5; the field was left out")


def test_entries_that_may_be_null_stay() -> None:
    found = convert({"items": {**RATING, "type": ["number", "null"]}}, ["9.7", "2"], CONTEXT)
    assert (found.value, found.spans) == ([None, 2], {"/1": "2"})
    pair = convert({"prefixItems": [RATING, {"type": "number"}]}, ["9.7", "2"], CONTEXT)
    assert (pair.value, pair.unread.keys()) == ([None, 2], {"/0"}), "the second place is not the first"


def test_an_entry_that_repeats_another_once_converted() -> None:
    user = {"items": {"type": "number"}, "uniqueItems": True}
    found = convert(user, ["1", "1.0", "2"], CONTEXT)
    assert (found.value, found.spans) == ([1, 2], {"/0": "1", "/1": "2"})
    assert found.warnings == ("/: “1” is there already, and uniqueItems wants each once; "
                              "entry 2 of 3 was left out of the list",)  # fmt: skip
    assert convert({**user, "minItems": 3}, ["1", "1.0", "2"], CONTEXT).value == [1, 1, 2]


REVIEW = {
    "type": "object",
    "properties": {"by": {"type": "string", "x-verbatim": True}, "rating": RATING, "url": {"format": "uri"}},
    "required": ["by", "rating"],
}


def test_a_record_of_a_list_is_left_out_with_all_that_it_says() -> None:
    user = {"properties": {"reviews": {"type": "array", "items": REVIEW}}}
    written = [{"by": "Ada", "rating": "9.7", "url": "L1"}, {"by": "Bo", "rating": "4"}]
    found = convert(user, {"reviews": written}, CONTEXT)
    assert found.value == {"reviews": [{"by": "Bo", "rating": 4}]}
    assert found.spans == {"/reviews/0/by": "Bo", "/reviews/0/rating": "4"}
    assert (found.verbatim, found.links, found.unread) == ({"/reviews/0/by"}, {}, {})
    assert found.warnings == (
        "/reviews: at /rating “9.7”: 9.7 is greater than the maximum of 5; entry 1 of 2 was left out of the list",
    )


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"anyOf": [REVIEW, {"type": "null"}]}, {"review": None}),
        ({**REVIEW, "type": ["object", "null"]}, {"review": None}),
        (REVIEW, {}),
        ({name: REVIEW[name] for name in ("properties", "required")}, {}),
    ],
)
def test_an_object_that_cannot_be_valid_is_null_or_left_out(schema: dict[str, Any], value: Any) -> None:
    found = convert({"properties": {"review": schema}}, {"review": {"by": "Ada", "rating": "9.7"}}, CONTEXT)
    assert (found.value, found.spans, found.verbatim, found.unread) == (value, {}, frozenset(), {})
    end = "null was taken" if value else "the field was left out"
    assert found.warnings[-1] == f"/review: at /rating “9.7”: 9.7 is greater than the maximum of 5; {end}"
    required = convert(
        {"properties": {"review": REVIEW}, "required": ["review"]}, {"review": {"rating": "9.7"}}, CONTEXT
    )
    assert required.unread.keys() == {"/review/rating"}


def test_of_two_lists_the_one_that_keeps_more_is_taken() -> None:
    strict = {"type": "array", "items": {"type": "object", "properties": {"n": RATING}, "required": ["n"]}}
    loose = {"type": "array", "items": {"type": "object", "properties": {"n": {**RATING, "type": ["number", "null"]}}}}
    found = convert({"anyOf": [strict, loose]}, [{"n": "9.7"}], CONTEXT)
    assert found.value == [{"n": None}]


class Place(BaseModel):
    name: str
    latitude: float | None = Field(ge=-90, le=90)
    rating: int | None = Field(default=None, ge=1, le=5)


def test_a_model_with_natural_bounds() -> None:
    document = make_document("Skarrow Head", "Longitude 142.5, rated 47 times")
    answer = json.dumps({"name": "Skarrow Head", "latitude": "142.5", "rating": "47"})
    found = Extractor(ScriptedGenerator(lambda _: answer), load_schema(Place)).extract(document)
    assert found.value == Place(name="Skarrow Head", latitude=None)
    assert found.attempt == 1
    assert found.record.warnings == (
        "/latitude: “142.5”: 142.5 is greater than the maximum of 90; null was taken",
        "/rating: “47”: 47 is greater than the maximum of 5; null was taken",
    )
    assert found.record.evidence.keys() == {"/name"}
