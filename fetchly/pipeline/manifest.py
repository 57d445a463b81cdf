"""A run in; what it says about itself out, as JSON beside its output: whole at every moment, from its start on."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from fetchly.crawling.summary import CrawlSummary
from fetchly.errors import OutputError
from fetchly.extraction.format import FORMAT_VERSION
from fetchly.pipeline.outlets import SinkUse
from fetchly.pipeline.pipeline import Pipeline
from fetchly.pipeline.whole_file import write_whole
from fetchly.sinks.options import FileSettings, SqliteSettings

Status = Literal["running", "complete", "interrupted", "failed"]


class Manifest:
    """Written at the start and at the end of a run. A run that was killed has left `running`; secrets are in none.

    Errors: OutputError.
    """

    def __init__(self, pipeline: Pipeline, run: str, model: str) -> None:
        assert pipeline.spec.run.manifest is not None
        self._file = pipeline.spec.run.manifest
        self._pipeline = pipeline
        self._started = _now()
        shown = json.dumps(pipeline.shown(), sort_keys=True)
        self._head = {
            "pipeline": pipeline.name,
            "file": str(pipeline.file) if pipeline.file is not None else None,
            "pipeline_sha256": hashlib.sha256(shown.encode()).hexdigest(),
            "run": run,
            "versions": {
                "fetchly": version("fetchly"), "python": platform.python_version(), "format": FORMAT_VERSION,
                "model": model,
            },
        }  # fmt: skip

    def begin(self) -> None:
        """The run goes on from here."""
        self._write("running", None, {})

    def end(
        self,
        status: Status,
        error: str | None,
        crawl: CrawlSummary,
        sinks: Iterable[SinkUse],
        counts: dict[str, int],
    ) -> None:
        """It has ended so; `error` is a line. Files are hashed where they are complete."""
        uses = [{**asdict(use), "sha256": None} for use in sinks]
        if status == "complete":
            for use, options in zip(uses, self._pipeline.sinks, strict=False):
                use["sha256"] = _hash_of(options.settings)
        figures = {"counts": counts, "crawl": crawl.as_dict(), "sinks": uses}
        self._write(status, error, figures)

    def _write(self, status: Status, error: str | None, figures: dict[str, Any]) -> None:
        times = {"started": self._started, "ended": None if status == "running" else _now()}
        content = {**self._head, "status": status, "error": error, **times, **figures}
        write_whole(self._file, [json.dumps(content, indent=2, ensure_ascii=False) + "\n"])


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _hash_of(settings: object) -> str | None:
    """Of a local file; None for what is none."""
    file: Path | None = None
    if isinstance(settings, SqliteSettings) or (isinstance(settings, FileSettings) and not settings.is_remote):
        file = settings.file
    if file is None or not file.is_file():
        return None
    try:
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        raise OutputError(f"cannot be read: {error.strerror or error}", where=str(file)) from None
