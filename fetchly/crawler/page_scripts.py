"""The name of one of our scripts and its argument in; what it finds in a page out."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from fetchly.crawler.browser_process import bounded, is_browser_error

if TYPE_CHECKING:
    from playwright.async_api import CDPSession

_SHARED = {"flatten": ("tree", "consent"), "uncover": ("tree", "consent"), "lists": ("tree",), "scroll": ("tree",)}
_SCROLL_EVENTS = frozenset(("scroll", "scrollend", "wheel", "touchmove"))


class PageScripts:
    """Evaluates our scripts in a world of their own, where the page's scripts have changed nothing.

    The world lives as long as the document: `fetchly` in a script is what the earlier ones left there.
    """

    def __init__(self, cdp: CDPSession, is_gone: Callable[[], bool]) -> None:
        self._cdp = cdp
        self._is_gone = is_gone
        self._world: int | None = None

    async def ask(self, script: str, argument: Any = None, *, within_s: float) -> Any:
        """What a script answers; None where the page gives no answer in time. Raises the browser's error where the
        page, or the browser, has gone."""
        try:
            async with asyncio.timeout(within_s):
                return await self._evaluated(_call(script, argument))
        except TimeoutError:
            return None
        except Exception as error:
            if not is_browser_error(error) or self._is_gone():
                raise
            return None  # the page has gone on to another document meanwhile

    def forget(self) -> None:
        """The tab shows another document: its world is another."""
        self._world = None

    async def _evaluated(self, expression: str) -> Any:
        known, self._world = self._world, None  # until it has answered
        try:
            world = known if known is not None else await self._made_world()
            where = {"contextId": world, "returnByValue": True, "awaitPromise": True}
            done = await self._cdp.send("Runtime.evaluate", {"expression": expression, **where})
        except Exception as error:
            if known is None or not is_browser_error(error) or self._is_gone():
                raise
            return await self._evaluated(expression)
        self._world = world
        return done["result"].get("value")

    async def _made_world(self) -> int:
        tree = await self._cdp.send("Page.getFrameTree")
        frame = {"frameId": tree["frameTree"]["frame"]["id"], "worldName": "fetchly"}
        return int((await self._cdp.send("Page.createIsolatedWorld", frame))["executionContextId"])

    async def listens_to_scrolling(self, *, within_s: float) -> bool:
        """Whether the page's scripts hear of it when its window is scrolled."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                for name in ("window", "document"):
                    found = await self._cdp.send("Runtime.evaluate", {"expression": name})
                    handle = {"objectId": found["result"]["objectId"]}
                    heard = await self._cdp.send("DOMDebugger.getEventListeners", handle)
                    await self._cdp.send("Runtime.releaseObject", handle)
                    if any(listener["type"] in _SCROLL_EVENTS for listener in heard["listeners"]):
                        return True
        return False

    async def stop(self) -> None:
        """No more scripts of the page, no more loading. These commands reach a page that is busy."""
        commands = [
            self._cdp.send("Emulation.setScriptExecutionDisabled", {"value": True}),
            self._cdp.send("Runtime.terminateExecution"),
            self._cdp.send("Page.stopLoading"),
        ]
        with contextlib.suppress(TimeoutError):
            await bounded(asyncio.gather(*commands, return_exceptions=True), 1.0)


def _call(script: str, argument: Any) -> str:
    """One expression. What a script shares with others is defined in its world first, once a document."""
    shared = "\n".join(map(_source, _SHARED.get(script, ())))
    called = f"(\n{_source(script)}\n)({json.dumps(argument)})"
    return f"(() => {{ const fetchly = globalThis.__fetchly ??= {{}};\n{shared}\nreturn {called} }})()"


@cache
def _source(name: str) -> str:
    return resources.files("fetchly.crawler").joinpath(f"{name}.js").read_text("utf-8")
