"""The columns of a table in; how its rows are written as lines of a file out: JSON lines or CSV."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from fetchly.errors import ConfigurationError, OutputError
from fetchly.sinks import csv_text
from fetchly.sinks.batch import Row
from fetchly.sinks.columns import Column, Layout
from fetchly.sinks.json_text import to_json
from fetchly.sinks.typed_rows import KEY, REST, URL, fields_of

EVIDENCE = (URL, KEY)


class Form(Protocol):
    """How rows become bytes. `types` are the columns, by which a later run is compared."""

    types: dict[str, str]
    header: bytes

    def line(self, row: Row) -> bytes:
        """A row, to be appended. Errors: OutputError."""

    def render(self, rows: Path, target: BinaryIO) -> None:
        """The finished file from the appended rows."""


FormOf = Callable[[Layout, bool], Form]
"""Makes a form for columns; with True it adds those of the evidence."""


class _Lines:
    """A file that is the lines that were appended."""

    def render(self, rows: Path, target: BinaryIO) -> None:
        """As they are."""
        with rows.open("rb") as source:
            shutil.copyfileobj(source, target, 1 << 20)


class JsonLines(_Lines):
    """A record a line, as it is; with `evidence` an object with `_url` and `_key` at its end."""

    header = b""

    def __init__(self, layout: Layout, evidence: bool) -> None:
        self.types = layout.types
        self._evidence = evidence
        if evidence:
            layout.check_names(EVIDENCE)

    def line(self, row: Row) -> bytes:
        """UTF-8, with a line feed."""
        return f"{to_json(self._value(row), row.url)}\n".encode()

    def _value(self, row: Row) -> Any:
        if not self._evidence:
            return row.value
        fields = fields_of(row.value)
        for name in EVIDENCE:
            if name in fields:
                raise OutputError(f"the record has a field {name!r}", where=row.url, code="SINK_COLUMN")
        return {**fields, URL: row.url, KEY: row.id}


class CsvLines(_Lines):
    """A header from the schema, and a line for each record.

    The column `_rest`, of fields that the schema allows without naming them, is there where it says that it does.
    """

    def __init__(self, layout: Layout, evidence: bool) -> None:
        added = (*(EVIDENCE if evidence else ()), *((REST,) if layout.is_open else ()))
        layout.check_names(added)
        self._added = added
        self._paths = tuple(_paths(layout.columns))
        names = (*(".".join(path) for path in self._paths), *added)
        for name in names:
            if names.count(name) > 1:
                raise ConfigurationError(
                    f"two columns are called {name!r}", where=f"/{name}", hint="rename a field", code="SINK_COLUMN"
                )
        self.types = layout.types
        self.header = csv_text.line(names, "header").encode()

    def line(self, row: Row) -> bytes:
        """UTF-8, with CR and LF. Errors: OutputError SINK_COLUMN for a field without a column."""
        left = _copy(fields_of(row.value))
        cells = [_take(left, path) for path in self._paths]
        rest = _left_over(left)
        if rest and REST not in self._added:
            raise OutputError(
                f"the record has a field {next(iter(rest))!r} that has no column",
                where=row.url,
                hint="name it in the schema, or let the schema say additionalProperties: true",
                code="SINK_COLUMN",
            )
        by_name = {URL: row.url, KEY: row.id, REST: to_json(rest, row.url) if rest else None}
        return csv_text.line([*cells, *(by_name[name] for name in self._added)], row.url).encode()


def _paths(columns: tuple[Column, ...], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for column in columns:
        if column.kind == "struct":
            yield from _paths(column.fields, (*above, column.name))
        else:
            yield (*above, column.name)


def _copy(value: dict[str, Any]) -> dict[str, Any]:
    """The objects of a record anew, so that fields can be taken out of them."""
    return {key: _copy(item) if isinstance(item, dict) else item for key, item in value.items()}


def _take(fields: dict[str, Any], path: tuple[str, ...]) -> Any:
    inner: Any = fields
    for name in path[:-1]:
        inner = inner.get(name)
        if not isinstance(inner, dict):
            return None
    return inner.pop(path[-1], None)


def _left_over(fields: dict[str, Any]) -> dict[str, Any]:
    """What was not taken: null and emptied objects are nothing."""
    rest = {key: _left_over(item) if isinstance(item, dict) else item for key, item in fields.items()}
    return {key: item for key, item in rest.items() if item is not None and item != {}}
