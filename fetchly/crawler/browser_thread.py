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

from fetchly.crawler import browser_memory
from fetchly.crawler.assignment import Assignment
from fetchly.crawler.browser_process import CLOSE_S, LAUNCH_S, TAB_S, BrowserProcess, OpenTab
from fetchly.crawler.chromium import BrowserMissing
from fetchly.crawler.http import MayFollow
from fetchly.crawler.navigation_guard import NavigationGuard
from fetchly.crawler.proxy import EgressProxy
from fetchly.crawler.typed_text import TypedText
from fetchly.crawler.visit import Visit
from fetchly.errors import FetchError, FetchlyError, Interrupted
from fetchly.goods import Page

_POLL_S = 0.1
_GRACE_S = 2 * (LAUNCH_S + TAB_S) + 3 * CLOSE_S
"""Beyond a page's own time: a launch before it, closing what does not answer after it."""


class _Tabs:
    """Room for pages side by side, in one event loop. `most` may change meanwhile."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.open = 0
        self._changed = asyncio.Event()

    async def take(self) -> None:
        """Wait for a tab."""
        while self.open >= self.most:
            self._changed.clear()
            await self._changed.wait()
        self.open += 1

    def give_back(self) -> None:
        """One tab is free again."""
        self.open -= 1
        self._changed.set()

    def set_most(self, most: int) -> None:
        """Those beyond it are left to their end."""
        self.most = most
        self._changed.set()


@dataclass(slots=True)
class _Ticket:
    """A visit that was asked for. `started` (time.monotonic) is set once it has a tab."""

    assignment: Assignment
    may_follow: MayFollow | None
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
        self._tabs = _Tabs(tabs)
        self._process: BrowserProcess | None = None
        self._resting: asyncio.Task[None] | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fetchly-browser", daemon=True)
        self._thread.start()
        self._ready.wait()

    def visit(
        self,
        assignment: Assignment,
        should_stop: Callable[[], bool] | None,
        may_follow: MayFollow | None = None,
    ) -> Page:
        """Wait for a page. Raises what `Visit.page` and `may_follow` raise, BrowserMissing, and Interrupted."""
        ticket = _Ticket(assignment, may_follow)
        future = asyncio.run_coroutine_threadsafe(self._visit(ticket), self._loop)
        try:
            while not wait([future], timeout=_POLL_S).done:
                if should_stop is not None and should_stop():
                    raise Interrupted("the rendering was stopped", where=assignment.url)
                if ticket.started is not None and time.monotonic() > ticket.started + assignment.total_s + _GRACE_S:
                    self.kill()
                    raise FetchError("the browser does not answer", url=assignment.url, code="TIMEOUT", retryable=True)
            return future.result()
        finally:
            _cancelled(future)

    def set_tabs(self, count: int) -> None:
        """From any thread: at most so many pages side by side; with 0, what stands idle is ended."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._set_tabs, count)

    def pids(self) -> tuple[int, ...]:
        """From any thread: the processes that run now."""
        return self._process.pids() if self._process is not None else ()

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
        await self._tabs.take()
        try:
            ticket.started = time.monotonic()
            async with self._process.tab(ticket.assignment.policy.user_agent) as tab:
                try:
                    return await self._page(tab, self._process.proxy, ticket)
                except FetchError as error:
                    if error.code == "BROWSER_CRASHED" and tab.running.claim_hoarder():
                        raise _hoarder(ticket.assignment.url) from error
                    raise
        except BrowserMissing as error:
            if not self._process.has_worked:
                raise
            raise _failing(ticket.assignment.url, error) from error
        finally:
            self._tabs.give_back()
            self._rest_if_told()

    async def _page(self, tab: OpenTab, proxy: EgressProxy, ticket: _Ticket) -> Page:
        typed = TypedText(ticket.assignment.interaction.actions, ticket.assignment.url)
        try:
            return typed.page(await self._visited(Visit(tab, proxy, ticket.assignment, typed), tab, ticket, typed))
        except FetchlyError as error:
            if not typed:
                raise
            raise typed.error(error) from None  # what it comes from may say more

    async def _visited(self, visit: Visit, tab: OpenTab, ticket: _Ticket, typed: TypedText) -> Page:
        may_follow = ticket.may_follow
        if may_follow is None:
            return await visit.page()
        guard = NavigationGuard(ticket.assignment.url, lambda url: may_follow(typed.address(url)))
        await guard.watch(tab)
        return await guard.page(visit.page())

    def _set_tabs(self, count: int) -> None:
        self._tabs.set_most(count)
        self._rest_if_told()

    def _rest_if_told(self) -> None:
        """With no tab allowed and none open the browser goes; its last page does not wait for that."""
        if not self._tabs.most and not self._tabs.open and self._process is not None:
            self._resting = self._loop.create_task(self._process.rest())

    async def _close(self) -> None:
        visits = asyncio.all_tasks() - {asyncio.current_task()}
        own = [task for task in visits if getattr(task.get_coro(), "__qualname__", "") == "BrowserThread._visit"]
        for task in own:
            task.cancel()
        await asyncio.gather(*own, return_exceptions=True)
        if self._process is not None:
            await self._process.close()
        await asyncio.sleep(0)  # closed transports say good-bye


def _failing(url: str, error: BrowserMissing) -> FetchError:
    """A browser that was there all the time: it is this page's trouble, and may be over with the next."""
    return FetchError(error.message, url=url, code="BROWSER_CRASHED", retryable=True)


def _hoarder(url: str) -> FetchError:
    limit = f"{browser_memory.MOST_BYTES / 1e9:g} GB"
    return FetchError(f"the page took more than {limit} of memory, and was ended", url=url, code="BROWSER_CRASHED")


def _cancelled(future: Future[Page]) -> None:
    """Leave nothing running for a caller who has left, also by Ctrl-C: the tab is closed within CLOSE_S."""
    if not future.done():
        future.cancel()
    with contextlib.suppress(Exception):
        future.exception(timeout=0)
