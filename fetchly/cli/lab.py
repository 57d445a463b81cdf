"""`fetchly lab`: what turns pages with known answers into figures and training examples; no model is run."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from fetchly.cli.examples import examples
from fetchly.cli.synthesize import synthesize

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.command("examples")(examples)
app.command("synthesize")(synthesize)


@app.callback()
def _group() -> None:
    """Pages with known answers: what of them a model would be shown, and examples to teach one with."""


@app.command("recall")
def recall(
    datasets: list[Path] = typer.Argument(help="Folders with SPLIT.jsonl and html/ (docs/eval.md)."),
    split: str = typer.Option("dev", help="Which SPLIT.jsonl."),
    limit: int | None = typer.Option(None, min=1, help="Pages of each set, a fixed random sample."),
    budget: list[int] | None = typer.Option(None, min=1, help="Tokens of page; repeatable. Default: 750, 1500, 3000."),
    strip_structured: bool = typer.Option(False, "--strip-structured", help="Without JSON-LD, microdata, meta tags."),
    schemas: Path | None = typer.Option(None, help="Folder of <vertical>.json. Default: the set's own."),
    failures: int = typer.Option(0, min=0, help="Also print this many lost values of each set and budget."),
    model: str | None = typer.Option(None, help="Whose tokens are counted."),
    offline: bool = typer.Option(False, "--offline", help="Never fetch a model."),
    as_json: bool = typer.Option(False, "--json", help="One JSON line for each set and budget on stdout."),
    quiet: bool = typer.Option(False, "-q", "--quiet", help="No progress."),
) -> int:
    """The share of right values, of those that stand on the page, that stand in what a model would be shown."""
    from fetchly.cli.dataset_progress import DatasetProgress
    from fetchly.cli.progress import ProgressBar
    from fetchly.document.worker import DocumentReader
    from fetchly.extraction.local import LocalGenerator
    from fetchly.extraction.prompt import PAGE_BUDGET
    from fetchly.lab.dataset import Dataset, check_names, check_scored
    from fetchly.lab.reading import SetReader
    from fetchly.lab.recall import SetRecall, measure_recall, table
    from fetchly.settings import load_settings

    opened = [Dataset.open(folder, split, schemas) for folder in datasets]
    check_names(opened)
    unscored = check_scored(opened)
    budgets = sorted(set(budget or (750, 1500, 3000, PAGE_BUDGET)))
    rows: list[SetRecall] = []
    with ProgressBar(quiet) as fetching, DocumentReader() as reader:
        generator = LocalGenerator(model or load_settings().model, offline=offline, progress=fetching)
        try:
            generator.count_tokens(["a"])  # a missing model is said before the work begins
            for dataset in opened:
                records = dataset.records(limit)
                with DatasetProgress(dataset.name, len(records), quiet) as progress:
                    run = measure_recall(
                        dataset,
                        budgets,
                        SetReader(reader.read, structured=not strip_structured),
                        generator.count_tokens,
                        limit=limit,
                        on_page=lambda record: progress.step(record.id),
                    )
                rows.extend(run.rows)
                for error in run.errors:
                    _say(f"not read: {error.line()}")
                if as_json:
                    for row in run.rows:
                        print(json.dumps({**row.row(), "structured": not strip_structured}), flush=True)
                for size in budgets:
                    for lost in [lost for lost in run.lost if lost.budget == size][:failures]:
                        _say(f"lost {lost.set} {lost.id} {lost.field} at {size}: {lost.loss}: {lost.text[:160]}")
        finally:
            generator.close()
    if not as_json:
        for line in table(rows):
            _say(line)
    for line in unscored:
        _say(line)
    return 0


@app.command("fit-relevance")
def fit_relevance(
    datasets: list[Path] = typer.Argument(help="Folders with SPLIT.jsonl and html/ (docs/eval.md)."),
    output: Path = typer.Option(..., "--output", "-o", help="Write the trees here (extraction/relevance.json)."),
    split: str = typer.Option("train", help="Which SPLIT.jsonl."),
    limit: int | None = typer.Option(None, min=1, help="Pages of each set, a fixed random sample."),
    schemas: Path | None = typer.Option(None, help="Folder of <vertical>.json. Default: the set's own."),
    model: str | None = typer.Option(None, help="Whose tokens are counted."),
    quiet: bool = typer.Option(False, "-q", "--quiet", help="No progress."),
) -> int:
    """Fit the trees that choose which blocks of a page a model is shown. Part of the format: raises its version."""
    from fetchly.cli.dataset_progress import DatasetProgress
    from fetchly.cli.progress import ProgressBar
    from fetchly.document.worker import DocumentReader
    from fetchly.extraction.local import LocalGenerator
    from fetchly.lab.dataset import Dataset, check_names
    from fetchly.lab.reading import SetReader
    from fetchly.lab.relevance_fit import LabelledPage, as_text, fit, labelled_pages
    from fetchly.settings import load_settings

    opened = [Dataset.open(folder, split, schemas) for folder in datasets]
    check_names(opened)
    pages: list[LabelledPage] = []
    with ProgressBar(quiet) as fetching, DocumentReader() as reader:
        generator = LocalGenerator(model or load_settings().model, progress=fetching)
        for dataset in opened:
            with DatasetProgress(dataset.name, len(dataset.records(limit)), quiet) as progress:
                pages += labelled_pages(
                    dataset,
                    SetReader(reader.read),
                    generator.count_tokens,
                    limit=limit,
                    on_page=lambda record: progress.step(record.id),
                )
    output.write_text(as_text(fit(pages)), encoding="utf-8")
    _say(f"{len(pages)} pages, {sum(len(page.rows) for page in pages)} blocks")
    return 0


def _say(text: str) -> None:
    import sys

    print(text, file=sys.stderr)
