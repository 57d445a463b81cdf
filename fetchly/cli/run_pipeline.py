"""`fetchly run`: a pipeline file in; its rows in every sink out. Or whether the file is sound, or what it says."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

if TYPE_CHECKING:
    from fetchly.pipeline.page_schema import PipelineSchema
    from fetchly.pipeline.pipeline import Pipeline
    from fetchly.pipeline.runner import RunSummary


def run_pipeline(
    pipeline: Path = typer.Argument(help="The pipeline file (YAML)."),
    check: bool = typer.Option(False, "--check", help="Say whether the file is sound, and fetch nothing."),
    show: bool = typer.Option(False, "--show", help="Print it with defaults and whole paths, secrets masked."),
    dry_run: int | None = typer.Option(
        None, "--dry-run", min=1, help="Print so many rows, and write neither sinks nor a state."
    ),
    resume: bool = typer.Option(False, "--resume", help="Go on with a run that was stopped, or killed."),
    failed: bool = typer.Option(False, "--failed", help="With --resume: try again what failed."),
    limit: int | None = typer.Option(None, min=1, help="Pages to fetch, in place of the file's limit."),
    runner: Literal["local", "ray"] | None = typer.Option(None, help="In place of the file's runner."),
    allow_private: bool = typer.Option(
        False, "--allow-private", help="Open loopback and private addresses, whatever the file says."
    ),
    stats: bool = typer.Option(False, "--stats", help="Counts, and a table of what used what, on stderr."),
    stats_json: Path | None = typer.Option(None, "--stats-json", help="The summary as JSON in a file, not on stderr."),
    quiet: bool = typer.Option(False, "-q", "--quiet", help="Say only errors."),
) -> int:
    """See docs/pipelines.md."""
    from fetchly.errors import ConfigurationError
    from fetchly.pipeline.pipeline import Pipeline

    loaded = Pipeline.from_yaml(pipeline)
    run, source = loaded.spec.run, loaded.source
    if runner is not None:
        run = run.model_copy(update={"runner": runner})
    if allow_private:
        source = source.model_copy(update={"allow_private": True})
    loaded = replace(loaded, source=source, spec=loaded.spec.model_copy(update={"run": run, "source": source}))
    for notice in loaded.notices:
        print(f"notice {notice}", file=sys.stderr)
    if check:
        _check(loaded)
        print(f"{pipeline}: sound ({_counts(loaded)})", file=sys.stderr)
    if show:
        import yaml

        print(yaml.safe_dump(loaded.shown(), sort_keys=False, allow_unicode=True), end="")
    if check or show:
        return 0
    if failed and not resume:
        raise ConfigurationError("--failed goes with --resume alone", hint="add --resume")
    if dry_run is not None:
        if resume:
            raise ConfigurationError("a dry run has no state to go on with", hint="leave out --resume or --dry-run")
        return _dry_run(loaded, dry_run, limit, quiet)
    return _run(loaded, pipeline, resume, failed, limit, quiet, stats, stats_json)


def _run(
    loaded: Pipeline,
    file: Path,
    resume: bool,
    failed: bool,
    limit: int | None,
    quiet: bool,
    stats: bool,
    stats_json: Path | None,
) -> int:
    from fetchly.cli.crawl import interruptible, print_table
    from fetchly.cli.crawl_progress import CrawlDisplay
    from fetchly.cli.output import RecordWriter
    from fetchly.cli.progress import ProgressBar
    from fetchly.pipeline.opened_client import RunOptions
    from fetchly.pipeline.runner import PipelineRun
    from fetchly.sinks.options import SinkOptions, StdoutSettings

    stats_writer = RecordWriter("json", stats_json, append=False) if stats_json is not None else None
    sinks = loaded.sinks or (SinkOptions(stdout=StdoutSettings()),)
    with (
        ProgressBar(quiet) as progress,
        CrawlDisplay(quiet) as display,
        PipelineRun(
            loaded, RunOptions(resume, failed, limit), sinks=sinks, say=display.fail, progress=progress
        ) as running,
        interruptible(running.crawl, display),
    ):
        display.show(running.crawl)
        while running.wait(display.tick):
            running.take()
        summary = running.end()
    if stats:
        print_table(summary.crawl)
        _print_sinks(summary)
    if stats_writer is not None:
        stats_writer.add(summary.as_dict())
        stats_writer.close()
    elif not quiet:
        print(json.dumps({"run": summary.as_dict()}), file=sys.stderr)
    return _exit_code(summary, file)


def _dry_run(loaded: Pipeline, count: int, limit: int | None, quiet: bool) -> int:
    from fetchly.cli.crawl import exit_code
    from fetchly.cli.crawl_progress import CrawlDisplay
    from fetchly.cli.output import RecordWriter
    from fetchly.cli.progress import ProgressBar
    from fetchly.pipeline.running import dry_run

    writer = RecordWriter("jsonl", None, append=False)
    printed = 0
    with ProgressBar(quiet) as progress, CrawlDisplay(quiet) as display:
        rows = dry_run(loaded, count, limit=limit, report=display.fail, progress=progress, should_stop=display.tick)
        try:
            while True:
                writer.add(next(rows))
                printed += 1
        except StopIteration as end:
            return 0 if printed else exit_code(end.value) or 1


def _exit_code(summary: RunSummary, file: Path) -> int:
    from fetchly.cli.crawl import exit_code
    from fetchly.errors import Interrupted

    if summary.stopped:
        raise Interrupted(
            f"stopped after {summary.crawl.done} pages",
            where=str(summary.state),
            hint=f"go on with: fetchly run {file} --resume",
        )
    code = exit_code(summary.crawl)
    return 3 if code == 0 and summary.rejected else code


def _print_sinks(summary: RunSummary) -> None:
    for use in summary.sinks:
        print(f"  {use.kind:<24} {use.rows:,} rows in {use.place}", file=sys.stderr)


def _check(loaded: Pipeline) -> None:
    """What would end a run before its first page, as far as nothing need be fetched or loaded to know it. Errors:
    ConfigurationError and SchemaError."""
    from fetchly.cluster.ray_session import check_installed
    from fetchly.pipeline.checks import check_writable

    if loaded.spec.run.runner == "ray":
        check_installed()
    check_writable(loaded.loaded)
    for schema in loaded.schemas:
        _lint(loaded, schema)
    _check_room(loaded)


def _lint(loaded: Pipeline, schema: PipelineSchema) -> None:
    """Errors: SchemaError for what the generator refuses."""
    from fetchly.cli import engine
    from fetchly.errors import SchemaError

    for finding in engine.lint(schema.schema.json, loaded.extract.schema_mode):
        if finding.severity == "error":
            raise SchemaError(
                f"the schema {schema.name} cannot be used: {finding.text()}",
                where=loaded.place(*schema.path, "schema"),
                hint=f"fetchly schemas lint {schema.file or schema.name} shows all there is to say",
            )


def _check_room(loaded: Pipeline) -> None:
    """Errors: ConfigurationError where a model that is on this machine has no room for a page."""
    from fetchly.cli import engine
    from fetchly.errors import ConfigurationError
    from fetchly.extraction.extractor import ExtractionOptions, page_budget
    from fetchly.extraction.server_reference import is_server

    context = None if is_server(loaded.extract.model) else engine.context_of(loaded.extract.model)
    if context is None:
        return
    options = ExtractionOptions(max_tokens=loaded.extract.max_tokens, verbatim=loaded.extract.verbatim)
    for schema in loaded.schemas:
        try:
            page_budget(schema.schema, options, *context)
        except ConfigurationError as error:
            place = loaded.place("extract", "max_tokens")
            raise ConfigurationError(
                f"the schema {schema.name}: {error.message}", where=place, hint=error.hint, code=error.code
            ) from None


def _counts(loaded: Pipeline) -> str:
    schemas, sinks = len(loaded.schemas), len(loaded.sinks)
    return f"{schemas} schema{'s' * (schemas != 1)}, {sinks} sink{'s' * (sinks != 1)}"
