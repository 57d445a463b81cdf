"""What a crawl does in; figures for its reader out: while it goes on, and at its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from fetchly.crawler.frontier import FrontierCounts
from fetchly.crawler.politeness import HostState
from fetchly.extraction.generator import ExtractionStats


@dataclass(slots=True)
class Tally:
    """What one run adds up, in milliseconds and tokens; the pages of earlier runs are in the state's own counts."""

    fetch_ms: float = 0.0
    read_ms: float = 0.0
    extract_ms: float = 0.0
    decode_ms: float = 0.0
    prompt_tokens: int = 0
    output_tokens: int = 0

    def add(self, stats: ExtractionStats) -> None:
        """The figures of one record."""
        self.prompt_tokens += stats.prompt_tokens
        self.output_tokens += stats.output_tokens
        self.decode_ms += stats.decode_ms


@dataclass(frozen=True, slots=True)
class CrawlProgress:
    """A crawl at a moment. `counts` are those of its state, `tokens_per_s` is the model's speed so far, `waiting` are
    read pages that wait for the model, `busy` are fetching threads at work."""

    counts: FrontierCounts
    seconds: float
    tokens_per_s: float
    waiting: int
    busy: int
    hosts: tuple[HostState, ...]


@dataclass(frozen=True, slots=True)
class CrawlSummary:
    """A crawl at its end. Pages and records are those of all runs on one state, times and tokens those of this run.

    `queued` pages are left for another run, as there was a limit or an interrupt (`stopped`); `failed` and `skipped`
    are by code. Stages overlap: their times add up to more than `seconds`.
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
    host_notes: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """All figures by name, for JSON; times are rounded to milliseconds."""
        return {name: round(value, 3) if isinstance(value, float) else value for name, value in asdict(self).items()}


def summary_of(progress: CrawlProgress, tally: Tally, *, stopped: bool) -> CrawlSummary:
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
        host_notes=tuple(f"{host.host} {note}" for host in progress.hosts for note in host.notes),
    )
