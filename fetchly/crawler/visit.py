"""A browser and an address in (or a page already fetched), the Page that the browser made of it out."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from importlib import resources
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fetchly.crawler.answers import content_type_of, status_error
from fetchly.crawler.browser_process import OpenTab, bounded, is_browser_error
from fetchly.crawler.http import FetchPolicy
from fetchly.crawler.proxy import EgressProxy
from fetchly.crawler.trail import Trail, media_type_of, no_page
from fetchly.errors import FetchError, FetchlyError
from fetchly.goods import Page

if TYPE_CHECKING:
    from playwright.async_api import CDPSession, Request, Response, Route

REST_S = 0.5
"""How long network and page must be still before the page counts as complete."""
SHARE = 0.5
"""Of the time for a page: after that, what is there is taken. The rest is for getting it out of a page that resists."""
EMPTY_REST_S = 3.0  # a page that shows no text yet has something left to do
RESTLESS_S = 2.0  # a clock or a carousel: the page never rests, but nothing more arrives
CHATTER_S = 3.0  # the network never rests, but nothing more is shown
MIN_ANSWER_S = 0.5  # and a quarter of the time left: a page whose scripts leave no time for a question is stopped
POLL_S = 0.1

HELD_HOST = "page.invalid"  # RFC 2606: where a page without an address is shown; nothing is ever asked of it
_PIXEL = bytes.fromhex("47494638396101000100800000000000ffffff21f90401000000002c00000000010001000002024401003b")
_NEEDLESS = frozenset(("media", "font", "texttrack", "ping", "manifest", "cspviolationreport", "other"))
_CHATTY = frozenset(("eventsource", "websocket"))  # open as long as the page is
_NO_CONTENT = frozenset((204, 205))
_BODY_HEADERS = frozenset(("content-length", "content-encoding", "transfer-encoding", "connection", "content-type"))


@dataclass(frozen=True, slots=True)
class Assignment:
    """What to show. `held` is the answer where it is already here; `seconds` is the time for everything."""

    url: str
    policy: FetchPolicy
    seconds: float
    held: Page | None = None


@dataclass(slots=True)
class _Traffic:
    """What the network does: requests under way, and when it last changed (loop time)."""

    open: set[Any]
    changed: float


class Visit:
    """One page in a tab that is only for it."""

    def __init__(self, tab: OpenTab, proxy: EgressProxy, assignment: Assignment) -> None:
        self._open = tab
        self._tab = tab.page
        self._proxy = proxy
        self._assignment = assignment
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + assignment.seconds
        self._patience = self._loop.time() + assignment.seconds * SHARE
        self._traffic = _Traffic(set(), self._loop.time())
        self._trail = Trail(proxy, assignment.url)
        self._navigations = 0
        self._held_given = False
        self._crashed = False
        self._warnings: list[str] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._cdp: CDPSession

    async def page(self) -> Page:
        """Load, wait for rest, read. Raises FetchError and its kinds, DocumentError for what is no page."""
        try:
            async with asyncio.timeout_at(self._deadline):
                await self._watch()
                await self._load()
                await self._settle()
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
        context.on("page", lambda popup: self._do(popup.close()))
        context.on("request", self._on_request)
        context.on("requestfinished", self._on_done)
        context.on("requestfailed", self._on_done)
        self._trail.follow(self._tab)
        await context.route("**/*", self._route)
        await context.add_init_script(_NO_DIALOGS)
        self._cdp = await context.new_cdp_session(self._tab)

    def _do(self, work: Coroutine[Any, Any, Any]) -> None:
        async def quietly() -> None:
            with contextlib.suppress(Exception):
                await work

        task = self._loop.create_task(quietly())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ---- what happens while the page lives

    async def _route(self, route: Route) -> None:
        with contextlib.suppress(Exception):  # the page has gone on: nobody waits for this request any more
            request = route.request
            if request.resource_type == "image":
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
                self._warnings.append("the page goes on to another address again and again: read as it was then")
            await route.abort("aborted")  # the document of the last navigation stays
        else:
            await route.continue_()

    def _on_request(self, request: Request) -> None:
        if request.resource_type not in _CHATTY:
            self._traffic.open.add(request)
            self._traffic.changed = self._loop.time()

    def _on_done(self, request: Request) -> None:
        self._traffic.open.discard(request)
        self._traffic.changed = self._loop.time()

    def _on_crash(self, tab: object) -> None:
        self._crashed = True

    # ---- the three steps

    async def _load(self) -> None:
        try:
            await self._tab.goto(self._assignment.url, wait_until="commit", timeout=0)
        except Exception as error:
            if not is_browser_error(error) or self._gone():
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

    async def _settle(self) -> None:
        while self._loop.time() < self._patience:
            answer = self._trail.shown
            if self._crashed or (answer is not None and not self._is_page(answer)) or await self._is_at_rest():
                return
            await asyncio.sleep(POLL_S)
        self._warnings.append(
            f"the page did not come to rest within {self._assignment.seconds * SHARE:g} s: read as it was then"
        )

    async def _is_at_rest(self) -> bool:
        state = await self._ask("rest")
        if not isinstance(state, dict) or not state["loaded"]:
            return False
        if state["still"] and not self._traffic.open:
            return True
        page_s = float(state["quiet"]) / 1000
        network_s = 0.0 if self._traffic.open else self._loop.time() - self._traffic.changed
        if not state["text"]:
            return min(page_s, network_s) >= EMPTY_REST_S
        if network_s >= REST_S and page_s >= REST_S:
            return True
        return network_s >= RESTLESS_S or page_s >= CHATTER_S

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
        """The document as HTML. A page that gives no time for the question, or changes under it, is stopped for it."""
        while True:
            html = await self._ask("flatten")
            if isinstance(html, str):
                return html
            await self._stop()

    async def _ask(self, script: str) -> Any:
        """Evaluate one of our scripts in a world of its own; None where the page gives no answer in time."""
        try:
            async with asyncio.timeout(max(MIN_ANSWER_S, (self._deadline - self._loop.time()) / 4)):
                tree = await self._cdp.send("Page.getFrameTree")
                frame = {"frameId": tree["frameTree"]["frame"]["id"], "worldName": "fetchly"}
                world = await self._cdp.send("Page.createIsolatedWorld", frame)
                where = {"contextId": world["executionContextId"], "returnByValue": True}
                done = await self._cdp.send("Runtime.evaluate", {"expression": _script(script), **where})
        except TimeoutError:
            return None
        except Exception as error:
            if not is_browser_error(error) or self._gone():
                raise
            return None  # the page has gone on to another document meanwhile
        return done["result"].get("value")

    async def _stop(self) -> None:
        """No more scripts, no more loading. These commands reach a page that is busy."""
        if not any("scripts" in text for text in self._warnings):
            self._warnings.append("the page's scripts do not come to an end: they were stopped")
        commands = [
            self._cdp.send("Emulation.setScriptExecutionDisabled", {"value": True}),
            self._cdp.send("Runtime.terminateExecution"),
            self._cdp.send("Page.stopLoading"),
        ]
        with contextlib.suppress(TimeoutError):
            await bounded(asyncio.gather(*commands, return_exceptions=True), 1.0)

    # ---- what it comes to

    def _made(self, answer: Response, html: str) -> Page:
        body = html.encode("utf-8", "replace")
        self._check_size(body, answer.url)
        page = self._assignment.held
        if page is None or answer is not self._trail.first:
            page = replace(self._bytes(answer, b""), url=self._tab.url)
        elif urlsplit(self._assignment.url).hostname != HELD_HOST:  # a page without an address of the web keeps its own
            page = replace(page, url=self._tab.url)  # scripts may rename it
        warnings = (*page.warnings, *self._warnings)
        return replace(page, body=body, media_type="text/html", charset="utf-8", rendered=True, warnings=warnings)

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
            hint="raise --timeout",
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


def _joined(headers: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Headers by name; the browser's interface takes several of one name as lines."""
    joined: dict[str, str] = {}
    for name, value in headers:
        joined[name] = f"{joined[name]}\n{value}" if name in joined else value
    return joined


# Answered at once: a page inside a dialog hears nothing else, and may open the next before it is asked to stop.
_NO_DIALOGS = "for (const [name, answer] of [['alert'], ['print'], ['confirm', false], ['prompt', null]]) " + (
    "window[name] = () => answer"
)
_SCRIPTS: dict[str, str] = {}


def _script(name: str) -> str:
    if name not in _SCRIPTS:
        _SCRIPTS[name] = resources.files("fetchly.crawler").joinpath(f"{name}.js").read_text("utf-8")
    return _SCRIPTS[name]
