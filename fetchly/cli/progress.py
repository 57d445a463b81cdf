"""Steps with sizes in; a bar on a terminal, or one line a step elsewhere, out on stderr."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, Self


class ProgressBar:
    """Draws the store's progress. Use as a context manager, so that the terminal is left clean."""

    def __init__(self, quiet: bool = False) -> None:
        self._quiet = quiet
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish()

    def start(self, label: str, total_bytes: int | None) -> None:
        """A step begins."""
        self.finish()
        if self._quiet:
            return
        if not sys.stderr.isatty():
            size = f" ({total_bytes / 1e6:.0f} MB)" if total_bytes else ""
            print(f"{label}{size} ...", file=sys.stderr)
            return
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._bar.start()
        self._task = self._bar.add_task(label, total=total_bytes)

    def advance(self, count: int) -> None:
        """`count` more bytes are done."""
        if self._bar is not None:
            self._bar.advance(self._task, count)

    def finish(self) -> None:
        """The step is over."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
