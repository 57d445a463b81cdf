"""Work in, events out into one inbox: the threads that fetch, and the one that writes records."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from fetchly.crawling.events import Event, Extracted, ReadPage
from fetchly.extraction.extractor import Extractor

Inbox = queue.SimpleQueue[Event]
Work = Callable[[], Iterable[Event]]
_END_WAIT_S = 2.0  # for a thread in the middle of a request that cannot be called back; it is a daemon, and harmless


class Workers:
    """`count` threads, each started when there is work for it. Who submits sees to it that no more work waits than
    makes sense. Work raises nothing: its failures are events."""

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
        """End the threads once their work at hand is done. What waits is not begun."""
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
            for event in work():
                self._inbox.put(event)


class Extraction:
    """One thread that writes the records of read pages, one at a time: the model takes no more. `extractors` are by the
    names of their schemas; `identities` are what a record depends on besides its page, `schemas` the user's."""

    def __init__(self, extractors: Mapping[str, Extractor], inbox: Inbox) -> None:
        self._extractors = extractors
        self._workers = Workers(1, inbox, "fetchly-extract")
        self.identities = {name: extractor.identity for name, extractor in extractors.items()}
        self.schemas = {name: extractor.schema.json for name, extractor in extractors.items()}

    def submit(self, read: ReadPage) -> None:
        """Have the record of a page written."""
        self._workers.submit(lambda: (self._extracted(read),))

    def tokens(self, read: ReadPage) -> int:
        """About how many tokens of a page the model will read: a token is some four characters."""
        return min(self._of(read).budget, len(read.document.text) // 4 + 1)

    @property
    def most_tokens(self) -> int:
        """No page takes more."""
        return max(extractor.budget for extractor in self._extractors.values())

    def close(self) -> None:
        """End the thread."""
        self._workers.close()

    def _of(self, read: ReadPage) -> Extractor:
        assert read.schema is not None
        return self._extractors[read.schema]

    def _extracted(self, read: ReadPage) -> Extracted:
        started = time.perf_counter()
        try:
            extraction = self._of(read).extract(read.document)
        except Exception as error:  # also a bug of ours that one page brings out
            return Extracted(read, None, error, 1000 * (time.perf_counter() - started))
        return Extracted(read, extraction, None, 1000 * (time.perf_counter() - started))
