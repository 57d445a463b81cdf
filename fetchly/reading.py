"""What a user names in (URL, path, bytes, Page), the Document read from it out: fetched, rendered where it must be."""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, get_args

from fetchly.crawler.browser import TABS, BrowserRenderer
from fetchly.crawler.cache import HttpCache
from fetchly.crawler.chromium import BrowserMissing
from fetchly.crawler.http import FetchPolicy, HttpFetcher, MayFollow
from fetchly.crawler.interaction import Interaction
from fetchly.crawler.render_choice import RenderChoice
from fetchly.crawler.source import is_url, open_file, open_target
from fetchly.crawler.storage_state import StorageState
from fetchly.document.decode import decode
from fetchly.document.media import kind_of
from fetchly.document.reader import ReadOptions
from fetchly.document.shell import brought_more, needs_scripts
from fetchly.document.worker import DocumentReader
from fetchly.egress import EgressGate
from fetchly.errors import ConfigurationError, DocumentError, FetchError, Interrupted, PolicyRefused
from fetchly.goods import Document, Page

Target = str | os.PathLike[str] | bytes | Page
"""A URL, a file path, "-" for standard input, a path object (always a file), the bytes of a page, or a Page."""
Render = Literal["never", "auto", "always"]
"""Whether a browser runs a page's scripts. auto: only for a URL whose answer is empty until they have run."""
ShouldStop = Callable[[], bool] | None

_READERS = 4  # processes, each started when it is first needed
_LEAST_RENDER_S = 1.0
_OF_ITS_SITE = "scripts fill the pages of this part of its site"


@dataclass(frozen=True, slots=True)
class Reading:
    """A read page. `page` is what was read: `page.rendered` says whether a browser made it. Times in milliseconds;
    `fetch_ms` includes rendering, `render_ms` is that alone, with the wait for a tab. `warnings` say what a careful
    reader should know."""

    page: Page
    document: Document
    warnings: tuple[str, ...]
    fetch_ms: float
    read_ms: float
    render_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class _Read:
    """A page and what came of reading it: a document, or the reason why there is none."""

    page: Page
    document: Document | None
    error: DocumentError | None


@dataclass(frozen=True, slots=True)
class _Guided:
    """The HTTP client, asking before it follows a redirect, and fetching no more of a film than shows it to be one."""

    fetcher: HttpFetcher
    may_follow: MayFollow | None

    def fetch(self, url: str) -> Page:
        return self.fetcher.fetch(url, peek=_check_kind, may_follow=self.may_follow)


class TargetReader:
    """Reads targets. Safe to share between threads. Connections, browser and reading processes live until `close`.

    With actions, or a storage state, every page is rendered: a page fetched without a browser would be one that nobody
    has acted on, or that knows nobody. `browsing` names what a browser does, for whoever keeps what comes of it.

    Errors: FetchError and its kinds, DocumentError, ConfigurationError (a target or mode that makes no sense, no
    browser under "always"), Interrupted once `should_stop` answers True.
    """

    def __init__(
        self,
        policy: FetchPolicy,
        *,
        render: Render = "auto",
        browser_path: str | None = None,
        gate: EgressGate | None = None,
        cache: HttpCache | None = None,
        interaction: Interaction | None = None,
        storage_state: StorageState | None = None,
    ) -> None:
        if render not in get_args(Render):
            raise ConfigurationError(f"render is {render!r}, not {', '.join(get_args(Render))}", where="render")
        interaction = interaction if interaction is not None else Interaction()
        self._has_state = storage_state is not None
        needs_browser = bool(interaction.actions) or self._has_state
        if needs_browser and render == "never":
            raise ConfigurationError(
                "actions and a storage state need a browser", where="render", hint="leave out render, or say always"
            )
        self.policy = policy
        self.render: Render = "always" if needs_browser else render
        self.browsing = interaction.digest + ("+state" if self._has_state else "")
        gate = gate if gate is not None else EgressGate(allow_private=policy.allow_private)
        self._fetcher = HttpFetcher(policy, gate=gate, cache=cache)
        self._renderer = BrowserRenderer(
            policy, gate=gate, browser_path=browser_path, interaction=interaction, storage_state=storage_state
        )
        self._documents = DocumentReader(workers=_READERS)
        self._choice = RenderChoice()

    def with_choice(self, choice: RenderChoice) -> TargetReader:
        """This reader, with a memory of sites that is another's. What it opens is closed with this one."""
        other = copy.copy(self)
        other._choice = choice
        return other

    @property
    def most_tabs(self) -> int:
        """Pages that are rendered side by side where nobody says less; 0: none ever is."""
        return 0 if self.render == "never" else TABS

    def set_tabs(self, count: int) -> None:
        """From now on at most so many, from any thread; with 0 no page begins, and an idle browser is ended."""
        self._renderer.set_tabs(count)

    def browser_pids(self) -> tuple[int, ...]:
        """The processes that rendering takes now."""
        return self._renderer.pids()

    def close(self) -> None:
        """Close connections, browser and processes."""
        self._fetcher.close()
        self._renderer.close()
        self._documents.close()

    def read(
        self,
        target: Target,
        options: ReadOptions,
        should_stop: ShouldStop = None,
        may_follow: MayFollow | None = None,
    ) -> Reading:
        """Fetch, render where asked or needed, read. `may_follow` is shown where a page leads, by a redirect or within
        a browser, and may raise a FetchError rather than have it followed. Under "auto" all pages come over HTTP first,
        so that a page is asked for once, and a file is told from a page before a browser sees it."""
        clock = _Clock()
        page = self._page(target, should_stop, may_follow)
        clock.rendered() if page.rendered else clock.fetched()
        _check(should_stop, page)
        is_auto = self.render == "auto" and isinstance(target, str) and is_url(target)
        if is_auto and kind_of(page) == "html" and self._choice.skips_judging(_address(page)):
            return self._auto(page, None, _OF_ITS_SITE, options, should_stop, may_follow, clock)
        first = self._read(page, options)
        clock.read()
        if is_auto and (first.error is None or _is_empty(first.error)):
            reason = needs_scripts(page, first.document)
            if reason:
                return self._auto(page, first, reason, options, should_stop, may_follow, clock)
            if first.document is not None:
                self._choice.learn(_address(page), False)
        if first.document is None:
            assert first.error is not None
            raise first.error
        return Reading(page, first.document, page.warnings, clock.fetch_ms, clock.read_ms, clock.render_ms)

    def _page(self, target: Target, should_stop: ShouldStop, may_follow: MayFollow | None) -> Page:
        if isinstance(target, bytes):
            page = Page(requested="bytes", url=None, status=None, headers=(), body=target)
        elif isinstance(target, Page):
            page = target
        elif isinstance(target, os.PathLike):
            page = open_file(target)
        elif not isinstance(target, str):
            raise ConfigurationError(
                f"a target of type {type(target).__name__} is no page", hint="give a URL, a path, bytes or a Page"
            )
        elif self.render == "always" and is_url(target):
            try:
                return self._renderer.render(target.strip(), should_stop=should_stop, may_follow=may_follow)
            except DocumentError:  # a file, as far as a browser knows; its bytes say of what kind
                page = open_target(target, _Guided(self._fetcher, may_follow))
                if self._has_state and kind_of(page) == "html":
                    raise  # what a stranger is shown, and no file
        else:
            page = open_target(target, _Guided(self._fetcher, may_follow))
        if self.render == "always" and not page.rendered and kind_of(page) == "html":
            return self._renderer.render_html(_in_utf8(page), should_stop=should_stop, may_follow=may_follow)
        return page

    def _read(self, page: Page, options: ReadOptions) -> _Read:
        try:
            return _Read(page, self._documents.read(page, options), None)
        except DocumentError as error:
            return _Read(page, None, error)

    def _auto(
        self,
        page: Page,
        first: _Read | None,
        reason: str,
        options: ReadOptions,
        should_stop: ShouldStop,
        may_follow: MayFollow | None,
        clock: _Clock,
    ) -> Reading:
        """Render a page that seems to need it. Where that fails, the page as it came is used, if it has any text.
        `first` is that, if it has been read; then what comes of it is evidence about its site."""
        way = _Way(may_follow)
        failure: FetchError | ConfigurationError | DocumentError
        try:
            left = max(_LEAST_RENDER_S, self.policy.timeout_s - clock.fetch_ms / 1000)
            rendered = self._renderer.render_html(
                _in_utf8(page), timeout_s=left, should_stop=should_stop, may_follow=way.check
            )
            clock.rendered()
            second = self._read(rendered, options)
            clock.read()
        except BrowserMissing as error:
            failure, note = error, f"there is no browser to run them: {error.message} ({error.hint})"
        except FetchError as error:
            if isinstance(error, PolicyRefused) or error is way.refusal:
                raise
            clock.rendered()
            failure, note = error, f"rendering it failed: {error.line()}"
        else:
            if second.document is not None:
                if first is not None:
                    self._choice.learn(_address(page), brought_more(first.document, second.document))
                return Reading(
                    rendered, second.document, rendered.warnings, clock.fetch_ms, clock.read_ms, clock.render_ms
                )
            assert second.error is not None
            failure, note = second.error, "nothing to read was there after rendering"
        first = first or self._read(page, options)
        clock.read()
        if first.document is None:
            raise _unrendered(first, failure) if isinstance(failure, BrowserMissing) else failure
        warnings = (*page.warnings, f"{reason}, but {note}")
        return Reading(page, first.document, warnings, clock.fetch_ms, clock.read_ms, clock.render_ms)


class _Way:
    """Asks about where a browser is led, for whoever is to be asked, and keeps the refusal."""

    def __init__(self, may_follow: MayFollow | None) -> None:
        self._may_follow = may_follow
        self.refusal: FetchError | None = None

    def check(self, url: str) -> None:
        """Raises what whoever is asked raises."""
        try:
            if self._may_follow is not None:
                self._may_follow(url)
        except FetchError as error:
            self.refusal = error
            raise


class _Clock:
    """Adds up milliseconds: each call gives the time since the last one to fetching or to reading."""

    def __init__(self) -> None:
        self.fetch_ms = 0.0
        self.render_ms = 0.0
        self.read_ms = 0.0
        self._last = time.perf_counter()

    def fetched(self) -> None:
        self.fetch_ms += self._passed_ms()

    def rendered(self) -> None:
        passed_ms = self._passed_ms()
        self.fetch_ms += passed_ms
        self.render_ms += passed_ms

    def read(self) -> None:
        self.read_ms += self._passed_ms()

    def _passed_ms(self) -> float:
        now = time.perf_counter()
        passed, self._last = now - self._last, now
        return 1000 * passed


def _check(should_stop: ShouldStop, page: Page) -> None:
    if should_stop is not None and should_stop():
        raise Interrupted("the reading was stopped", where=page.url or page.requested)


def _check_kind(beginning: Page) -> None:
    """Raises NotHtml for what is no page by its beginning."""
    if beginning.body.strip():  # a page may well begin with a screen of white space
        kind_of(beginning)


def _in_utf8(page: Page) -> Page:
    """What our decoder makes of the bytes, so that the browser does not decide by rules of its own."""
    body = decode(page.body, page.charset).text.encode("utf-8", "replace")
    return replace(page, body=body, charset="utf-8", from_cache="no")  # what its scripts fetch is not


def _address(page: Page) -> str:
    return page.url or page.requested


def _is_empty(error: DocumentError) -> bool:
    return error.code == "DOCUMENT_EMPTY"


def _unrendered(first: _Read, missing: BrowserMissing) -> DocumentError:
    """An empty page that a browser might fill: the hint is how to get one."""
    assert first.error is not None
    return DocumentError(
        f"{first.error.message}: scripts fill it, and {missing.message}",
        where=first.error.where,
        code=first.error.code,
        hint=missing.hint,
    )
