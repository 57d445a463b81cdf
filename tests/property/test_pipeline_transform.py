"""The row of a valid record is valid under the row's schema, whatever the schema, the record and the transform."""

from __future__ import annotations

import copy
import json
from typing import Any

import jsonschema_rs
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fetchly.errors import ConfigurationError, RecordInvalid
from fetchly.pipeline.pipeline import Pipeline
from fetchly.pipeline.row_schema import row_schema
from fetchly.pipeline.transform import Transform, duplicate_key, transformed

NAMES = ["a", "b", "c", "d", "e"]
NEW = ["x", "y", "z"]
LEAVES: list[dict[str, Any]] = [
    {"type": "string", "maxLength": 5},
    {"type": ["string", "null"], "format": "date"},
    {"type": ["integer", "null"], "minimum": 0},
    {"type": "number"},
    {"enum": ["u", "v", None]},
    {"type": "array", "items": {"type": "string"}},
    {"anyOf": [{"type": "string"}, {"type": "null"}]},
    {"$ref": "#/$defs/price"},
    {"$ref": "#/$defs/tree"},
    {"type": "array", "items": {"$ref": "#"}, "maxItems": 1},
    {"$ref": "#named"},
    {},
]
DEFINITIONS = {
    "price": {"type": ["object", "null"], "properties": {"sum": {"type": "number"}}, "required": ["sum"]},
    "tree": {"type": ["object", "null"], "properties": {"below": {"$ref": "#/$defs/tree"}}},
    "mark": {"$anchor": "named", "type": ["boolean", "null"]},
    "part": {"type": "object", "properties": {"e": {"type": ["string", "null"]}}, "required": ["e"]},
}
VALUES: list[Any] = [
    None, "", "u", "v", "2024-05-01", "too long a text", 0, 1, 1.0, 2.5, -3, True, [], ["u"], {}, {"sum": 2},
    {"below": {}}, {"below": {"below": None}}, [{}], [{"a": "u"}],
]  # fmt: skip


@st.composite
def schemas(draw: st.DrawFn) -> dict[str, Any]:
    def plain_object() -> dict[str, Any]:
        names = draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1))
        out: dict[str, Any] = {"type": "object", "properties": {n: draw(st.sampled_from(LEAVES)) for n in names}}
        out["required"] = draw(st.lists(st.sampled_from(names), unique=True))
        rest = draw(st.sampled_from([None, True, False, {"type": "string"}]))
        if rest is not None:
            out["additionalProperties"] = rest
        if draw(st.integers(0, 5)) == 0:
            out["patternProperties"] = {"^[x-z]": {"type": "integer"}}
        return out

    shape = draw(st.sampled_from(["plain", "plain", "anyOf", "oneOf", "allOf", "ref", "if", "dependent"]))
    schema = plain_object()
    if shape in ("anyOf", "oneOf"):
        schema = {shape: [plain_object(), plain_object()]}
    elif shape == "allOf":
        schema["allOf"] = [{"$ref": "#/$defs/part"}]
    elif shape == "ref":
        schema = {"$ref": "#/$defs/part", "title": "Part"}
    elif shape == "if":
        schema |= {"if": {"required": ["a"]}, "then": {"required": ["b"]}, "minProperties": 1}
    elif shape == "dependent":
        schema["dependentRequired"] = {"a": ["b"]}
    return {**schema, "$id": "https://example.org/s", "$defs": DEFINITIONS}


@st.composite
def transforms(draw: st.DrawFn, names: list[str]) -> dict[str, Any]:
    """A transform that fits the fields."""
    some = st.lists(st.sampled_from(names), unique=True) if names else st.just([])
    out: dict[str, Any] = {}
    way = draw(st.sampled_from(["all", "keep", "drop"]))
    kept = names
    if way == "keep":
        out["keep"] = kept = draw(some)
    elif way == "drop":
        out["drop"] = draw(some)
        kept = [name for name in names if name not in out["drop"]]
    new = draw(st.permutations([*NEW, *kept]))
    old = draw(st.lists(st.sampled_from(kept), unique=True)) if kept else []
    out["rename"] = dict(zip(old, new, strict=False))
    after = [out["rename"].get(name, name) for name in kept]
    out["defaults"] = {name: draw(st.sampled_from(VALUES)) for name in after if draw(st.booleans())}
    out["set"] = {name: draw(st.sampled_from(VALUES)) for name in ["s", "t"] if draw(st.booleans())}
    return {key: value for key, value in out.items() if value or key == "keep"}


@given(data=st.data())
@settings(max_examples=200)
def test_the_row_of_a_valid_record_is_valid(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    names = list(row_schema(schema, None, Transform())["properties"])
    pipeline = pipeline_of(schema, data.draw(transforms(names)))
    if isinstance(pipeline, ConfigurationError):
        # What is refused here is a default that does not fit, or two fields of one name: never a sound transform.
        assert "does not fit the schema" in pipeline.message or "would be called" in pipeline.message, pipeline.line()
        return
    record = data.draw(st.dictionaries(st.sampled_from([*NAMES, "extra", "x"]), st.sampled_from(VALUES)))
    assume(jsonschema_rs.validator_for(schema, validate_formats=True, offline=True).is_valid(record))
    before = copy.deepcopy(record)
    row = row_of(record, pipeline.schemas[0].transform)
    assert record == before
    if isinstance(row, RecordInvalid):
        assert row.code == "FIELD_TAKEN"
        assert set(record) - set(names)  # a field beyond the schema's own
        return
    described = pipeline.row_schema("record")
    validator = jsonschema_rs.validator_for(described, validate_formats=True, offline=True)
    assert validator.is_valid(row), (list(validator.iter_errors(row)), described)
    assert json.loads(json.dumps(row)) == row


def pipeline_of(schema: dict[str, Any], transform: dict[str, Any]) -> Pipeline | ConfigurationError:
    data = {"name": "x", "source": {"files": "*.html"}, "extract": {"schema": schema}, "transform": transform}
    try:
        return Pipeline.from_dict(data, environment={})
    except ConfigurationError as error:
        return error


def row_of(record: dict[str, Any], transform: Transform) -> dict[str, Any] | RecordInvalid:
    try:
        return transformed(record, transform)
    except RecordInvalid as error:
        return error


@given(row=st.dictionaries(st.sampled_from(NAMES), st.sampled_from(VALUES)), other=st.data())
def test_rows_have_one_key_exactly_where_their_fields_are_equal(row: dict[str, Any], other: st.DataObject) -> None:
    by = Transform.model_validate({"deduplicate": ["a", "b"]})
    second = other.draw(st.dictionaries(st.sampled_from(NAMES), st.sampled_from(VALUES)))
    keys = duplicate_key(row, by), duplicate_key(second, by)
    if any(row.get(name) is None or second.get(name) is None for name in "ab"):
        assert None in keys
        return

    def text(value: Any) -> str:
        return json.dumps(value, sort_keys=True).replace("1.0", "1")

    assert (keys[0] == keys[1]) == all(text(row[name]) == text(second[name]) for name in "ab")
