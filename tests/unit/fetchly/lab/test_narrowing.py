"""A schema loses exactly the fields that it is told to lose."""

from __future__ import annotations

from typing import Any

import pytest

from fetchly.lab.narrowing import without
from tests.support.answering import TEXT, list_of, record_schema

NESTED = record_schema(name=TEXT, maker=record_schema(city=TEXT, land=TEXT), items=list_of(title=TEXT, day=TEXT))


def names(schema: dict[str, Any] | None) -> list[str]:
    assert schema is not None
    assert schema["required"] == list(schema["properties"])
    return list(schema["properties"])


def test_fields_go_at_every_depth() -> None:
    left = without(NESTED, ["name", "maker.city", "items.day"])
    assert names(left) == ["maker", "items"]
    assert left is not None
    assert names(left["properties"]["maker"]) == ["land"]
    assert names(left["properties"]["items"]["items"]) == ["title"]
    assert names(NESTED) == ["name", "maker", "items"], "the given schema stays as it was"


def test_an_object_goes_with_its_last_field() -> None:
    assert names(without(NESTED, ["maker.city", "maker.land"])) == ["name", "items"]
    assert names(without(NESTED, ["items.title", "items.day"])) == ["name", "maker"]


@pytest.mark.parametrize("paths", [["name", "maker", "items"], ["other"], ["name.first"], [""], ["items.title.x"]])
def test_none_where_nothing_is_left_or_a_path_leads_nowhere(paths: list[str]) -> None:
    assert without(NESTED, paths) is None


def test_references_and_alternatives_are_followed() -> None:
    schema = {
        "type": "object",
        "properties": {
            "maker": {"anyOf": [{"$ref": "#/$defs/Maker"}, {"type": "null"}]},
            "shop": {"$ref": "#/$defs/Maker"},
        },
        "required": ["maker", "shop"],
        "$defs": {"Maker": record_schema(city=TEXT, land=TEXT)},
    }
    left = without(schema, ["maker.city"])
    assert left is not None
    assert names(left["properties"]["maker"]["anyOf"][0]) == ["land"]
    assert left["properties"]["shop"] == {"$ref": "#/$defs/Maker"}, "the other use of the definition keeps its fields"
    assert names(left["$defs"]["Maker"]) == ["city", "land"]
