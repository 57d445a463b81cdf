"""A pipeline in; its rows in every sink, a manifest and a quarantine file out.

The crawl runs in the background and keeps every page's result in its state. This side takes the results in the order
of the state, makes rows of them and writes the sinks, each from its own position on.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fetchly.crawling.crawl import Crawl
from fetchly.crawling.results import PageResult
from fetchly.crawling.summary import CrawlSummary
from fetchly.errors import FetchlyError
from fetchly.extraction.generator import Generator
from fetchly.pipeline.beginning import subject_of
from fetchly.pipeline.checks import check_writable
from fetchly.pipeline.manifest import Manifest, Status
from fetchly.pipeline.opened_client import RunOptions, crawl_options, open_client
from fetchly.pipeline.outlets import Outlets, SinkUse
from fetchly.pipeline.page_choice import PageChoice
from fetchly.pipeline.pipeline import Pipeline
from fetchly.pipeline.quarantine import write_quarantine
from fetchly.pipeline.rows import PageRows, Rejected, RowMaker
from fetchly.sinks.options import SinkOptions

FOLDER_SUFFIX = ".sinks"
"""Beside the state: what the sinks of a run keep to go on with."""
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run at its end. `crawl` has the figures of its pages; `rows` were made of them, without `duplicates`;
    `rejected` rows are not where they should be. The counts are those of all runs on one state. `quarantined` is how
    many lines the quarantine file has, None where there is none."""

    name: str
    crawl: CrawlSummary
    rows: int
    duplicates: int
    rejected: int
    sinks: tuple[SinkUse, ...]
    state: Path
    manifest: Path
    quarantined: int | None = None

    @property
    def stopped(self) -> bool:
        """Whether it was interrupted: there may be more to do."""
        return self.crawl.stopped

    def as_dict(self) -> dict[str, Any]:
        """All figures by name, for JSON."""
        return {
            "pipeline": self.name,
            "rows": self.rows,
            "duplicates": self.duplicates,
            "rejected": self.rejected,
            "quarantined": self.quarantined,
            "manifest": str(self.manifest),
            "sinks": [asdict(use) for use in self.sinks],
            "crawl": self.crawl.as_dict(),
        }


class PipelineRun:
    """A run under way. Use as a context manager: wait, take, until there is nothing more; then end.

    On making, everything is opened that could fail later: lists and files, the model, the state, the sinks. Leaving it
    without `end` is an interrupted run: what is done is in the sinks, and a run with `resume` goes on.

    Errors on making: ConfigurationError and SchemaError, OutputError, and what loading the model raises.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        options: RunOptions,
        *,
        sinks: tuple[SinkOptions, ...] | None = None,
        say: Say = lambda line: None,
        generator: Generator | None = None,
        progress: Any = None,
    ) -> None:
        assert pipeline.spec.run.state is not None
        check_writable(pipeline.loaded)
        self._pipeline = pipeline
        self._say = say
        self._stops = pipeline.spec.run.error == "stop"
        self._state = pipeline.spec.run.state
        self._rejected: list[Rejected] = []
        self._row_count = 0
        self._ended = False
        self._finished = False
        self.summary: RunSummary | None = None
        with ExitStack() as opened:
            client, means = opened.enter_context(open_client(pipeline, generator, progress, say))
            self._rows = opened.enter_context(contextlib.closing(RowMaker(pipeline)))
            self._choice = PageChoice(pipeline)
            subject = subject_of(pipeline, self._choice, say)
            self.crawl: Crawl[PageResult] = opened.enter_context(
                client.open_crawl(subject, crawl_options(pipeline, options, self._state), say, means)
            )
            self._outlets = opened.enter_context(contextlib.closing(self._made_outlets(sinks)))
            settings = json.dumps(dict(self.crawl.settings), sort_keys=True)
            digest = hashlib.sha256(settings.encode()).hexdigest()
            self._outlets.open(self.crawl.run, digest, retry=options.failed)
            self._manifest = Manifest(pipeline, self.crawl.run, self.crawl.settings["model"])
            self._manifest.begin()
            self._opened = opened.pop_all()
        self.crawl.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(error)

    def wait(self, should_stop: Callable[[], bool] = lambda: False) -> bool:
        """Until there is a page's result (True) or the end (False); meanwhile the sinks are written. Interrupted once
        `should_stop` answers True."""

        def ticking() -> bool:
            self._outlets.tick()
            return should_stop()

        return self.crawl.wait(ticking)

    def take(self) -> PageRows:
        """The rows of the page that was waited for; the sinks have taken them."""
        page = self._rows.rows_of(self.crawl.take())
        self._row_count += len(page.rows)
        for row, error in zip(page.rejected, page.errors, strict=True):
            if self._stops:
                raise error
            self._reject(row)
        self._outlets.add(page)
        self._outlets.tick()
        return page

    def end(self) -> RunSummary:
        """After the last page: everything is written, and the figures are final. Raises what it broke off with."""
        self.crawl.end()
        if not self.crawl.summary.stopped:
            self._outlets.finish()
            self._finished = True
            complaint = self._choice.complaint(self.crawl.summary)
            if complaint is not None:
                self._say(complaint)
        self.close()
        assert self.summary is not None
        return self.summary

    def close(self, error: BaseException | None = None) -> None:
        """Drop what is under way, write what is done, and give everything back. `error` is why. Idempotent."""
        if self._ended:
            return
        self._ended = True
        try:
            self._opened.close()
        except BaseException as failure:
            error = error or failure
            raise
        finally:
            self._conclude(error)

    def _conclude(self, error: BaseException | None) -> None:
        crawl = self.crawl.summary
        rejected = [*self._rejected, *self._outlets.rejected]
        quarantine, quarantined = self._pipeline.spec.run.quarantine, None
        failure: FetchlyError | None = None
        if quarantine is not None:
            try:
                quarantined = write_quarantine(quarantine, self._state, rejected)
            except FetchlyError as found:  # the manifest is to say so
                failure = found
                error = error or found
        assert self._pipeline.spec.run.manifest is not None
        self.summary = RunSummary(
            self._pipeline.name,
            crawl,
            self._row_count,
            self._rows.duplicates,
            len(rejected),
            self._outlets.uses,
            self._state,
            self._pipeline.spec.run.manifest,
            quarantined,
        )
        status: Status = "complete"
        if error is not None or not self._finished:
            status = "failed" if isinstance(error, FetchlyError) and not _is_interrupt(error) else "interrupted"
        line = error.line() if isinstance(error, FetchlyError) else type(error).__name__ if error is not None else None
        counts = {"rows": self._row_count, "duplicates": self._rows.duplicates, "rejected": len(rejected)}
        self._manifest.end(status, line, crawl, self._outlets.uses, counts)
        if failure is not None:
            raise failure

    def _made_outlets(self, sinks: tuple[SinkOptions, ...] | None) -> Outlets:
        return Outlets(
            self._pipeline,
            self._pipeline.sinks if sinks is None else sinks,
            self._state.with_name(self._state.name + FOLDER_SUFFIX),
            stop_at_rejected=self._stops,
            reject=lambda row: self._say(row.line()),
        )

    def _reject(self, row: Rejected) -> None:
        self._rejected.append(row)
        self._say(row.line())


def _is_interrupt(error: FetchlyError) -> bool:
    return error.exit_code == 130
