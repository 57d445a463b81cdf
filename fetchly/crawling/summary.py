"""What a crawl does in; figures for its reader out: while it goes on, and at its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from fetchly.crawler.frontier import FrontierCounts
from fetchly.crawler.politeness import HostState
from fetchly.crawling.queues import QueueUse
from fetchly.crawling.stages import StageUse
from fetchly.extraction.generator import ExtractionStats
from fetchly.governing.governor import HostUse


@dataclass(slots=True)
class Tally:
    """What one run adds up, in milliseconds and tokens; the pages of earlier runs are in the state's own counts."""

    fetch_ms: float = 0.0
    read_ms: float = 0.0
    extract_ms: float = 0.0
    decode_ms: float = 0.0
    prompt_tokens: int = 0
    output_tokens: int = 0
    pages_rendered: int = 0
    pages_from_cache: int = 0
    pages_revalidated: int = 0
    records_from_cache: int = 0

    def add(self, stats: ExtractionStats) -> None:
        """The figures of one record."""
        self.records_from_cache += stats.cached
        self.prompt_tokens += stats.prompt_tokens
        self.output_tokens += stats.output_tokens
        self.decode_ms += stats.decode_ms


@dataclass(frozen=True, slots=True)
class CrawlProgress:
    """A crawl at a moment. `counts` are those of its state, `tokens_per_s` is the model's speed so far, `waiting` are
    read pages that wait for the model, `busy` are fetching threads at work; `stages` and `queues` say what was done in
    this run and how full those between the
    stages are, `held_back` what the governor holds back, "" for nothing."""

    counts: FrontierCounts
    seconds: float
    tokens_per_s: float
    waiting: int
    busy: int
    hosts: tuple[HostState, ...]
    stages: Mapping[str, StageUse] = field(default_factory=dict)
    queues: Mapping[str, QueueUse] = field(default_factory=dict)
    held_back: str = ""


@dataclass(frozen=True, slots=True)
class CrawlSummary:
    """A crawl at its end. Pages and records are those of all runs on one state, times and tokens those of this run.

    `queued` pages are left for another run, as there was a limit or an interrupt (`stopped`); `failed` and `skipped`
    are by code; `coverage` is, by field, the share of the records (0 to 1) that have a value. Stages overlap: their
    times add up to more than `seconds`. `pages_rendered` were read as a browser made them, `pages_from_cache` needed no
    request, `pages_revalidated` their server's word alone, `records_from_cache` nothing of the model.
    `stages`, `queues` and `host` are what used what.
    """

    done: int
    records: int
    queued: int
    failed: Mapping[str, int]
    skipped: Mapping[str, int]
    stopped: bool
    seconds: float
    fetch_ms: float
    read_ms: float
    extract_ms: float
    prompt_tokens: int
    output_tokens: int
    tokens_per_s: float
    pages_rendered: int
    pages_from_cache: int
    pages_revalidated: int
    records_from_cache: int
    host_notes: tuple[str, ...]
    coverage: Mapping[str, float]
    stages: Mapping[str, StageUse]
    queues: Mapping[str, QueueUse]
    host: HostUse

    def as_dict(self) -> dict[str, Any]:
        """All figures by name, for JSON; times are rounded to milliseconds."""
        figures: dict[str, Any] = _rounded(asdict(self))
        return figures


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(inner) for name, inner in value.items()}
    return round(value, 3) if isinstance(value, float) else value


def summary_of(
    progress: CrawlProgress, tally: Tally, *, stopped: bool, coverage: Mapping[str, float], host: HostUse
) -> CrawlSummary:
    """The figures of a crawl that has ended."""
    counts = progress.counts
    return CrawlSummary(
        done=counts.done,
        records=counts.records,
        queued=counts.queued + counts.in_flight,
        failed=dict(counts.failed),
        skipped=dict(counts.skipped),
        stopped=stopped,
        seconds=progress.seconds,
        fetch_ms=tally.fetch_ms,
        read_ms=tally.read_ms,
        extract_ms=tally.extract_ms,
        prompt_tokens=tally.prompt_tokens,
        output_tokens=tally.output_tokens,
        tokens_per_s=progress.tokens_per_s,
        pages_rendered=tally.pages_rendered,
        pages_from_cache=tally.pages_from_cache,
        pages_revalidated=tally.pages_revalidated,
        records_from_cache=tally.records_from_cache,
        host_notes=tuple(f"{host.host} {note}" for host in progress.hosts for note in host.notes),
        coverage=dict(coverage),
        stages=progress.stages,
        queues=progress.queues,
        host=host,
    )
