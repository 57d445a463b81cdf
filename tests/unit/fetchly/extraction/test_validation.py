from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from fetchly.errors import RecordInvalid, SchemaError
from fetchly.extraction.schema import load_schema
from fetchly.extraction.validation import RecordValidator, parse_answer


@pytest.mark.parametrize("text", ['{"a":1,"a":2}', "{", '{"a": NaN}', "Infinity", "9" * 6000, "[" * 100_000, ""])
def test_unreadable_answers(text: str) -> None:
    with pytest.raises(RecordInvalid) as caught:
        parse_answer(text)
    assert caught.value.code == "ANSWER_UNREADABLE"


def test_answers() -> None:
    assert parse_answer('{"a": [1, 2.5, null, "é"]}') == {"a": [1, 2.5, None, "é"]}


@pytest.mark.parametrize(
    ("schema", "value", "pointer", "message"),
    [
        ({"type": "integer"}, None, "", "null is not of type 'integer'"),
        ({"properties": {"a/b": {"items": {"maximum": 3}}}}, {"a/b": [1, 9]}, "/a~1b/1", "9 is greater"),
        ({"properties": {"d": {"format": "date"}}}, {"d": "2023-02-29"}, "/d", "is not a 'date'"),
        ({"required": ["x"]}, {}, "", "'x' is a required property"),
        ({"uniqueItems": True}, [1, 1], "", "non-unique"),
    ],
)
def test_refusals_name_the_place(schema: dict[str, Any], value: Any, pointer: str, message: str) -> None:
    with pytest.raises(RecordInvalid) as caught:
        RecordValidator(load_schema(schema)).check(value)
    assert caught.value.pointer == pointer
    assert message in caught.value.message
    assert caught.value.exit_code == 4


def test_formats_and_drafts() -> None:
    assert RecordValidator(load_schema({"format": "date"})).check("2024-02-29") == "2024-02-29"
    old = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "items": [{"type": "string"}],
        "additionalItems": False,
    }
    validator = RecordValidator(load_schema(old))
    assert validator.check(["a"]) == ["a"]
    with pytest.raises(RecordInvalid):
        validator.check(["a", "b"])


def test_long_messages_are_cut_in_the_middle() -> None:
    with pytest.raises(RecordInvalid) as caught:
        RecordValidator(load_schema({"type": "integer"})).check("x" * 5000)
    assert len(caught.value.message) < 300
    assert caught.value.message.endswith("is not of type 'integer'")


def test_a_missing_value_is_explained() -> None:
    with pytest.raises(RecordInvalid) as caught:
        RecordValidator(load_schema({"properties": {"a": {"type": "string"}}})).check({"a": None})
    assert "may not say it" in (caught.value.hint or "")


@pytest.mark.parametrize("schema", [{"type": "strang"}, {"$ref": "#/nowhere"}, {"$ref": "https://example.org/s"}])
def test_schemas_that_do_not_compile(schema: dict[str, Any]) -> None:
    with pytest.raises(SchemaError, match="cannot be compiled"):
        RecordValidator(load_schema(schema))


class Loud(BaseModel):
    name: str

    @field_validator("name")
    @classmethod
    def upper(cls, value: str) -> str:
        if value != value.upper():
            raise ValueError("must be loud")
        return value


def test_python_validators_count() -> None:
    validator = RecordValidator(load_schema(Loud))
    assert validator.check({"name": "A"}) == Loud(name="A")
    with pytest.raises(RecordInvalid, match="must be loud") as caught:
        validator.check({"name": "a"})
    assert caught.value.pointer == "/name"
