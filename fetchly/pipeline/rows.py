"""The results of pages in, in the order of a run's state; their rows, transformed and each once, out."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any

from fetchly.crawler.fingerprint import normalise
from fetchly.crawler.source import is_url
from fetchly.crawling.results import PageResult
from fetchly.errors import FetchlyError, OutputError, RecordInvalid
from fetchly.pipeline.page_schema import PipelineSchema
from fetchly.pipeline.pipeline import Pipeline
from fetchly.pipeline.transform import duplicate_key, transformed
from fetchly.sinks.batch import Row


@dataclass(frozen=True, slots=True)
class Rejected:
    """A row that went nowhere, and why; or, with `sink`, not there."""

    key: str
    url: str
    schema: str
    code: str
    message: str
    hint: str | None
    sink: str | None = None

    def line(self) -> str:
        """In one line, as errors are told."""
        to = f" is not in {self.sink}" if self.sink is not None else ""
        return f"{self.code} {self.key}: the row{to}: {self.message}" + (f" ({self.hint})" if self.hint else "")


def rejected(row: Row, error: FetchlyError, sink: str | None = None) -> Rejected:
    """What is kept of an error that one row has brought about."""
    return Rejected(row.key, row.url, row.schema, error.code, error.message, error.hint, sink)


@dataclass(frozen=True, slots=True)
class PageRows:
    """The rows of the page result of this number; `errors` are those of entries that gave none."""

    page: int
    rows: tuple[Row, ...]
    rejected: tuple[Rejected, ...] = ()
    errors: tuple[FetchlyError, ...] = ()


class RowMaker:
    """Results are numbered from 1 as they come: a resumed run gives all of them again, from the first one on, and so
    leaves out the same rows as before. What rows are known by that must not come twice lies on disk.

    Errors: OutputError where that disk is full.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._schemas = {schema.name: schema for schema in pipeline.schemas}
        self._seen: sqlite3.Connection | None = None
        if any(schema.transform.deduplicate for schema in pipeline.schemas):
            # "": a temporary file of SQLite's, gone with the connection.
            self._seen = sqlite3.connect("", isolation_level=None, check_same_thread=False)
            self._seen.execute("PRAGMA journal_mode = OFF")
            self._seen.execute("CREATE TABLE seen (schema TEXT, key TEXT, PRIMARY KEY (schema, key)) WITHOUT ROWID")
        self.pages = 0
        self.duplicates = 0

    def rows_of(self, result: PageResult) -> PageRows:
        """The rows of the next result."""
        self.pages += 1
        schema = self._schemas[result.schema]
        page = normalise(result.url) if is_url(result.url) else result.url
        rows: list[Row] = []
        failed: list[Rejected] = []
        errors: list[FetchlyError] = []
        for place, entry in enumerate(schema.entries_of(result.value)):
            key = f"{page}#{place}"
            try:
                row = Row(key, result.url, schema.name, result.identity, transformed(entry, schema.transform))
            except RecordInvalid as error:
                failed.append(rejected(Row(key, result.url, schema.name, "", None), error))
                errors.append(error)
                continue
            if self._is_duplicate(schema, row.value):
                self.duplicates += 1
            else:
                rows.append(row)
        return PageRows(self.pages, tuple(rows), tuple(failed), tuple(errors))

    def close(self) -> None:
        """Forget what was seen."""
        if self._seen is not None:
            self._seen.close()
            self._seen = None

    def _is_duplicate(self, schema: PipelineSchema, row: Any) -> bool:
        key = duplicate_key(row, schema.transform)
        if key is None:
            return False
        assert self._seen is not None
        try:
            return not self._seen.execute("INSERT OR IGNORE INTO seen VALUES (?, ?)", (schema.name, key)).rowcount
        except sqlite3.Error as error:
            raise OutputError(
                f"what rows are known by cannot be kept: {error}",
                where=schema.name,
                hint="make room in the folder of temporary files, or name another one: TMPDIR",
            ) from None
