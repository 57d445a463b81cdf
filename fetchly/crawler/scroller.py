"""A tab that has come to rest in; the same tab with its growing lists loaded, and its recycling lists collected, out.

A list that grows loads more when its end comes into view. A list that recycles ("virtualized") shows a window of its
rows through few elements, whose text changes as it is scrolled: its rows are collected on the way, by their place in
the list, and take the place of the window when the page is read (lists.js).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from fetchly.crawler.page_scripts import PageScripts
from fetchly.crawler.scrolling import Scrolling
from fetchly.crawler.traffic import Traffic

TICK_MS = 50
"""Waits are counted by a timer in the page itself: on a busy machine what the page is about to do is late, too."""
END = 20  # ticks in which nothing must happen at the end of a page before it counts as its end
STEP = 2  # ticks that a page gets to notice that it was scrolled, and must then be still for
UNCALM = 60  # ticks until a clock or a carousel is no longer waited for
SLOW_S = 5.0  # a slow server at the end of a page, or a request that is never answered
ASK_S = 5.0
POLL_S = 0.05

_RECYCLES = "recycles"


@dataclass(frozen=True, slots=True)
class _Look:
    """What lists.js sees: whether every scroller is at its end; ticks since it was scrolled, and without a change; the
    rows of the longest list, whether one that is collected shows none yet, whether a list recycles its elements, and
    how much there is in all (it changes when something was added)."""

    at_end: bool
    waited: int
    quiet: int
    items: int
    blank: bool
    recycles: bool
    size: float


class Scroller:
    """Scrolls one page."""

    def __init__(self, bounds: Scrolling, scripts: PageScripts, traffic: Traffic, warn: Callable[[str], None]) -> None:
        self._bounds = bounds
        self._scripts = scripts
        self._traffic = traffic
        self._warn = warn
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + bounds.seconds
        self._steps = 0

    async def scroll(self) -> None:
        """Everything that the page has, within the bounds."""
        found = await self._ask({"do": "begin", "tick_ms": TICK_MS})
        if not isinstance(found, dict):
            return
        if not found["scrollers"] and not await self._scripts.listens_to_scrolling(within_s=ASK_S):
            return
        cut = await self._pass("grow")
        if cut == _RECYCLES:
            await self._ask({"do": "collect"})
            cut = await self._pass("collect")
        if cut:
            self._warn(f"the page goes on when it is scrolled: read as far as {cut} (--scroll sets the bounds)")

    async def _pass(self, manner: Literal["grow", "collect"]) -> str:
        """From where the page is to its end: "" there, else the bound that was met, or _RECYCLES."""
        while True:
            look = await self._step(manner)
            if look is None:
                return ""  # it has gone on to another document, or gives no answer: it is read as it is
            if look.recycles and manner == "grow":
                return _RECYCLES
            if look.at_end:
                look = await self._more(look)
                if look is None:
                    return ""
            if look.items >= self._bounds.items:
                return f"{self._bounds.items:,} items"
            if self._steps >= self._bounds.steps:
                return f"{self._bounds.steps:,} steps"
            if self._loop.time() >= self._deadline:
                return f"{self._bounds.seconds:g} s"

    async def _step(self, manner: str) -> _Look | None:
        self._steps += 1
        if await self._ask({"do": "step", "manner": manner}) is None:
            return None
        while (look := await self._look()) is not None:
            is_calm = look.quiet >= STEP and not look.blank and not self._traffic.is_busy
            if is_calm or look.waited >= UNCALM or self._loop.time() >= self._deadline:
                return await self._look("keep") if manner == "collect" else look
            await asyncio.sleep(POLL_S)
        return None

    async def _more(self, before: _Look) -> _Look | None:
        """At the end: what there is once more has come; None once nothing has for long enough."""
        began = heard = self._loop.time()
        base = before.waited
        while (look := await self._look()) is not None:
            if look.size != before.size or look.recycles != before.recycles or not look.at_end:
                return look
            now = self._loop.time()
            if self._traffic.is_busy or self._traffic.changed > heard:
                heard, base = now, look.waited  # what came may be shown in a moment
                if now >= began + SLOW_S:
                    return None
            elif look.waited >= base + END or now >= self._deadline:
                return None
            await asyncio.sleep(POLL_S)
        return None

    async def _look(self, what: str = "look") -> _Look | None:
        found = await self._ask({"do": what})
        if not isinstance(found, dict):
            return None
        names = ("at_end", "waited", "quiet", "items", "blank", "recycles", "size")
        return _Look(*(found[name] for name in names))

    async def _ask(self, what: dict[str, Any]) -> Any:
        return await self._scripts.ask("lists", what, within_s=ASK_S)
