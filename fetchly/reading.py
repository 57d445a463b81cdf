"""What a user names in (URL, path, bytes, Page), the Document read from it out: fetched, rendered where it must be."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, get_args

from fetchly.crawler.browser import BrowserRenderer
from fetchly.crawler.chromium import BrowserMissing
from fetchly.crawler.http import FetchPolicy, HttpFetcher, MayFollow
from fetchly.crawler.source import is_url, open_file, open_target
from fetchly.document.decode import decode
from fetchly.document.media import kind_of
from fetchly.document.reader import ReadOptions
from fetchly.document.shell import needs_scripts
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


@dataclass(frozen=True, slots=True)
class Reading:
    """A read page. `page` is what was read: `page.rendered` says whether a browser made it. Times in milliseconds;
    `fetch_ms` includes rendering. `warnings` say what a careful reader should know."""

    page: Page
    document: Document
    warnings: tuple[str, ...]
    fetch_ms: float
    read_ms: float


@dataclass(frozen=True, slots=True)
class _Read:
    """A page and what came of reading it: a document, or the reason why there is none."""

    page: Page
    document: Document | None
    error: DocumentError | None


@dataclass(frozen=True, slots=True)
class _Guided:
    """The HTTP client, asking before it follows a redirect."""

    fetcher: HttpFetcher
    may_follow: MayFollow | None

    def fetch(self, url: str) -> Page:
        return self.fetcher.fetch(url, may_follow=self.may_follow)


class TargetReader:
    """Reads targets. Safe to share between threads. Connections, browser and reading processes live until `close`.

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
    ) -> None:
        if render not in get_args(Render):
            raise ConfigurationError(f"render is {render!r}, not {', '.join(get_args(Render))}", where="render")
        self.policy = policy
        self.render = render
        gate = gate if gate is not None else EgressGate(allow_private=policy.allow_private)
        self._fetcher = HttpFetcher(policy, gate=gate)
        self._renderer = BrowserRenderer(policy, gate=gate, browser_path=browser_path)
        self._documents = DocumentReader(workers=_READERS)

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
        """Fetch, render where asked or needed, read. `may_follow` is shown where a redirect of the HTTP client leads,
        and may raise a FetchError rather than have it followed; what a browser follows, it is not asked about."""
        clock = _Clock()
        page = self._page(target, should_stop, may_follow)
        clock.fetched()
        _check(should_stop, page)
        first = self._read(page, options)
        clock.read()
        if self.render == "auto" and isinstance(target, str) and is_url(target):
            reason = needs_scripts(page, first.document) if first.error is None or _is_empty(first.error) else ""
            if reason:
                return self._auto(first, reason, options, should_stop, clock)
        if first.document is None:
            assert first.error is not None
            raise first.error
        return Reading(page, first.document, page.warnings, clock.fetch_ms, clock.read_ms)

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
            return self._renderer.render(target.strip(), should_stop=should_stop)
        else:
            page = open_target(target, _Guided(self._fetcher, may_follow))
        if self.render == "always" and not page.rendered and kind_of(page) == "html":
            return self._renderer.render_html(_in_utf8(page), should_stop=should_stop)
        return page

    def _read(self, page: Page, options: ReadOptions) -> _Read:
        try:
            return _Read(page, self._documents.read(page, options), None)
        except DocumentError as error:
            return _Read(page, None, error)

    def _auto(self, first: _Read, reason: str, options: ReadOptions, should_stop: ShouldStop, clock: _Clock) -> Reading:
        """Render a page that seems to need it. Where that fails, the page as it came is used, if it has any text."""
        try:
            left = max(_LEAST_RENDER_S, self.policy.timeout_s - clock.fetch_ms / 1000)
            page = self._renderer.render_html(_in_utf8(first.page), timeout_s=left, should_stop=should_stop)
            clock.fetched()
            second = self._read(page, options)
            clock.read()
        except BrowserMissing as error:
            if first.document is None:
                raise _unrendered(first, error) from error
            note = f"{reason}, but there is no browser to run them: {error.message} ({error.hint})"
            return Reading(first.page, first.document, (*first.page.warnings, note), clock.fetch_ms, clock.read_ms)
        except FetchError as error:
            if first.document is None or isinstance(error, PolicyRefused):
                raise
            note = f"{reason}, but rendering it failed: {error.line()}"
            return Reading(first.page, first.document, (*first.page.warnings, note), clock.fetch_ms, clock.read_ms)
        if second.document is not None:
            return Reading(page, second.document, page.warnings, clock.fetch_ms, clock.read_ms)
        if first.document is None:
            assert second.error is not None
            raise second.error
        note = f"{reason}, but nothing to read was there after rendering"
        return Reading(first.page, first.document, (*first.page.warnings, note), clock.fetch_ms, clock.read_ms)


class _Clock:
    """Adds up milliseconds: each call gives the time since the last one to fetching or to reading."""

    def __init__(self) -> None:
        self.fetch_ms = 0.0
        self.read_ms = 0.0
        self._last = time.perf_counter()

    def fetched(self) -> None:
        self.fetch_ms += self._passed_ms()

    def read(self) -> None:
        self.read_ms += self._passed_ms()

    def _passed_ms(self) -> float:
        now = time.perf_counter()
        passed, self._last = now - self._last, now
        return 1000 * passed


def _check(should_stop: ShouldStop, page: Page) -> None:
    if should_stop is not None and should_stop():
        raise Interrupted("the reading was stopped", where=page.url or page.requested)


def _in_utf8(page: Page) -> Page:
    """What our decoder makes of the bytes, so that the browser does not decide by rules of its own."""
    return replace(page, body=decode(page.body, page.charset).text.encode("utf-8", "replace"), charset="utf-8")


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
