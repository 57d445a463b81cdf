"""What a journal's owner must know after a kill in; an SQLite file that says it out.

Marks say how long the journal was, and what its bytes sum to, when it held which page result. Rows say where the bytes
of each begin. Everything since the last mark is one transaction: after a kill it is as if nothing of it had been.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fetchly.errors import ConfigurationError, OutputError

_TABLES = """
CREATE TABLE facts (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE marks (position INTEGER PRIMARY KEY, length INTEGER NOT NULL, sum INTEGER NOT NULL);
CREATE TABLE rows (id BLOB NOT NULL, start INTEGER NOT NULL, PRIMARY KEY (id, start)) WITHOUT ROWID;
"""
_SPANS = """
SELECT id, start, LEAD(start, 1, :end) OVER (ORDER BY start) AS stop, MAX(start) OVER (PARTITION BY id) AS last
FROM rows ORDER BY start
"""


@dataclass(frozen=True, slots=True)
class Mark:
    """The journal held the page results up to `position` in `length` bytes, whose CRC-32 is `sum`."""

    position: int
    length: int
    sum: int


@dataclass(frozen=True, slots=True)
class Span:
    """The bytes of a row: [start, stop). `is_last`: no later row has its id."""

    id: bytes
    start: int
    stop: int
    is_last: bool


class Ledger:
    """An open ledger, locked for as long as it is open. Errors of all: OutputError; ConfigurationError SINK_IN_USE."""

    def __init__(self, file: Path) -> None:
        self._file = file
        try:
            self._database = sqlite3.connect(file, timeout=0.0, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise self._worded(error) from None
        try:
            # Before the first access: the lock is then SQLite's, and gone with a killed process.
            for pragma in ("locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = FULL"):
                self._database.execute(f"PRAGMA {pragma}")
            self._begin()
            if not self._database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                for statement in _TABLES.split(";"):
                    self._database.execute(statement)
            self.commit()
        except sqlite3.Error as error:
            self._database.close()
            raise self._worded(error) from None

    def fact(self, key: str) -> Any:
        """What was noted; None for nothing."""
        row = self._run("SELECT value FROM facts WHERE key = ?", key).fetchone()
        return None if row is None else json.loads(row[0])

    def note(self, **facts: Any) -> None:
        """Note facts, on disk at once where no transaction is open; None forgets one."""
        for key, value in facts.items():
            self._run("DELETE FROM facts WHERE key = ?", key)
            if value is not None:
                self._run("INSERT INTO facts VALUES (?, ?)", key, json.dumps(value))

    def reset(self, facts: Mapping[str, Any]) -> None:
        """Forget everything but these facts: the journal is new. One transaction."""
        self._begin()
        for table in ("facts", "marks", "rows"):
            self._run(f"DELETE FROM {table}")
        self.note(**facts)
        self.commit()

    def marks(self) -> list[Mark]:
        """All marks, the oldest first."""
        return [Mark(*row) for row in self._run("SELECT position, length, sum FROM marks ORDER BY position")]

    def go_back(self, mark: Mark) -> None:
        """What came after `mark` has not been."""
        self._begin()
        self._run("DELETE FROM marks WHERE position > ?", mark.position)
        self._run("DELETE FROM rows WHERE start >= ?", mark.length)
        self.commit()

    def add(self, row_id: str, start: int) -> None:
        """A row begins at `start`. Not on disk before the next mark."""
        self._begin()
        digest = hashlib.blake2b(row_id.encode("utf-8", "backslashreplace"), digest_size=16).digest()
        self._run("INSERT INTO rows VALUES (?, ?)", digest, start)

    def mark(self, mark: Mark) -> None:
        """Set a mark, and commit what was added."""
        self._begin()
        self._run("INSERT OR REPLACE INTO marks VALUES (?, ?, ?)", mark.position, mark.length, mark.sum)
        self.commit()

    def has_repeated(self) -> bool:
        """Whether two rows have one id."""
        return self._run("SELECT 1 FROM rows GROUP BY id HAVING count(*) > 1 LIMIT 1").fetchone() is not None

    def spans(self, end: int) -> Iterator[Span]:
        """The rows in order; the journal is `end` bytes long."""
        for row_id, start, stop, last in self._run(_SPANS, end=end):
            yield Span(row_id, start, stop, start == last)

    def replace_rows(self, rows: Iterable[tuple[bytes, int]], mark: Mark, **facts: Any) -> None:
        """The journal was written anew: these are its rows (id, start), and `mark` is the only one. One transaction."""
        self._begin()
        self._run("CREATE TEMP TABLE moved (id BLOB, start INTEGER)")
        try:
            self._database.executemany("INSERT INTO moved VALUES (?, ?)", rows)
        except sqlite3.Error as error:
            raise self._worded(error) from None
        self._run("DELETE FROM rows")
        self._run("INSERT INTO rows SELECT id, start FROM moved")
        self._run("DROP TABLE moved")
        self._run("DELETE FROM marks")
        self.note(**facts)
        self.mark(mark)

    def commit(self) -> None:
        """End the transaction, on disk."""
        if self._database.in_transaction:
            self._run("COMMIT")

    def close(self) -> None:
        """Let go; an open transaction has not been."""
        self._database.close()

    def _begin(self) -> None:
        if not self._database.in_transaction:
            self._run("BEGIN IMMEDIATE")

    def _run(self, statement: str, *values: Any, **named: Any) -> sqlite3.Cursor:
        try:
            return self._database.execute(statement, named or values)
        except sqlite3.Error as error:
            raise self._worded(error) from None

    def _worded(self, error: sqlite3.Error) -> ConfigurationError | OutputError:
        if "locked" in str(error):
            return ConfigurationError(
                "another run is writing here", where=str(self._file), hint="wait for it, or stop it", code="SINK_IN_USE"
            )
        return OutputError(f"cannot be written: {error}", where=str(self._file))
