"""A crawl's summary in; one table of what used what, on stderr, out."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fetchly.crawling.summary import CrawlSummary

_PARTS = frozenset(("prefill", "decode"))
_WIDTH = 100


def print_uses(summary: CrawlSummary) -> None:
    """Stages, kinds of process, and what was held back, a row each.

    `at a time`: how many threads, or processors, were at work on average.
    """
    from rich.console import Console
    from rich.table import Table

    from fetchly.governing.memory_limit import in_words

    table = Table(box=None, pad_edge=False)
    for heading in ("used by", "pages", "seconds", "at a time", "at most"):
        table.add_column(heading, no_wrap=True, justify="left" if heading in ("used by", "at most") else "right")
    queues = summary.queues
    full = {
        "fetch": f"{queues['pages'].most} of {queues['pages'].bound} pages",
        "model": f"{queues['model_tokens'].most:,} of {queues['model_tokens'].bound:,} tokens waiting",
    }
    for name, stage in summary.stages.items():
        shown = f"  {name}" if name in _PARTS else name
        table.add_row(shown, f"{stage.pages:,}", f"{stage.busy_s:,.1f}", f"{stage.share:.2f}", full.get(name, ""))
    table.add_section()
    host = summary.host
    for kind, process in host.processes.items():
        share = process.cpu_s / summary.seconds if summary.seconds else 0.0
        by_rss = " (with shared pages)" if kind in host.by_rss else ""
        peak = f"{in_words(process.peak_memory)}{by_rss}"
        table.add_row(f"{kind} (processors)", "", f"{process.cpu_s:,.1f}", f"{share:.2f}", peak)
    limit = f" of {in_words(host.memory_limit)}" if host.memory_limit is not None else ""
    table.add_row("all", "", "", "", f"{in_words(host.peak_memory)}{limit}")
    for gpu in host.gpus:
        ours = in_words(gpu.peak_memory) if gpu.peak_memory is not None else "not known"
        table.add_row(
            f"{gpu.name} (memory)", "", "", "", f"{ours}, {in_words(gpu.least_free)} of {in_words(gpu.total)} left"
        )
    for cause, holding in host.held_back.items():
        times = f"{holding.times} time{'s' if holding.times != 1 else ''}"
        table.add_row(f"held back for {cause}", "", f"{holding.seconds:,.1f}", "", times)
    Console(stderr=True, width=None if sys.stderr.isatty() else _WIDTH).print(table)
