"""Rows that sinks refuse in; a file of them in the run's folder, for a later run to try again, out."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

from fetchly.errors import FetchlyError, OutputError
from fetchly.pipeline.rows import Rejected
from fetchly.pipeline.whole_file import write_whole
from fetchly.sinks.batch import Row

_Key = tuple[str | None, str, str]


class Rejects:
    """The rejected rows of a run, of all its sinks. `told` hears of each; with `stop` the first is raised.

    A row is on disk here before its sink goes on behind it. Errors: OutputError.
    """

    def __init__(self, folder: Path, told: Callable[[Rejected], None], stop: bool) -> None:
        self._file = folder / "rejected.jsonl"
        self._told = told
        self._stop = stop
        self._rows: dict[_Key, Rejected] = {}
        self._counts: Counter[str] = Counter()
        self._retried: set[_Key] = set()
        self._has_changed = False

    def __iter__(self) -> Iterator[Rejected]:
        return iter(self._rows.values())

    def count(self, sink: str) -> int:
        """How many rows a sink has refused."""
        return self._counts[sink]

    def load(self, *, retry: bool) -> None:
        """Read what earlier runs have left. With `retry` these rows are to be tried again."""
        try:
            lines = self._file.read_text("utf-8").splitlines() if self._file.exists() else []
        except OSError as error:
            raise OutputError(f"cannot be read: {error.strerror or error}", where=str(self._file)) from None
        for line in lines:
            try:
                self._keep(Rejected(**json.loads(line)))
            except (ValueError, TypeError):
                # Torn by a kill: its sink has not gone on, and the row comes again. The next line must not join it.
                self._has_changed = True
        self.settle()
        self._retried = set(self._rows) if retry else set()

    def is_to_be_tried(self, sink: str, row: Row) -> bool:
        """Whether a row that is behind a sink's position is to be offered to it again."""
        return (sink, row.schema, row.key) in self._retried

    def add(self, row: Rejected, error: FetchlyError) -> None:
        """A sink refuses a row with `error`."""
        if self._stop:
            raise error
        self._keep(row)
        try:
            with self._file.open("a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(json.dumps(asdict(row)) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as failure:
            raise OutputError(f"cannot be written: {failure.strerror or failure}", where=str(self._file)) from None
        self._told(row)

    def taken(self, sink: str, row: Row) -> None:
        """A sink has taken a row, which it may have refused before."""
        key = (sink, row.schema, row.key)
        if self._rows.pop(key, None) is not None:
            self._counts[sink] -= 1
            self._has_changed = True

    def settle(self) -> None:
        """The file holds what is still refused."""
        if self._has_changed:
            write_whole(self._file, (json.dumps(asdict(row)) + "\n" for row in self))
            self._has_changed = False

    def _keep(self, row: Rejected) -> None:
        key = (row.sink, row.schema, row.key)
        if row.sink is not None and key not in self._rows:
            self._counts[row.sink] += 1
        self._rows[key] = row
