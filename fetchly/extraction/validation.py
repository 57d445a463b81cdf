"""The model's text in, a JSON value that satisfies the user's own schema out, or an error that names the place.

jsonschema-rs decides (formats included); jsonschema's best_match words the refusal for people.
"""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs

from fetchly.errors import FetchlyError, RecordInvalid, SchemaError
from fetchly.extraction.schema import UserSchema
from fetchly.extraction.shape import below

LONGEST_MESSAGE = 240
VALUE_MISSING = "VALUE_MISSING"
"""The code of a refusal for null where the schema requires a value."""


def parse_answer(text: str) -> Any:
    """The JSON value of a text. Errors: RecordInvalid for what is no JSON, a key that stands twice, NaN."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise RecordInvalid(f"the answer has the key {twice!r} twice", code="ANSWER_UNREADABLE")
        return found

    def no_constant(word: str) -> Any:
        raise RecordInvalid(f"the answer holds {word}, which is not JSON", code="ANSWER_UNREADABLE")

    try:
        return json.loads(text, object_pairs_hook=unique, parse_constant=no_constant)
    except json.JSONDecodeError as error:
        raise RecordInvalid(
            f"the answer is not JSON: {error.msg} at character {error.pos}", code="ANSWER_UNREADABLE"
        ) from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, brackets without end
        raise RecordInvalid(f"the answer cannot be read: {error}", code="ANSWER_UNREADABLE") from None


class RecordValidator:
    """One schema, compiled once. Errors: SchemaError where the schema itself cannot be compiled."""

    def __init__(self, schema: UserSchema) -> None:
        self._schema = schema
        try:
            self._validator = jsonschema_rs.validator_for(schema.json, validate_formats=True, offline=True)
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
            raise SchemaError(
                f"the schema cannot be compiled: {_first_line(error)}",
                where=schema.label,
                hint="fetchly schemas lint shows the place",
            ) from None

    def check(self, value: Any) -> Any:
        """The record in the user's type. Errors: RecordInvalid with pointer, message and hint."""
        if not self._validator.is_valid(value):
            raise self._refusal(value)
        try:
            return self._schema.to_python(value)
        except FetchlyError:
            raise
        except Exception as error:  # pydantic's refusal, or a validator of the user's that fails in its own way
            raise _type_refusal(error, self._schema.label) from error

    def _refusal(self, value: Any) -> RecordInvalid:
        """The most telling of the violations."""
        worded = self._worded(value)
        if worded is None:
            first = next(iter(self._validator.iter_errors(value)))
            return RecordInvalid(_short(first.message), pointer=_pointer(first.instance_path))
        missing = worded.instance is None and worded.validator in ("type", "anyOf", "oneOf", "enum")
        return RecordInvalid(
            _short(_in_json(worded.message, worded.instance)),
            pointer=_pointer(worded.absolute_path),
            hint="the page may not say it: let the field be null, or leave it out of required" if missing else None,
            code=VALUE_MISSING if missing else None,
        )

    def _worded(self, value: Any) -> Any:
        """jsonschema's best match; None where it sees no violation, or cannot run the schema."""
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import best_match
        from jsonschema.validators import validator_for

        kind = validator_for(self._schema.json, default=Draft202012Validator)
        try:
            return best_match(kind(self._schema.json, format_checker=kind.FORMAT_CHECKER).iter_errors(value))
        except Exception:  # python's regular expressions, its references: the decision is made, only words are sought
            return None


def _type_refusal(error: Exception, label: str) -> RecordInvalid:
    """What a python type refuses beyond its JSON Schema (pydantic validators)."""
    details = getattr(error, "errors", None)
    first = details()[0] if callable(details) and details() else {"loc": (), "msg": f"{type(error).__name__}: {error}"}
    return RecordInvalid(
        _short(f"{label.rsplit(':', 1)[-1]} refuses the record: {first['msg']}"),
        pointer=_pointer(first["loc"]),
        code="RECORD_REFUSED_BY_TYPE",
        hint="a validator of the type is stricter than its JSON Schema; describe the rule in the field's description",
    )


def _in_json(message: str, instance: Any) -> str:
    """jsonschema begins its messages with the value as python writes it."""
    written = repr(instance)
    return (
        json.dumps(instance, ensure_ascii=False) + message[len(written) :] if message.startswith(written) else message
    )


def _pointer(path: Any) -> str:
    pointer = ""
    for key in path:
        pointer = below(pointer, key)
    return pointer


def _first_line(error: Exception) -> str:
    return _short(str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__)


def _short(message: str) -> str:
    text = " ".join(message.split())
    return text if len(text) <= LONGEST_MESSAGE else f"{text[: LONGEST_MESSAGE // 2]} … {text[-LONGEST_MESSAGE // 3 :]}"
