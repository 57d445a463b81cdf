"""A browser and an address in (or a page already fetched), the Page that the browser made of it out."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fetchly.crawler.answers import content_type_of, status_error
from fetchly.crawler.assignment import HELD_HOST, Assignment
from fetchly.crawler.browser_process import OpenTab, is_browser_error, says_gone
from fetchly.crawler.page_scripts import PageScripts
from fetchly.crawler.performer import Performer
from fetchly.crawler.proxy import EgressProxy
from fetchly.crawler.scroller import Scroller
from fetchly.crawler.traffic import Traffic
from fetchly.crawler.trail import Trail, media_type_of, no_page
from fetchly.crawler.typed_text import TypedText
from fetchly.errors import FetchError, FetchlyError
from fetchly.goods import Page

if TYPE_CHECKING:
    from playwright.async_api import Download, Response
    from playwright.async_api import Page as Tab

REST_S = 0.5
"""How long network and page must be still before the page counts as complete."""
SHARE = 0.5
"""Of the time for a page: after that, what is there is taken. The rest is for getting it out of a page that resists."""
EMPTY_REST_S = 3.0  # a page that shows no text yet has something left to do
RESTLESS_S = 2.0  # a clock or a carousel: the page never rests, but nothing more arrives
CHATTER_S = 3.0  # the network never rests, but nothing more is shown
MIN_ANSWER_S = 0.5  # and a quarter of the time left: a page whose scripts leave no time for a question is stopped
MAX_CHANGES = 10  # documents that go while they are read
ACTION_REST_S = 10.0  # a page gets so long to come to rest after an action
POLL_S = 0.1

_NO_CONTENT = frozenset((204, 205))


class Visit:
    """One page in a tab that is only for it."""

    def __init__(self, tab: OpenTab, proxy: EgressProxy, assignment: Assignment, typed: TypedText) -> None:
        self._open = tab
        self._typed = typed
        self._tab = tab.page
        self._proxy = proxy
        self._assignment = assignment
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._deadline = self._began + assignment.seconds
        self._trail = Trail(proxy, assignment.url)
        self._traffic = Traffic(tab, self._trail, assignment, self._warn)
        self._crashed = False
        self._windows = 0
        self._warnings: list[str] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._scripts: PageScripts

    async def page(self) -> Page:
        """Load, wait for rest, do what is to be done there, read. Raises FetchError and its kinds (ActionFailed),
        DocumentError for what is no page."""
        try:
            async with asyncio.timeout_at(self._deadline) as timeout:
                await self._watch()
                await self._load()
                rests = await self._settle(self._began + self._assignment.seconds * SHARE)
                if self._is_at_a_page():
                    await self._interact(timeout, rests)
                return await self._read()
        except TimeoutError:
            raise self._late() from None
        except FetchlyError:
            raise
        except Exception as error:
            if not (is_browser_error(error) or self._gone()):
                raise
            raise self._broken(error) from error
        finally:
            for task in self._tasks:
                task.cancel()

    # ---- what is watched

    async def _watch(self) -> None:
        context = self._open.context
        self._tab.on("dialog", lambda dialog: self._do(dialog.dismiss()))
        self._tab.on("crash", self._on_crash)
        self._tab.on("download", self._on_download)
        context.on("page", self._on_window)
        self._trail.follow(self._tab)
        await self._traffic.watch()
        await context.add_init_script(_NO_DIALOGS)
        await context.add_init_script(_NO_CLOSED_ROOTS)
        self._scripts = PageScripts(await context.new_cdp_session(self._tab), self._gone)
        self._tab.on("framenavigated", lambda frame: self._scripts.forget())

    def _do(self, work: Coroutine[Any, Any, Any]) -> None:
        async def quietly() -> None:
            with contextlib.suppress(Exception):
                await work

        task = self._loop.create_task(quietly())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _on_crash(self, tab: object) -> None:
        self._crashed = True

    def _on_window(self, window: Tab) -> None:
        self._windows += 1
        self._do(window.close())

    def _on_download(self, download: Download) -> None:
        self._warn(f"a download was refused: {self._typed.address(download.url)[:200]}")
        self._do(download.cancel())

    def _warn(self, text: str) -> None:
        if text not in self._warnings:
            self._warnings.append(text)

    # ---- the steps

    async def _load(self) -> None:
        try:
            await self._tab.goto(self._assignment.url, wait_until="commit", timeout=0)
        except Exception as error:
            if not is_browser_error(error) or self._gone() or says_gone(error):
                raise
            answer = self._trail.last
            if answer is None or answer.status in range(300, 400):
                raise self._trail.not_loaded(str(error)) from error
            if answer.status >= 400 or answer.status in _NO_CONTENT:
                self._trail.shown = answer  # an answer without a body shows nothing
            elif "Download is starting" in str(error) or "ERR_ABORTED" in str(error):
                raise no_page(answer) from error
            else:
                raise self._trail.not_loaded(str(error)) from error

    async def _settle(self, until: float, since: float = 0.0) -> bool:
        """Wait for rest until a moment, or until there is no page to wait for; whether that came. Rest counts from
        `since` on."""
        while self._loop.time() < until:
            answer = self._trail.shown
            if self._crashed or (answer is not None and not self._is_page(answer)) or await self._is_at_rest(since):
                return True
            await asyncio.sleep(POLL_S)
        if not since:
            self._warn(f"the page did not come to rest within {until - self._began:g} s: read as it was then")
        return False

    async def _is_at_rest(self, since: float) -> bool:
        state = await self._ask("rest")
        if not isinstance(state, dict) or not state["loaded"]:
            return False
        if state["still"] and not self._traffic.is_busy:
            return True
        passed_s = self._loop.time() - since
        page_s = min(passed_s, float(state["quiet"]) / 1000)
        network_s = min(passed_s, self._traffic.quiet_s)
        if not state["text"]:
            return min(page_s, network_s) >= EMPTY_REST_S
        if network_s >= REST_S and page_s >= REST_S:
            return True
        return network_s >= RESTLESS_S or page_s >= CHATTER_S

    async def _interact(self, timeout: asyncio.Timeout, rests: bool) -> None:
        """What is done on the page spends none of the time for loading and reading it. One that does not come to rest
        would be scrolled in vain."""
        interaction = self._assignment.interaction
        began = self._loop.time()
        self._deadline += interaction.seconds
        timeout.reschedule(self._deadline)
        if interaction.actions:
            rest, words = self._rest_after_action, self._typed.words
            performer = Performer(self._tab, self._scripts, rest, self._is_at_a_page, self._warn, words)
            await performer.perform(interaction.actions)
        if interaction.scrolling.is_on and rests and self._is_at_a_page():
            await Scroller(interaction.scrolling, self._scripts, self._traffic, self._warn).scroll()
        self._deadline += self._loop.time() - began - interaction.seconds
        timeout.reschedule(self._deadline)

    async def _rest_after_action(self) -> None:
        now = self._loop.time()
        await self._settle(now + ACTION_REST_S, since=now)

    def _is_at_a_page(self) -> bool:
        answer = self._trail.shown
        has_failed = self._crashed or self._tab.url.startswith("chrome-error:")
        return answer is not None and not has_failed and self._is_page(answer)

    async def _read(self) -> Page:
        answer = self._trail.shown
        if self._crashed:
            raise self._crash()
        if answer is None or self._tab.url.startswith("chrome-error:"):
            raise self._trail.not_loaded()
        if self._is_page(answer):
            return self._made(answer, await self._html())
        refused = self._trail.refusal(answer.url) if self._proxy.mark in answer.headers else None
        if refused is not None:
            raise refused
        if answer.status not in range(200, 300):
            way, wait = self._trail.before(answer), answer.headers.get("retry-after")
            raise status_error(answer.url, answer.status, answer.status_text, wait, way)
        if media_type_of(answer) == "application/pdf":
            raise no_page(answer)  # the browser gives its viewer for it, not the file
        return self._bytes(answer, b"" if answer.status in _NO_CONTENT else await answer.body())

    async def _html(self) -> str:
        """The document as HTML. A page that gives no time for the question, or changes under it again and again, is
        stopped for it."""
        for _ in range(MAX_CHANGES):
            asked = self._loop.time()
            html = await self._ask("flatten")
            if html:
                return str(html)
            if html is None and self._loop.time() - asked >= MIN_ANSWER_S:
                break
            await asyncio.sleep(POLL_S)  # a document that has just begun, or has gone: it has no element yet
        while True:
            self._warn("the page's scripts do not come to an end: they were stopped")
            await self._scripts.stop()
            html = await self._ask("flatten")
            if isinstance(html, str):
                return html

    async def _ask(self, script: str) -> Any:
        within_s = max(MIN_ANSWER_S, (self._deadline - self._loop.time()) / 4)
        return await self._scripts.ask(script, within_s=within_s)

    # ---- what it comes to

    def _made(self, answer: Response, html: str) -> Page:
        body = html.encode("utf-8", "replace")
        self._check_size(body, answer.url)
        page = self._assignment.held
        if page is None or answer is not self._trail.first:
            page = replace(self._bytes(answer, b""), url=self._tab.url)
        elif urlsplit(self._assignment.url).hostname != HELD_HOST:  # a page without an address of the web keeps its own
            page = replace(page, url=self._tab.url)  # scripts may rename it
        warnings = (*page.warnings, *self._warnings, *self._closed_windows())
        return replace(page, body=body, media_type="text/html", charset="utf-8", rendered=True, warnings=warnings)

    def _closed_windows(self) -> list[str]:
        asked = list(dict.fromkeys(self._traffic.windows))
        if not self._windows and not asked:
            return []
        led = f", for {self._typed.address(asked[0])[:200]}" if asked else ""
        return [f"the page opened {max(self._windows, len(asked))} windows, which were closed{led}"]

    def _bytes(self, answer: Response, body: bytes) -> Page:
        """An answer as it came: JSON, plain text, a feed, an image."""
        self._check_size(body, answer.url)
        held = self._assignment.held
        said = content_type_of([answer.headers.get("content-type", "")])
        return Page(
            requested=self._assignment.url if held is None else held.requested,
            url=answer.url,
            status=answer.status,
            headers=tuple(answer.headers.items()),
            body=body,
            media_type=said.media_type,
            charset=said.charset,
            redirects=(*(() if held is None else held.redirects), *self._trail.before(answer)),
        )

    def _is_page(self, answer: Response) -> bool:
        """Whether the browser shows an HTML page, and not an error, a file or nothing."""
        if self._assignment.held is not None and answer is self._trail.first:
            return True
        good = answer.status in range(200, 300) and answer.status not in _NO_CONTENT
        return good and media_type_of(answer) in (None, "text/html", "application/xhtml+xml")

    def _check_size(self, body: bytes, url: str) -> None:
        limit = self._assignment.policy.max_bytes
        if len(body) > limit:
            raise FetchError(f"the page is larger than {limit:,} bytes", url=url, code="BODY_TOO_LARGE")

    def _gone(self) -> bool:
        return self._crashed or not self._open.running.browser.is_connected()

    def _late(self) -> FetchError:
        return FetchError(
            f"the browser showed nothing within {self._assignment.seconds:g} s",
            url=self._assignment.url,
            code="TIMEOUT",
            hint="raise --timeout, or timeout under run of a pipeline",
            retryable=True,
        )

    def _crash(self) -> FetchError:
        return FetchError(
            "the page brought its browser tab down", url=self._assignment.url, code="BROWSER_CRASHED", retryable=True
        )

    def _broken(self, error: Exception) -> FetchError:
        if self._crashed:
            return self._crash()
        self._open.running.hung = True
        words = str(error).strip().splitlines()
        return FetchError(
            f"the browser went away: {words[0] if words else type(error).__name__}",
            url=self._assignment.url,
            code="BROWSER_CRASHED",
            retryable=True,
        )


# Answered at once: a page inside a dialog hears nothing else, and may open the next before it is asked to stop.
_NO_DIALOGS = "for (const [name, answer] of [['alert'], ['print'], ['confirm', false], ['prompt', null]]) " + (
    "window[name] = () => answer"
)
# What a closed shadow root shows is shown to readers, and to no script: every root is opened for ours.
_NO_CLOSED_ROOTS = "const { attachShadow } = Element.prototype; Element.prototype.attachShadow = function (init) { " + (
    "return attachShadow.call(this, init ? { ...init, mode: 'open' } : init) }"
)
