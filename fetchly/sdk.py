"""Targets and schemas in, typed results out: the functions and clients that a user imports."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Generic, Literal, Self, TypeVar, overload

from fetchly.crawler.http import FetchPolicy, HttpFetcher
from fetchly.crawler.source import open_target
from fetchly.document.reader import read_document
from fetchly.errors import ConfigurationError
from fetchly.extraction.extractor import ExtractionOptions, Extractor
from fetchly.extraction.generator import ExtractionStats, Generator, SchemaNotice
from fetchly.extraction.local import LocalGenerator
from fetchly.extraction.schema import SchemaSource, load_schema
from fetchly.goods import Document, Evidence, Page

T = TypeVar("T")
R = TypeVar("R")
Target = str | bytes | Page
"""A URL, a file path, "-" for standard input, the bytes of a page, or a Page."""


@dataclass(frozen=True, slots=True)
class Result(Generic[T]):
    """One extraction.

    `record` is an instance of the schema's Python type, or the JSON value where the schema was JSON; `value` is always
    the JSON value. `evidence` maps a JSON pointer to where that value stands on the page. `attempt` is the draw that
    held, from 1. `warnings` say what a careful reader should know: nothing is dropped without one.
    """

    record: T
    value: Any
    evidence: Mapping[str, Evidence]
    stats: ExtractionStats
    url: str | None
    attempt: int
    warnings: tuple[str, ...]


class Client:
    """One model, many pages. Closing it frees the model and leaves nothing behind.

    Options besides the model: `device`, `threads` (of the CPU), `timeout` in seconds per page, `allow_private`
    (loopback and private addresses), `offline` (never fetch a model), `progress` (of fetching a model), `generator`
    (another implementation in place of the embedded engine), and every field of ExtractionOptions. Nothing is read from
    settings files or FETCHLY_ variables: those are the command line's.

    Errors of every method: the tree of `fetchly.errors`.
    """

    def __init__(
        self,
        model: str = "fetchly-135m",
        *,
        device: Literal["auto", "cpu", "cuda"] = "auto",
        threads: int | None = None,
        timeout: float = 30.0,
        allow_private: bool = False,
        offline: bool = False,
        progress: Any = None,
        generator: Generator | None = None,
        **options: Any,
    ) -> None:
        if not isinstance(model, str):
            raise ConfigurationError(f"model is {model!r}, not a name, a path or a reference", where="model")
        if not isinstance(timeout, int | float):
            raise ConfigurationError(f"timeout is {timeout!r}, not seconds", where="timeout")
        self._closed = False
        self._options = _overridden(ExtractionOptions(), options)
        self._fetcher = HttpFetcher(FetchPolicy(allow_private=allow_private, timeout_s=timeout))
        self._generator = generator or LocalGenerator(
            model, device=device, threads=threads, offline=offline, progress=progress
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Free the model and the connections. Idempotent; a closed client refuses further work."""
        self._closed = True
        self._fetcher.close()
        self._generator.close()

    def check(self, schema: SchemaSource) -> tuple[SchemaNotice, ...]:
        """What to know about a schema before it is used; neither model nor network is needed. Raises SchemaError."""
        return self._generator.check_schema(load_schema(schema).json, self._options.schema_mode)

    @overload
    def extract(self, target: Target, schema: type[T], **options: Any) -> Result[T]: ...
    @overload
    def extract(self, target: Target, schema: Any, **options: Any) -> Result[Any]: ...
    def extract(self, target: Target, schema: SchemaSource, **options: Any) -> Result[Any]:
        """One record from one page. `options` override the client's ExtractionOptions for this call."""
        chosen = _overridden(self._options, options)
        loaded = load_schema(schema)
        self._check_open()
        # In order of cost: a wrong schema or a missing page is said before the model is loaded.
        self._generator.check_schema(loaded.json, chosen.schema_mode)
        document = self.document(target)
        extraction = Extractor(self._generator, loaded, chosen).extract(document)
        return Result(
            record=extraction.value,
            value=extraction.record.value,
            evidence=extraction.record.evidence,
            stats=extraction.stats,
            url=document.url,
            attempt=extraction.attempt,
            warnings=extraction.record.warnings,
        )

    def document(self, target: Target) -> Document:
        """A page as fetchly reads it."""
        self._check_open()
        return read_document(self._page(target))

    def show_document(self, target: Target, schema: SchemaSource, **options: Any) -> str:
        """What the model would be shown of a page under this schema and budget."""
        chosen = _overridden(self._options, options)
        extractor = Extractor(self._generator, load_schema(schema), chosen)
        return extractor.prompt(self.document(target)).prompt.page

    def _page(self, target: Target) -> Page:
        if isinstance(target, Page):
            return target
        if isinstance(target, bytes):
            return Page(requested="bytes", url=None, status=None, headers=(), body=target)
        if not isinstance(target, str):
            raise ConfigurationError(
                f"a target of type {type(target).__name__} is no page", hint="give a URL, a path, bytes or a Page"
            )
        return open_target(target, self._fetcher)

    def _check_open(self) -> None:
        if self._closed:
            raise ConfigurationError("the client is closed", hint="open a new one")


class AsyncClient:
    """A Client for code with an event loop: pages are read side by side, the model writes one record at a time.

    A cancelled call stops within one decode step and frees its worker before the cancellation is passed on.
    """

    def __init__(self, model: str = "fetchly-135m", *, concurrency: int = 4, **options: Any) -> None:
        self._client = Client(model, **options)
        self._workers = ThreadPoolExecutor(concurrency, thread_name_prefix="fetchly")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Wait for what is running, then free threads, model and connections."""
        await asyncio.to_thread(self._workers.shutdown, True)
        self._client.close()

    @overload
    async def extract(self, target: Target, schema: type[T], **options: Any) -> Result[T]: ...
    @overload
    async def extract(self, target: Target, schema: Any, **options: Any) -> Result[Any]: ...
    async def extract(self, target: Target, schema: SchemaSource, **options: Any) -> Result[Any]:
        """As Client.extract."""
        stop = threading.Event()
        asked = options.pop("should_stop", None)

        def should_stop() -> bool:
            return stop.is_set() or (asked is not None and bool(asked()))

        return await self._run(lambda: self._client.extract(target, schema, should_stop=should_stop, **options), stop)

    async def document(self, target: Target) -> Document:
        """As Client.document."""
        return await self._run(lambda: self._client.document(target), threading.Event())

    async def _run(self, work: Callable[[], R], stop: threading.Event) -> R:
        self._client._check_open()
        future = asyncio.get_running_loop().run_in_executor(self._workers, work)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            stop.set()
            await asyncio.wait([future])
            if not future.cancelled():
                future.exception()  # retrieved: the cancellation is what the caller hears of
            raise


@overload
def extract(target: Target, schema: type[T], **options: Any) -> Result[T]: ...
@overload
def extract(target: Target, schema: Any, **options: Any) -> Result[Any]: ...
def extract(target: Target, schema: SchemaSource, **options: Any) -> Result[Any]:
    """One record from one page. Loads and frees the model: use a Client for more than one page.

    `options` are those of Client. Works with and without a running event loop (it blocks; see aextract).
    """
    with Client(**options) as client:
        return client.extract(target, schema)


@overload
async def aextract(target: Target, schema: type[T], **options: Any) -> Result[T]: ...
@overload
async def aextract(target: Target, schema: Any, **options: Any) -> Result[Any]: ...
async def aextract(target: Target, schema: SchemaSource, **options: Any) -> Result[Any]:
    """As extract, without blocking the event loop."""
    async with AsyncClient(**options) as client:
        return await client.extract(target, schema)


def _overridden(options: ExtractionOptions, changes: Mapping[str, Any]) -> ExtractionOptions:
    known = ExtractionOptions.__dataclass_fields__
    unknown = [name for name in changes if name not in known]
    if unknown:
        raise ConfigurationError(f"unknown option {unknown[0]!r}", hint=f"known: {', '.join(known)}")
    return replace(options, **{name: value for name, value in changes.items() if value is not None})
