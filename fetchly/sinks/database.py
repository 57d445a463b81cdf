"""The columns that a database's table should have, and those that it has, in; whether it can be written to out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from fetchly.errors import ConfigurationError
from fetchly.sinks.columns import Layout
from fetchly.sinks.place import Place
from fetchly.sinks.sink import Table
from fetchly.sinks.typed_rows import KEY, URL

POSITIONS = "_fetchly_sinks"
"""The table of positions: (name of the table, run), settings, position, columns as JSON."""
ADDED = (KEY,)
WITH_EVIDENCE = (URL, KEY)


def fold(layout: Layout, added: Iterable[str], name: Callable[[str], str], longest: int | None) -> None:
    """Errors: ConfigurationError SINK_COLUMN for names of fields that cannot be names of columns.

    `added` are the columns of the sink's own; `name` is what the database compares names by; `longest` is in bytes.
    """
    seen = {name(own): own for own in added}
    for column in layout.columns:
        other = seen.setdefault(name(column.name), column.name)
        problem = None
        if other != column.name:
            problem = f"the database cannot tell the fields {other!r} and {column.name!r} apart"
        elif not column.name or "\x00" in column.name:
            problem = f"the field {column.name!r} cannot be a column"
        elif longest is not None and len(column.name.encode("utf-8", "replace")) > longest:
            problem = f"the field {column.name!r} is over {longest} bytes, too long for a column"
        if problem is not None:
            raise ConfigurationError(problem, where=f"/{column.name}", hint="rename the field", code="SINK_COLUMN")


@dataclass(frozen=True, slots=True)
class Columns:
    """A table's columns and their types in the database's words: those it should have, those it has, and those that
    earlier runs wrote. Others than these are the user's, and left alone."""

    wanted: Mapping[str, str]
    found: Mapping[str, str]
    written: frozenset[str]

    def check(self, place: Place, quoted: Callable[[str], str]) -> None:
        """Errors: ConfigurationError SINK_DIFFERS, with the statement that mends it."""
        table = quoted(place.table or "")
        for name, kind in self.wanted.items():
            if name not in self.found:
                self._refuse(
                    place, f"the table has no column {name!r}", f"ALTER TABLE {table} ADD COLUMN {quoted(name)} {kind}"
                )
            if self.found[name].lower() != kind.lower():
                self._refuse(place, f"the column {name!r} is {self.found[name]}, and should be {kind}", None)
        for name in self.found:
            if name in self.written and name not in self.wanted:
                self._refuse(
                    place,
                    f"the schema no longer has the column {name!r}",
                    f"ALTER TABLE {table} DROP COLUMN {quoted(name)}",
                )

    def _refuse(self, place: Place, message: str, statement: str | None) -> None:
        hint = "name another table" + (f", or {statement}" if statement else ", or change the column's type")
        raise ConfigurationError(message, where=str(place), hint=hint, code="SINK_DIFFERS")


def check_run(table: Table, settings: str, place: Place) -> None:
    """`settings` are those that the run in the database was begun with. Errors: ConfigurationError RUN_DIFFERS."""
    if settings != table.settings:
        raise ConfigurationError(
            "the run was begun with other settings", where=str(place), hint="begin a new run", code="RUN_DIFFERS"
        )
