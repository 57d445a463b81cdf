"""The pipeline file as pydantic reads it: the whole, and the section `run`.

Values are frozen, resolved and absolute once they are read. What is not said has the default that the Client has;
settings files and FETCHLY_ variables are the command line's and do not count here.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, model_validator

from fetchly.errors import ConfigurationError
from fetchly.governing.memory_limit import memory_limit
from fetchly.pipeline.extract import Extract, short_form
from fetchly.pipeline.fields import (
    Count,
    Flag,
    LocalPath,
    Name,
    OneOrMore,
    Seconds,
    Section,
    folder_of,
    local_path,
    refused,
)
from fetchly.pipeline.source import Source
from fetchly.pipeline.transform import Transform
from fetchly.settings import Settings
from fetchly.sinks.options import FileSettings, SinkOptions, SqliteSettings

_DEFAULT = Settings()
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def _memory(value: Any) -> Any:
    try:
        memory_limit(value)
    except ConfigurationError as error:
        raise refused("is not an amount of memory", error.hint) from None
    return value


def _at_home(sink: SinkOptions, info: ValidationInfo) -> SinkOptions:
    """A sink's file, absolute."""
    settings = sink.settings
    if isinstance(settings, SqliteSettings | FileSettings) and _URL.match(settings.path) is None:
        path = str(local_path(settings.path, folder_of(info)))
        return sink.model_copy(update={sink.kind: settings.model_copy(update={"path": path})})
    return sink


class Run(Section):
    """How the pages are worked through."""

    concurrency: Count = 8
    """Pages fetched at a time, over all hosts."""
    delay: Annotated[Seconds, Field(ge=0, le=86400)] = 1.0
    """Between the starts of two requests to a host."""
    per_host: Count | None = None
    """Requests to a host at a time; by default two, or without a delay as many as over all hosts."""
    timeout: Annotated[Seconds, Field(gt=0, le=86400)] = _DEFAULT.timeout
    """For fetching one page."""
    tries: Annotated[int, Field(strict=True, ge=1, le=100)] = 3
    """For a page that may go better later."""
    memory_limit: Annotated[str | int | None, BeforeValidator(_memory)] = None
    """What all processes together may take: 2GB, 75% or off."""

    cache: Flag = False
    """Keep pages and the model's answers on disk, and take them from there while they hold."""
    cache_dir: LocalPath | None = None
    """The cache's folder; by default the user's."""
    cache_mb: Count | None = None
    """The most that it may hold, in megabytes."""

    error: Literal["skip", "stop", "quarantine"] = "skip"
    """What a page that fails does: it is counted, ends the run, or is kept in the quarantine file, too."""
    quarantine: LocalPath | None = None
    """The quarantine file; by default NAME.quarantine.jsonl."""
    state: LocalPath | None = None
    """What a run is resumed from; by default NAME.state."""
    manifest: LocalPath | None = None
    """What a run says about itself: versions, counts, times, hashes; by default NAME.manifest.json."""

    runner: Literal["local", "ray"] = "local"
    """On this machine, or on a Ray cluster."""
    workers: Count | None = None
    """Engines of a Ray run; by default one for each GPU or node."""

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if self.quarantine is not None and self.error != "quarantine":
            raise refused("names a quarantine file that nothing is put into", "error: quarantine")
        if not self.cache and (self.cache_dir or self.cache_mb):
            raise refused("says where the cache lies, but uses none", "cache: true")
        if self.workers is not None and self.runner != "ray":
            raise refused("has workers, which only Ray has", "runner: ray; of a local run concurrency says how wide")
        return self


class Spec(Section):
    """A pipeline of fetchly: pages in, records that obey a JSON Schema into files and databases out."""

    name: Name
    """What the run is called: its state and its manifest are, by default."""
    source: Source
    """Which pages."""
    extract: Annotated[Extract, BeforeValidator(short_form)]
    """Which records."""
    transform: Transform = Transform()
    """What is done with each record."""
    sinks: Annotated[tuple[Annotated[SinkOptions, AfterValidator(_at_home)], ...], OneOrMore()] = ()
    """Where rows go; without any, to whoever iterates, and to standard output of `fetchly run`."""
    run: Run = Run()
    """How."""
