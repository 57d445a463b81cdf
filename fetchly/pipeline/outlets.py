"""The rows of pages in, in the order of a run's state; every sink written, each from its own position on, out."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fetchly.errors import FetchlyError, OutputError
from fetchly.pipeline.pipeline import Pipeline
from fetchly.pipeline.rejects import Rejects
from fetchly.pipeline.rows import PageRows, Rejected, rejected
from fetchly.pipeline.table_schema import table_schema
from fetchly.pipeline.whole_file import write_whole
from fetchly.sinks.batch import Batch, Row
from fetchly.sinks.opening import open_sink
from fetchly.sinks.options import SinkOptions
from fetchly.sinks.sink import Table

BATCH_ROWS = 200
BATCH_PAGES = 200
BATCH_S = 1.0
"""A batch is written when it has so many rows or pages, or when its first page has waited so long. Then it is durable,
too: no more than this is written again after a kill."""
_FAULTS_OF_A_ROW = frozenset(("IntegrityError", "DataError"))  # as the DB-API (PEP 249) calls what a constraint refuses
_STATES_OF_A_ROW = ("44", "P0")  # classes of SQLSTATE beside these: a view's CHECK OPTION, what a trigger raises


@dataclass(frozen=True, slots=True)
class SinkUse:
    """A sink of a run: the rows that are in it, or waiting for it, and the number of the last page result that is."""

    kind: str
    place: str
    rows: int
    position: int


class Outlets:
    """All sinks of a run. One thread at a time: open, add and tick as often as needed, finish, close.

    Rows that a sink refuses for what they hold (a constraint of the user's table, a field without a column) are left
    out of it, told to `reject`, and kept in the run's folder, so that `retry` can offer them again; with
    `stop_at_rejected` the first one is raised. What refuses every row (no space, no connection) is raised.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        sinks: tuple[SinkOptions, ...],
        folder: Path,
        *,
        stop_at_rejected: bool,
        reject: Callable[[Rejected], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pipeline = pipeline
        self._folder = folder
        self._clock = clock
        self._pending: list[PageRows] = []
        self._waiting_rows = 0
        self._since = 0.0
        self._rejects = Rejects(folder, reject, stop_at_rejected)
        self._outlets = [_Outlet(pipeline, options, self._rejects) for options in sinks]

    @property
    def uses(self) -> tuple[SinkUse, ...]:
        """What each sink has."""
        return tuple(outlet.use for outlet in self._outlets)

    @property
    def rejected(self) -> tuple[Rejected, ...]:
        """The rows that sinks have refused, in whichever run."""
        return tuple(self._rejects)

    def open(self, run: str, settings: str, *, retry: bool = False) -> None:
        """Begin, or go on with, the run of this name. Errors: those of Sink.open."""
        _own(self._folder, run)
        self._rejects.load(retry=retry)
        # What empties a file comes last: where another sink cannot be had, the run does not begin.
        for outlet in sorted(self._outlets, key=lambda outlet: outlet.empties):
            outlet.open(run, settings, self._folder)

    def add(self, page: PageRows) -> None:
        """Take the rows of the next page result. Errors: those of Sink.write."""
        if not self._pending:
            self._since = self._clock()
        for outlet in self._outlets:
            outlet.expect(page)
        if all(outlet.position >= page.page for outlet in self._outlets):
            return  # a resumed run shows what is there already
        self._pending.append(page)
        self._waiting_rows += len(page.rows)
        if self._waiting_rows >= BATCH_ROWS or len(self._pending) >= BATCH_PAGES:
            self._write()

    def tick(self) -> None:
        """Time has passed. Errors: those of Sink.write."""
        if self._pending and self._clock() - self._since >= BATCH_S:
            self._write()

    def finish(self) -> None:
        """The run is complete. Errors: those of Sink.write and Sink.finish."""
        self._write()
        _do_all(outlet.finish for outlet in self._outlets)

    def close(self) -> None:
        """Write what is waiting, to every sink that still takes it, and let go of all. May come twice.

        Errors: the first one of any sink.
        """
        _do_all((self._write, *(outlet.close for outlet in self._outlets)))

    def _write(self) -> None:
        pages, self._pending, self._waiting_rows = self._pending, [], 0
        _do_all((*(partial(outlet.write, pages) for outlet in self._outlets), self._rejects.settle))


def _do_all(works: Iterable[Callable[[], None]]) -> None:
    """Whatever becomes of one, do the others: each sink keeps its own position. Raises the first error."""
    errors: list[BaseException] = []
    for work in works:
        try:
            work()
        except BaseException as error:
            errors.append(error)
    if errors:
        raise errors[0]


class _Outlet:
    """One sink, and how far it is."""

    def __init__(self, pipeline: Pipeline, options: SinkOptions, rejects: Rejects) -> None:
        self._options = options
        self._sink = open_sink(options)
        self._place = str(self._sink.place)
        self._schemas = {schema.name: schema.row_schema() for schema in pipeline.schemas_of(options)}
        self._name = pipeline.name
        self._rejects = rejects
        self._is_open = False
        self._rows = 0
        self._again: list[Row] = []  # of earlier pages, which are tried once more
        self.position = 0

    @property
    def empties(self) -> bool:
        """Whether opening it may empty what is there."""
        return getattr(self._options.settings, "existing", "refuse") == "replace"

    @property
    def use(self) -> SinkUse:
        rows = self._rows - self._rejects.count(self._place)
        return SinkUse(self._options.kind, self._place, rows, self.position)

    def open(self, run: str, settings: str, folder: Path) -> None:
        # A sink that was told to take other schemas lacks the earlier rows of those that are new.
        digest = hashlib.sha256(json.dumps([settings, *self._schemas]).encode()).hexdigest()
        self._table = Table(self._name, table_schema(self._schemas), run, digest, folder)
        self._open()

    def expect(self, page: PageRows) -> None:
        """Count the rows of a page, whether they are here already or not."""
        mine = [row for row in page.rows if row.schema in self._schemas]
        self._rows += len(mine)
        if page.page <= self.position:
            self._again.extend(row for row in mine if self._rejects.is_to_be_tried(self._place, row))

    def write(self, pages: list[PageRows]) -> None:
        if not self._is_open:
            return  # it has failed, and was told
        again, self._again = self._again, []
        if again:
            self._one_by_one(Batch(self.position + 1, self.position, tuple(again)))
        pages = [page for page in pages if page.page > self.position]
        if not pages:
            return
        rows = tuple(row for page in pages for row in page.rows if row.schema in self._schemas)
        batch = Batch(self.position + 1, pages[-1].page, rows)
        try:
            self._put(batch)
        except FetchlyError as error:
            if not _is_fault_of_a_row(error, rows):
                raise
            self._reopen()
            self._one_by_one(batch)
        else:
            for row in rows:  # after a kill one of them may come again that was refused before
                self._rejects.taken(self._place, row)

    def finish(self) -> None:
        if self._is_open:
            self._sink.finish()

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._sink.close()

    def _one_by_one(self, batch: Batch) -> None:
        """Row by row, without moving on; then on, so that a kill in between makes all of them come again."""
        at = self.position
        for row in batch.rows:
            try:
                self._put(Batch(at + 1, at, (row,)))
            except FetchlyError as error:
                if not _is_fault_of_a_row(error, (row,)):
                    raise
                self._rejects.add(rejected(row, error, self._place), error)
                self._reopen()
            else:
                self._rejects.taken(self._place, row)
        self._put(Batch(at + 1, batch.last, ()))

    def _put(self, batch: Batch) -> None:
        try:
            self._sink.write(batch)
            self._sink.flush()
        except BaseException:
            self._is_open = False
            with suppress(Exception):
                self._sink.close()
            raise
        self.position = batch.last

    def _open(self) -> None:
        self.position = self._sink.open(self._table, resume=True)
        self._is_open = True

    def _reopen(self) -> None:
        before = self.position
        self._sink = open_sink(self._options)
        self._open()
        if self._options.kind == "stdout":
            self.position = before  # it remembers nothing, and what was printed is printed
        if self.position < before:
            raise OutputError(
                "what was durable in it is gone", where=self._place, hint="--resume writes it again", code="SINK_LOST"
            )


def _is_fault_of_a_row(error: FetchlyError, rows: tuple[Row, ...]) -> bool:
    """Whether the world is well, and what a row holds is refused."""
    cause = error.__cause__ or error.__context__
    by_database = any(kind.__name__ in _FAULTS_OF_A_ROW for kind in type(cause).__mro__)
    by_state = str(getattr(cause, "sqlstate", None)).startswith(_STATES_OF_A_ROW)
    return by_database or by_state or any(error.where == row.url for row in rows)


def _own(folder: Path, run: str) -> None:
    """The folder of this run; what another one has left in it is of no more use. Errors: OutputError, also for a folder
    that no run has made."""
    owner = folder / "run.json"
    try:
        if folder.exists() and not owner.is_file() and any(folder.iterdir()):
            raise OutputError(
                "the run needs a folder of this name, and what is in it is none of a run's",
                where=str(folder),
                hint="move it away, or name another state",
            )
        if not owner.is_file() or json.loads(owner.read_text("utf-8")) != run:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            write_whole(owner, [json.dumps(run)])
    except (OSError, ValueError) as error:
        words = getattr(error, "strerror", None) or error
        raise OutputError(f"the run's folder cannot be used: {words}", where=str(folder)) from None
