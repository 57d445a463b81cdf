"""Hosts and their rules in; what a fetching thread is to do next out: no page before its host's turn, or unasked."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from fetchly.crawler.frontier import Failure, Frontier, QueuedPage
from fetchly.crawler.local_pages import is_local
from fetchly.crawler.robots import origin_of
from fetchly.crawling.events import Event, OriginAsked
from fetchly.crawling.failures import failure_of
from fetchly.crawling.fetching import Fetching
from fetchly.crawling.workers import Work

HOST_SILENT = "HOST_SILENT"
"""Why the pages of a host fail that has answered nothing for long: without a request, and for --resume --failed."""
ROBOTS_WAITS = 2
"""How often a site whose robots.txt is out of reach is waited for, before its pages fail (for --resume --failed)."""
_AT_ONCE = 200  # pages that are refused before events are looked at again


@dataclass(frozen=True, slots=True)
class Task:
    """What a fetching thread is to do: read `page`, or, with None, find out whether a site may be read."""

    work: Work
    page: QueuedPage | None


class Schedule:
    """Takes pages from the frontier when they may be fetched. `wake_at` is the clock's reading from which on it is
    worth asking again, without anything else having happened. `refused` is told of pages that
    fail unfetched (of a silent host, of the first one alone), and of seeds that robots.txt forbids; `waits` of sites
    that are waited for."""

    def __init__(
        self,
        frontier: Frontier,
        fetching: Fetching,
        clock: Callable[[], float],
        refused: Callable[[QueuedPage, Failure], None],
        waits: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._frontier = frontier
        self._fetching = fetching
        self._clock = clock
        self._refused = refused
        self._tell_waiting = waits
        self._asking: set[str] = set()
        self._closed: dict[str, Failure] = {}
        self._held: dict[str, float] = {}
        self._waits: Counter[str] = Counter()
        self._silent: set[str] = set()
        self._turn = 0
        self.wake_at = math.inf

    def next(self) -> Task | None:
        """One task, None where there is none for now. Hosts take turns."""
        self.wake_at = math.inf
        hosts = list(self._frontier.hosts)
        for step in range(len(hosts)):
            task = self._of_host(hosts[(self._turn + step) % len(hosts)])
            if task is not None:
                self._turn = (self._turn + step + 1) % len(hosts)
                return task
        return None

    def asked(self, origin: str, error: Exception | None) -> None:
        """The robots.txt of a site was asked for. `error`: its pages cannot be had, either."""
        self._asking.discard(origin)
        if error is not None:
            self._closed[origin] = failure_of(error)

    def _of_host(self, host: str) -> Task | None:
        if is_local(host):
            page = self._frontier.peek(host)
            if page is None:
                return None
            self._frontier.take(page)
            return Task(partial(self._read, page), page)
        if self._fetching.politeness.is_silent(host):
            self._give_up(host)
            return None
        ready_at = max(self._fetching.politeness.ready_at(host), self._held.get(host, -math.inf))
        if ready_at > self._clock():
            self.wake_at = min(self.wake_at, ready_at)
            return None
        for _ in range(_AT_ONCE):
            page = self._frontier.peek(host)
            if page is None:
                return None
            origin = origin_of(page.url)
            if origin in self._asking:
                return None
            if origin in self._closed:
                self._fail(page, self._closed[origin])
                continue
            rules = self._fetching.robots.known(page.url)
            if rules is None:
                self._asking.add(origin)
                return Task(partial(self._ask, origin), None)
            refusal = rules.refusal(page.url)
            if refusal is None:
                return self._begun(page)
            if not refusal.retryable:
                # The site's own word is no failure; of a seed, its user wants to know.
                self._frontier.refuse(page, refusal.code, refusal.line())
                if page.depth == 0:
                    self._refused(page, failure_of(refusal))
            elif self._waits[origin] >= ROBOTS_WAITS:
                self._fail(page, failure_of(refusal))
            else:
                self._waits[origin] += 1
                self._held[host] = rules.until
                again_s = max(0.0, rules.until - self._clock())
                self._tell_waiting(f"ROBOTS_WAITED_FOR {origin}: {rules.reason}; it is asked again in {again_s:.0f} s")
                self.wake_at = min(self.wake_at, rules.until)
                return None
        self.wake_at = -math.inf
        return None

    def _give_up(self, host: str) -> None:
        for _ in range(_AT_ONCE):
            page = self._frontier.peek(host)
            if page is None:
                return
            why = f"{HOST_SILENT} {page.url}: {host} has given no answer for long, and is asked no more"
            hint = "its other pages fail like this one; --resume --failed tries them again"
            failure = Failure(HOST_SILENT, f"{why} ({hint})", retryable=True)
            self._frontier.take(page)
            self._frontier.fail(page, failure, counts=False)
            if host not in self._silent:
                self._silent.add(host)
                self._refused(page, failure)
        self.wake_at = -math.inf

    def _begun(self, page: QueuedPage) -> Task | None:
        if not self._fetching.politeness.begin(page.host):
            return None
        self._frontier.take(page)
        return Task(partial(self._read, page), page)

    def _ask(self, origin: str) -> Iterator[OriginAsked]:
        yield self._fetching.ask_origin(origin)

    def _read(self, page: QueuedPage) -> Iterator[Event]:
        yield from self._fetching.read(page)

    def _fail(self, page: QueuedPage, failure: Failure) -> None:
        self._frontier.take(page)
        self._frontier.fail(page, failure, counts=False)
        self._refused(page, failure)
