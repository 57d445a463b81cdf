"""Batches in; rows of a PostgreSQL table out, and the run's position in the same transaction. Needs psycopg."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from fetchly.errors import ConfigurationError, OutputError
from fetchly.sinks import database
from fetchly.sinks.batch import Batch
from fetchly.sinks.columns import Layout, layout
from fetchly.sinks.database import POSITIONS
from fetchly.sinks.options import PostgresSettings
from fetchly.sinks.place import Place, secrets_of
from fetchly.sinks.sink import Table
from fetchly.sinks.typed_rows import KEY, REST, TypedRows

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

TYPES = {
    "string": "text",
    "integer": "bigint",
    "number": "double precision",
    "boolean": "boolean",
    "date": "date",
    "timestamp": "timestamp with time zone",
    "json": "jsonb",
}
"""A list and an object are jsonb. `_rest` is json, which keeps what jsonb and text refuse: a NUL, half a surrogate."""
LONGEST_NAME = 63
_CONNECT_S = 10
_FOUND = """
SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
_Result = TypeVar("_Result")


class PostgresSink:
    """A batch is a transaction, committed when `write` returns. A table that is there is added to, and rows upserted.

    A connection that breaks is made again once for each batch; a batch that was committed just before is told by its
    position, and not written twice. The password is in no error.
    """

    def __init__(self, settings: PostgresSettings) -> None:
        self._settings = settings
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None
        self._written = 0

    @property
    def place(self) -> Place:
        """Host, port, database; schema and table."""
        return self._settings.place

    def open(self, table: Table, *, resume: bool) -> int:
        """See Sink."""
        columns = layout(table.schema).with_json_for("list", "struct")
        added = database.WITH_EVIDENCE if self._settings.evidence else database.ADDED
        self._rows = TypedRows(columns, added, takes_nul=False)
        database.fold(columns, (*added, REST), lambda name: name, LONGEST_NAME)
        self._run = table.run
        self._written = self._saying_where(lambda: self._begin(table, columns, resume))
        return self._written

    def write(self, batch: Batch) -> None:
        """See Sink."""
        assert batch.first == self._written + 1 <= batch.last + 1
        cells = [self._rows.cells(row) for row in batch.rows]
        self._saying_where(lambda: self._write(batch.last, cells))
        self._written = batch.last

    def flush(self) -> None:
        """Every batch is committed already."""

    def finish(self) -> None:
        """Every batch is committed already."""

    def close(self) -> None:
        """See Sink."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _begin(self, table: Table, columns: Layout, resume: bool) -> int:
        connection = self._connect()
        with connection.transaction(), connection.cursor() as cursor:
            # CREATE ... IF NOT EXISTS fails where two do it at once.
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [POSITIONS])
            cursor.execute(
                self._sql(
                    'CREATE TABLE IF NOT EXISTS {positions} ("table" text, run text, settings text NOT NULL, '
                    'position bigint NOT NULL, columns text NOT NULL, PRIMARY KEY ("table", run))'
                ),
                [],
            )
            is_new = self._create_or_check(cursor, columns)
            key = [self._settings.table, self._run]
            cursor.execute(self._sql('SELECT settings, position FROM {positions} WHERE "table" = %s AND run = %s'), key)
            before = cursor.fetchone()
            if resume and before is not None:
                database.check_run(table, before[0], self.place)
                if not is_new:
                    return int(before[1])
            cursor.execute(
                self._sql(
                    'INSERT INTO {positions} VALUES (%s, %s, %s, 0, %s) ON CONFLICT ("table", run) '
                    "DO UPDATE SET settings = excluded.settings, position = 0, columns = excluded.columns"
                ),
                [*key, table.settings, json.dumps(self._rows.names)],
            )
        return 0

    def _create_or_check(self, cursor: psycopg.Cursor[tuple[Any, ...]], columns: Layout) -> bool:
        """Whether the table is new. Errors: ConfigurationError SINK_DIFFERS."""
        from psycopg import sql

        wanted = {column.name: TYPES[column.kind] for column in columns.columns}
        wanted.update((name, "json" if name == REST else "text") for name in self._rows.names[len(wanted) :])
        self._types = wanted
        name = sql.Identifier(self._settings.db_schema, self._settings.table).as_string(cursor)
        cursor.execute(_FOUND, [name])
        found: dict[str, str] = dict(cursor.fetchall())
        if found:
            cursor.execute(self._sql('SELECT columns FROM {positions} WHERE "table" = %s'), [self._settings.table])
            written = frozenset(column for (names,) in cursor.fetchall() for column in json.loads(names))
            database.Columns(wanted, found, written).check(self.place, lambda text: _quoted(text, cursor))
            return False
        defined = sql.SQL(", ").join(
            sql.SQL(f"{{}} {kind}{' PRIMARY KEY' if column == KEY else ''}").format(_identifier(column))
            for column, kind in wanted.items()
        )
        cursor.execute(sql.SQL("CREATE TABLE {} ({})").format(self._table_name, defined), [])
        return True

    @property
    def _table_name(self) -> sql.Identifier:
        return _identifier(self._settings.db_schema, self._settings.table)

    def _write(self, position: int, cells: list[list[Any]]) -> None:
        import psycopg

        for is_second in (False, True):
            try:
                connection = self._connect()
                if not is_second or self._position(connection) < position:
                    self._store(connection, position, cells)
                return
            except (psycopg.OperationalError, psycopg.InterfaceError):
                if is_second or self._connection is None or not self._connection.closed:
                    raise
                self._connection = None

    def _store(self, connection: psycopg.Connection[tuple[Any, ...]], position: int, cells: list[list[Any]]) -> None:
        with connection.transaction(), connection.cursor() as cursor:
            if cells:
                cursor.executemany(self._upsert(), cells)
            cursor.execute(
                self._sql('UPDATE {positions} SET position = %s WHERE "table" = %s AND run = %s'),
                [position, self._settings.table, self._run],
            )

    def _position(self, connection: psycopg.Connection[tuple[Any, ...]]) -> int:
        found = connection.execute(
            self._sql('SELECT position FROM {positions} WHERE "table" = %s AND run = %s'),
            [self._settings.table, self._run],
        ).fetchone()
        return 0 if found is None else int(found[0])

    def _upsert(self) -> Any:
        from psycopg import sql

        names = self._rows.names
        return sql.SQL("INSERT INTO {} ({}) VALUES ({}) ON CONFLICT ({}) DO UPDATE SET {}").format(
            self._table_name,
            sql.SQL(", ").join(map(_identifier, names)),
            sql.SQL(", ").join(sql.SQL(f"%s::{self._types[name]}") for name in names),
            _identifier(KEY),
            sql.SQL(", ").join(
                sql.SQL("{0} = excluded.{0}").format(_identifier(name)) for name in names if name != KEY
            ),
        )

    def _sql(self, text: str) -> Any:
        """`{positions}` is the table of positions, which lies in the schema of the table."""
        from psycopg import sql

        return sql.SQL(text).format(positions=_identifier(self._settings.db_schema, POSITIONS))

    def _connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        import psycopg

        if self._connection is None:
            url = self._settings.url.get_secret_value()
            given = dict(parse_qsl(urlsplit(url).query))
            options: dict[str, Any] = {"connect_timeout": _CONNECT_S, "application_name": "fetchly"}
            self._connection = psycopg.connect(
                url, autocommit=True, **{key: value for key, value in options.items() if key not in given}
            )
        return self._connection

    def _saying_where(self, work: Callable[[], _Result]) -> _Result:
        where = str(self.place)
        try:
            import psycopg
        except ImportError:
            raise ConfigurationError(
                "psycopg is not installed, which speaks to PostgreSQL",
                where=where,
                hint="pip install 'fetchly[postgres]'",
                code="EXTRA_MISSING",
            ) from None
        try:
            return work()
        except psycopg.Error as error:
            is_out_of_reach = isinstance(error, psycopg.OperationalError) and (
                self._connection is None or self._connection.closed
            )
            self.close()
            raise OutputError(
                f"the database {'cannot be reached' if is_out_of_reach else 'refuses'}: {self._without_secrets(error)}",
                where=where,
                hint="check host, user and password, and that the server runs; then resume"
                if is_out_of_reach
                else None,
                code="SINK_UNREACHABLE" if is_out_of_reach else None,
                retryable=is_out_of_reach,
            ) from None
        except BaseException:
            self.close()
            raise

    def _without_secrets(self, error: Exception) -> str:
        url = self._settings.url.get_secret_value()
        parts = urlsplit(url)
        text = " ".join(str(error).split())
        for secret in (url, parts.password or "", unquote(parts.password or ""), *secrets_of(url)):
            text = text.replace(secret, "***") if secret else text
        return text


def _identifier(*names: str) -> sql.Identifier:
    """A name in a statement with parameters, which all of ours have, were it none: there a % is written twice."""
    from psycopg import sql

    return sql.Identifier(*(name.replace("%", "%%") for name in names))


def _quoted(name: str, cursor: psycopg.Cursor[tuple[Any, ...]]) -> str:
    from psycopg import sql

    return sql.Identifier(*name.split(".", 1)).as_string(cursor)
