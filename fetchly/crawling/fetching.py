"""A queued page in; the page read, with the links that belong to the crawl, out: what the fetching threads do."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

from fetchly.crawler.fingerprint import Address, address_of
from fetchly.crawler.frontier import QueuedPage
from fetchly.crawler.local_pages import is_local, local_address
from fetchly.crawler.politeness import Outcome, Politeness
from fetchly.crawler.render_choice import RenderChoice
from fetchly.crawler.robots import Robots, origin_of
from fetchly.crawler.robots_tags import robots_tags_of
from fetchly.crawler.scope import Scope
from fetchly.crawler.signatures import signature_of
from fetchly.crawler.sitemap import SitemapNote, sitemap_urls
from fetchly.crawling.events import FailedPage, OriginAsked, ReadPage, RefusedPage, SitemapPages
from fetchly.crawling.results import RECORD
from fetchly.crawling.way import LedElsewhere, Way, out_of_scope
from fetchly.document.links import in_charset
from fetchly.document.media import NotHtml
from fetchly.document.reader import ReadOptions
from fetchly.errors import DocumentError, FetchError
from fetchly.goods import Page
from fetchly.reading import Reading

ShouldStop = Callable[[], bool]

_SITEMAP_BATCH = 1000
_LISTS = frozenset(("feed", "sitemap"))


class PageReader(Protocol):
    """Whatever fetches and reads a page: the TargetReader, or a fake of it."""

    def read(
        self,
        target: str | Page,
        options: ReadOptions,
        should_stop: ShouldStop | None = None,
        may_follow: Callable[[str], object] | None = None,
    ) -> Reading:
        """The page. Errors: FetchError and its kinds, what `may_follow` raises, DocumentError, Interrupted."""


@dataclass(frozen=True, slots=True)
class Fetching:
    """Everything that the fetching threads share, and what they do with it. Thread-safe as its parts are.

    `fetch` is for what belongs to a site and is no page of it (sitemaps); `agent` is our product token; `choice` is
    what the reader learns of sites. `choose` names the schema of a page, None for one that is read for its links alone;
    those of `asking` want links marked in the text.
    `with_signatures`: near-duplicates are looked for.
    """

    reader: PageReader
    options: ReadOptions
    scope: Scope
    politeness: Politeness
    robots: Robots
    fetch: Callable[[str], Page]
    agent: str
    should_stop: ShouldStop
    choice: RenderChoice = field(default_factory=RenderChoice)
    with_signatures: bool = False
    choose: Callable[[Address], str | None] = lambda address: RECORD
    asking: frozenset[str] = frozenset()

    def read(self, page: QueuedPage) -> Iterator[ReadPage | FailedPage | RefusedPage | SitemapPages]:
        """Fetch and read one page, whose host's turn was taken for it; the turn is given back here.

        Who names a feed or a sitemap as a seed wants the pages that it lists: they come first. Others are met by
        chance, and what they list is linked from the site's pages, too.
        """
        came = self._from_disk(page) if is_local(page.host) else self._came(page)
        if isinstance(came, NotHtml) and is_local(page.host):
            yield RefusedPage(page, f"NOT_HTML_{came.family.upper()}", came.line())
        elif isinstance(came, NotHtml):
            is_list = page.depth == 0 and came.family in _LISTS
            try:
                yield from self._listed(origin_of(page.url), [page.url] if is_list else [])
            except Exception as error:  # also a bug of ours that one file brings out
                yield FailedPage(page, error)
                return
            yield RefusedPage(page, f"NOT_HTML_{came.family.upper()}", came.line(), is_list=is_list)
        else:
            yield came

    def _from_disk(self, page: QueuedPage) -> ReadPage | FailedPage | NotHtml:
        """A page for which no host is asked; its links lead nowhere."""
        try:
            final = local_address(page.url, page.host)
            schema = self.choose(final)
            reading = self.reader.read(page.url, self._options_for(schema), self.should_stop)
            return self._read_page(page, final, schema, reading)
        except NotHtml as error:
            return error
        except Exception as error:  # also a bug of ours that one file brings out
            return FailedPage(page, error)

    def _came(self, page: QueuedPage) -> ReadPage | FailedPage | RefusedPage | NotHtml:
        outcome, was_asked = Outcome(), True
        try:
            expected = self._options_for(self.choose(address_of(page.url)))
            reading = self.reader.read(page.url, expected, self.should_stop, self._way(page))
            outcome = Outcome(status=reading.page.status)
            was_asked = reading.page.from_cache != "fresh" or bool(reading.page.redirects)
        except LedElsewhere as error:
            outcome = Outcome(status=302)
            return RefusedPage(page, error.code, error.message, error.to if error.is_queued else None)
        except FetchError as error:
            # A page that brings a browser down has been answered: its host is well.
            outcome = Outcome(status=200) if error.code == "BROWSER_CRASHED" else Outcome.of_error(error)
            return FailedPage(page, error)
        except NotHtml as error:
            # What a link may well lead to, and no record is to be had of.
            outcome = Outcome(status=200)
            return error
        except DocumentError as error:
            outcome = Outcome(status=200)
            return FailedPage(page, error)
        except Exception as error:  # also a bug of ours that one page brings out
            return FailedPage(page, error)
        finally:
            self.politeness.end(page.host, outcome, was_asked=was_asked)
        try:
            return self._judged(page, reading, expected)
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
        return OriginAsked(origin, None, rules.notes)

    def list_pages(self, origin: str) -> Iterator[SitemapPages]:
        """The pages of the crawl that a site's sitemaps list, in batches: those that its robots.txt names, or the one
        that is there by custom."""
        try:
            named = self.robots.rules_for(f"{origin}/").sitemaps or (f"{origin}/sitemap.xml",)
            yield from self._listed(origin, named)
        except Exception as error:  # also a bug of ours that one file brings out
            yield SitemapPages(origin, (), True, error=error)
        else:
            yield SitemapPages(origin, (), True)

    def list_named(self, sitemap: str) -> Iterator[SitemapPages]:
        """The pages of the crawl that a sitemap lists which the user has named."""
        try:
            yield from self._listed(sitemap, [sitemap])
        except Exception as error:  # also a bug of ours that one file brings out
            yield SitemapPages(sitemap, (), True, error=error)
        else:
            yield SitemapPages(sitemap, (), True)

    def _listed(self, origin: str, files: Iterable[str]) -> Iterator[SitemapPages]:
        notes: list[SitemapNote] = []
        entries = itertools.chain.from_iterable(sitemap_urls(url, self.fetch, report=notes.append) for url in files)
        failure: Exception | None = None
        try:
            while batch := [entry.url for entry in itertools.islice(entries, _SITEMAP_BATCH)]:
                yield SitemapPages(origin, self._in_scope(batch))
        except Exception as error:
            failure = error
        if notes:
            yield SitemapPages(origin, (), notes=tuple(notes))
        if failure is not None:
            raise failure

    def _way(self, page: QueuedPage) -> Way:
        return Way(page.url, page.depth == 0, self.scope, self.robots.known(page.url))

    def _judged(self, page: QueuedPage, reading: Reading, read_with: ReadOptions) -> ReadPage | RefusedPage:
        """In a browser, a page may have taken another address of its site without asking for it."""
        final = address_of(reading.page.url or page.url)
        code = out_of_scope(self.scope, final, is_seed=page.depth == 0)
        if code is not None:
            return RefusedPage(page, code, f"it leads to {final.url}")
        forbidden = self.robots.rules_for(final.url).refusal(final.url) if reading.page.rendered else None
        if forbidden is not None:
            return RefusedPage(page, forbidden.code, forbidden.line())
        schema = self.choose(final) if self.scope.follows(final) else None
        if schema is not None and self._options_for(schema) != read_with:  # it led to a page of another schema
            again = self.reader.read(reading.page, self._options_for(schema), self.should_stop)
            reading = replace(reading, document=again.document, read_ms=reading.read_ms + again.read_ms)
        tags = robots_tags_of(reading.page, self.agent)
        found = () if tags.nofollow else reading.document.links
        links = [in_charset(link.url, reading.document.encoding) for link in found if link.id.startswith("L")]
        asks = ("the page asks search engines not to list it (noindex)",) if tags.noindex else ()
        return self._read_page(page, final, schema, reading, self._in_scope(links), asks)

    def _read_page(
        self,
        page: QueuedPage,
        final: Address,
        schema: str | None,
        reading: Reading,
        links: tuple[Address, ...] = (),
        notes: tuple[str, ...] = (),
    ) -> ReadPage:
        return ReadPage(
            page=page,
            final=final,
            document=reading.document,
            links=links,
            schema=schema,
            status=reading.page.status,
            redirects=reading.page.redirects,
            rendered=reading.page.rendered,
            warnings=(*reading.warnings, *notes),
            fetch_ms=reading.fetch_ms,
            read_ms=reading.read_ms,
            render_ms=reading.render_ms,
            from_cache=reading.page.from_cache,
            signature=signature_of(reading.document) if self.with_signatures else None,
        )

    def _options_for(self, schema: str | None) -> ReadOptions:
        return replace(self.options, link_marks=schema in self.asking)

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
