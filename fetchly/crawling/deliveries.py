"""Results as they are committed in, one at a time for whoever iterates over a crawl out; the crawl's end with them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from fetchly.crawling.results import PageResult
from fetchly.errors import Interrupted

WINDOW = 32
"""Results in memory that nobody has taken yet; the others wait on disk."""
_LOOK_S = 0.1


class Deliveries:
    """Between the coordinator's thread and a reader's. `nudge` tells the coordinator that there is room again."""

    def __init__(self, nudge: Callable[[], None]) -> None:
        self._nudge = nudge
        self._changed = threading.Condition()
        self._waiting: deque[PageResult] = deque()
        self._ended = False
        self._error: BaseException | None = None

    @property
    def room(self) -> int:
        """How many more results may be put."""
        return WINDOW - len(self._waiting)

    def put(self, results: list[PageResult]) -> None:
        """Hand on results, no more than there is room for."""
        with self._changed:
            self._waiting.extend(results)
            self._changed.notify_all()

    def end(self, error: BaseException | None = None) -> None:
        """There is nothing more; `error` is why, where the crawl broke off."""
        with self._changed:
            self._ended = True
            self._error = self._error or error
            self._changed.notify_all()

    def wait(self, should_stop: Callable[[], bool] = lambda: False) -> bool:
        """Until there is a result (True) or the end (False). Raises Interrupted once `should_stop` answers True."""
        with self._changed:
            while not self._waiting and not self._ended:
                if should_stop():
                    raise Interrupted("the crawl was no longer waited for")
                # Short waits: a main thread must get to see its signals.
                self._changed.wait(_LOOK_S)
            return bool(self._waiting)

    def take(self) -> PageResult:
        """The result that `wait` has seen."""
        with self._changed:
            result = self._waiting.popleft()
        self._nudge()
        return result

    def check(self) -> None:
        """Raise what the crawl broke off with, once."""
        error, self._error = self._error, None
        if error is not None:
            raise error
