"""The path of a crawl's state and the settings of its run in; an open SQLite database that holds both out.

The file is locked for as long as it is open, and by nothing but SQLite: the lock of a killed process is gone with it.
"""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fetchly.crawler.scope import EXCLUDED, OTHER_SITE
from fetchly.errors import ConfigurationError, OutputError

APPLICATION_ID = 0x66746368  # "ftch"
VERSION = 3
_RUN = "run"  # the key of its name, which is no setting
_NOT_READ = ("ROBOTS_DISALLOWED", "REDIRECTED", OTHER_SITE, EXCLUDED)
"""Why pages are skipped that were never read."""

# `rank` orders the pages of a host: -1 what an earlier run owes, 0 what is new, above it what has failed so often.
# `reserved`: the page counts towards the limit. `same_as` is the page that turned out to be this one. A shape has so
# many pages that may be read, and so many that were left out and are kept (as skipped) in case its bound is raised.
_TABLES = """
CREATE TABLE run (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE notes (key TEXT PRIMARY KEY);
CREATE TABLE render_choice (place TEXT PRIMARY KEY, needed INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE pages (
    id INTEGER PRIMARY KEY,
    fingerprint BLOB NOT NULL UNIQUE,
    url TEXT NOT NULL,
    host TEXT NOT NULL,
    depth INTEGER NOT NULL,
    parent INTEGER,
    state TEXT NOT NULL DEFAULT 'queued',
    reserved INTEGER NOT NULL DEFAULT 0,
    rank INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    code TEXT,
    message TEXT,
    retryable INTEGER,
    hint TEXT,
    same_as INTEGER
);
CREATE TABLE shapes (shape BLOB PRIMARY KEY, pages INTEGER NOT NULL, left_out INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE signatures (page INTEGER PRIMARY KEY, signature BLOB NOT NULL);
CREATE TABLE bands (band BLOB NOT NULL, page INTEGER NOT NULL, PRIMARY KEY (band, page)) WITHOUT ROWID;
CREATE INDEX pages_queued ON pages (host, rank, depth, id) WHERE state = 'queued';
CREATE INDEX pages_open ON pages (depth) WHERE state IN ('queued', 'in_flight');
CREATE TABLE results (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    page INTEGER NOT NULL UNIQUE,
    records INTEGER NOT NULL,
    content TEXT NOT NULL
);
"""
_TABLES_OF_A_RUN = ("run", "notes", "render_choice", "pages", "shapes", "signatures", "bands")
_IN_WORDS = {
    "source": "other pages to begin with (seeds, files, sitemap or urls of source)",
    "rows": "other rows (name, match or rows of extract, or a transform)",
    "schema": "another schema",
}
"""Settings whose values are digests, which say nothing to a reader."""


def open_state(file: Path | None, settings: Mapping[str, Any], *, resume: bool) -> sqlite3.Connection:
    """An open, locked state for this run; None is a temporary file, gone when it is closed.

    `settings` are what the records depend on: a state is only gone on with under the same ones. `resume` on a file
    that is not there begins a run. The connection commits nothing by itself, and may be handed to another thread.

    Errors: ConfigurationError (STATE_EXISTS, STATE_INVALID, STATE_IN_USE, RUN_DIFFERS), OutputError.
    """
    place = str(file) if file is not None else "the temporary state"
    try:
        database = sqlite3.connect(file or "", timeout=0.0, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise OutputError(f"the state cannot be opened: {error}", where=place) from None
    try:
        _prepare(database)
        _begin_or_go_on(database, json.loads(json.dumps(settings)), place, resume)
    except BaseException as error:
        database.close()
        if isinstance(error, sqlite3.Error):
            raise worded(error, place) from None
        raise
    return database


def _prepare(database: sqlite3.Connection) -> None:
    # Before the first access, so that no shared memory is needed: the lock then lasts until the end of the process.
    database.execute("PRAGMA locking_mode = EXCLUSIVE")
    database.execute("PRAGMA journal_mode = WAL")
    # A commit is on disk before its records are written elsewhere, so that no output is ever ahead of its state.
    database.execute("PRAGMA synchronous = FULL")
    database.execute("BEGIN IMMEDIATE")


def _begin_or_go_on(database: sqlite3.Connection, settings: dict[str, Any], place: str, resume: bool) -> None:
    """Under the transaction that `_prepare` began."""
    (application,) = database.execute("PRAGMA application_id").fetchone()
    (tables,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if not tables and application in (0, APPLICATION_ID):
        for statement in _TABLES.split(";"):
            database.execute(statement)
        database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        database.execute(f"PRAGMA user_version = {VERSION}")
        _begin(database, settings)
    elif application != APPLICATION_ID or version != VERSION:
        raise ConfigurationError(
            "this is no state of a crawl" + (f" (format {version})" if application == APPLICATION_ID else ""),
            where=place,
            hint="name another file for the state",
            code="STATE_INVALID",
        )
    elif not resume and _holds_something(database):
        raise ConfigurationError(
            "there is the state of a crawl already",
            where=place,
            hint="add --resume to go on with it; to begin anew, delete it, or name another file",
            code="STATE_EXISTS",
        )
    elif not resume:
        name = run_of(database) if _settings_of(database) == settings else None
        for table in _TABLES_OF_A_RUN:
            database.execute(f"DELETE FROM {table}")
        _begin(database, settings, name)
    else:
        _compare(_settings_of(database), settings, place)
        _check_whole(database)
    database.execute("COMMIT")


def _begin(database: sqlite3.Connection, settings: dict[str, Any], name: str | None = None) -> None:
    rows = [(key, json.dumps(value)) for key, value in {**settings, _RUN: name or uuid.uuid4().hex}.items()]
    database.executemany("INSERT INTO run VALUES (?, ?)", rows)


def _holds_something(database: sqlite3.Connection) -> bool:
    """Whether any page was read: its record, its links, or that it is none of those that are sought. Pages that failed
    or were refused are tried again by a run that begins anew, and nothing is lost with their state."""
    not_read = ", ".join("?" * len(_NOT_READ))
    query = (
        "SELECT EXISTS (SELECT 1 FROM results) OR EXISTS (SELECT 1 FROM pages WHERE depth > 0 OR state = 'done' "
        f"OR (state = 'skipped' AND code NOT IN ({not_read})))"
    )
    return bool(database.execute(query, _NOT_READ).fetchone()[0])


def _settings_of(database: sqlite3.Connection) -> dict[str, Any]:
    return {
        key: json.loads(value) for key, value in database.execute("SELECT key, value FROM run WHERE key != ?", (_RUN,))
    }


def run_of(database: sqlite3.Connection) -> str:
    """The name that a state was given when it was made: no other one has the same."""
    name: str = json.loads(database.execute("SELECT value FROM run WHERE key = ?", (_RUN,)).fetchone()[0])
    return name


def _compare(there: dict[str, Any], settings: dict[str, Any], place: str) -> None:
    for key in {**there, **settings}:
        if there.get(key) != settings.get(key):
            values = f"{key} {_short(there.get(key))}, this run has {_short(settings.get(key))}"
            raise ConfigurationError(
                f"the crawl was begun with {_IN_WORDS.get(key, values)}",
                where=place,
                hint="give the same settings, or name another file",
                code="RUN_DIFFERS",
            )


def _check_whole(database: sqlite3.Connection) -> None:
    """A file of which a disk has lost a part is told now, and not after hours."""
    (found,) = database.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise sqlite3.DatabaseError(" ".join(str(found).split()))


def worded(error: sqlite3.Error, place: str) -> ConfigurationError | OutputError:
    """What SQLite says, in words."""
    if "locked" in str(error):
        return ConfigurationError(
            "another crawl is using this state", where=place, hint="wait for it, or stop it", code="STATE_IN_USE"
        )
    if isinstance(error, sqlite3.OperationalError):
        return OutputError(f"the state cannot be written: {error}", where=place)
    return ConfigurationError(
        f"this is no state of a crawl, or a damaged one: {error}",
        where=place,
        hint="name another file for the state: the crawl begins anew",
        code="STATE_INVALID",
    )


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}..."
