"""Batches in; a JSON lines, CSV or Parquet file out, on a disk or in a store that fsspec knows.

JSON lines and CSV on a disk grow in place, and every line is whole but the last of a run that was killed just then.
Parquet, and whatever goes to a store, is kept as rows in the run's folder and appears whole when the run is complete.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator

from fetchly.errors import ConfigurationError
from fetchly.sinks.batch import Batch
from fetchly.sinks.columns import change, layout
from fetchly.sinks.forms import Form, FormOf
from fetchly.sinks.journal import Journal
from fetchly.sinks.ledger import Ledger
from fetchly.sinks.options import FileSettings
from fetchly.sinks.place import Place
from fetchly.sinks.sink import Table
from fetchly.sinks.store import Store, check_file, store_of


class FileSink:
    """`form` makes lines of rows; `grows`: the file on a disk is those lines, with nothing to be rendered."""

    def __init__(self, kind: str, settings: FileSettings, form: FormOf, *, grows: bool) -> None:
        self._kind = kind
        self._settings = settings
        self._form_of = form
        self._in_place = grows and not settings.is_remote
        self._journal: Journal | None = None
        self._store: Store | None = None
        self._written = 0
        self._is_marked = True

    @property
    def place(self) -> Place:
        """The file or the URL."""
        return self._settings.place

    def open(self, table: Table, *, resume: bool) -> int:
        """See Sink."""
        form = self._form = self._form_of(layout(table.schema), self._settings.evidence)
        if self._in_place:
            check_file(self._settings.file)
        else:
            self._store = store_of(self._settings)
        name = f"{self._kind}-{hashlib.sha256(str(self.place).encode()).hexdigest()[:16]}"
        self._ledger = Ledger(table.folder / f"{name}.ledger")
        rows = self._settings.file if self._in_place else table.folder / f"{name}.rows"
        self._journal = Journal(rows, self._ledger, form.header)
        try:
            position = self._go_on(table, form) if resume else None
            if position is None:
                self._begin(table, form)
        except BaseException:
            self._release()
            raise
        self._written = position or 0
        return self._written

    def write(self, batch: Batch) -> None:
        """See Sink."""
        assert self._journal is not None
        assert batch.first == self._written + 1 <= batch.last + 1
        with self._releasing_at_errors():
            self._journal.append([(row.id, self._form.line(row)) for row in batch.rows])
        self._written = batch.last
        self._is_marked = False

    def flush(self) -> None:
        """See Sink."""
        assert self._journal is not None
        if not self._is_marked:
            with self._releasing_at_errors():
                self._journal.mark(self._written)
            self._is_marked = True

    def finish(self) -> None:
        """See Sink."""
        self.flush()
        assert self._journal is not None
        with self._releasing_at_errors():
            self._journal.compact()
            if self._store is not None:
                rows = self._journal.file
                self._ledger.note(published=True)  # before it is, or a kill in between would leave it for a stranger's
                self._store.put(lambda target: self._form.render(rows, target))

    def close(self) -> None:
        """See Sink."""
        if self._journal is None:
            return
        try:
            self.flush()
        finally:
            self._release()

    @contextlib.contextmanager
    def _releasing_at_errors(self) -> Iterator[None]:
        """After an error nothing more is written: what is durable stays, and a later run goes on from there."""
        try:
            yield
        except BaseException:
            self._release()
            raise

    def _release(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _go_on(self, table: Table, form: Form) -> int | None:
        """The position of the run that the ledger speaks of. Errors: ConfigurationError RUN_DIFFERS, OUTPUT_DIFFERS."""
        assert self._journal is not None
        before = self._ledger.fact("columns")
        if before is None:
            return None
        message = change(before, form.types)
        if message is None and self._ledger.fact("run") != [table.run, table.settings, self._settings.evidence]:
            message = "it was begun by a run with other settings"
        if message is not None:
            raise ConfigurationError(
                message,
                where=str(self.place),
                hint="name another file, or begin a new run and move this one away",
                code="RUN_DIFFERS",
            )
        if self._store is not None:
            self._refuse_what_is_there(self._ledger.fact("published") is None and self._store.exists())
        return self._journal.go_on()

    def _begin(self, table: Table, form: Form) -> None:
        assert self._journal is not None
        self._refuse_what_is_there(self._store.exists() if self._store is not None else self._holds_rows(form))
        facts = {"columns": form.types, "run": [table.run, table.settings, self._settings.evidence]}
        self._journal.begin(facts)

    def _holds_rows(self, form: Form) -> bool:
        """Whether there is more in a file on a disk than what every run begins it with."""
        file = self._settings.file
        size = file.stat().st_size if file.exists() else 0
        return size > 0 and not (size == len(form.header) and file.read_bytes() == form.header)

    def _refuse_what_is_there(self, exists: bool) -> None:
        if exists and self._settings.existing == "refuse":
            raise ConfigurationError(
                "holds something already, which this run has not written",
                where=str(self.place),
                hint="name another file, move it away, or say existing: replace",
                code="OUTPUT_EXISTS",
            )
