"""The URL of a sitemap in; the pages that it lists out, one after another, and a note on whatever was left out.

XML sitemaps and their indexes, RSS and Atom feeds, plain text, each also compressed. Expat reads the XML: it is always
there, it streams, and it takes entities to be errors. lxml could recover from more, at five megabytes; defusedxml has
not moved since 2021. What breaks most sitemaps (a bare `&`) is mended before the parser sees it (sitemap_file.py).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx2

from fetchly.crawler.politeness import host_key
from fetchly.crawler.sitemap_file import Listed, SitemapBroken, listed_in
from fetchly.crawler.urls import join_url, parse_url
from fetchly.errors import FetchError
from fetchly.goods import Page

MAX_BYTES = 50 * 1024**2
"""Of one file, unpacked: the bound of sitemaps.org. What is fetched should be cut there, rather than refused."""
_MAX_BAD_ENTRIES = 10_000
"""Of one file: entries that lead nowhere. What holds more is not read on."""
_QUOTED = 200  # characters of an address in a note


@dataclass(frozen=True, slots=True)
class SitemapLimits:
    """`max_depth` counts indexes within indexes (0: the named file alone), `max_files` the files fetched, `max_bytes`
    the unpacked bytes of one."""

    max_urls: int = 1_000_000
    max_files: int = 1_000
    max_depth: int = 5
    max_bytes: int = MAX_BYTES


@dataclass(frozen=True, slots=True)
class SitemapEntry:
    """A page of a sitemap: its absolute URL, and when it was last changed, where the sitemap says so readably."""

    url: str
    lastmod: datetime | None = None


@dataclass(frozen=True, slots=True)
class SitemapNote:
    """What of a file was left out, and why. Codes: that of a FetchError where it could not be fetched; SITEMAP_BROKEN,
    SITEMAP_NOT_ONE, SITEMAP_TOO_LARGE (the rest of the file is unread), SITEMAP_TOO_MANY_URLS (everything after it,
    too); SITEMAP_TOO_MANY_FILES, SITEMAP_TOO_DEEP, SITEMAP_SEEN (files that it lists and that are not fetched);
    SITEMAP_ENTRIES (pages that it lists). The last four are counted: one note a file and reason."""

    url: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class _File:
    url: str
    depth: int


def sitemap_urls(
    url: str,
    fetch: Callable[[str], Page],
    limits: SitemapLimits | None = None,
    *,
    report: Callable[[SitemapNote], None],
    hosts: Collection[str] | None = None,
) -> Iterator[SitemapEntry]:
    """The pages of a sitemap and of all that it refers to, in their order; an address listed twice comes twice.

    `hosts` (`host_key`) is the rule of sitemaps.org: entries are of these hosts, or of that of the sitemap named, or
    they are left out and counted; None takes every host, for a scope to decide. No file is an error: `report` is told.
    Raises what `fetch` raises that is no FetchError.
    """
    return _Walk(fetch, limits if limits is not None else SitemapLimits(), report, hosts).entries(url)


class _Walk:
    def __init__(
        self,
        fetch: Callable[[str], Page],
        limits: SitemapLimits,
        report: Callable[[SitemapNote], None],
        hosts: Collection[str] | None,
    ) -> None:
        self._fetch = fetch
        self._limits = limits
        self._report = report
        self._hosts = frozenset(hosts) if hosts is not None else None
        self._waiting: deque[_File] = deque()
        self._seen: set[str] = set()
        self._given = 0

    def entries(self, url: str) -> Iterator[SitemapEntry]:
        try:
            start = _bare(parse_url(url))
            if self._hosts is not None:
                self._hosts |= {host_key(start)}
        except FetchError as error:
            self._report(SitemapNote(url, error.code, error.message))
            return
        self._seen.add(start)
        self._waiting.append(_File(start, 0))
        while self._waiting:
            file = self._waiting.popleft()
            try:
                page = self._fetch(file.url)
            except FetchError as error:
                self._report(SitemapNote(file.url, error.code, error.message))
                continue
            yield from self._of_file(file, page)
            if self._given >= self._limits.max_urls:
                return

    def _of_file(self, file: _File, page: Page) -> Iterator[SitemapEntry]:
        base = parse_url(page.url or file.url).copy_with(fragment=None)
        left_out = _LeftOut()
        try:
            for listed in listed_in(page, self._limits.max_bytes):
                url = self._address(base, listed, left_out)
                if left_out.bad > _MAX_BAD_ENTRIES:
                    raise SitemapBroken("SITEMAP_BROKEN", f"more than {_MAX_BAD_ENTRIES:,} entries lead nowhere")
                if url is None:
                    continue
                if listed.is_sitemap:
                    self._queue(file, url, left_out)
                    continue
                if self._given >= self._limits.max_urls:
                    message = f"more than {self._limits.max_urls:,} addresses; the rest is left out"
                    self._report(SitemapNote(file.url, "SITEMAP_TOO_MANY_URLS", message))
                    break
                self._given += 1
                yield SitemapEntry(url, left_out.date(listed.lastmod))
        except SitemapBroken as broken:
            self._report(SitemapNote(file.url, broken.code, broken.message))
        for note in left_out.notes(file.url):
            self._report(note)

    def _address(self, base: httpx2.URL, listed: Listed, left_out: _LeftOut) -> str | None:
        if not listed.location:
            left_out.add_bad("entry without an address")
            return None
        try:
            url = join_url(base, listed.location) if listed.is_address else None
            if url is None:
                left_out.add_bad("text that is no address", listed.location)
            elif self._hosts is None or host_key(str(url)) in self._hosts:
                return str(url)
            else:
                left_out.add("SITEMAP_ENTRIES", "address of another host", listed.location)
        except FetchError:
            left_out.add_bad("address that is no URL to be fetched", listed.location)
        return None

    def _queue(self, file: _File, url: str, left_out: _LeftOut) -> None:
        bare = _bare(httpx2.URL(url))
        if bare in self._seen:
            left_out.add("SITEMAP_SEEN", "file that was listed before", bare)
        elif file.depth >= self._limits.max_depth:
            left_out.add("SITEMAP_TOO_DEEP", f"file deeper than {self._limits.max_depth} indexes", bare)
        elif len(self._seen) >= self._limits.max_files:
            left_out.add("SITEMAP_TOO_MANY_FILES", f"file beyond {self._limits.max_files:,} of them", bare)
        else:
            self._seen.add(bare)
            self._waiting.append(_File(bare, file.depth + 1))


class _LeftOut:
    """Counts what of a file was left out, by reason, with the first of each."""

    def __init__(self) -> None:
        self.bad = 0
        self._counts: Counter[tuple[str, str]] = Counter()
        self._first: dict[tuple[str, str], str] = {}

    def add(self, code: str, reason: str, what: str = "") -> None:
        self._counts[code, reason] += 1
        self._first.setdefault((code, reason), what[:_QUOTED])

    def add_bad(self, reason: str, what: str = "") -> None:
        """An entry that leads nowhere."""
        self.bad += 1
        self.add("SITEMAP_ENTRIES", reason, what)

    def date(self, text: str) -> datetime | None:
        """The moment of an entry; an unreadable one is counted."""
        moment = read_date(text) if text else None
        if text and moment is None:
            self.add("SITEMAP_ENTRIES", "date that cannot be read (its page is taken)", text)
        return moment

    def notes(self, url: str) -> Iterator[SitemapNote]:
        for (code, reason), count in self._counts.items():
            first = self._first[code, reason]
            yield SitemapNote(url, code, f"left out: {count:,} x {reason}{f', the first {first!a}' if first else ''}")


def read_date(text: str) -> datetime | None:
    """A date of a sitemap or of a feed (W3C: `2026`, `2026-03`, `2026-03-01`, with a time; RFC 822), in UTC where it
    names no zone; None where it is none."""
    text = text.strip()
    try:
        if text.isascii() and len(text) in (4, 7):
            moment = datetime.fromisoformat(f"{text}-01" if len(text) == 7 else f"{text}-01-01")
        else:
            moment = datetime.fromisoformat(text)
    except ValueError:
        try:
            moment = parsedate_to_datetime(text[:100])
        except (TypeError, ValueError, IndexError, OverflowError):
            return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _bare(url: httpx2.URL) -> str:
    return str(url.copy_with(fragment=None))
