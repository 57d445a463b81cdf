"""Visits asked for by any thread in, futures of pages out: the one thread and event loop that a browser lives in."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass

from fetchly.crawler.browser_process import CLOSE_S, LAUNCH_S, TAB_S, BrowserProcess
from fetchly.crawler.visit import Assignment, Visit
from fetchly.errors import FetchError, Interrupted
from fetchly.goods import Page

_POLL_S = 0.1
_GRACE_S = 2 * (LAUNCH_S + TAB_S) + 3 * CLOSE_S
"""Beyond a page's own time: a launch before it, closing what does not answer after it."""


@dataclass(slots=True)
class _Ticket:
    """A visit that was asked for. `started` (time.monotonic) is set once it has a tab."""

    assignment: Assignment
    started: float | None = None


class BrowserThread:
    """Runs Playwright's event loop in a daemon thread: callers may be threads, or inside event loops of their own.

    Daemon, because the interpreter would otherwise wait for it before any clean-up that it could be ended by.
    """

    def __init__(self, make_process: Callable[[], BrowserProcess], tabs: int) -> None:
        self.owner = os.getpid()
        self._loop = asyncio.new_event_loop()
        # What Playwright leaves unread when a browser goes down is no news to anybody.
        self._loop.set_exception_handler(lambda loop, context: None)
        self._make_process = make_process
        self._tabs = tabs
        self._process: BrowserProcess | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fetchly-browser", daemon=True)
        self._thread.start()
        self._ready.wait()

    def visit(self, assignment: Assignment, should_stop: Callable[[], bool] | None) -> Page:
        """Wait for a page. Raises what `Visit.page` raises, BrowserMissing, and Interrupted."""
        ticket = _Ticket(assignment)
        future = asyncio.run_coroutine_threadsafe(self._visit(ticket), self._loop)
        try:
            while not wait([future], timeout=_POLL_S).done:
                if should_stop is not None and should_stop():
                    raise Interrupted("the rendering was stopped", where=assignment.url)
                if ticket.started is not None and time.monotonic() > ticket.started + assignment.seconds + _GRACE_S:
                    self.kill()
                    raise FetchError("the browser does not answer", url=assignment.url, code="TIMEOUT", retryable=True)
            return future.result()
        finally:
            _cancelled(future)

    def kill(self) -> None:
        """End the browser at once; the next visit starts another."""
        if self._process is not None:
            self._process.kill()

    def close(self) -> None:
        """End visits, browser and thread. Takes seconds at most."""
        if self.owner != os.getpid() or self._loop.is_closed():
            return
        closing = asyncio.run_coroutine_threadsafe(self._close(), self._loop)
        if not wait([closing], timeout=6 * CLOSE_S).done:
            self.kill()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_S)
        if not self._thread.is_alive():
            self._loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.call_soon(self._ready.set)
        self._loop.run_forever()

    async def _visit(self, ticket: _Ticket) -> Page:
        if self._process is None:
            self._process = self._make_process()
            self._slots = asyncio.Semaphore(self._tabs)
        async with self._slots:
            ticket.started = time.monotonic()
            async with self._process.tab(ticket.assignment.policy.user_agent) as tab:
                return await Visit(tab, self._process.proxy, ticket.assignment).page()

    async def _close(self) -> None:
        visits = asyncio.all_tasks() - {asyncio.current_task()}
        own = [task for task in visits if getattr(task.get_coro(), "__qualname__", "") == "BrowserThread._visit"]
        for task in own:
            task.cancel()
        await asyncio.gather(*own, return_exceptions=True)
        if self._process is not None:
            await self._process.close()
        await asyncio.sleep(0)  # closed transports say good-bye


def _cancelled(future: Future[Page]) -> None:
    """Leave nothing running for a caller who has left, also by Ctrl-C: the tab is closed within CLOSE_S."""
    if not future.done():
        future.cancel()
    with contextlib.suppress(Exception):
        future.exception(timeout=0)
