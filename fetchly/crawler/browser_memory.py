"""A browser's process in; those of its processes that hoard memory ended.

Chromium bounds the objects of a page's scripts (`--max-old-space-size`), but not their buffers, canvases and
blobs: a single page can take all that a machine has within seconds. A page's process that is ended is a crash of that
page alone; where the browser itself holds the hoard, it goes down and is replaced.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import psutil

MOST_BYTES = 2_000_000_000
"""Resident memory of one process of a browser. Pages for people take a tenth of it."""
PERIOD_S = 0.5  # a page fills a gigabyte in about a second


async def end_hoarders(pid: int, say: Callable[[], None]) -> None:
    """Watch a browser (the id of its first process) until it is gone, or this is cancelled. `say` is told each time."""
    with contextlib.suppress(psutil.Error):
        browser = psutil.Process(pid)
        while browser.is_running():
            for process in (*browser.children(recursive=True), browser):
                with contextlib.suppress(psutil.Error):
                    if process.memory_info().rss > MOST_BYTES:
                        process.kill()
                        say()
            await asyncio.sleep(PERIOD_S)
