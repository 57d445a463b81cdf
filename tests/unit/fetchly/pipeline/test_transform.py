"""What becomes of a record and of its schema."""

from __future__ import annotations

from typing import Any

import pytest

from fetchly.errors import RecordInvalid, SchemaError
from fetchly.pipeline.row_schema import row_schema
from fetchly.pipeline.transform import Transform, duplicate_key, transformed


def transform(**said: Any) -> Transform:
    return Transform.model_validate(said)


def test_the_steps_in_their_order() -> None:
    said = transform(
        keep=["price", "name", "stock"], rename={"price": "amount"}, defaults={"stock": 0}, set={"shop": ["x"]}
    )
    record = {"name": None, "price": 2.5, "sku": "a"}
    assert transformed(record, said) == {"amount": 2.5, "name": None, "stock": 0, "shop": ["x"]}
    assert list(transformed(record, said)) == ["amount", "name", "stock", "shop"]


def test_two_fields_may_change_names() -> None:
    assert transformed({"a": 1, "b": 2}, transform(rename={"a": "b", "b": "a"})) == {"b": 1, "a": 2}


def test_false_zero_and_empty_text_are_values() -> None:
    record = {"a": False, "b": 0, "c": "", "d": None}
    assert transformed(record, transform(defaults=dict.fromkeys("abcde", 9))) == {
        "a": False,
        "b": 0,
        "c": "",
        "d": 9,
        "e": 9,
    }


@pytest.mark.parametrize("said", [{"rename": {"a": "x"}}, {"set": {"x": 1}}])
def test_a_field_beyond_the_schema_is_not_written_over(said: dict[str, Any]) -> None:
    with pytest.raises(RecordInvalid) as caught:
        transformed({"x": "kept", "a": 1}, transform(**said))
    assert (caught.value.code, caught.value.pointer) == ("FIELD_TAKEN", "/x")


def test_a_constant_is_not_shared_between_rows() -> None:
    said = transform(set={"tags": []})
    transformed({}, said)["tags"].append("x")
    assert transformed({}, said) == {"tags": []}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"a": 1, "b": "x"}, {"a": 1.0, "b": "x", "c": 3}, True),
        ({"a": 1, "b": "x"}, {"a": "1", "b": "x"}, False),
        ({"a": True, "b": "x"}, {"a": 1, "b": "x"}, False),
        ({"a": {"p": 1, "q": 2}, "b": 0}, {"a": {"q": 2, "p": 1}, "b": 0}, True),
        ({"a": ["x", "y"], "b": 0}, {"a": ["y", "x"], "b": 0}, False),
    ],
)
def test_the_key_of_a_row(one: dict[str, Any], other: dict[str, Any], same: bool) -> None:
    said = transform(deduplicate=["a", "b"])
    assert (duplicate_key(one, said) == duplicate_key(other, said)) is same


def test_a_row_that_lacks_a_part_of_its_key_is_like_no_other() -> None:
    said = transform(deduplicate=["a", "b"])
    assert duplicate_key({"a": 1, "b": None}, said) is None
    assert duplicate_key({"a": 1}, said) is None
    assert duplicate_key({"a": 1, "b": 2}, transform()) is None


TREE = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "name": {"type": ["string", "null"]},
                "children": {"type": "array", "items": {"$ref": "#"}},
            },
            "required": ["name"],
            "additionalProperties": False,
        }
    },
}


def test_what_lies_below_a_renamed_field_keeps_its_own_names() -> None:
    found = row_schema(TREE, None, transform(rename={"name": "title"}, defaults={"title": "?"}))
    assert found["properties"]["title"] == {"type": "string"}
    assert found["required"] == ["title"]
    below = found["$defs"]["record"]
    assert below == {"$ref": "#/$defs/node"}
    assert "name" in found["$defs"]["node"]["properties"]


def test_alternatives_are_one_set_of_columns() -> None:
    book = {"type": "object", "properties": {"kind": {"const": "book"}, "isbn": {"type": "string"}}}
    film = {"type": "object", "properties": {"kind": {"const": "film"}, "length": {"type": "integer"}}}
    closed = [{**part, "required": ["kind"], "additionalProperties": False} for part in (book, film)]
    found = row_schema({"anyOf": closed}, None, transform())
    assert found["properties"] == {
        "kind": {"anyOf": [{"const": "book"}, {"const": "film"}]},
        "isbn": {"type": "string"},
        "length": {"type": "integer"},
    }
    assert found["required"] == ["kind"]
    assert found["additionalProperties"] is False


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string"},
        {"type": "array", "items": {"type": "integer"}},
        {"type": ["object", "null"]},
        {"anyOf": [{"$ref": "#"}, {"type": "object"}]},
        {"type": "object", "properties": {"a": {"$dynamicRef": "#x"}}},
    ],
    ids=str,
)
def test_what_gives_no_rows_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(SchemaError):
        row_schema(schema, None, transform())
