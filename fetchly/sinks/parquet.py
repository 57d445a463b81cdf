"""Rows kept as JSON lines in; a Parquet file with typed columns out. Needs pyarrow."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from fetchly.errors import ConfigurationError
from fetchly.sinks.batch import Row
from fetchly.sinks.columns import Column, Layout
from fetchly.sinks.json_text import to_json
from fetchly.sinks.typed_rows import KEY, REST, URL, TypedRows

GROUP_ROWS = 5_000
GROUP_BYTES = 16 << 20
"""Of rows as JSON text in a row group, at most: what is in memory at a time."""


class ParquetRows:
    """string, int64, double, bool, date32, timestamp (microseconds, UTC), list, struct; JSON text for everything else.

    With `evidence` `_url` and `_key` follow the record's columns; `_rest` is the last (typed_rows.py).
    """

    header = b""

    def __init__(self, layout: Layout, evidence: bool) -> None:
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise ConfigurationError(
                "pyarrow is not installed, which writes Parquet",
                hint="pip install 'fetchly[parquet]'",
                code="EXTRA_MISSING",
            ) from None
        self._arrow = pyarrow
        self._parquet = pyarrow.parquet
        added = (URL, KEY) if evidence else ()
        self._rows = TypedRows(layout, added)
        self.types = layout.types
        fields = [pyarrow.field(column.name, self._type(column)) for column in layout.columns]
        fields += [pyarrow.field(name, pyarrow.string()) for name in (*added, REST)]
        self._schema = pyarrow.schema(fields)

    def line(self, row: Row) -> bytes:
        """The cells cannot be had before the end, so the row is kept."""
        self._rows.cells(row)  # what is wrong is said now
        return f"{to_json([row.key, row.url, row.schema, row.identity, row.value], row.url)}\n".encode()

    def render(self, rows: Path, target: BinaryIO) -> None:
        """Row groups of GROUP_ROWS or GROUP_BYTES at most, compressed with zstd."""
        with (
            rows.open("rb") as lines,
            self._parquet.ParquetWriter(target, self._schema, compression="zstd") as writer,
        ):
            for group in _groups(lines):
                writer.write_table(self._table(group), row_group_size=len(group))

    def _table(self, group: list[bytes]) -> Any:
        cells = [self._rows.cells(Row(*json.loads(line))) for line in group]
        columns = zip(*cells, strict=True)
        arrays = [
            self._arrow.array(list(column), field.type) for column, field in zip(columns, self._schema, strict=True)
        ]
        return self._arrow.Table.from_arrays(arrays, schema=self._schema)

    def _type(self, column: Column) -> Any:
        arrow = self._arrow
        if column.item is not None:
            return arrow.list_(self._type(column.item))
        if column.fields:
            return arrow.struct([arrow.field(field.name, self._type(field)) for field in column.fields])
        types = {
            "integer": arrow.int64(),
            "number": arrow.float64(),
            "boolean": arrow.bool_(),
            "date": arrow.date32(),
            "timestamp": arrow.timestamp("us", tz="UTC"),
        }
        return types.get(column.kind, arrow.string())


def _groups(lines: BinaryIO) -> Iterator[list[bytes]]:
    group: list[bytes] = []
    size = 0
    for line in lines:
        if group and (len(group) == GROUP_ROWS or size + len(line) > GROUP_BYTES):
            yield group
            group, size = [], 0
        group.append(line)
        size += len(line)
    if group:
        yield group
