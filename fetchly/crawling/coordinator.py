"""Events of the stages in, work for them out: the one thread that owns a crawl's state.

fetch and read (threads) -> here -> extract (one thread) -> here -> committed -> delivered. The stages hold no queue of
their own that could grow: a page is only begun when there is room for it all the way.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial

from fetchly.crawler.fingerprint import Address
from fetchly.crawler.frontier import SAME_PAGE, Failure, Frontier, QueuedPage
from fetchly.crawler.near_duplicates import NEAR_DUPLICATE
from fetchly.crawler.scope import NOT_FOLLOWED
from fetchly.crawling.coverage import Coverages
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
from fetchly.crawling.extraction import Extraction
from fetchly.crawling.failures import NO_RECORD, REFUSALS, ends_the_crawl, failure_of, lacking_field
from fetchly.crawling.fetching import Fetching
from fetchly.crawling.listings import Listings
from fetchly.crawling.options import CrawlOptions
from fetchly.crawling.queues import Queues
from fetchly.crawling.results import PageResult, result_of
from fetchly.crawling.schedule import Schedule
from fetchly.crawling.stages import StageTally
from fetchly.crawling.summary import CrawlProgress, Tally
from fetchly.crawling.workers import Inbox, Work, Workers
from fetchly.errors import FetchError, Interrupted, PolicyRefused
from fetchly.governing.governor import Governor

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
        governor: Governor,
        say: Callable[[str], None],
        sitemaps: Sequence[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._frontier = frontier
        self._fetching = fetching
        self._extraction = extraction
        self._options = options
        self._inbox = inbox
        self._deliveries = deliveries
        self._signals = signals
        self._governor = governor
        self._say = say
        self._clock = clock
        self._workers = Workers(options.concurrency, inbox, "fetchly-fetch")
        self._schedule = Schedule(frontier, fetching, clock, self._unfetched, say)
        self._listings = Listings(frontier, sitemaps)
        self._failure: Exception | None = None  # that ends the crawl
        self._queues = Queues(options.bounds(extraction.budgets, extraction.width), clock)
        self._claims: dict[bytes, int] = {}  # where these pages were found
        share = options.near_duplicates
        self._near = frontier.near_duplicates(share) if share is not None else None
        self._held: dict[int, list[ReadPage]] = {}  # pages that are like one whose record is being written
        self._delivered = 0
        self._said: set[str] = set()
        self._wake_at = -math.inf
        self._started = clock()
        self.stopped = False
        self.tally = Tally()
        self.stages = StageTally()
        self.coverage = Coverages({name: schema.json for name, schema in extraction.schemas.items()})
        self.progress = self._now()

    def run(self) -> None:
        """The whole crawl. However it ends, its reader is told, also of what cannot be closed."""
        try:
            with ExitStack() as closing:  # each is closed, whatever comes of the others; the last first
                closing.callback(self._frontier.close)
                closing.callback(self._extraction.close)
                closing.callback(self._workers.close)
                closing.callback(self._inbox.close)
                closing.callback(lambda: self._governor.close(self._queues.load()))
                closing.callback(self._signals.abort.set)
                self._tell()
        except BaseException as error:
            self._deliveries.end(error)

    def _tell(self) -> None:
        try:
            self._crawl()
            self.stopped = self._signals.stop.is_set()
            self._deliver_the_rest()
            # Who breaks off while results are handed on has not seen them all.
            self.stopped = self.stopped or self._delivered < self._frontier.last_result
            for warning in self.coverage.warnings():
                self._say(warning)
        except BaseException as error:
            self._deliveries.end(error)
        else:
            self._deliveries.end(self._failure)

    def _crawl(self) -> None:
        while True:
            events = self._events()
            began = self._clock()
            with self._frontier.transaction():
                for event in events:
                    self._handle(event)
                self._frontier.learn(self._fetching.choice.take_changes())
                handled = self._clock()
                begun = self._begin()
                began += self._clock() - handled  # to decide what comes next is no storing
            self.stages.stored(sum(isinstance(event, Extracted) for event in events), self._clock() - began)
            for suspicion in self._frontier.suspicions():
                self._say(suspicion.line())
            for work in begun:
                self._workers.submit(work)
            self._deliver()
            self.progress = self._now()
            if self._signals.abort.is_set() or not (self._queues.load().is_any or self._has_more()):
                return

    def _has_more(self) -> bool:
        return not self._signals.stop.is_set() and (self._frontier.has_more or bool(self._listings))

    def _events(self) -> list[Event]:
        """What has happened; where nothing has, wait for it, or for a host's turn."""
        return self._inbox.take(_MOST_EVENTS, min(max(0.0, self._wake_at - self._clock()), _LONGEST_WAIT_S))

    def _begin(self) -> list[Work]:
        """Work for the free threads, as far as the host and the model keep up."""
        begun: list[Work] = []
        most = self._governor.pages(self._queues.load())
        self._wake_at = self._governor.due_at
        while not self._signals.stop.is_set() and self._queues.busy < most and self._queues.has_room():
            if self._listings:
                begun.append(self._listing(self._listings.take()))
                self._queues.begin(None)
            else:
                task = self._schedule.next()
                if task is None:
                    self._wake_at = min(self._wake_at, self._schedule.wake_at)
                    break
                begun.append(task.work)
                self._queues.begin(task.page.id if task.page is not None else None)
        return begun

    def _handle(self, event: Event) -> None:
        match event:
            case Extracted():
                self.stages.answered(event)
                self._handle_extracted(event)
                self._settle(event.read.page, is_done=event.extraction is not None)
            case Nudge():
                pass
            case OriginAsked():
                self._queues.end()
                self._schedule.asked(event.origin, event.error)
                for note in event.notes:
                    self._say_once(f"ROBOTS_NOTE {event.origin}: {note}")
                if self._options.sitemap and event.error is None:
                    self._listings.want(event.origin)
            case SitemapPages():
                self._handle_sitemap(event)
            case ReadPage() | FailedPage() | RefusedPage():
                self.stages.came(event, self._queues.end(event.page.id))
                self._handle_page(event)

    def _handle_page(self, event: ReadPage | FailedPage | RefusedPage) -> None:
        match event:
            case ReadPage():
                self._handle_read(event)
            case RefusedPage():
                self._frontier.skip(event.page, event.code, event.message)
                if event.instead is not None:
                    self._frontier.add([event.instead], event.page.depth, event.page.id)
                elif event.page.depth == 0 and not event.is_list:  # of a seed, its user wants to know
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
        if not self._is_tried_again(page, failure):
            self._frontier.fail(page, failure)
            self._fail(page, failure, error)

    def _is_tried_again(self, page: QueuedPage, failure: Failure) -> bool:
        """Whether a page is queued once more, as it may go better later."""
        is_tried_again = failure.retryable and page.attempts + 1 < self._options.tries
        if is_tried_again:
            self._frontier.retry(page, failure)
        return is_tried_again

    def _unfetched(self, page: QueuedPage, failure: Failure) -> None:
        """Of what the schedule does not even ask for. A site's own word about a seed is no failure."""
        if failure.code == "ROBOTS_DISALLOWED":
            self._report(page, failure)
        else:
            words = failure.message.removeprefix(f"{failure.code} {page.url}: ")
            kind = PolicyRefused if failure.code in REFUSALS else FetchError
            self._fail(page, failure, kind(words, url=page.url, code=failure.code, retryable=failure.retryable))

    def _fail(self, page: QueuedPage, failure: Failure, error: Exception) -> None:
        if self._options.stop_at_failure:
            self._failure = self._failure or error
            self._signals.stop.set()
        if self._failure is not error:  # which is told by whoever it is raised to
            self._report(page, failure)

    def _listing(self, source: str) -> Work:
        is_named = self._listings.is_named(source)
        return partial(self._fetching.list_named if is_named else self._fetching.list_pages, source)

    def _handle_read(self, read: ReadPage) -> None:
        page = read.page
        self.tally.fetch_ms += read.fetch_ms
        self.tally.read_ms += read.read_ms
        self.tally.pages_rendered += read.rendered
        self.tally.pages_from_cache += read.from_cache == "fresh"
        self.tally.pages_revalidated += read.from_cache == "revalidated"
        where = read.final.fingerprint
        if where in self._claims or self._frontier.has_been_read(where, but=page.id):
            self._frontier.skip(page, SAME_PAGE, f"it is {read.final.url}")
        elif read.schema is None:
            self._frontier.skip(page, NOT_FOLLOWED, "read for its links alone", self._links(read))
        else:
            self._claims[where] = page.id
            # A token is some four characters; the model reads no more than its budget.
            tokens = min(self._extraction.budgets[read.schema], len(read.document.text) // 4 + 1)
            self._queues.wait(page.id, tokens, len(read.document.text))
            self._hand_on(read)

    def _hand_on(self, read: ReadPage) -> None:
        """To the model, unless it is another page's double. Where that one waits for its record, wait what comes of it:
        a double is only skipped for a page that gave one."""
        page, signature, schema = read.page, read.signature, read.schema
        if self._near is None or signature is None or schema is None:
            self._extraction.submit(read)
            return
        alike = self._near.find(signature, schema)
        if alike is None:
            self._near.begin(page.id, page.url, signature, schema)
            self._extraction.submit(read)
        elif alike.is_done:
            self._queues.answered(page.id)
            del self._claims[read.final.fingerprint]
            message = f"its text is {alike.share:.0%} like that of {alike.url}"
            self._frontier.skip(page, NEAR_DUPLICATE, message, self._links(read))
        else:
            self._held.setdefault(alike.page, []).append(read)

    def _settle(self, page: QueuedPage, *, is_done: bool) -> None:
        """What came of a page is known; its doubles have waited for it."""
        if self._near is not None:
            self._near.end(page.id, is_done=is_done)
            for read in self._held.pop(page.id, ()):
                self._hand_on(read)

    def _handle_extracted(self, event: Extracted) -> None:
        read = event.read
        page = read.page
        self._queues.answered(page.id)
        del self._claims[read.final.fingerprint]
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
            lacking = lacking_field(event.error)
            if lacking is not None:
                self._frontier.skip(page, NO_RECORD, failure.message, self._links(read), read.final)
                self._say_once(f"{NO_RECORD}: pages without {lacking} give no record", f", the first: {page.url}")
            elif not self._is_tried_again(page, failure):
                self._frontier.fail(page, failure, self._links(read))
                self._fail(page, failure, event.error)

    def _handle_sitemap(self, event: SitemapPages) -> None:
        self._frontier.add(event.addresses, depth=0)
        for note in event.notes:
            self._say(f"{note.code} {note.url}: {note.message}")
        if not event.is_end:
            return
        self._queues.end()
        if event.error is None:
            self._listings.read(event.origin)
        elif not isinstance(event.error, Interrupted):
            self._say(failure_of(event.error).message)

    def _links(self, read: ReadPage) -> tuple[Address, ...]:
        deepest = self._options.depth is not None and read.page.depth >= self._options.depth
        return () if deepest else read.links

    def _result(self, event: Extracted) -> PageResult:
        read, extraction = event.read, event.extraction
        assert extraction is not None
        assert read.schema is not None
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
            identity=self._extraction.identities[read.schema],
            stats=replace(extraction.stats, page_from_cache=read.from_cache),
            schema=read.schema,
        )

    def _report(self, page: QueuedPage, failure: Failure) -> None:
        self._say(failure.message if page.url in failure.message else f"{page.url}: {failure.message}")

    def _say_once(self, what: str, example: str = "") -> None:
        if what not in self._said:
            self._said.add(what)
            self._say(what + example)

    def _deliver(self) -> None:
        """Hand on what is committed, and no more than somebody will soon take."""
        room = self._deliveries.room
        if room > 0 and self._delivered < self._frontier.last_result:
            stored = self._frontier.results(after=self._delivered, most=room)
            self._delivered = stored[-1].seq
            results = [result_of(result.content) for result in stored]
            for result in results:
                self.coverage.add(result.schema, result.value)
            self._deliveries.put(results)

    def _deliver_the_rest(self) -> None:
        self._wake_at = math.inf  # nothing is due any more but the reader
        while not self._signals.abort.is_set() and self._delivered < self._frontier.last_result:
            self._deliver()
            self._events()

    def _now(self) -> CrawlProgress:
        decoded_s = self.tally.decode_ms / 1000
        seconds = self._clock() - self._started
        return CrawlProgress(
            counts=self._frontier.counts(),
            seconds=seconds,
            tokens_per_s=self.tally.output_tokens / decoded_s if decoded_s else 0.0,
            waiting=self._queues.waiting,
            busy=self._queues.busy,
            hosts=self._fetching.politeness.states(),
            queues=self._queues.uses(),
            held_back=self._governor.use.words,
            stages=self.stages.uses(seconds),
        )
