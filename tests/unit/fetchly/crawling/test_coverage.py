"""Which fields the records of a crawl leave empty."""

from typing import Any

import pytest

from fetchly.crawling.coverage import LEAST_RECORDS, Coverage

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}, "price": {"type": ["number", "null"]}}}


def of(schema: dict[str, Any], *values: Any) -> Coverage:
    coverage = Coverage(schema)
    for value in values:
        coverage.add(value)
    return coverage


def test_shares_are_of_all_records_also_of_lists() -> None:
    coverage = of(SCHEMA, {"name": "a", "price": 0}, [{"name": "", "price": None}, {"name": "b"}], [])
    assert coverage.records == 3
    assert coverage.shares() == {"name": 0.667, "price": 0.333}


@pytest.mark.parametrize("empty", [None, "", [], {}])
def test_a_field_that_is_empty_nearly_everywhere_is_told(empty: Any) -> None:
    rows = [{"name": "a", "price": 1 if number < 4 else empty} for number in range(LEAST_RECORDS)]
    assert of(SCHEMA, *rows[:-1]).warning() is None  # too few to say anything
    assert of(SCHEMA, *rows).warning() == "FIELDS_EMPTY: of 10 records few have a value for price (4)"
    assert of(SCHEMA, *rows, {"name": "a", "price": 2}, {"name": "a", "price": 2}).warning() is None


@pytest.mark.parametrize("value", [0, False, 0.0])
def test_zero_and_no_are_values(value: Any) -> None:
    assert of(SCHEMA, *[{"name": "a", "price": value}] * LEAST_RECORDS).warning() is None


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": SCHEMA},
        {"$ref": "#/$defs/a~1b", "$defs": {"a/b": SCHEMA}},
        {"type": "array", "items": {"$ref": "#/$defs/x"}, "$defs": {"x": {"$ref": "#/$defs/y"}, "y": SCHEMA}},
    ],
)
def test_a_field_that_no_record_has_is_known_from_the_schema(schema: dict[str, Any]) -> None:
    assert of(schema, *[{"name": "a"}] * LEAST_RECORDS).shares() == {"name": 1.0, "price": 0.0}


@pytest.mark.parametrize("schema", [{}, {"$ref": "#"}, {"$ref": "#/nowhere"}, {"type": "string"}, {"items": True}])
def test_schemas_without_fields_have_no_coverage(schema: dict[str, Any]) -> None:
    assert of(schema, "a", 1).shares() == {}
    assert of({}).warning() is None
