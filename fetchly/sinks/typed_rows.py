"""Rows and the columns of a typed table in; one cell for each column out, and nothing lost.

A value that its column cannot hold leaves it null, and stands in the column `_rest`: a JSON object by field name. So
does a field that has no column. What cannot be held: an integer beyond 64 bits; a whole number in a column of floats
that would be rounded; a date or a time that does not exist, has no zone, or is finer than a microsecond; text that
UTF-8 has no form for, or, where the database takes none, with a NUL; what the schema does not allow.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from typing import Any

from fetchly.sinks.batch import Row
from fetchly.sinks.columns import VALUE, Column, Layout
from fetchly.sinks.json_text import is_utf8, to_json

URL, KEY, REST = "_url", "_key", "_rest"
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,6}0*)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


class _Misfit(Exception):
    """The column cannot hold the value."""


class TypedRows:
    """Cells for the columns of `layout`, then those of `added` (`_url`, `_key`), then `_rest`.

    `takes_nul`: whether text, and JSON text, may hold a NUL. Python types: str (JSON too), int, float (with infinity),
    bool, date, datetime in UTC, list, dict. Errors: ConfigurationError SINK_COLUMN for a field of an added name.
    """

    def __init__(self, layout: Layout, added: tuple[str, ...], *, takes_nul: bool = True) -> None:
        layout.check_names((*added, REST))
        self._columns = layout.columns
        self._known = frozenset(column.name for column in layout.columns)
        self._added = added
        self._takes_nul = takes_nul
        self.names = (*(column.name for column in layout.columns), *added, REST)
        self._fits: dict[str, Callable[[Column, Any], Any]] = {
            "string": self._string,
            "integer": _integer,
            "number": _number,
            "boolean": _boolean,
            "date": _date,
            "timestamp": _timestamp,
            "list": self._list,
            "struct": self._struct,
        }

    def cells(self, row: Row) -> list[Any]:
        """One cell for each of `names`. Errors: OutputError NOT_JSON."""
        fields = fields_of(row.value)
        rest = {name: value for name, value in fields.items() if name not in self._known}
        cells: list[Any] = []
        for column in self._columns:
            value = fields.get(column.name)
            try:
                cells.append(self._json(value, row) if column.kind == "json" else self._fit(column, value))
            except _Misfit:
                cells.append(None)
                rest[column.name] = value
        cells += [row.url if name == URL else row.id for name in self._added]
        cells.append(to_json(rest, row.url) if rest else None)
        return cells

    def _fit(self, column: Column, value: Any) -> Any:
        return None if value is None else self._fits[column.kind](column, value)

    def _json(self, value: Any, row: Row) -> str | None:
        if value is None:
            return None
        if not self._takes_nul and not all(map(self._holds, _texts(value))):
            raise _Misfit
        return to_json(value, row.url)

    def _holds(self, text: str) -> bool:
        return is_utf8(text) and (self._takes_nul or "\x00" not in text)

    def _string(self, _: Column, value: Any) -> str:
        if not isinstance(value, str) or not self._holds(value):
            raise _Misfit
        return value

    def _list(self, column: Column, value: Any) -> list[Any]:
        if not isinstance(value, list) or column.item is None:
            raise _Misfit
        return [self._inner(column.item, item) for item in value]

    def _struct(self, column: Column, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict) or not value.keys() <= {field.name for field in column.fields}:
            raise _Misfit
        return {field.name: self._inner(field, value.get(field.name)) for field in column.fields}

    def _inner(self, column: Column, value: Any) -> Any:
        if column.kind != "json" or value is None:
            return self._fit(column, value)
        return to_json(value, column.name)


def fields_of(value: Any) -> dict[str, Any]:
    """The fields of a record; what is no object is the field `value`."""
    return value if isinstance(value, dict) else {VALUE: value}


def _integer(_: Column, value: Any) -> int:
    if isinstance(value, float) and value.is_integer():  # JSON Schema: 2.0 is an integer
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not -(2**63) <= value < 2**63:
        raise _Misfit
    return value


def _number(_: Column, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Misfit
    try:
        number = float(value)
    except OverflowError:
        raise _Misfit from None
    if math.isnan(number) or (isinstance(value, int) and int(number) != value):
        raise _Misfit
    return number


def _boolean(_: Column, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _Misfit
    return value


def _date(_: Column, value: Any) -> date:
    if not isinstance(value, str) or _DATE.fullmatch(value) is None:
        raise _Misfit
    try:
        return date.fromisoformat(value)
    except ValueError:
        raise _Misfit from None


def _timestamp(_: Column, value: Any) -> datetime:
    """RFC 3339; the instant is kept, in UTC."""
    if not isinstance(value, str) or _TIME.fullmatch(value) is None:
        raise _Misfit
    try:
        return datetime.fromisoformat(value.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise _Misfit from None


def _texts(value: Any) -> Iterator[str]:
    """Every text in a value, names of fields included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield str(key)
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
