"""Read pages in, the events of their records out: each is written by one of the engines of a cluster."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fetchly.cluster.actor_pool import ActorPool
from fetchly.cluster.ray_session import Lost, RaySession, portable
from fetchly.crawling.events import Extracted, ReadPage
from fetchly.crawling.extraction import LocalExtraction
from fetchly.crawling.workers import Inbox, Workers
from fetchly.errors import ConfigurationError, ExtractionError
from fetchly.extraction.extractor import Extraction, ExtractionOptions
from fetchly.extraction.schema import UserSchema
from fetchly.sdk import Client


@dataclass(frozen=True, slots=True)
class _Ready:
    """What an engine is: the fields of the crawl's Extraction. All engines of a crawl are alike."""

    identities: Mapping[str, str]
    budgets: Mapping[str, int]
    model: str


@dataclass(frozen=True, slots=True)
class _Written:
    """What came of a page: the fields of Extracted."""

    extraction: Extraction | None
    error: Exception | None
    ms: float


class EngineActor:
    """A model. `options` are those of Client; it is loaded when the first method is called."""

    def __init__(self, options: Mapping[str, Any], schemas: Mapping[str, UserSchema], drawn: ExtractionOptions) -> None:
        self._client = Client(**options)
        self._schemas = schemas
        self._drawn = drawn
        self._extraction: LocalExtraction | None = None

    def prepare(self) -> _Ready | Exception:
        """Load the model. Errors are told: Ray would dress them up."""
        try:
            extraction = self._loaded()
        except Exception as error:
            return portable(error)
        return _Ready(extraction.identities, extraction.budgets, extraction.model)

    def write(self, read: ReadPage) -> _Written:
        """The record of a page, as JSON."""
        written = self._loaded().write(read)
        extraction = replace(written.extraction, value=None) if written.extraction is not None else None
        return _Written(extraction, portable(written.error) if written.error is not None else None, written.ms)

    def close(self) -> None:
        """Free the model."""
        self._client.close()

    def _loaded(self) -> LocalExtraction:
        if self._extraction is None:
            extraction = self._client.means().extraction(self._schemas, self._drawn, Inbox())
            assert isinstance(extraction, LocalExtraction)
            self._extraction = extraction
        return self._extraction


class ClusterExtraction:
    """The last stage of a crawl (Extraction), `count` pages side by side: each has the engine to itself that writes its
    record. It begins with the first engine that has loaded its model; where one goes down, the page that it was at
    fails, to be tried again. All engines are alike: one that has another model takes no pages.

    Errors on making: what loading the model raises, where no engine can.
    """

    def __init__(
        self,
        session: RaySession,
        options: Mapping[str, Any],
        count: int,
        gpus: bool,
        say: Callable[[str], None],
        schemas: Mapping[str, UserSchema],
        drawn: ExtractionOptions,
        inbox: Inbox,
    ) -> None:
        lasting = replace(drawn, should_stop=None)  # who is to stop is ended
        engines = [session.start(EngineActor, options, schemas, lasting, gpu=gpus) for _ in range(count)]
        self._lock = threading.Lock()
        self._first: _Ready | None = None
        self._pool = ActorPool(engines, 1, self._judge, say, "engine")
        self._workers = Workers(count, inbox, "fetchly-engine")
        try:
            self._pool.wait()
        except BaseException:
            self.close()
            raise
        assert self._first is not None
        self.schemas: Mapping[str, UserSchema] = schemas
        self.width: int = count
        self.identities = self._first.identities
        self.budgets = self._first.budgets
        self.model = self._first.model

    def submit(self, read: ReadPage) -> None:
        """As the protocol says."""
        self._workers.submit(lambda: (self._extracted(read),))

    def close(self) -> None:
        """As the protocol says: the engines are the crawl's."""
        self._pool.close()
        self._workers.close()

    def _judge(self, ready: _Ready | Exception) -> None:
        if isinstance(ready, Exception):
            raise ready
        with self._lock:
            self._first = self._first or ready
        if ready != self._first:
            raise ConfigurationError(
                "it has another model than the first, or another fetchly", hint="install the same on all machines"
            )

    def _extracted(self, read: ReadPage) -> Extracted:
        started = time.perf_counter()
        try:
            written: _Written = self._pool.ask("write", read)
        except Lost as lost:
            error = ExtractionError(
                lost.message, where=read.page.url, hint=lost.hint, code=lost.code, retryable=lost.retryable
            )
            return Extracted(read, None, error, 1000 * (time.perf_counter() - started))
        except Exception as error:  # also a bug of ours that one page brings out
            return Extracted(read, None, error, 1000 * (time.perf_counter() - started))
        return Extracted(read, written.extraction, written.error, written.ms)
