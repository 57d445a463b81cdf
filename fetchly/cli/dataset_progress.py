"""Pages of a dataset, one after the other, in; a bar on a terminal, or now and then a line elsewhere, out on stderr."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Self

LINE_EVERY_S = 15.0


class DatasetProgress:
    """How far a run over one set is. Use as a context manager, so that the terminal is left clean."""

    def __init__(self, label: str, total: int, quiet: bool = False) -> None:
        self._label = label
        self._total = total
        self._quiet = quiet
        self._begun = 0
        self._said = time.monotonic()
        self._bar: Any = None
        if quiet or not sys.stderr.isatty():
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[page]}", markup=False),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task(label, total=total, page="")

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def step(self, page: str) -> None:
        """One more page is begun."""
        self._begun += 1
        if self._bar is not None:
            self._bar.update(self._task, completed=self._begun - 1, page=page[-40:])
        elif not self._quiet and time.monotonic() - self._said > LINE_EVERY_S:
            self._said = time.monotonic()
            print(f"{self._label}: page {self._begun} of {self._total}", file=sys.stderr)
