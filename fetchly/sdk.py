"""Targets and schemas in, typed results out: the functions and clients that a user imports."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Any, Generic, Literal, Self, TypeVar, overload

from fetchly.crawler.action_file import actions_of
from fetchly.crawler.actions import Action
from fetchly.crawler.cache import HttpCache
from fetchly.crawler.http import USER_AGENT, FetchPolicy
from fetchly.crawler.interaction import Interaction
from fetchly.crawler.render_choice import RenderChoice
from fetchly.crawler.scrolling import Scrolling, scrolling
from fetchly.crawler.storage_state import load_storage_state
from fetchly.crawling.async_crawl import AsyncCrawl
from fetchly.crawling.crawl import Crawl, Means
from fetchly.crawling.extraction import LocalExtraction
from fetchly.crawling.options import CrawlOptions, crawl_options
from fetchly.crawling.results import PageResult
from fetchly.crawling.subject import Subject, subject_of
from fetchly.disk_cache import open_caches
from fetchly.document.reader import ReadOptions
from fetchly.errors import ConfigurationError
from fetchly.extraction.answer_cache import AnswerCache
from fetchly.extraction.decoding import asks_for_links
from fetchly.extraction.extractor import ExtractionOptions, Extractor
from fetchly.extraction.generator import ExtractionStats, Generator, SchemaNotice
from fetchly.extraction.local import LocalGenerator
from fetchly.extraction.schema import SchemaSource, UserSchema, load_schema
from fetchly.extraction.server import ServerGenerator, unused_settings
from fetchly.extraction.server_reference import is_server
from fetchly.extraction.validation import RecordValidator
from fetchly.goods import Document, Evidence
from fetchly.reading import Reading, Render, Target, TargetReader

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Result(Generic[T]):
    """One extraction.

    `record` is an instance of the schema's Python type, or the JSON value where the schema was JSON; `value` is always
    the JSON value. `evidence` maps a JSON pointer to where that value stands on the page. `attempt` is the draw that
    held, from 1. `warnings` say what a careful reader should know: nothing is dropped without one.

    `url` is the page's final address, `redirects` are those passed on the way there, `status` is that of its answer
    (None for a page that did not come over HTTP); `rendered` says that a browser ran its scripts.

    `identity` is a digest of all that the record depends on besides the page (format, model, schema, options): with a
    hash of the page it is the key under which a record may be kept.
    """

    record: T
    value: Any
    evidence: Mapping[str, Evidence]
    stats: ExtractionStats
    url: str | None
    attempt: int
    warnings: tuple[str, ...]
    status: int | None = None
    redirects: tuple[str, ...] = ()
    rendered: bool = False
    identity: str = ""


class Client:
    """One model, many pages. Closing it frees the model and leaves nothing behind.

    Options besides the model: `device`, `threads` (of the CPU), `timeout` in seconds per page, `allow_private`
    (loopback and private addresses), `render` (whether a browser runs a page's scripts: "never", "always", or "auto",
    where the answer to a URL is empty without), `browser_path` (which Chromium), `actions` (what it does on every page:
    a list, or its file), `scroll` ("auto" through pages that grow, "never", or bounds: "items=200,seconds=60"),
    `storage_state` (cookies and localStorage to begin with; on these three: docs/rendering.md), `user_agent`,
    `keep_hidden` (read what a page hides from its reader), `cache` (keep pages and the model's answers on disk, in
    `cache_dir` or the user's cache folder, at most `cache_mb` megabytes, 1000: docs/cache.md), `offline` (never fetch a
    model), `progress` (of fetching a model), `api_key` (where `model` is a server's address), `generator` (another
    implementation in place of the embedded engine), and every field of ExtractionOptions. Nothing is read from settings
    files or FETCHLY_ variables: those are the command line's.

    Errors of every method: the tree of `fetchly.errors`.
    """

    def __init__(
        self,
        model: str = "fetchly-135m",
        *,
        device: Literal["auto", "native", "cpu", "cuda"] = "auto",
        threads: int | None = None,
        timeout: float = 30.0,
        allow_private: bool = False,
        render: Render = "auto",
        browser_path: str | None = None,
        actions: str | os.PathLike[str] | Sequence[Action | Mapping[str, Any]] = (),
        scroll: str | Scrolling = "auto",
        storage_state: str | os.PathLike[str] | Mapping[str, Any] | None = None,
        user_agent: str = USER_AGENT,
        keep_hidden: bool = False,
        cache: bool = False,
        cache_dir: str | os.PathLike[str] | None = None,
        cache_mb: int | None = None,
        offline: bool = False,
        progress: Any = None,
        api_key: str | None = None,
        generator: Generator | None = None,
        **options: Any,
    ) -> None:
        if not isinstance(model, str):
            raise ConfigurationError(f"model is {model!r}, not a name, a path or a reference", where="model")
        if not isinstance(timeout, int | float):
            raise ConfigurationError(f"timeout is {timeout!r}, not seconds", where="timeout")
        self._closed = False
        self._crawls: weakref.WeakSet[Crawl[Any]] = weakref.WeakSet()
        self._options = _overridden(ExtractionOptions(), options)
        self._keep_hidden = keep_hidden
        policy = FetchPolicy(allow_private=allow_private, timeout_s=timeout, user_agent=user_agent)
        caches = open_caches(cache_dir, cache_mb) if cache else None
        pages = HttpCache(caches.pages, allow_private=allow_private) if caches is not None else None
        self._reader = TargetReader(
            policy,
            render=render,
            browser_path=browser_path,
            cache=pages,
            interaction=Interaction(actions_of(actions), scrolling(scroll)),
            storage_state=load_storage_state(storage_state) if storage_state is not None else None,
        )
        if generator is None and is_server(model):
            generator = ServerGenerator(model, api_key=api_key, unused=unused_settings(self._options, device, threads))
        self._generator = generator or LocalGenerator(
            model, device=device, threads=threads, offline=offline, progress=progress
        )
        if caches is not None:
            self._generator = AnswerCache(self._generator, caches.answers)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Free the model, the browser and the connections. Idempotent; a closed client refuses further work."""
        self._closed = True
        for crawl in list(self._crawls):
            crawl.close()
        self._reader.close()
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
        reading = self._read(target, loaded, chosen)
        page = reading.page
        document = reading.document
        extractor = Extractor(self._generator, loaded, chosen)
        extraction = extractor.extract(document)
        return Result(
            record=extraction.value,
            value=extraction.record.value,
            evidence=extraction.record.evidence,
            stats=replace(
                extraction.stats,
                fetch_ms=reading.fetch_ms,
                read_ms=reading.read_ms,
                hidden_characters=document.hidden_characters,
                left_out_data=document.left_out_data,
                page_from_cache=page.from_cache,
            ),
            url=document.url,
            attempt=extraction.attempt,
            warnings=(*reading.warnings, *extraction.record.warnings),
            status=page.status,
            redirects=page.redirects,
            rendered=page.rendered,
            identity=extractor.identity,
        )

    @overload
    def crawl(self, seeds: str | Sequence[str], schema: type[T], **options: Any) -> Crawl[Result[T]]: ...
    @overload
    def crawl(self, seeds: str | Sequence[str], schema: Any, **options: Any) -> Crawl[Result[Any]]: ...
    def crawl(
        self,
        seeds: str | Sequence[str],
        schema: SchemaSource,
        *,
        report: Callable[[str], None] = lambda line: None,
        **options: Any,
    ) -> Crawl[Any]:
        """Records from the pages of a site: an iterator of Results, and a context manager (`close`, `summary`).

        `options` are those of `fetchly.crawling.options.CrawlOptions` (`limit`, `follow`, `depth`, `state`, `resume`,
        `delay` ...) and override the client's ExtractionOptions. `report` is told of failed pages, a line each, from
        another thread.
        """
        known = ExtractionOptions.__dataclass_fields__
        chosen = _overridden(self._options, {name: value for name, value in options.items() if name in known})
        crawling = crawl_options({name: value for name, value in options.items() if name not in known})
        loaded = load_schema(schema)
        validator = RecordValidator(loaded)
        subject = subject_of([seeds] if isinstance(seeds, str) else list(seeds), loaded)
        return self._opened(subject, crawling, chosen, lambda page: _crawled(page, validator), report).start()

    def means(self, choice: RenderChoice | None = None) -> Means:
        """What a crawl of this client works with: its reader and its model, which stay the client's."""
        choice = choice or RenderChoice()  # what is known of sites goes with the crawl's state, not with this client
        reader = self._reader.with_choice(choice)
        reading = ReadOptions(keep_hidden=self._keep_hidden)
        extraction = partial(LocalExtraction, self._generator)
        return Means(reader, reading, reader.policy, reader.render, extraction, choice, reader.browsing)

    def open_crawl(
        self,
        subject: Subject,
        options: CrawlOptions,
        report: Callable[[str], None] = lambda line: None,
        means: Means | None = None,
    ) -> Crawl[PageResult]:
        """A crawl with a subject of its own, such as one of several schemas, that has not begun: its state is open, and
        `start` begins it. `means` stand in for the client's."""
        return self._opened(subject, options, self._options, lambda page: page, report, means)

    def _opened(
        self,
        subject: Subject,
        options: CrawlOptions,
        chosen: ExtractionOptions,
        convert: Callable[[PageResult], R],
        report: Callable[[str], None],
        means: Means | None = None,
    ) -> Crawl[R]:
        self._check_open()
        for schema in subject.schemas.values():
            self._generator.check_schema(schema.json, chosen.schema_mode)
        crawl = Crawl(subject, means or self.means(), options, chosen, convert, report)
        self._crawls.add(crawl)
        return crawl

    def document(self, target: Target, *, should_stop: Callable[[], bool] | None = None) -> Document:
        """A page as fetchly reads it."""
        self._check_open()
        return self._reader.read(target, ReadOptions(keep_hidden=self._keep_hidden), should_stop).document

    def show_document(self, target: Target, schema: SchemaSource, **options: Any) -> str:
        """What the model would be shown of a page under this schema and budget."""
        chosen = _overridden(self._options, options)
        loaded = load_schema(schema)
        self._check_open()
        extractor = Extractor(self._generator, loaded, chosen)
        return extractor.prompt(self._read(target, loaded, chosen).document).prompt.page

    def _read(self, target: Target, schema: UserSchema, options: ExtractionOptions) -> Reading:
        marks = asks_for_links(schema.json)
        reading = ReadOptions(link_marks=marks, keep_hidden=self._keep_hidden)
        return self._reader.read(target, reading, options.should_stop)

    def _check_open(self) -> None:
        if self._closed:
            raise ConfigurationError("the client is closed", hint="open a new one")


class AsyncClient:
    """A Client for code with an event loop: pages are read side by side, the model writes one record at a time.

    A cancelled call stops within one decode step, or while a page is rendered at once, and frees its worker before the
    cancellation is passed on.
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
        stop = threading.Event()
        return await self._run(lambda: self._client.document(target, should_stop=stop.is_set), stop)

    @overload
    def crawl(self, seeds: str | Sequence[str], schema: type[T], **options: Any) -> AsyncCrawl[Result[T]]: ...
    @overload
    def crawl(self, seeds: str | Sequence[str], schema: Any, **options: Any) -> AsyncCrawl[Result[Any]]: ...
    def crawl(self, seeds: str | Sequence[str], schema: SchemaSource, **options: Any) -> AsyncCrawl[Any]:
        """As Client.crawl: an asynchronous iterator of Results. It begins with the first one that is asked for."""
        return AsyncCrawl(lambda: self._client.crawl(seeds, schema, **options), self._run)

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


def _crawled(page: PageResult, validator: RecordValidator) -> Result[Any]:
    """A result as the state keeps it, in the schema's type."""
    return Result(
        record=validator.check(page.value),
        value=page.value,
        evidence=page.evidence,
        stats=page.stats,
        url=page.url,
        attempt=page.attempt,
        warnings=page.warnings,
        status=page.status,
        redirects=page.redirects,
        rendered=page.rendered,
        identity=page.identity,
    )


def _overridden(options: ExtractionOptions, changes: Mapping[str, Any]) -> ExtractionOptions:
    known = ExtractionOptions.__dataclass_fields__
    unknown = [name for name in changes if name not in known]
    if unknown:
        raise ConfigurationError(f"unknown option {unknown[0]!r}", hint=f"known: {', '.join(known)}")
    return replace(options, **{name: value for name, value in changes.items() if value is not None})
