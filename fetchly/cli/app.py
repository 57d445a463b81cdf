"""The command line's front door: arguments in, exit code out, every error one line on stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import typer

from fetchly.cli import (
    bench,
    cache,
    crawl,
    doctor,
    evaluate,
    extract,
    lab,
    models,
    pipelines,
    run_pipeline,
    schemas,
    train,
)
from fetchly.errors import FetchlyError, Interrupted

app = typer.Typer(
    name="fetchly",
    help="Web pages in, valid JSON records out, with the language model inside the program.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("extract", help="Extract one record per page.")(extract.extract)
app.command("crawl", help="Follow links, and extract records from every page of a site.")(crawl.crawl)
app.command("run", help="Run a declared pipeline.")(run_pipeline.run_pipeline)
app.add_typer(models.app, name="models", help="The models on this machine.")
app.add_typer(cache.app, name="cache", help="Pages and answers that are kept on disk.")
app.add_typer(schemas.app, name="schemas", help="The shipped schemas, and a check of your own.")
app.add_typer(pipelines.app, name="pipelines", help="The shipped pipelines, to begin your own with.")
app.command("eval", help="Predict the pages of a dataset and score the predictions.")(evaluate.evaluate)
app.add_typer(lab.app, name="lab", help="Measurements on datasets, without a model.")
app.add_typer(bench.app, name="bench", help="Side-by-side measurements of the engine.")
app.add_typer(train.app, name="train", help="Teach a model to extract.")
app.command("doctor", help="Say what this machine can do and what is missing.")(doctor.doctor)


def _version(show: bool) -> None:
    if show:
        from importlib.metadata import version

        print(f"fetchly {version('fetchly')}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", help="Show the version.", callback=_version, is_eager=True),
    debug: bool = typer.Option(False, "--debug", help="Show tracebacks (anywhere on the line)."),
) -> None:
    """`run` reads --debug itself, wherever it stands."""


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code (see the README's table). Never raises."""
    debug = "--debug" in arguments
    try:
        outcome = app(args=[part for part in arguments if part != "--debug"], standalone_mode=False)
        if outcome == Interrupted.exit_code:  # typer has made Ctrl-C into this code, without a word
            return _report(Interrupted("stopped"), debug)
        return outcome if isinstance(outcome, int) else 0
    except (KeyboardInterrupt, typer.Abort):
        return _report(Interrupted("stopped"), debug)
    except FetchlyError as error:
        return _report(error, debug)
    except BrokenPipeError:
        # The reader of our output went away: not an error of ours, and nothing more can be said to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        usage = getattr(error, "format_message", None)
        if usage is not None:
            context = getattr(error, "ctx", None)
            command = context.command_path if context is not None else "fetchly"
            print(f"USAGE: {usage()} (see: {command} --help)", file=sys.stderr)
            return int(getattr(error, "exit_code", 2))
        if debug:
            raise
        words = " ".join(str(error).split())
        print(f"INTERNAL: {type(error).__name__}: {words} (a bug; run again with --debug)", file=sys.stderr)
        return 1


def _report(error: FetchlyError, debug: bool) -> int:
    if debug:
        import traceback

        traceback.print_exception(error)
    print(error.line(), file=sys.stderr)
    return error.exit_code
