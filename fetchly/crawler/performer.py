"""A tab and the actions that a user listed in; the tab as it is after them out, or an error that names the action.

Elements are looked for in the page and its open shadow roots, not in its frames. Nothing is done to a consent overlay:
one that stands before the page is hidden first, which gives no consent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from fetchly.crawler.actions import (
    Action,
    Click,
    Fill,
    Gone,
    KeyIn,
    Press,
    Repeat,
    Said,
    Scroll,
    Select,
    Shown,
    Step,
    Wait,
    named,
)
from fetchly.crawler.browser_process import bounded, is_browser_error
from fetchly.crawler.interaction import ACTIONS_S
from fetchly.crawler.page_scripts import PageScripts
from fetchly.errors import FetchError

if TYPE_CHECKING:
    from playwright.async_api import Locator, Page

SPARE_S = 1.0  # beyond an action's own time, for the browser to say that it was not enough
LOOK_S = 2.0
MAX_SEEN = 120  # characters of what the browser says


class ActionFailed(FetchError):
    """What an action needs is not there, or does not take it."""

    code = "ACTION_FAILED"


class _Missing(Exception):
    """No element that an action could act on. Says what was seen."""


class Performer:
    """Performs actions in order. `rest` waits until the page has taken one, `is_page` says whether there still is a
    page; `words` hides what was typed in what a page or a browser says."""

    def __init__(
        self,
        tab: Page,
        scripts: PageScripts,
        rest: Callable[[], Awaitable[None]],
        is_page: Callable[[], bool],
        warn: Callable[[str], None],
        words: Callable[[str], str],
    ) -> None:
        self._tab = tab
        self._scripts = scripts
        self._rest = rest
        self._is_page = is_page
        self._warn = warn
        self._words = words
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + ACTIONS_S

    async def perform(self, actions: Sequence[Action]) -> None:
        """All of them, or up to one that leads to what is no page. Raises ActionFailed."""
        for number, action in enumerate(actions, 1):
            if not self._is_page():
                return
            if isinstance(action, Repeat):
                await self._repeat(action, str(number))
            else:
                await self._one(action, str(number))

    async def _repeat(self, action: Repeat, number: str) -> None:
        for _ in range(action.repeat):
            if action.until_gone is not None and not await self._is_visible(action.until_gone, number, action):
                return
            for inner, step in enumerate(action.actions, 1):
                if not self._is_page():
                    return
                done = await self._one(step, f"{number}.{inner}")
                if not done and action.until_gone is None:
                    return
        if action.until_gone is not None and await self._is_visible(action.until_gone, number, action):
            rounds = f"{action.repeat:,} rounds"
            self._warn(f"action {number}: {action.until_gone!r} is still there after {rounds}: read as it was then")

    async def _one(self, action: Step, number: str) -> bool:
        """Whether it was done; False for an optional one without its element."""
        left = self._deadline - self._loop.time()
        if left <= 0:
            raise self._failed(action, number, f"the actions took longer than {ACTIONS_S:g} s together")
        try:
            await self._do(action, min(action.timeout, left))
        except _Missing as missing:
            if action.optional:
                return False
            raise self._failed(action, number, str(missing), "optional: true, where it may be missing") from None
        except TimeoutError:
            raise self._failed(action, number, "the browser did not do it in time") from None
        except Exception as error:
            if not is_browser_error(error) or self._tab.is_closed():
                raise
            raise self._failed(action, number, self._said(error)) from None
        await self._rest()
        return True

    async def _do(self, action: Step, seconds: float) -> None:
        if isinstance(action, Wait):
            await self._wait(action, seconds)
        elif isinstance(action, Scroll):
            await self._scroll(action, seconds)
        elif isinstance(action, Click):
            await self._scripts.ask("uncover", within_s=LOOK_S)
            await self._on(action.click, seconds, lambda found, ms: found.click(timeout=ms))
        elif isinstance(action, Fill):
            text = action.fill.text
            await self._on(action.fill.selector, seconds, lambda found, ms: found.fill(text, timeout=ms))
        elif isinstance(action, Select):
            option = action.select.option
            await self._on(action.select.selector, seconds, lambda found, ms: found.select_option(option, timeout=ms))
        else:
            assert isinstance(action, Press)
            if isinstance(action.press, KeyIn):
                key = action.press.key
                await self._on(action.press.selector, seconds, lambda found, ms: found.press(key, timeout=ms))
            else:
                await bounded(self._tab.keyboard.press(action.press), seconds)

    async def _on(self, selector: str, seconds: float, do: Callable[[Locator, float], Awaitable[Any]]) -> None:
        """Wait for an element, and do something to it, all in the action's time."""
        end = self._loop.time() + seconds
        found = await self._found(selector, seconds)
        await bounded(do(found, max(1.0, 1000 * (end - self._loop.time()))), seconds + SPARE_S)

    async def _found(self, selector: str, seconds: float) -> Locator:
        found = self._visible(selector)
        try:
            await bounded(found.wait_for(state="visible", timeout=1000 * seconds), seconds + SPARE_S)
        except Exception as error:
            if not _is_timeout(error):
                raise
            raise _Missing(await self._seen(selector)) from None
        return found

    async def _wait(self, action: Wait, seconds: float) -> None:
        if isinstance(action.wait, Shown):
            await self._found(action.wait.selector, seconds)
        elif isinstance(action.wait, Said):
            found = self._tab.get_by_text(action.wait.text).locator("visible=true").first
            try:
                await bounded(found.wait_for(timeout=1000 * seconds), seconds + SPARE_S)
            except Exception as error:
                if not _is_timeout(error):
                    raise
                raise _Missing(f"the text did not show within {seconds:g} s; {await self._place()}") from None
        elif isinstance(action.wait, Gone):
            found = self._visible(action.wait.gone)
            try:
                await bounded(found.wait_for(state="hidden", timeout=1000 * seconds), seconds + SPARE_S)
            except Exception as error:
                if not _is_timeout(error):
                    raise
                raise _Missing(f"it was still there after {seconds:g} s; {await self._place()}") from None
        else:
            await asyncio.sleep(min(action.wait, max(0.0, self._deadline - self._loop.time())))

    async def _scroll(self, action: Scroll, seconds: float) -> None:
        if action.scroll in ("bottom", "top") or isinstance(action.scroll, int):
            if await self._scripts.ask("scroll", action.scroll, within_s=seconds) is None:
                raise TimeoutError
        else:
            await self._on(str(action.scroll), seconds, lambda found, ms: found.scroll_into_view_if_needed(timeout=ms))

    async def _is_visible(self, selector: str, number: str, action: Repeat) -> bool:
        try:
            return await bounded(self._visible(selector).is_visible(), LOOK_S)
        except TimeoutError:
            return True
        except Exception as error:
            if not is_browser_error(error) or self._tab.is_closed():
                raise
            raise self._failed(action, number, self._said(error)) from None

    def _visible(self, selector: str) -> Locator:
        return self._tab.locator(selector).locator("visible=true").first

    async def _seen(self, selector: str) -> str:
        matching = visible = 0
        try:
            found = self._tab.locator(selector)
            matching = await bounded(found.count(), LOOK_S)
            visible = await bounded(found.locator("visible=true").count(), LOOK_S)
        except Exception as error:
            if not isinstance(error, TimeoutError) and not is_browser_error(error):
                raise
        if visible:
            said = "it came too late"
        elif matching:
            said = f"{matching:,} match it, and none is visible"
        else:
            said = "no element matches it"
        return f"{said}; {await self._place()}"

    async def _place(self) -> str:
        title = ""
        try:
            title = await bounded(self._tab.title(), LOOK_S)
        except Exception as error:
            if not isinstance(error, TimeoutError) and not is_browser_error(error):
                raise
        return f"the page then was {self._words(' '.join(title.split()))[:MAX_SEEN]!r} at {self._tab.url}"

    def _failed(self, action: Action, number: str, message: str, hint: str | None = None) -> ActionFailed:
        return ActionFailed(f"action {number} ({named(action)}): {message}", url=self._tab.url, hint=hint)

    def _said(self, error: Exception) -> str:
        """What the browser says, in a line. Its log of the call, which repeats what is typed, is left out but for what
        keeps the element from taking it."""
        lines = [" ".join(line.split()).removeprefix("- ") for line in str(error).splitlines() if line.strip()]
        for sign in ("intercepts pointer events", "element is not", "did not find some options"):
            found = next((line for line in lines[1:] if sign in line), None)
            if found is not None:
                return f"{_OBSTACLES.get(sign, 'it does not take it')}: {self._words(found)[: 2 * MAX_SEEN]}"
        return self._words(lines[0] if lines else type(error).__name__)[: 2 * MAX_SEEN]


def _is_timeout(error: Exception) -> bool:
    from playwright.async_api import TimeoutError as PlaywrightTimeout

    return isinstance(error, TimeoutError | PlaywrightTimeout)


_OBSTACLES = {"intercepts pointer events": "another element covers it"}
