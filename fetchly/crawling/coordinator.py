"""Events of the stages in, work for them out: the one thread that owns a crawl's state.

fetch and read (threads) -> here -> extract (one thread) -> here -> committed -> delivered. The stages hold no queue of
their own that could grow: a page is only begun when there is room for it all the way.
"""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from fetchly.crawler.fingerprint import Address
from fetchly.crawler.frontier import SAME_PAGE, Failure, Frontier, QueuedPage
from fetchly.crawler.scope import NOT_FOLLOWED
from fetchly.crawling.deliveries import Deliveries
from fetchly.crawling.events import (
    Event,
    Extracted,
    FailedPage,
    Nudge,
    OriginAsked,
    ReadPage,
    RefusedPage,
    SitemapPages,
)
from fetchly.crawling.failures import ends_the_crawl, failure_of
from fetchly.crawling.fetching import Fetching
from fetchly.crawling.options import CrawlOptions
from fetchly.crawling.results import PageResult, result_of
from fetchly.crawling.schedule import Schedule
from fetchly.crawling.summary import CrawlProgress, Tally
from fetchly.crawling.workers import Extraction, Inbox, Work, Workers
from fetchly.errors import Interrupted

_LONGEST_WAIT_S = 1.0
_MOST_EVENTS = 100  # that share a transaction


@dataclass(frozen=True, slots=True)
class Signals:
    """How others make themselves heard. `stop`: begin nothing more; `abort`: drop what is under way, too."""

    stop: threading.Event = field(default_factory=threading.Event)
    abort: threading.Event = field(default_factory=threading.Event)


class Coordinator:
    """Runs one crawl, in a thread of its own. `say` is told of failed pages and of what was left out, a line each."""

    def __init__(
        self,
        frontier: Frontier,
        fetching: Fetching,
        extraction: Extraction,
        options: CrawlOptions,
        inbox: Inbox,
        deliveries: Deliveries,
        signals: Signals,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._frontier = frontier
        self._fetching = fetching
        self._extraction = extraction
        self._options = options
        self._inbox = inbox
        self._deliveries = deliveries
        self._signals = signals
        self._say = say
        self._clock = clock
        self._workers = Workers(options.concurrency, inbox, "fetchly-fetch")
        self._schedule = Schedule(frontier, fetching, clock, self._report)
        self._sitemaps_of: list[str] = []
        self._busy = 0
        self._reading = 0  # of the busy ones, those that will hand on a page
        self._waiting: dict[int, int] = {}  # tokens of the pages that the model has not answered yet
        self._claims: dict[bytes, int] = {}  # where these pages were found
        self._delivered = 0
        self._wake_at = -math.inf
        self._started = clock()
        self.stopped = False
        self.tally = Tally()
        self.progress = self._now()

    def run(self) -> None:
        """The whole crawl. However it ends, its reader is told."""
        try:
            self._crawl()
            self.stopped = self._signals.stop.is_set()
            self._deliver_the_rest()
        except BaseException as error:
            self._deliveries.end(error)
        else:
            self._deliveries.end()
        finally:
            self._signals.abort.set()
            self._workers.close()
            self._extraction.close()
            self._frontier.close()

    def _crawl(self) -> None:
        while True:
            events = self._events()
            with self._frontier.transaction():
                for event in events:
                    self._handle(event)
                begun = self._begin()
            for work in begun:
                self._workers.submit(work)
            self._deliver()
            self.progress = self._now()
            if self._signals.abort.is_set() or not (self._busy or self._waiting or self._has_more()):
                return

    def _has_more(self) -> bool:
        return not self._signals.stop.is_set() and (self._frontier.has_more or bool(self._sitemaps_of))

    def _events(self) -> list[Event]:
        """What has happened; where nothing has, wait for it, or for a host's turn."""
        events: list[Event] = []
        try:
            wait_s = min(max(0.0, self._wake_at - self._clock()), _LONGEST_WAIT_S)
            events.append(self._inbox.get(timeout=wait_s) if wait_s else self._inbox.get_nowait())
            while len(events) < _MOST_EVENTS:
                events.append(self._inbox.get_nowait())
        except queue.Empty:
            pass
        return events

    def _begin(self) -> list[Work]:
        """Work for the free threads, as far as the model keeps up."""
        begun: list[Work] = []
        self._wake_at = math.inf
        while not self._signals.stop.is_set() and self._busy < self._options.concurrency and self._has_room():
            if self._sitemaps_of:
                begun.append(partial(self._fetching.list_pages, self._sitemaps_of.pop()))
            else:
                task = self._schedule.next()
                if task is None:
                    self._wake_at = self._schedule.wake_at
                    break
                self._reading += task.page is not None
                begun.append(task.work)
            self._busy += 1
        return begun

    def _has_room(self) -> bool:
        """Whether one more page may be on its way to the model. One always may."""
        most = self._extraction.most_tokens
        expected = sum(self._waiting.values()) + self._reading * most
        return not expected or expected + most <= self._options.waiting_tokens

    def _handle(self, event: Event) -> None:
        match event:
            case Extracted():
                self._handle_extracted(event)
            case Nudge():
                pass
            case OriginAsked():
                self._busy -= 1
                self._schedule.asked(event.origin, event.error)
                if self._options.sitemap and event.error is None and not self._frontier.noted(_sitemap(event.origin)):
                    self._sitemaps_of.append(event.origin)
            case SitemapPages():
                self._handle_sitemap(event)
            case ReadPage() | FailedPage() | RefusedPage():
                self._busy -= 1
                self._reading -= 1
                self._handle_page(event)

    def _handle_page(self, event: ReadPage | FailedPage | RefusedPage) -> None:
        match event:
            case ReadPage():
                self._handle_read(event)
            case RefusedPage():
                self._frontier.skip(event.page, event.code, event.message)
                if event.instead is not None:
                    self._frontier.add([event.instead], event.page.depth, event.page.id)
                elif event.page.depth == 0:  # of a seed, its user wants to know
                    self._report(event.page, Failure(event.code, event.message))
            case FailedPage():
                self._handle_failed(event.page, event.error)

    def _handle_failed(self, page: QueuedPage, error: Exception) -> None:
        if isinstance(error, Interrupted):
            self._frontier.release(page)
            return
        if ends_the_crawl(error):
            raise error
        failure = failure_of(error)
        if failure.retryable and page.attempts + 1 < self._options.tries:
            self._frontier.retry(page, failure)
            return
        self._frontier.fail(page, failure)
        self._report(page, failure)

    def _handle_read(self, read: ReadPage) -> None:
        page = read.page
        self.tally.fetch_ms += read.fetch_ms
        self.tally.read_ms += read.read_ms
        where = read.final.fingerprint
        if where in self._claims or self._frontier.has_been_read(where, but=page.id):
            self._frontier.skip(page, SAME_PAGE, f"it is {read.final.url}")
        elif not read.is_wanted:
            self._frontier.skip(page, NOT_FOLLOWED, "a seed, read for its links alone", self._links(read))
        else:
            self._claims[where] = page.id
            self._waiting[page.id] = self._extraction.tokens(read)
            self._extraction.submit(read)

    def _handle_extracted(self, event: Extracted) -> None:
        read = event.read
        page = read.page
        del self._waiting[page.id], self._claims[read.final.fingerprint]
        self.tally.extract_ms += event.ms
        if event.extraction is not None:
            self.tally.add(event.extraction.stats)
            result = self._result(event)
            self._frontier.complete(page, read.final, result.as_text(), result.records, self._links(read))
        elif isinstance(event.error, Interrupted):
            self._frontier.release(page)
        else:
            assert event.error is not None
            if ends_the_crawl(event.error):
                raise event.error
            failure = failure_of(event.error)
            self._frontier.fail(page, failure, self._links(read))
            self._report(page, failure)

    def _handle_sitemap(self, event: SitemapPages) -> None:
        self._frontier.add(event.addresses, depth=0)
        if not event.is_end:
            return
        self._busy -= 1
        for note in event.notes:
            self._say(f"{note.code} {note.url}: {note.message}")
        if event.error is None:
            self._frontier.note(_sitemap(event.origin))
        elif not isinstance(event.error, Interrupted):
            self._say(failure_of(event.error).message)

    def _links(self, read: ReadPage) -> tuple[Address, ...]:
        deepest = self._options.depth is not None and read.page.depth >= self._options.depth
        return () if deepest else read.links

    def _result(self, event: Extracted) -> PageResult:
        read, extraction = event.read, event.extraction
        assert extraction is not None
        return PageResult(
            requested=read.page.url,
            url=read.final.url,
            status=read.status,
            redirects=read.redirects,
            rendered=read.rendered,
            value=extraction.record.value,
            evidence=extraction.record.evidence,
            warnings=(*read.warnings, *extraction.record.warnings),
            attempt=extraction.attempt,
            identity=self._extraction.identity,
            stats=extraction.stats,
        )

    def _report(self, page: QueuedPage, failure: Failure) -> None:
        self._say(failure.message if page.url in failure.message else f"{page.url}: {failure.message}")

    def _deliver(self) -> None:
        """Hand on what is committed, and no more than somebody will soon take."""
        room = self._deliveries.room
        if room > 0 and self._delivered < self._frontier.last_result:
            stored = self._frontier.results(after=self._delivered, most=room)
            self._delivered = stored[-1].seq
            self._deliveries.put([result_of(result.content) for result in stored])

    def _deliver_the_rest(self) -> None:
        while not self._signals.abort.is_set() and self._delivered < self._frontier.last_result:
            self._deliver()
            self._events()

    def _now(self) -> CrawlProgress:
        decoded_s = self.tally.decode_ms / 1000
        return CrawlProgress(
            counts=self._frontier.counts(),
            seconds=self._clock() - self._started,
            tokens_per_s=self.tally.output_tokens / decoded_s if decoded_s else 0.0,
            waiting=len(self._waiting),
            busy=self._busy,
            hosts=self._fetching.politeness.states(),
        )


def _sitemap(origin: str) -> str:
    return f"sitemap {origin}"
