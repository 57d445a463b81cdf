"""Batches in; rows of a table in an SQLite file out, and the run's position in the same transaction."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator

from fetchly.errors import ConfigurationError, OutputError
from fetchly.sinks import database
from fetchly.sinks.batch import Batch
from fetchly.sinks.columns import Layout, layout
from fetchly.sinks.database import POSITIONS
from fetchly.sinks.options import SqliteSettings
from fetchly.sinks.place import Place
from fetchly.sinks.sink import Table
from fetchly.sinks.store import check_file
from fetchly.sinks.typed_rows import KEY, REST, TypedRows

TYPES = {"string": "TEXT", "integer": "INTEGER", "number": "REAL", "boolean": "INTEGER", "json": "TEXT"}
"""A date and a time are text, as the record has them; a list and an object are JSON text."""
_WAIT_S = 30.0
_POSITIONS = f"""
CREATE TABLE IF NOT EXISTS {POSITIONS} (
    "table" TEXT, run TEXT, settings TEXT NOT NULL, position INTEGER NOT NULL, columns TEXT NOT NULL,
    PRIMARY KEY ("table", run)
)
"""


class SqliteSink:
    """A batch is a transaction, on disk when `write` returns. A table that is there is added to, and rows upserted."""

    def __init__(self, settings: SqliteSettings) -> None:
        self._settings = settings
        self._database: sqlite3.Connection | None = None
        self._written = 0

    @property
    def place(self) -> Place:
        """The file and the table."""
        return self._settings.place

    def open(self, table: Table, *, resume: bool) -> int:
        """See Sink."""
        columns = layout(table.schema).with_text_for("date", "timestamp").with_json_for("list", "struct")
        added = database.WITH_EVIDENCE if self._settings.evidence else database.ADDED
        self._rows = TypedRows(columns, added)
        database.fold(columns, (*added, REST), lambda name: name.translate(_ASCII_LOWER), None)
        self._run = table.run
        file = self._settings.file
        check_file(file)
        with self._saying_where():
            # One transaction at a time, each begun and ended here.
            self._database = sqlite3.connect(file, timeout=_WAIT_S, isolation_level=None, check_same_thread=False)
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = FULL")
            with self._transaction() as connection:
                self._written = self._prepare(connection, table, columns, resume)
        return self._written

    def write(self, batch: Batch) -> None:
        """See Sink."""
        assert batch.first == self._written + 1 <= batch.last + 1
        cells = [self._rows.cells(row) for row in batch.rows]
        with self._saying_where(), self._transaction() as connection:
            connection.executemany(self._upsert, cells)
            connection.execute(
                f'UPDATE {POSITIONS} SET position = ? WHERE "table" = ? AND run = ?',
                (batch.last, self._name, self._run),
            )
        self._written = batch.last

    def flush(self) -> None:
        """Every batch is on disk already."""

    def finish(self) -> None:
        """Every batch is on disk already."""

    def close(self) -> None:
        """See Sink."""
        if self._database is not None:
            with contextlib.suppress(sqlite3.Error):  # the last one to close tidies the WAL up; nothing depends on it
                self._database.close()
            self._database = None

    @property
    def _name(self) -> str:
        return self._settings.table.translate(_ASCII_LOWER)

    def _prepare(self, connection: sqlite3.Connection, table: Table, columns: Layout, resume: bool) -> int:
        connection.execute(_POSITIONS)
        wanted = {column.name: TYPES[column.kind] for column in columns.columns}
        wanted.update((name, "TEXT") for name in self._rows.names[len(wanted) :])
        info = connection.execute("SELECT name, type FROM pragma_table_info(?)", (self._settings.table,))
        found: dict[str, str] = dict(info.fetchall())
        is_new = not found
        if is_new:
            connection.execute(f"CREATE TABLE {_quoted(self._settings.table)} ({_definitions(wanted)})")
        else:
            runs = connection.execute(f'SELECT columns FROM {POSITIONS} WHERE "table" = ?', (self._name,)).fetchall()
            written = frozenset(name for (names,) in runs for name in json.loads(names))
            database.Columns(wanted, found, written).check(self.place, _quoted)
        self._upsert = _upsert(self._settings.table, self._rows.names)
        key = (self._name, self._run)
        before = connection.execute(
            f'SELECT settings, position FROM {POSITIONS} WHERE "table" = ? AND run = ?', key
        ).fetchone()
        if resume and before is not None:
            database.check_run(table, before[0], self.place)
            if not is_new:
                return int(before[1])
        connection.execute(
            f"INSERT OR REPLACE INTO {POSITIONS} VALUES (?, ?, ?, 0, ?)",
            (*key, table.settings, json.dumps(list(wanted))),
        )
        return 0

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        assert self._database is not None
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield self._database
            self._database.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):  # a full disk has rolled it back by itself
                self._database.execute("ROLLBACK")
            raise

    @contextlib.contextmanager
    def _saying_where(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            self.close()
            raise self._worded(error) from None
        except BaseException:
            self.close()
            raise

    def _worded(self, error: sqlite3.Error) -> ConfigurationError | OutputError:
        where = str(self.place)
        if "locked" in str(error):
            message = f"another program has held the database for {_WAIT_S:.0f} seconds"
            return OutputError(message, where=where, hint="wait for it, or stop it", code="SINK_IN_USE", retryable=True)
        if "not a database" in str(error):
            return ConfigurationError(
                "is no SQLite database", where=where, hint="name another file", code="SINK_DIFFERS"
            )
        return OutputError(f"cannot be written: {error}", where=where)


_ASCII_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
"""SQLite compares names of columns without the case of ASCII letters."""


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _definitions(columns: dict[str, str]) -> str:
    return ", ".join(
        f"{_quoted(name)} {kind}{' NOT NULL PRIMARY KEY' if name == KEY else ''}" for name, kind in columns.items()
    )


def _upsert(table: str, names: tuple[str, ...]) -> str:
    listed = ", ".join(map(_quoted, names))
    updates = ", ".join(f"{_quoted(name)} = excluded.{_quoted(name)}" for name in names if name != KEY)
    marks = ", ".join("?" * len(names))
    return (
        f"INSERT INTO {_quoted(table)} ({listed}) VALUES ({marks}) ON CONFLICT ({_quoted(KEY)}) DO UPDATE SET {updates}"
    )
