"""Batches in; JSON lines on standard output out. It remembers nothing: a resumed run begins at its first record."""

from __future__ import annotations

import sys

from fetchly.errors import OutputError
from fetchly.sinks.batch import Batch
from fetchly.sinks.columns import layout
from fetchly.sinks.forms import JsonLines
from fetchly.sinks.options import StdoutSettings
from fetchly.sinks.place import Place
from fetchly.sinks.sink import Table


class StdoutSink:
    """What was printed cannot be taken back: a row whose id comes again is printed again.

    Errors: OutputError; BrokenPipeError where the reader has gone.
    """

    def __init__(self, settings: StdoutSettings) -> None:
        self._settings = settings

    @property
    def place(self) -> Place:
        """There is one."""
        return self._settings.place

    def open(self, table: Table, *, resume: bool) -> int:
        """Always 0."""
        self._form = JsonLines(layout(table.schema), self._settings.evidence)
        self._text("")
        return 0

    def write(self, batch: Batch) -> None:
        """Print, and flush."""
        self._text("".join(self._form.line(row).decode("utf-8") for row in batch.rows))

    def flush(self) -> None:
        """Nothing is held back."""

    def finish(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """Standard output is not ours to close."""

    def _text(self, text: str) -> None:
        if sys.stdout is None:
            raise OutputError("standard output is closed", hint="name a file")
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except BrokenPipeError:
            raise
        except (OSError, ValueError) as error:  # ValueError: it was closed in Python
            raise OutputError(f"cannot be written: {error}", where="stdout") from None
