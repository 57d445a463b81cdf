"""A crawl under way in; a live picture on a terminal, or now and then a line elsewhere, out on stderr."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from fetchly.crawling.crawl import Crawl
    from fetchly.crawling.summary import CrawlProgress

LINE_EVERY_S = 15.0
_HOSTS = 8  # shown at a time
_CODES = 6


class CrawlDisplay:
    """Shows how far a crawl is, and passes lines on. Use as a context manager, so that the terminal is left clean."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._crawl: Crawl[Any] | None = None
        self._live: Any = None
        self._said = time.monotonic()
        self._notes: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, crawl: Crawl[Any]) -> None:
        """Begin to show a crawl."""
        self._crawl = crawl
        if self._quiet or not sys.stderr.isatty():
            return
        from rich.console import Console
        from rich.live import Live

        console = Console(stderr=True)
        self._live = Live(get_renderable=self._picture, console=console, refresh_per_second=4, transient=True)
        self._live.start()

    def say(self, line: str) -> None:
        """A line of its own, above the picture, unless it is to be quiet."""
        if not self._quiet:
            self.fail(line)

    def fail(self, line: str) -> None:
        """A line that is always said, as a page failed; from any thread."""
        if self._live is not None:
            self._live.console.print(line, markup=False, highlight=False, soft_wrap=True)
        else:
            print(line, file=sys.stderr)

    def note(self, line: str) -> None:
        """A line that is said at the next tick: for signal handlers, which must not print."""
        self._notes.append(line)

    def tick(self) -> bool:
        """Time has passed. Always False: nothing is to be stopped."""
        while self._notes:
            self.say(self._notes.pop(0))
        now = time.monotonic()
        if self._live is None and self._crawl is not None and now - self._said > LINE_EVERY_S:
            self._said = now
            self.say(", ".join(told(self._crawl.progress)))
        return False

    def _picture(self) -> Any:
        from rich.console import Group
        from rich.text import Text

        assert self._crawl is not None
        progress = self._crawl.progress
        lines = [", ".join(told(progress))]
        busy = sorted(progress.hosts, key=lambda host: (host.why == "ready", host.host))
        for host in busy[:_HOSTS]:
            wait = f" for {host.wait_s:,.0f} s" if host.why in ("paused", "backing off") else ""
            lines.append(f"  {host.host}: {host.why}{wait}, {host.started} requests")
        if len(busy) > _HOSTS:
            lines.append(f"  and {len(busy) - _HOSTS} more hosts")
        return Group(*(Text(line, overflow="ellipsis", no_wrap=True) for line in lines))


def told(progress: CrawlProgress) -> list[str]:
    """The figures of a moment, in words."""
    counts = progress.counts
    failed = sum(counts.failed.values())
    parts = [
        f"{counts.done} pages",
        f"{counts.records} records",
        f"{counts.queued} queued",
        f"{progress.busy} being fetched",
        f"{progress.waiting} waiting for the model{_of_tokens(progress)}",
    ]
    if failed:
        by_code = sorted(counts.failed.items(), key=lambda item: -item[1])[:_CODES]
        parts.append(f"{failed} failed ({', '.join(f'{code} {count}' for code, count in by_code)})")
    if counts.skipped:
        parts.append(f"{sum(counts.skipped.values())} skipped")
    if progress.tokens_per_s:
        parts.append(f"{progress.tokens_per_s:.0f} tokens/s")
    if progress.held_back:
        parts.append(progress.held_back)
    return parts


def _of_tokens(progress: CrawlProgress) -> str:
    queue = progress.queues.get("model_tokens")
    return f" ({queue.now:,} of {queue.bound:,} tokens)" if queue is not None and queue.now else ""
