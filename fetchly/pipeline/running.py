"""A pipeline, or what one is made of, in; a whole run of it, or its rows as they come, out: what a user imports."""

from __future__ import annotations

import asyncio
import collections.abc
import os
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import closing
from typing import Any, TypeVar

from fetchly.crawling.summary import CrawlSummary
from fetchly.extraction.generator import Generator
from fetchly.pipeline.opened_client import RunOptions, crawl_options, open_client
from fetchly.pipeline.page_choice import PageChoice
from fetchly.pipeline.pipeline import Pipeline
from fetchly.pipeline.rows import PageRows, Rejected, RowMaker
from fetchly.pipeline.runner import PipelineRun, RunSummary

T = TypeVar("T")
Say = Callable[[str], None]


def run(
    pipeline: Pipeline | Mapping[str, Any] | str | os.PathLike[str],
    *,
    folder: str | os.PathLike[str] | None = None,
    **options: Any,
) -> RunSummary:
    """Run a pipeline, its file, or a dict of the same form, whose relative paths begin in `folder`, to its end.

    Options: `resume` (go on with the state of an earlier run), `failed` (with it: try again what failed), `limit` (in
    place of the file's), `report` (told of what fails, a line each, from another thread), `progress` (of fetching a
    model), `generator` (in place of the embedded engine).

    Errors: those of Pipeline, and what ends a run; pages that fail under `error: skip` are in the summary. Works within
    a running event loop, which it blocks: see Pipeline.records.
    """
    if isinstance(pipeline, Mapping):
        pipeline = Pipeline.from_dict(pipeline, folder=folder)
    elif not isinstance(pipeline, Pipeline):
        pipeline = Pipeline.from_yaml(pipeline)
    return run_pipeline(pipeline, **options)


def run_pipeline(pipeline: Pipeline, **options: Any) -> RunSummary:
    """As `run`."""
    with _opened(pipeline, **options) as running:
        while running.wait():
            running.take()
        return running.end()


async def records(pipeline: Pipeline, **options: Any) -> AsyncIterator[Any]:
    """The rows of a run as they come, each a dict, without blocking the event loop; its sinks are written as well.
    Whoever ends the iteration, or is cancelled, leaves an interrupted run. Options and errors as `run`."""
    stop = threading.Event()
    running: PipelineRun | None = None

    def following() -> PageRows | None:
        assert running is not None
        return running.take() if running.wait(stop.is_set) else None

    def opening() -> None:
        nonlocal running
        running = _opened(pipeline, **options)

    try:
        await _in_thread(opening, stop)
        while (page := await _in_thread(following, stop)) is not None:
            for row in page.rows:
                yield row.value
        assert running is not None
        await _in_thread(running.end, stop)
    finally:
        if running is not None:
            await asyncio.to_thread(running.close)


def dry_run(
    pipeline: Pipeline,
    count: int,
    *,
    limit: int | None = None,
    report: Say = lambda line: None,
    generator: Generator | None = None,
    progress: Any = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> collections.abc.Generator[Any, None, CrawlSummary | None]:
    """The first `count` rows, transformed; at the end what came of the crawl, where it ended before them. No sink is
    opened, and no state is left. Errors as `run`; Interrupted once `should_stop` answers True."""
    from fetchly.pipeline.beginning import subject_of

    choice = PageChoice(pipeline)
    with (
        open_client(pipeline, generator, progress, report) as (client, means),
        closing(RowMaker(pipeline)) as maker,
        client.open_crawl(
            subject_of(pipeline, choice, report), crawl_options(pipeline, RunOptions(limit=limit), None), report, means
        ) as crawl,
    ):
        crawl.start()
        left = count
        while crawl.wait(should_stop):
            page = maker.rows_of(crawl.take())
            _tell(page.rejected, report)
            for row in page.rows[:left]:
                yield row.value
            left -= len(page.rows)
            if left <= 0:
                return None
        crawl.end()
        complaint = choice.complaint(crawl.summary)
        if complaint is not None:
            report(complaint)
        return crawl.summary


def _tell(rejected: tuple[Rejected, ...], report: Say) -> None:
    for row in rejected:
        report(row.line())


def _opened(
    pipeline: Pipeline,
    *,
    resume: bool = False,
    failed: bool = False,
    limit: int | None = None,
    report: Say = lambda line: None,
    generator: Generator | None = None,
    progress: Any = None,
) -> PipelineRun:
    options = RunOptions(resume, failed, limit)
    return PipelineRun(pipeline, options, say=report, generator=generator, progress=progress)


async def _in_thread(work: Callable[[], T], stop: threading.Event) -> T:
    """Like to_thread; a cancellation waits until the work has seen it."""
    future = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait([future])
        if not future.cancelled():
            future.exception()  # retrieved: the cancellation is what the caller hears of
        raise
