"""Work in, events out into one inbox: threads, as many as there is work for."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress

from fetchly.crawling.events import Event

Work = Callable[[], Iterable[Event]]
_END_WAIT_S = 2.0  # for a thread in the middle of a request that cannot be called back; it is a daemon, and harmless


class Inbox:
    """Events on their way from any thread to the one that takes them. To put one never waits, in a signal handler
    neither; whoever has many to put waits in between until those before are taken."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._events: deque[Event] = deque()
        self._taken = 0
        self._is_closed = False

    def put(self, event: Event) -> int:
        """The number of the event, for `wait_taken`. Nobody takes it any more where the inbox is closed."""
        with self._changed:
            if not self._is_closed:
                self._events.append(event)
                self._changed.notify_all()
            return self._taken + len(self._events)

    def take(self, most: int, wait_s: float) -> list[Event]:
        """The oldest events, `most` at a time; where there is none, it is waited for so many seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._events, wait_s)
            taken = [self._events.popleft() for _ in range(min(most, len(self._events)))]
            self._taken += len(taken)
            self._changed.notify_all()
            return taken

    def wait_taken(self, number: int) -> bool:
        """Wait until the event of this number is taken. False: the inbox is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._taken >= number)
            return not self._is_closed

    def close(self) -> None:
        """Nothing more is taken: what waits here is dropped, and whoever waits for that goes on."""
        with self._changed:
            self._is_closed = True
            self._events.clear()
            self._changed.notify_all()


class Workers:
    """`count` threads, each started when there is work for it. Who submits sees to it that no more work waits than
    makes sense. Work raises nothing: its failures are events. Of a piece of work that comes to many events the next one
    is only put when the one before is taken, so that no more than one of each thread ever waits for the taker."""

    def __init__(self, count: int, inbox: Inbox, name: str) -> None:
        self._count = count
        self._inbox = inbox
        self._name = name
        self._work: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []

    def submit(self, work: Work) -> None:
        """Have it done; every event of it goes to the inbox as it comes."""
        if len(self._threads) < self._count:
            thread = threading.Thread(target=self._run, name=f"{self._name}-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._work.put(work)

    def close(self) -> None:
        """End the threads once their work at hand is done, or the inbox is closed. What waits is not begun."""
        with suppress(queue.Empty):
            while True:
                self._work.get_nowait()
        for _ in self._threads:
            self._work.put(None)
        end = time.monotonic() + _END_WAIT_S
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            put = 0
            for event in work():
                if not self._inbox.wait_taken(put):
                    break
                put = self._inbox.put(event)
