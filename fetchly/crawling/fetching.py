"""A queued page in; the page read, with the links that belong to the crawl, out: what the fetching threads do."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from fetchly.crawler.fingerprint import Address, address_of
from fetchly.crawler.frontier import QueuedPage
from fetchly.crawler.politeness import Outcome, Politeness
from fetchly.crawler.robots import Robots, origin_of
from fetchly.crawler.robots_tags import robots_tags_of
from fetchly.crawler.scope import NOT_FOLLOWED, Scope
from fetchly.crawler.sitemap import SitemapNote, sitemap_urls
from fetchly.crawling.events import FailedPage, OriginAsked, ReadPage, RefusedPage, SitemapPages
from fetchly.document.media import NotHtml
from fetchly.document.reader import ReadOptions
from fetchly.errors import DocumentError, FetchError
from fetchly.goods import Page
from fetchly.reading import Reading

ShouldStop = Callable[[], bool]

REDIRECTED = "REDIRECTED"
"""Why a page is skipped that redirects to another origin, whose page is queued in its place."""

_SITEMAP_BATCH = 1000


class PageReader(Protocol):
    """Whatever fetches and reads a page: the TargetReader, or a fake of it."""

    def read(
        self,
        target: str,
        options: ReadOptions,
        should_stop: ShouldStop | None = None,
        may_follow: Callable[[str], object] | None = None,
    ) -> Reading:
        """The page. Errors: FetchError and its kinds, what `may_follow` raises, DocumentError, Interrupted."""


class LedElsewhere(FetchError):
    """A redirect that is not followed: out of the crawl, or to a page that waits for a turn of its own."""

    def __init__(self, code: str, message: str, to: Address, *, is_queued: bool = False) -> None:
        super().__init__(message, url=to.url, code=code)
        self.to = to
        self.is_queued = is_queued


@dataclass(frozen=True, slots=True)
class Fetching:
    """Everything that the fetching threads share, and what they do with it. Thread-safe as its parts are.

    `fetch` is for what belongs to a site and is no page of it (sitemaps); `agent` is our product token.
    """

    reader: PageReader
    options: ReadOptions
    scope: Scope
    politeness: Politeness
    robots: Robots
    fetch: Callable[[str], Page]
    agent: str
    should_stop: ShouldStop

    def read(self, page: QueuedPage) -> ReadPage | FailedPage | RefusedPage:
        """Fetch and read one page, whose host's turn was taken for it; the turn is given back here."""
        outcome = Outcome()
        try:
            reading = self.reader.read(page.url, self.options, self.should_stop, partial(self._check_way, page))
            outcome = Outcome(status=reading.page.status)
        except LedElsewhere as error:
            outcome = Outcome(status=302)
            return RefusedPage(page, error.code, error.message, error.to if error.is_queued else None)
        except FetchError as error:
            outcome = Outcome.of_error(error)
            return FailedPage(page, error)
        except NotHtml as error:
            # What a link may well lead to, and no record is to be had of.
            outcome = Outcome(status=200)
            return RefusedPage(page, f"NOT_HTML_{error.family.upper()}", error.line())
        except DocumentError as error:
            outcome = Outcome(status=200)
            return FailedPage(page, error)
        except Exception as error:  # also a bug of ours that one page brings out
            return FailedPage(page, error)
        finally:
            self.politeness.end(page.host, outcome)
        try:
            return self._judged(page, reading)
        except Exception as error:
            return FailedPage(page, error)

    def ask_origin(self, origin: str) -> OriginAsked:
        """Fetch the robots.txt of a site, so that the coordinator finds it."""
        try:
            rules = self.robots.rules_for(f"{origin}/")
        except Exception as error:
            return OriginAsked(origin, error)
        if rules.crawl_delay_s is not None:
            self.politeness.set_crawl_delay(address_of(f"{origin}/").host, rules.crawl_delay_s)
        return OriginAsked(origin, None)

    def list_pages(self, origin: str) -> Iterator[SitemapPages]:
        """The pages of the crawl that a site's sitemaps list, in batches: those that its robots.txt names, or the one
        that is there by custom."""
        notes: list[SitemapNote] = []
        try:
            named = self.robots.rules_for(f"{origin}/").sitemaps or (f"{origin}/sitemap.xml",)
            entries = itertools.chain.from_iterable(sitemap_urls(url, self.fetch, report=notes.append) for url in named)
            while batch := [entry.url for entry in itertools.islice(entries, _SITEMAP_BATCH)]:
                yield SitemapPages(origin, self._in_scope(batch))
        except Exception as error:  # also a bug of ours that one file brings out
            yield SitemapPages(origin, (), True, tuple(notes), error)
        else:
            yield SitemapPages(origin, (), True, tuple(notes))

    def _check_way(self, page: QueuedPage, url: str) -> None:
        """Before a redirect is followed. One to another origin is not: it waits for its host's turn, and its rules."""
        to = address_of(url)
        code = self._out_of_scope(page, to)
        if code is not None:
            raise LedElsewhere(code, f"it redirects to {url}", to)
        if origin_of(url) != origin_of(page.url):
            raise LedElsewhere(REDIRECTED, f"it redirects to {url}", to, is_queued=True)
        self._check_rules(to)

    def _check_rules(self, to: Address) -> None:
        rules = self.robots.known(to.url)
        forbidden = rules.refusal(to.url) if rules is not None else None
        if forbidden is not None:
            raise LedElsewhere(forbidden.code, forbidden.line(), to)

    def _judged(self, page: QueuedPage, reading: Reading) -> ReadPage | RefusedPage:
        """A browser may have been led out of the crawl, or to where robots.txt forbids: it asks nobody."""
        final = address_of(reading.page.url or page.url)
        code = self._out_of_scope(page, final)
        if code is not None:
            return RefusedPage(page, code, f"it leads to {final.url}")
        forbidden = self.robots.rules_for(final.url).refusal(final.url) if reading.page.rendered else None
        if forbidden is not None:
            return RefusedPage(page, forbidden.code, forbidden.line())
        tags = robots_tags_of(reading.page, self.agent)
        links = [] if tags.nofollow else [link.url for link in reading.document.links if link.id.startswith("L")]
        asks = ("the page asks search engines not to list it (noindex)",) if tags.noindex else ()
        return ReadPage(
            page=page,
            final=final,
            document=reading.document,
            links=self._in_scope(links),
            is_wanted=self.scope.follows(final),
            status=reading.page.status,
            redirects=reading.page.redirects,
            rendered=reading.page.rendered,
            warnings=(*reading.warnings, *asks),
            fetch_ms=reading.fetch_ms,
            read_ms=reading.read_ms,
        )

    def _out_of_scope(self, page: QueuedPage, to: Address) -> str | None:
        """A seed may be where nothing is followed, and may lead there."""
        code = self.scope.refusal(to)
        return None if code == NOT_FOLLOWED and page.depth == 0 else code

    def _in_scope(self, urls: Iterable[str]) -> tuple[Address, ...]:
        found: dict[bytes, Address] = {}
        for url in urls:
            try:
                address = address_of(url.partition("#")[0])
            except FetchError:
                continue  # mailto:, a host that is none, a password: nothing that is fetched
            if address.fingerprint not in found and self.scope.refusal(address) is None:
                found[address.fingerprint] = address
        return tuple(found.values())
