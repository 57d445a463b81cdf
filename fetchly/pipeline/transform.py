"""The section `transform`: a record in, the row that a sink is given out. Declared, never code.

The order is fixed: keep or drop, rename, defaults, set, deduplicate. The first two and the left side of rename speak of
the schema's fields, everything after it of the new names. The functions are pure; what becomes of the schema is
row_schema.py's.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pydantic import Field, JsonValue

from fetchly.errors import RecordInvalid
from fetchly.extraction.shape import below
from fetchly.pipeline.fields import Names, Section, Text

FIELD_TAKEN = "FIELD_TAKEN"


class Transform(Section):
    """What is done with each record, in this order."""

    keep: Names | None = None
    """Only these fields, in this order."""
    drop: Names = ()
    """Not these fields."""
    rename: dict[Text, Text] = Field(default={})
    """Old names to new ones."""
    defaults: dict[Text, JsonValue] = Field(default={})
    """Values for fields that are missing or null."""
    constants: dict[Text, JsonValue] = Field(default={}, alias="set")
    """New fields, the same in every row."""
    deduplicate: Names = ()
    """Fields whose values make a row the same as an earlier one of its schema, which is then left out."""

    @property
    def changes(self) -> bool:
        """Whether a row may differ from its record."""
        return bool(self.keep is not None or self.drop or self.rename or self.defaults or self.constants)


def transformed(record: Mapping[str, Any], transform: Transform) -> dict[str, Any]:
    """The row of a record; the record is left as it is.

    Errors: RecordInvalid FIELD_TAKEN where a record of a schema that allows fields beyond its own has one that is
    called as a renamed or a set one: neither value is thrown away.
    """
    names = transform.keep if transform.keep is not None else record
    row: dict[str, Any] = {}
    for name in names:
        if name in record and name not in transform.drop:
            _put(row, transform.rename.get(name, name), record[name])
    for name, value in transform.defaults.items():
        if row.get(name) is None:
            row[name] = copy.deepcopy(value)
    for name, value in transform.constants.items():
        _put(row, name, copy.deepcopy(value))
    return row


def _put(row: dict[str, Any], name: str, value: Any) -> None:
    if name in row:
        raise RecordInvalid(
            f"the field {name!r} is in the record already, beyond its schema",
            pointer=below("", name),
            code=FIELD_TAKEN,
            hint="rename or set to another name, or close the schema: additionalProperties: false",
        )
    row[name] = value


def duplicate_key(row: Mapping[str, Any], transform: Transform) -> str | None:
    """What two rows have in common that are the same by `deduplicate`; None where the row is like no other.

    A row that lacks one of the fields, or has null there, is like no other. 1 and 1.0 are one number; text is compared
    character by character.

    Whoever runs a pipeline keeps, in the state that a run is resumed from and in the transaction that stores the page's
    result: schema name, this key, and the row's own key (page and place). A row whose key is there under another row's
    is left out and counted; under its own it is the same row written again after a kill, and stays. The first in the
    order of the state is kept, so that a resumed run leaves out the same rows as an undisturbed one.
    """
    if not transform.deduplicate:
        return None
    values = [row.get(name) for name in transform.deduplicate]
    if any(value is None for value in values):
        return None
    text = json.dumps(_canonical(values), sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _canonical(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: _canonical(item) for key, item in value.items()}
    return [_canonical(item) for item in value] if isinstance(value, list | tuple) else value
