import json
import math
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchly.sinks.batch import LONGEST_ID, Row
from fetchly.sinks.columns import layout
from fetchly.sinks.json_text import to_json
from fetchly.sinks.typed_rows import TypedRows

DAY = {"type": "string", "format": "date"}
AT = {"type": "string", "format": "date-time"}
STRUCT = {"type": "object", "properties": {"n": {"type": "integer"}, "any": {}}, "additionalProperties": False}
FITS: list[tuple[Any, Any, Any]] = [
    ({"type": "integer"}, 2.0, 2),
    ({"type": "integer"}, -(2**63), -(2**63)),
    ({"type": "number"}, 3, 3.0),
    ({"type": "number"}, 2**80, float(2**80)),
    ({"type": "number"}, math.inf, math.inf),
    ({"type": "string"}, "\x00", "\x00"),
    (DAY, "2024-02-29", date(2024, 2, 29)),
    (AT, "2024-02-29t23:30:00.1234560-02:00", datetime(2024, 3, 1, 1, 30, 0, 123456, tzinfo=UTC)),
    ({"type": "array", "items": STRUCT}, [{"n": 1, "any": [None]}, None], [{"n": 1, "any": "[null]"}, None]),
    ({}, {"a": "\ud800"}, '{"a": "\\ud800"}'),
]
MISFITS: list[tuple[Any, Any]] = [
    ({"type": "integer"}, 2**63),
    ({"type": "integer"}, True),
    ({"type": "integer"}, "1"),
    ({"type": "number"}, 2**53 + 1),
    ({"type": "number"}, 10**400),
    ({"type": "boolean"}, 1),
    ({"type": "string"}, "\ud800"),
    ({"type": "string"}, 1),
    (DAY, "2023-02-29"),
    (DAY, "20240229"),
    (AT, "2024-02-29T12:00:00"),
    (AT, "2024-02-29T12:00:60Z"),
    (AT, "2024-02-29T12:00:00.1234567Z"),
    (AT, "0001-01-01T00:00:00+23:00"),
    ({"type": "array", "items": STRUCT}, [{"n": 2**63}]),
    (STRUCT, {"n": 1, "other": 2}),
    (STRUCT, []),
]


def cells(node: Any, value: Any, *, takes_nul: bool = True) -> list[Any]:
    rows = TypedRows(layout({"type": "object", "properties": {"x": node}}), ("_key",), takes_nul=takes_nul)
    assert rows.names == ("x", "_key", "_rest")
    return rows.cells(Row("u#0", "u", "s", "i", {"x": value}))


@pytest.mark.parametrize(("node", "value", "cell"), FITS)
def test_what_a_column_holds(node: Any, value: Any, cell: Any) -> None:
    assert cells(node, value) == [cell, "s:u#0", None]


@pytest.mark.parametrize(("node", "value"), MISFITS)
def test_what_it_cannot_hold_stands_in_the_rest(node: Any, value: Any) -> None:
    cell, _, rest = cells(node, value)
    assert cell is None
    assert json.loads(rest) == {"x": value}


@pytest.mark.parametrize("node", [{"type": "string"}, {"type": "array", "items": {"type": "string"}}, {}])
def test_a_database_without_nul_keeps_it_in_the_rest(node: Any) -> None:
    value: Any = "a\x00" if node == {"type": "string"} else ["a\x00"]
    assert cells(node, value, takes_nul=False) == [None, "s:u#0", to_json({"x": value}, "here")]
    literal: Any = "\\u0000" if node == {"type": "string"} else ["\\u0000"]
    assert cells(node, literal, takes_nul=False)[2] is None, "a backslash is no NUL"


def test_a_field_without_a_column_stands_in_the_rest() -> None:
    rows = TypedRows(layout({"properties": {"x": {"type": "string"}}}), ())
    assert rows.cells(Row("k", "u", "s", "i", {"y": 1})) == [None, '{"y": 1}']
    assert TypedRows(layout({"type": "string"}), ()).cells(Row("k", "u", "s", "i", "text")) == ["text", None]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_json_text_is_utf_8_in_one_line_and_reads_back(value: Any) -> None:
    text = to_json(value, "here")
    text.encode("utf-8")
    assert "\n" not in text
    assert repr(json.loads(text)) == repr(value)


@given(JSON, st.sampled_from([node for node, _, _ in FITS]))
def test_whatever_a_record_holds_nothing_is_lost(value: Any, node: Any) -> None:
    cell, _, rest = cells(node, value)
    if rest is not None:
        assert cell is None
        assert repr(json.loads(rest)) == repr({"x": value})
    elif isinstance(cell, str) and node == {}:
        assert repr(json.loads(cell)) == repr(value)
    elif isinstance(cell, str | int | float | None):
        assert cell == value


def test_an_id_is_bounded_and_tells_schemas_and_long_keys_apart() -> None:
    long = "http://shop/" + "ü" * 2_000
    ids = {Row(key, "u", schema, "i", {}).id for key in (f"{long}#0", f"{long}#1", "k") for schema in ("a", "b")}
    assert len(ids) == 6
    assert all(len(each.encode()) <= LONGEST_ID for each in ids)
