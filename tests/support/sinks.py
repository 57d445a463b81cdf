"""One way to open, write, kill and read back every kind of sink, for the tests that all of them pass."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fetchly.sinks.batch import Batch, Row
from fetchly.sinks.opening import open_sink
from fetchly.sinks.options import SinkOptions
from fetchly.sinks.sink import Sink, Table

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": ["string", "null"]},
        "count": {"type": "integer"},
        "price": {"anyOf": [{"type": "number"}, {"type": "null"}]},
        "sold": {"type": "boolean"},
        "day": {"type": "string", "format": "date"},
        "at": {"type": "string", "format": "date-time"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "maker": {
            "type": ["object", "null"],
            "properties": {"name": {"type": ["string", "null"]}, "founded": {"type": "integer"}},
            "additionalProperties": False,
        },
        "mixed": {"type": ["string", "integer", "null"]},
    },
    "additionalProperties": False,
}
KINDS = ("jsonl", "csv", "parquet", "sqlite", "postgres", "jsonl_store", "csv_store", "parquet_store")


@dataclass
class Bench:
    """A sink's place, and what is read there. `number` makes the places of one test different."""

    kind: str
    folder: Path
    postgres: str | None
    number: int = 0
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)

    @property
    def path(self) -> str:
        name = f"out{self.number}.{self.kind}"
        return f"memory://{self.folder}/{name}" if self.kind.endswith("_store") else str(self.folder / name)

    @property
    def table_name(self) -> str:
        return f"t_{abs(hash(str(self.folder)))}_{self.number}"

    @property
    def settings(self) -> dict[str, Any]:
        where = {"url": self.postgres, "table": self.table_name} if self.kind == "postgres" else {"path": self.path}
        return {**where, **self.options}

    def sink(self) -> Sink:
        return open_sink(SinkOptions.model_validate({self.kind.removesuffix("_store"): self.settings}))

    def table(self, schema: dict[str, Any] = SCHEMA, *, run: str = "run", settings: str = "settings") -> Table:
        folder = self.folder / f"{self.kind}{self.number}.run"
        folder.mkdir(exist_ok=True)
        return Table("books", schema, run, settings, folder)

    def content(self) -> Any:
        """What is there: the bytes of a text file; the rows of a table, in the order of their keys."""
        if self.kind.startswith(("jsonl", "csv")):
            return self.bytes()
        if self.kind.startswith("parquet"):
            return self.parquet().to_pylist()
        columns, rows = self.rows()
        return sorted((dict(zip(columns, row, strict=True)) for row in rows), key=lambda row: str(row["_key"]))

    def bytes(self) -> bytes:
        if self.kind.endswith("_store"):
            import fsspec

            return bytes(fsspec.filesystem("memory").cat(self.path))
        return Path(self.path).read_bytes()

    def parquet(self) -> Any:
        import pyarrow.parquet

        return pyarrow.parquet.read_table(io.BytesIO(self.bytes()))

    def rows(self) -> tuple[list[str], list[tuple[Any, ...]]]:
        if self.kind == "sqlite":
            with closing(sqlite3.connect(self.path)) as database:
                cursor = database.execute("SELECT * FROM records")
                return [column[0] for column in cursor.description], cursor.fetchall()
        import psycopg
        from psycopg import sql

        assert self.postgres is not None
        with psycopg.connect(self.postgres) as connection:
            found = connection.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(self.table_name)))
            return [column.name for column in found.description or ()], found.fetchall()

    def names(self) -> list[str | None]:
        """The field `name` of every row, in the file's order, or that of the keys."""
        if self.kind.startswith("jsonl"):
            return [json.loads(line)["name"] for line in self.bytes().splitlines()]
        if self.kind.startswith("csv"):
            return [row["name"] for row in csv.DictReader(io.StringIO(self.bytes().decode(), newline=""))]
        return [row["name"] for row in self.content()]


def book(number: int, **fields: Any) -> dict[str, Any]:
    return {
        "name": f"Book {number}", "count": number, "price": number / 4, "sold": number % 2 == 0, "day": "2024-02-29",
        "at": "2024-02-29T12:00:00+02:00", "tags": ["a", f"ü{number}"],
        "maker": {"name": "M", "founded": 1900 + number}, "mixed": number if number % 3 else f"m{number}", **fields,
    }  # fmt: skip


def row(key: str, value: Any, schema: str = "book") -> Row:
    url = f"http://shop/{key}"
    return Row(f"{url}#0", url, schema, "identity", value)


def batches(pages: int, *, per_page: Callable[[int], int] = lambda n: n % 4, at_a_time: int = 3) -> list[Batch]:
    """Pages with any number of rows, none included. Every ninth page has the key of an earlier one again."""
    results = []
    for page in range(1, pages + 1):
        key = page - 4 if page % 9 == 0 else page
        results.append([row(f"{key:05}/{place}", book(page * 10 + place)) for place in range(per_page(page))])
    chunks = ((first, results[first : first + at_a_time]) for first in range(0, pages, at_a_time))
    return [Batch(first + 1, first + len(chunk), tuple(r for page in chunk for r in page)) for first, chunk in chunks]


def write_all(sink: Sink, table: Table, of: Iterable[Batch], *, resume: bool = False) -> int:
    """A run to its end, with a flush after every second batch. The position that it was gone on from."""
    position = sink.open(table, resume=resume)
    for number, batch in enumerate(of):
        if batch.first > position:
            sink.write(batch)
            if number % 2:
                sink.flush()
    sink.finish()
    sink.close()
    return position


def abandon(sink: Any) -> None:
    """What a kill leaves: handles are gone, and nothing is flushed or said."""
    for name in ("_journal", "_database", "_connection"):
        if getattr(sink, name, None) is not None:
            getattr(sink, name).close()
