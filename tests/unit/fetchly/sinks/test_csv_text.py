import csv
import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchly.errors import OutputError
from fetchly.sinks.batch import Row
from fetchly.sinks.columns import layout
from fetchly.sinks.csv_text import flat, line
from fetchly.sinks.forms import CsvLines

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)


def cells(text: str) -> list[str]:
    return next(csv.reader(io.StringIO(text, newline=""), strict=True))


@given(st.lists(TEXTS, min_size=1, max_size=5))
def test_every_text_comes_back_and_none_is_a_formula(texts: list[str]) -> None:
    found = cells(line(texts, "here"))
    assert [cell[1:] if cell.startswith("'") else cell for cell in found] == texts
    assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")) for cell in found)


@given(st.lists(st.lists(st.none() | TEXTS | st.integers(), min_size=2, max_size=2), max_size=4))
def test_lines_end_where_rfc_4180_says(rows: list[list[Any]]) -> None:
    text = "".join(line(row, "here") for row in rows)
    assert len(list(csv.reader(io.StringIO(text, newline=""), strict=True))) == len(rows)


def test_null_is_nothing_and_the_empty_text_is_quoted() -> None:
    assert line([None, "", 0, False, -1.5, [], {}], "here") == ',"",0,false,-1.5,[],{}\r\n'
    assert line([None], "here") == '""\r\n'
    assert line([2**80, float("-inf"), [1, "a,b"]], "here") == '1208925819614629174706176,-1e999,"[1, ""a,b""]"\r\n'


def test_what_utf_8_cannot_hold_is_written_as_an_escape() -> None:
    assert line(["a\ud800", ["\udfff"]], "here") == 'a\\ud800,"[""\\udfff""]"\r\n'


def test_what_is_not_json_is_an_error_with_its_place() -> None:
    with pytest.raises(OutputError, match="not a JSON value") as caught:
        line([float("nan")], "http://shop/1")
    assert (caught.value.code, caught.value.where) == ("NOT_JSON", "http://shop/1")


def test_objects_are_flattened_and_lists_are_not() -> None:
    assert flat({"a": {"b": {"c": 1}, "d": []}, "e": {}, "f": None}) == {"a.b.c": 1, "a.d": [], "e": {}, "f": None}
    assert flat([1]) == {"value": [1]}


OPEN = {
    "type": "object",
    "properties": {
        "=name": {"type": "string"},
        "size": {
            "anyOf": [{"type": "null"}, {"type": "object", "properties": {"w": {"type": "integer"}, "h": {}}}],
        },
        "free": {"type": "object"},
    },
    "additionalProperties": True,
}


def test_the_header_comes_from_the_schema_and_what_it_does_not_name_is_in_the_rest() -> None:
    form = CsvLines(layout(OPEN), evidence=True)
    assert form.header == b"'=name,size.w,size.h,free,_url,_key,_rest\r\n"
    value = {"=name": "x", "size": {"w": 1, "h": {"a": 2}}, "free": {"b": 3}, "more": "=1"}
    found = cells(form.line(Row("u#0", "u", "s", "i", value)).decode())
    assert found == ["x", "1", '{"a": 2}', '{"b": 3}', "u", "s:u#0", '{"more": "=1"}']
    assert cells(form.line(Row("u#0", "u", "s", "i", {"size": None})).decode()) == ["", "", "", "", "u", "s:u#0", ""]
    assert value["size"] == {"w": 1, "h": {"a": 2}}, "the record is not ours to change"


def test_a_field_without_a_column_is_not_lost_in_silence() -> None:
    form = CsvLines(layout({"properties": {"a": {"type": "string"}}}), evidence=False)
    with pytest.raises(OutputError, match="'b' that has no column") as caught:
        form.line(Row("u#0", "http://shop/1", "s", "i", {"a": "x", "b": 1}))
    assert caught.value.where == "http://shop/1"


@given(st.recursive(st.none() | st.booleans() | st.integers() | TEXTS, lambda inner: st.lists(inner, max_size=3)))
def test_a_list_of_anything_is_json_in_one_cell(value: Any) -> None:
    (cell,) = cells(line([[value]], "here"))
    assert json.loads(cell) == [value]
