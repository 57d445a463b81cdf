"""Batches in, a file or a table that holds every row once out: the interface that all sinks have.

The run's state is the truth: it holds every page result by its number. A sink keeps, beside what it writes and in one
step with it, the number of the last page result that it holds. After a kill the runner opens the sink with `resume`,
is told that number, and writes everything after it again. Of rows with one id the last is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from fetchly.sinks.batch import Batch
from fetchly.sinks.place import Place


@dataclass(frozen=True, slots=True)
class Table:
    """What a sink is to hold.

    `schema` is the JSON Schema of a row's value (after all transforms); several schemas are branches of an anyOf.
    `run` names the run, `settings` is a digest of what its records depend on. `folder`, which exists, is the run's
    own: a sink keeps there what a resumed run needs. It must outlive the run for as long as that is to be resumed.
    """

    name: str
    schema: Mapping[str, Any]
    run: str
    settings: str
    folder: Path


class Sink(Protocol):
    """Called by one thread at a time, in this order: open, write and flush as often as needed, finish, close.

    Errors of all methods: ConfigurationError for what is in the way (SINK_..., OUTPUT_EXISTS, OUTPUT_DIFFERS,
    RUN_DIFFERS), OutputError for what the world refuses (no space, no connection). After an error only `close` may be
    called; what was durable stays so.
    """

    @property
    def place(self) -> Place:
        """Where it writes, known before it is open."""

    def open(self, table: Table, *, resume: bool) -> int:
        """Begin, or go on with, a run. The number of the last page result that is durably in it; 0: none."""

    def write(self, batch: Batch) -> None:
        """Take a batch whose `first` follows the last one written. Whether it is durable yet is the sink's matter."""

    def flush(self) -> None:
        """What was written is durable, and `open` with `resume` will say so."""

    def finish(self) -> None:
        """The run is complete: what appears as a whole appears now. A finished run may be opened and added to again."""

    def close(self) -> None:
        """Let go of everything. Without `finish`, an interrupted run: what was written is flushed. May come twice."""
