"""A URL in, its Page out, when its host's turn has come: for robots.txt, sitemaps and whatever no queue plans."""

from __future__ import annotations

import math
from collections.abc import Callable

from fetchly.crawler.politeness import Outcome, Politeness, host_key
from fetchly.errors import FetchError, Interrupted
from fetchly.goods import Page

_LOOK_AGAIN_S = 0.5  # while another request holds the host's slot
_LEAST_WAIT_S = 0.001


class PoliteFetch:
    """`fetch`, behind the turn of its host. Thread-safe where `fetch` is.

    `wait(seconds)` sleeps and answers whether the run is being stopped: `threading.Event().wait`. A host that is not
    ready within `patience_s` is a FetchError (HOST_PAUSED, retryable). Redirects to other hosts are part of a request
    and wait for no turn of their own.
    """

    def __init__(
        self,
        fetch: Callable[[str], Page],
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
        host = host_key(url)
        self._take_turn(host, url)
        outcome = Outcome()
        try:
            page = self._fetch(url)
            outcome = Outcome(status=page.status)
            return page
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
