from typing import Any

import pytest

from fetchly.errors import ConfigurationError
from fetchly.extraction import schema, shipped
from fetchly.sinks.columns import change, layout
from fetchly.sinks.database import Columns, fold
from fetchly.sinks.place import Place
from fetchly.sinks.typed_rows import KEY

CLOSED = {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False}
TYPES: list[tuple[Any, str]] = [
    ({"type": "string"}, "string"),
    ({"type": ["string", "null"]}, "string"),
    ({"type": "string", "format": "date"}, "date"),
    ({"type": "string", "format": "date-time"}, "timestamp"),
    ({"anyOf": [{"type": "string", "format": "date"}, {"type": "string", "format": "date-time"}]}, "string"),
    ({"type": "string", "format": "uri"}, "string"),
    ({"anyOf": [{"type": "null"}, {"type": "integer"}]}, "integer"),
    ({"type": ["integer", "number"]}, "number"),
    ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "number"),
    ({"type": ["string", "integer"]}, "json"),
    ({"type": "null"}, "json"),
    ({}, "json"),
    (True, "json"),
    ({"enum": ["a", "b", None]}, "string"),
    ({"enum": [1, 2]}, "integer"),
    ({"enum": [1, 2.5]}, "number"),
    ({"enum": [1, "a"]}, "json"),
    ({"const": True}, "boolean"),
    ({"enum": ["2020-01-01"], "type": "string", "format": "date"}, "string"),
    ({"type": "array", "items": {"type": ["number", "null"]}}, "list<number>"),
    ({"type": "array", "items": {}}, "json"),
    ({"type": "array"}, "json"),
    ({"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "string"}}, "json"),
    (CLOSED, "struct<a: integer>"),
    ({"type": "array", "items": CLOSED}, "list<struct<a: integer>>"),
    ({"type": "object", "properties": {"a": {}}}, "struct<a: json>"),
    ({"type": "object"}, "json"),
    ({**CLOSED, "additionalProperties": True}, "json"),
    ({**CLOSED, "patternProperties": {"^x": {}}}, "json"),
    ({"$ref": "#/$defs/link"}, "json"),
    ({"allOf": [{"type": "string"}, {"maxLength": 3}]}, "string"),
]


@pytest.mark.parametrize(("node", "kind"), TYPES, ids=[str(number) for number in range(len(TYPES))])
def test_a_column_has_the_type_of_its_node(node: Any, kind: str) -> None:
    link = {"type": "object", "properties": {"next": {"$ref": "#/$defs/link"}}}
    found = layout({"type": "object", "properties": {"x": node}, "$defs": {"link": link}}).types
    assert found == {"x": kind if "$ref" not in str(node) else "struct<next: json>"}


def test_a_record_of_several_schemas_has_the_columns_of_all() -> None:
    first = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}
    second = {"type": "object", "properties": {"b": {"type": "boolean"}, "c": {"type": "string"}}}
    assert layout({"anyOf": [first, second, {"type": "null"}]}).types == {"a": "integer", "b": "json", "c": "string"}


def test_a_record_that_is_no_object_is_one_column() -> None:
    assert layout({"type": "array", "items": {"type": "string"}}).types == {"value": "list<string>"}
    assert layout({"type": "string"}).types == {"value": "string"}


@pytest.mark.parametrize("name", shipped.names())
def test_the_records_of_shipped_schemas_have_columns_and_are_closed(name: str) -> None:
    node = schema.load_schema(name).json
    if "$defs" not in node and node.get("type") == "array":
        node = node["items"]
    found = layout(node)
    assert found.columns
    assert not found.is_open


def test_what_has_changed_is_said() -> None:
    before = {"a": "string", "b": "integer"}
    assert change(before, dict(before)) is None
    assert change(before, {"a": "string"}) == "the column 'b' is no longer in the schema"
    assert change(before, {**before, "c": "date"}) == "the column 'c' is new in the schema"
    assert change(before, {**before, "b": "number"}) == "the column 'b' was integer, and is number now"
    assert change(before, {"b": "integer", "a": "string"}) == "the columns come in another order"


def test_names_that_a_database_cannot_tell_apart_are_refused() -> None:
    both = layout({"properties": {"Name": {}, "name": {}}})
    fold(both, (KEY,), lambda name: name, None)
    with pytest.raises(ConfigurationError, match="apart"):
        fold(both, (KEY,), str.lower, None)
    with pytest.raises(ConfigurationError, match="apart"):
        fold(layout({"properties": {"_KEY": {}}}), (KEY,), str.lower, None)
    with pytest.raises(ConfigurationError, match="too long"):
        fold(layout({"properties": {"ü" * 32: {}}}), (KEY,), str, 63)
    for name in ("", "a\x00"):
        with pytest.raises(ConfigurationError, match="cannot be a column"):
            fold(layout({"properties": {name: {}}}), (KEY,), str, None)


def test_a_table_is_mended_by_the_statement_in_the_hint() -> None:
    place = Place("postgresql://h/d", "t")
    wanted, found = {"a": "text", "b": "bigint"}, {"a": "text", "b": "bigint", "mine": "inet"}
    Columns(wanted, found, frozenset(wanted)).check(place, repr)
    with pytest.raises(ConfigurationError, match="no column 'b'") as caught:
        Columns(wanted, {"a": "text"}, frozenset()).check(place, repr)
    assert caught.value.hint == "name another table, or ALTER TABLE 't' ADD COLUMN 'b' bigint"
    with pytest.raises(ConfigurationError, match="'b' is text, and should be bigint"):
        Columns(wanted, {"a": "text", "b": "text"}, frozenset()).check(place, repr)
    with pytest.raises(ConfigurationError, match="no longer has the column 'mine'") as caught:
        Columns(wanted, found, frozenset(found)).check(place, repr)
    assert caught.value.hint == "name another table, or ALTER TABLE 't' DROP COLUMN 'mine'"
