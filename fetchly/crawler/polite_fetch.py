"""A URL in, its Page out, when its host's turn has come: for robots.txt, sitemaps and whatever no queue plans."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from fetchly.crawler.politeness import Outcome, Politeness, host_key
from fetchly.errors import FetchError, Interrupted
from fetchly.goods import Page

_LOOK_AGAIN_S = 0.5  # while another request holds the host's slot
_LEAST_WAIT_S = 0.001
_MOST_HOSTS = 10  # that one request is led through


class Fetch(Protocol):
    """HttpFetcher.fetch, or a fake of it."""

    def __call__(self, url: str, *, may_follow: Callable[[str], object]) -> Page:
        """The page, after all redirects that `may_follow` does not refuse by raising."""


class _OtherHost(Exception):
    """A redirect that leads to another host, whose turn it may not be."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.url = url


class PoliteFetch:
    """`fetch`, behind the turn of its host. Thread-safe where `fetch` is.

    `wait(seconds)` sleeps and answers whether the run is being stopped: `threading.Event().wait`. A host that is not
    ready within `patience_s` is a FetchError (HOST_PAUSED, retryable). A redirect to another host waits for the turn of
    that host, and has the time of a request of its own.
    """

    def __init__(
        self,
        fetch: Fetch,
        politeness: Politeness,
        wait: Callable[[float], bool],
        *,
        clock: Callable[[], float],
        patience_s: float = 120.0,
    ) -> None:
        self._fetch = fetch
        self._politeness = politeness
        self._wait = wait
        self._clock = clock
        self._patience_s = patience_s

    def __call__(self, url: str) -> Page:
        """The page. Raises what `fetch` raises, HOST_PAUSED, and Interrupted where the run is being stopped."""
        here, passed = url, [url]
        for _ in range(_MOST_HOSTS):
            before = len(passed)
            try:
                page = self._of_host(here, passed)
            except _OtherHost as led:
                here = led.url
                continue
            return replace(page, requested=url, redirects=(*passed[: before - 1], *page.redirects))
        raise FetchError(f"more than {_MOST_HOSTS} hosts, the last one at {here}", url=url, code="TOO_MANY_REDIRECTS")

    def _of_host(self, url: str, passed: list[str]) -> Page:
        host = host_key(url)

        def may_follow(target: str) -> None:
            passed.append(target)
            if host_key(target) != host:
                raise _OtherHost(target)

        self._take_turn(host, url)
        outcome = Outcome()
        try:
            page = self._fetch(url, may_follow=may_follow)
            outcome = Outcome(status=page.status)
            return page
        except _OtherHost:
            outcome = Outcome(status=302)
            raise
        except FetchError as error:
            outcome = Outcome.of_error(error)
            raise
        finally:
            self._politeness.end(host, outcome)

    def _take_turn(self, host: str, url: str) -> None:
        give_up_at = self._clock() + self._patience_s
        while not self._politeness.begin(host):
            ready_at, now = self._politeness.ready_at(host), self._clock()
            if now >= give_up_at or give_up_at < ready_at < math.inf:
                raise FetchError(
                    f"{host} is not to be asked for another {max(0.0, ready_at - now):,.0f} s",
                    url=url,
                    code="HOST_PAUSED",
                    hint="try again later",
                    retryable=True,
                )
            seconds = _LOOK_AGAIN_S if ready_at == math.inf else max(ready_at - now, _LEAST_WAIT_S)
            if self._wait(seconds):
                raise Interrupted("the run was stopped", where=url)
