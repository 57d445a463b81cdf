"""Seeds, a schema and a way to read pages in; one result after another, from a crawl in the background, out."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from functools import partial
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from fetchly.crawler import robots, sitemap
from fetchly.crawler.fingerprint import Address, address_of
from fetchly.crawler.frontier import Frontier
from fetchly.crawler.http import FetchPolicy, HttpFetcher
from fetchly.crawler.local_pages import is_local
from fetchly.crawler.polite_fetch import PoliteFetch
from fetchly.crawler.politeness import Politeness
from fetchly.crawler.render_choice import RenderChoice
from fetchly.crawler.scope import Scope
from fetchly.crawling.coordinator import Coordinator, Signals
from fetchly.crawling.deliveries import Deliveries
from fetchly.crawling.events import Nudge
from fetchly.crawling.extraction import StartExtraction
from fetchly.crawling.fetching import Fetching, PageReader
from fetchly.crawling.options import CrawlOptions
from fetchly.crawling.results import PageResult
from fetchly.crawling.subject import Subject
from fetchly.crawling.summary import CrawlProgress, CrawlSummary, summary_of
from fetchly.crawling.workers import Inbox
from fetchly.document.reader import ReadOptions
from fetchly.extraction.extractor import ExtractionOptions
from fetchly.extraction.format import FORMAT_VERSION
from fetchly.governing.governor import Governor, Tabs
from fetchly.governing.memory_limit import memory_limit

R = TypeVar("R")

_NO_MATTER = frozenset(("draft", "should_stop"))
_END_WAIT_S = 10.0
_BATCH = 1000  # pages to begin with that are queued in a transaction


@dataclass(frozen=True, slots=True)
class Means:
    """What a crawl works with, and does not close: how pages are read, under which policy, and what writes records.
    `render` is how the reader renders, `browsing` names what it does in a browser; `choice` is what it learns of sites
    meanwhile, kept in the crawl's state."""

    reader: PageReader
    read_options: ReadOptions
    policy: FetchPolicy
    render: str
    extraction: StartExtraction
    choice: RenderChoice = field(default_factory=RenderChoice)
    browsing: str = ""


class Crawl(Generic[R]):
    """A crawl under way: an iterator of its results in the order in which they were stored.

    A resumed crawl gives the results of its earlier runs first, so that whoever iterates sees each of them once, and
    every one. Whoever does not take results holds nothing up: they wait on disk. Use as a context manager, or iterate
    to the end; `close` drops what is under way, which a resumed crawl does again.

    Errors on making: ConfigurationError and SchemaError, FetchError for a seed that is no URL, OutputError, and what
    loading the model raises. Iterating raises what ends the whole crawl; pages that fail are in `summary`.
    """

    def __init__(
        self,
        subject: Subject,
        means: Means,
        options: CrawlOptions,
        extraction_options: ExtractionOptions,
        convert: Callable[[PageResult], R],
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        Scope(subject.seeds, options.follow, options.exclude)  # what is wrong with it is said before a model is loaded
        self._convert = convert
        self._signals = Signals()
        self._inbox: Inbox = Inbox()
        self._deliveries = Deliveries(self._nudge)
        stopping = replace(extraction_options, should_stop=self._signals.abort.is_set)
        with ExitStack() as opened:  # what is to be given back where the crawl cannot begin
            extraction = means.extraction(subject.schemas, stopping, self._inbox)
            opened.callback(extraction.close)
            self.settings = {**_settings(subject, extraction_options, means, options), "model": extraction.model}
            self._governor = _governor(means, options, say)
            self._fetcher = HttpFetcher(means.policy)
            opened.callback(self._fetcher.close)
            frontier = Frontier(
                options.state,
                self.settings,
                resume=options.resume,
                limit=options.limit,
                in_levels=options.depth is not None,
                per_shape=options.per_shape,
            )
            opened.callback(frontier.close)
            means.choice.restore(frontier.render_choice())
            for batch in _batches(itertools.chain(subject.seeds, subject.listed)):
                with frontier.transaction():
                    frontier.add(batch, depth=0)
            if options.failed:
                frontier.queue_failed()
            begun_with = (host for host in frontier.hosts_begun_with() if not is_local(host))
            hosts = (*begun_with, *(address_of(url).host for url in subject.sitemaps))
            scope = Scope(subject.seeds, options.follow, options.exclude, hosts)
            self.run = frontier.run
            self._coordinator = Coordinator(
                frontier,
                self._fetching(scope, subject, means, options),
                extraction,
                options,
                self._inbox,
                self._deliveries,
                self._signals,
                self._governor,
                say,
                subject.sitemaps,
            )
            opened.pop_all()  # the coordinator's, and ours, from here on
        self._thread = threading.Thread(target=self._coordinator.run, name="fetchly-crawl", daemon=True)

    def start(self) -> Self:
        """Begin, in the background; before it nothing is fetched. Closing ends also what was never begun."""
        self._thread.start()
        return self

    def __iter__(self) -> Iterator[R]:
        return self

    def __next__(self) -> R:
        if not self.wait():
            self.end()
            raise StopIteration
        return self.take()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def wait(self, should_stop: Callable[[], bool] = lambda: False) -> bool:
        """Until there is a result (True) or the end (False); Interrupted once `should_stop` answers True."""
        return self._deliveries.wait(should_stop)

    def take(self) -> R:
        """The result that was waited for."""
        return self._convert(self._deliveries.take())

    def end(self) -> None:
        """After the last result: raises what the crawl broke off with, and gives everything back."""
        self.close()
        self._deliveries.check()

    @property
    def progress(self) -> CrawlProgress:
        """How far the crawl is."""
        return self._coordinator.progress

    @property
    def summary(self) -> CrawlSummary:
        """Its figures; final once it has ended."""
        coordinator = self._coordinator
        return summary_of(
            coordinator.progress,
            coordinator.tally,
            stopped=coordinator.stopped,
            coverage=coordinator.coverage.shares(),
            host=self._governor.use,
        )

    @property
    def is_stopping(self) -> bool:
        """Whether `stop` or `abort` was called."""
        return self._signals.stop.is_set()

    def stop(self) -> None:
        """Begin no more pages; those under way are done to their end, and their results still come."""
        self._signals.stop.set()
        self._nudge()

    def abort(self) -> None:
        """Drop what is under way, too: the iteration ends soon. A resumed crawl does it again."""
        self._signals.stop.set()
        self._signals.abort.set()
        self._nudge()

    def close(self) -> None:
        """Abort what is not at its end, and give everything back. Idempotent."""
        self.abort()
        if self._thread.ident is None:
            self._thread.start()  # it finds that it is to end, and gives everything back
        self._thread.join(_END_WAIT_S)
        self._fetcher.close()

    def _nudge(self) -> None:
        self._inbox.put(Nudge())

    def _fetching(self, scope: Scope, subject: Subject, means: Means, options: CrawlOptions) -> Fetching:
        politeness = Politeness(options.delay_s, options.host_slots)

        def politely(cut_at: int) -> PoliteFetch:
            fetch = partial(self._fetcher.fetch, cut_at=cut_at)
            return PoliteFetch(fetch, politeness, self._signals.stop.wait, clock=time.monotonic)

        agent = robots.product_token(means.policy.user_agent)
        return Fetching(
            reader=means.reader,
            options=means.read_options,
            scope=scope,
            politeness=politeness,
            robots=robots.Robots(politely(robots.MAX_BYTES + 1), agent),
            fetch=politely(sitemap.MAX_BYTES),
            agent=agent,
            should_stop=self._signals.abort.is_set,
            choice=means.choice,
            with_signatures=options.near_duplicates is not None,
            choose=subject.choose,
            asking=subject.asking,
        )


def _governor(means: Means, options: CrawlOptions, say: Callable[[str], None]) -> Governor:
    """For what there is besides the model, which is loaded by now."""
    tabs = means.reader if isinstance(means.reader, Tabs) else None
    governor = Governor(memory_limit(options.memory_limit), options.concurrency, tabs, say)
    governor.check()
    return governor


def _batches(addresses: Iterator[Address]) -> Iterator[list[Address]]:
    while batch := list(itertools.islice(addresses, _BATCH)):
        yield batch


def _settings(subject: Subject, drawn: ExtractionOptions, means: Means, options: CrawlOptions) -> Mapping[str, Any]:
    """What the records of a crawl depend on. How far and how fast it goes may differ from run to run."""
    return {
        **subject.settings,
        "follow": options.follow,
        "exclude": options.exclude,
        "depth": options.depth,
        "sitemap": options.sitemap,
        "near_duplicates": options.near_duplicates,
        "render": means.render,
        "browsing": means.browsing,
        "keep_hidden": means.read_options.keep_hidden,
        "schema": subject.digest,
        "format": FORMAT_VERSION,
        "extraction": {f.name: getattr(drawn, f.name) for f in fields(drawn) if f.name not in _NO_MATTER},
    }
