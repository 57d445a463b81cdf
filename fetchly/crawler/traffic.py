"""What a tab asks of the network in; what is let through, what is answered here, and how still it has become out."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fetchly.crawler.assignment import HELD_HOST, Assignment
from fetchly.crawler.browser_process import OpenTab
from fetchly.crawler.trail import Trail

if TYPE_CHECKING:
    from playwright.async_api import Request, Route

_PIXEL = bytes.fromhex("47494638396101000100800000000000ffffff21f90401000000002c00000000010001000002024401003b")
_NEEDLESS = frozenset(("media", "font", "texttrack", "ping", "manifest", "cspviolationreport", "other"))
_CHATTY = frozenset(("eventsource", "websocket"))  # open as long as the page is
_BODY_HEADERS = frozenset(("content-length", "content-encoding", "transfer-encoding", "connection", "content-type"))


class Traffic:
    """The requests of one tab. Connections themselves go through the proxy, which refuses by policy."""

    def __init__(self, tab: OpenTab, trail: Trail, assignment: Assignment, warn: Callable[[str], None]) -> None:
        self.windows: list[str] = []  # addresses that windows opened by the page asked for
        self._context = tab.context
        self._tab = tab.page
        self._trail = trail
        self._assignment = assignment
        self._warn = warn
        self._loop = asyncio.get_running_loop()
        self._open: set[Any] = set()
        self._changed = self._loop.time()
        self._navigations = 0
        self._held_given = False

    async def watch(self) -> None:
        """Take part in every request from now on."""
        self._context.on("request", self._on_request)
        self._context.on("requestfinished", self._on_done)
        self._context.on("requestfailed", self._on_done)
        await self._context.route("**/*", self._route)

    @property
    def is_busy(self) -> bool:
        """Whether an answer is still to come."""
        return bool(self._open)

    @property
    def quiet_s(self) -> float:
        """Seconds since the last request or answer; 0 while one is under way."""
        return 0.0 if self._open else self._loop.time() - self._changed

    @property
    def changed(self) -> float:
        """When a request was last made or answered, in the loop's time."""
        return self._changed

    async def _route(self, route: Route) -> None:
        with contextlib.suppress(Exception):  # the page has gone on: nobody waits for this request any more
            request = route.request
            if self._is_of_another_window(request):
                self.windows.append(request.url)
                await route.abort("blockedbyclient")
            elif request.resource_type == "image":
                # No bytes of it are needed, but a page may take an error for a reason to hide what stands beside it.
                await route.fulfill(status=200, content_type="image/gif", body=_PIXEL)
            elif request.resource_type in _NEEDLESS or not request.url.startswith(("http:", "https:")):
                await route.abort("blockedbyclient")
            elif self._trail.is_main(request):
                await self._navigate(route)
            elif urlsplit(request.url).hostname == HELD_HOST:
                await route.abort("namenotresolved")
            else:
                await route.continue_()

    async def _navigate(self, route: Route) -> None:
        held = self._assignment.held
        if held is not None and not self._held_given:
            self._held_given = True
            headers = {name: value for name, value in _joined(held.headers).items() if name not in _BODY_HEADERS}
            headers["content-type"] = f"{held.media_type or 'text/html'}; charset={held.charset or 'utf-8'}"
            await route.fulfill(status=held.status or 200, headers=headers, body=held.body)
            return
        self._navigations += 1
        if self._navigations > self._assignment.policy.max_redirects + 1:
            if self._navigations == self._assignment.policy.max_redirects + 2:
                self._warn("the page goes on to another address again and again: read as it was then")
            await route.abort("aborted")  # the document of the last navigation stays
        else:
            await route.continue_()

    def _is_of_another_window(self, request: Request) -> bool:
        try:
            return request.frame.page != self._tab
        except Exception:  # playwright: the first request of a window that was just opened has no frame yet
            return request.is_navigation_request()

    def _on_request(self, request: Request) -> None:
        if request.resource_type not in _CHATTY:
            self._open.add(request)
            self._changed = self._loop.time()

    def _on_done(self, request: Request) -> None:
        self._open.discard(request)
        self._changed = self._loop.time()


def _joined(headers: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Headers by name; the browser's interface takes several of one name as lines."""
    joined: dict[str, str] = {}
    for name, value in headers:
        joined[name] = f"{joined[name]}\n{value}" if name in joined else value
    return joined
