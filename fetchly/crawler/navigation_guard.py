"""A tab in; the word of its visitor asked before it goes on to another address, by redirect, script or `meta`.

Playwright's routes see a navigation, but not where a server redirects it to; the browser itself stops at each step
(Chrome DevTools Protocol, Fetch.requestPaused). What is inside a page (frames, what scripts fetch) is the gate's alone.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any
from urllib.parse import urldefrag

from fetchly.crawler.http import MayFollow
from fetchly.goods import Page

if TYPE_CHECKING:
    from playwright.async_api import CDPSession

    from fetchly.crawler.browser_process import OpenTab


class NavigationGuard:
    """Shows `may_follow` where a tab is led from `url`; what it raises ends the visit, before anything is sent there.

    It is called in the browser's event loop, and must answer at once.
    """

    def __init__(self, url: str, may_follow: MayFollow) -> None:
        self._start = urldefrag(url).url
        self._may_follow = may_follow
        self._refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._cdp: CDPSession

    async def watch(self, tab: OpenTab) -> None:
        """Stop at every navigation of the tab from now on."""
        self._cdp = await tab.context.new_cdp_session(tab.page)
        tree = await self._cdp.send("Page.getFrameTree")
        self._frame = tree["frameTree"]["frame"]["id"]
        self._cdp.on("Fetch.requestPaused", self._on_paused)
        patterns = [{"resourceType": "Document", "requestStage": "Request"}]
        await self._cdp.send("Fetch.enable", {"patterns": patterns})

    async def page(self, visit: Coroutine[Any, Any, Page]) -> Page:
        """What a visit comes to, or, as soon as there is one, the refusal."""
        task = asyncio.ensure_future(visit)
        try:
            await asyncio.wait((task, self._refused), return_when=asyncio.FIRST_COMPLETED)
            if self._refused.done():
                self._refused.result()
            return task.result()
        finally:
            task.cancel()
            await asyncio.wait((task,))
            self._refused.cancel()

    def _on_paused(self, event: dict[str, Any]) -> None:
        url = event["request"]["url"]
        is_led = event["frameId"] == self._frame and url != self._start and url.startswith(("http:", "https:"))
        if is_led and not self._is_allowed(url):
            # The document that is shown stays; the visit is over.
            self._answer("Fetch.failRequest", {"requestId": event["requestId"], "errorReason": "Aborted"})
        else:
            self._answer("Fetch.continueRequest", {"requestId": event["requestId"]})

    def _is_allowed(self, url: str) -> bool:
        try:
            self._may_follow(url)
        except Exception as error:
            if not self._refused.done():
                self._refused.set_exception(error)
            return False
        return True

    def _answer(self, command: str, arguments: dict[str, Any]) -> None:
        async def quietly() -> None:
            with contextlib.suppress(Exception):  # the page has gone on, or is gone
                await self._cdp.send(command, arguments)

        task = asyncio.ensure_future(quietly())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
