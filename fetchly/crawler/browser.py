"""A URL in, or a page whose content scripts are to fill in; the Page as a browser makes it out."""

from __future__ import annotations

import importlib.util
import os
import threading
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from fetchly.crawler.assignment import HELD_HOST, Assignment
from fetchly.crawler.browser_process import PAGES_PER_BROWSER, BrowserProcess
from fetchly.crawler.browser_thread import BrowserThread
from fetchly.crawler.chromium import BrowserMissing, find_chromium
from fetchly.crawler.http import FetchPolicy, MayFollow
from fetchly.crawler.interaction import Interaction
from fetchly.crawler.storage_state import StorageState
from fetchly.crawler.urls import endpoint_of, parse_url
from fetchly.egress import EgressGate
from fetchly.errors import ConfigurationError
from fetchly.goods import Page

TABS = 4
"""Pages side by side in one browser."""


class BrowserRenderer:
    """Renders pages in one Chromium of its own. Safe to share between threads; works inside a running event loop (it
    blocks), in notebooks, and after a fork.

    The browser is launched with the first page (about a second) and replaced now and then; each page gets a context of
    its own, which is gone with it. Every connection goes through the egress gate. Nothing is left behind by `close`,
    by the end of the program, or by a signal that ends it.
    """

    def __init__(
        self,
        policy: FetchPolicy | None = None,
        *,
        gate: EgressGate | None = None,
        browser_path: str | None = None,
        tabs: int = TABS,
        pages_per_browser: int = PAGES_PER_BROWSER,
        interaction: Interaction | None = None,
        storage_state: StorageState | None = None,
    ) -> None:
        self.policy = policy if policy is not None else FetchPolicy()
        self._gate = gate if gate is not None else EgressGate(allow_private=self.policy.allow_private)
        self._browser_path = browser_path
        self._tabs = tabs
        self._pages_per_browser = pages_per_browser
        self._interaction = interaction if interaction is not None else Interaction()
        self._storage_state = storage_state
        self._lock = threading.Lock()
        self._closed = False
        self._thread: BrowserThread | None = None
        self._finalizer: weakref.finalize[Any, Any] | None = None

    def __enter__(self) -> BrowserRenderer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def check(self) -> None:
        """Raise BrowserMissing if there is nothing to render with; starts nothing."""
        if importlib.util.find_spec("playwright") is None:
            raise BrowserMissing(
                "playwright is not installed, which drives the browser", hint="pip install 'fetchly[browser]'"
            )
        find_chromium(self._browser_path)

    def render(
        self,
        url: str,
        *,
        timeout_s: float | None = None,
        should_stop: Callable[[], bool] | None = None,
        may_follow: MayFollow | None = None,
    ) -> Page:
        """Visit an address. `timeout_s` replaces the policy's; starting the browser, and what is done on the page
        (`interaction`, which has a time of its own), do not count. `may_follow` is
        shown every other address that the tab is led to, by redirect, script or `meta`, before it is asked for: what
        it raises ends the visit. It is called in the browser's thread, and must answer at once.

        A page that does not come to rest is read after half of the time, with a warning. An answer that is no HTML is
        returned as its bytes (`rendered` False).

        Raises PolicyRefused (nothing was sent there), StatusError for 4xx and 5xx, DocumentError (DOCUMENT_NOT_HTML)
        for a PDF or a download, BrowserMissing, Interrupted once `should_stop` answers True, and FetchError otherwise.
        """
        parsed = parse_url(url)
        self._gate.check_endpoint(endpoint_of(parsed), url=str(parsed))
        return self._visit(str(parsed), None, timeout_s, should_stop, may_follow)

    def render_html(
        self,
        page: Page,
        *,
        timeout_s: float | None = None,
        should_stop: Callable[[], bool] | None = None,
        may_follow: MayFollow | None = None,
    ) -> Page:
        """Let a browser run the scripts of a page that is already here, under its own address and headers.

        Its status and address stand in the result as they were, unless its scripts lead elsewhere. A page without an
        address of the web (a file, standard input) is shown under one where nothing else is. `charset` None is UTF-8.
        """
        named = page.url is not None and urlsplit(page.url).scheme in ("http", "https")
        url = page.url if named and page.url is not None else f"http://{HELD_HOST}/"
        return self._visit(url, page, timeout_s, should_stop, may_follow)

    def set_tabs(self, count: int) -> None:
        """From now on at most so many pages side by side, from any thread. Those that are open stay to their end.

        0: no page begins until there is a larger number, and a browser without pages is ended, which gives its memory
        back. A page that waits spends none of its time.
        """
        if count < 0:
            raise ValueError(f"tabs is {count}, not a number from 0 on")
        with self._lock:
            self._tabs = count
            if self._thread is not None and self._thread.owner == os.getpid():
                self._thread.set_tabs(count)

    def pids(self) -> tuple[int, ...]:
        """The processes that rendering takes now (Playwright's driver, Chromium's), from any thread; () for none."""
        with self._lock:
            thread = self._thread
        return thread.pids() if thread is not None and thread.owner == os.getpid() else ()

    def close(self) -> None:
        """End the browser and its thread. Idempotent; a closed renderer refuses further work."""
        with self._lock:
            self._closed = True
            finalizer, self._finalizer, self._thread = self._finalizer, None, None
        if finalizer is not None:
            finalizer()

    def _visit(
        self,
        url: str,
        held: Page | None,
        timeout_s: float | None,
        should_stop: Callable[[], bool] | None,
        may_follow: MayFollow | None,
    ) -> Page:
        seconds = self.policy.timeout_s if timeout_s is None else timeout_s
        assignment = Assignment(url, self.policy, seconds, held, self._interaction)
        return self._opened().visit(assignment, should_stop, may_follow)

    def _opened(self) -> BrowserThread:
        with self._lock:
            if self._closed:
                raise ConfigurationError("the browser is closed", hint="open a new one")
            if self._thread is None or self._thread.owner != os.getpid():  # after a fork it is the parent's
                if self._finalizer is not None:
                    self._finalizer.detach()
                gate, path, pages, state = self._gate, self._browser_path, self._pages_per_browser, self._storage_state
                self._thread = BrowserThread(lambda: BrowserProcess(gate, path, pages, state), self._tabs)
                # For a caller who forgets `close`: at the end of the program, or when nobody holds this object.
                self._finalizer = weakref.finalize(self, self._thread.close)
            return self._thread
