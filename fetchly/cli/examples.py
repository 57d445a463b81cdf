"""`fetchly lab examples`: datasets in, training examples for the engine out (docs/examples.md). No model is run."""

from __future__ import annotations

from pathlib import Path

import typer


def examples(
    datasets: list[Path] = typer.Argument(help="Folders with SPLIT.jsonl and html/ (docs/eval.md)."),
    output: Path | None = typer.Option(None, "-o", "--output", help="File, .jsonl or .jsonl.gz. Default: stdout."),
    split: str = typer.Option("train", help="Which SPLIT.jsonl."),
    skip: int = typer.Option(0, min=0, help="Pages of that sample that come first and are left out."),
    limit: int | None = typer.Option(None, min=1, help="Pages of each set, a fixed random sample."),
    variants: int = typer.Option(1, min=1, help="Examples a page: the schema as it is, then variations of it."),
    structured: float = typer.Option(0.5, min=0.0, max=1.0, help="Share of examples that show JSON-LD, meta tags ..."),
    silent: float = typer.Option(
        0.0, min=0.0, max=1.0, help="Share of examples that also ask for what the page is surely silent about."
    ),
    budget: int | None = typer.Option(None, min=1, help="Tokens of page. Default: that of an extraction."),
    longest_answer: int = typer.Option(1024, min=1, help="Tokens of an answer; a longer one is left out."),
    seed: int = typer.Option(0, min=0, help="Of everything random."),
    schemas: Path | None = typer.Option(None, help="Folder of <vertical>.json. Default: the set's own."),
    model: str | None = typer.Option(None, help="Whose tokens the prompts are written in."),
    offline: bool = typer.Option(False, "--offline", help="Never fetch a model."),
    quiet: bool = typer.Option(False, "-q", "--quiet", help="No progress."),
) -> int:
    """Prompts with the answers that a model ought to write, checked against the scorer. One summary line on stderr."""
    import json
    import sys

    from fetchly.cli.dataset_progress import DatasetProgress
    from fetchly.cli.progress import ProgressBar
    from fetchly.document.worker import DocumentReader
    from fetchly.errors import ConfigurationError, DocumentError
    from fetchly.extraction.local import LocalGenerator
    from fetchly.extraction.prompt import PAGE_BUDGET
    from fetchly.lab.dataset import Dataset, check_names
    from fetchly.lab.example_file import ExampleFile
    from fetchly.lab.examples import ExampleMaker, ExampleOptions
    from fetchly.settings import load_settings

    opened = [Dataset.open(folder, split, schemas) for folder in datasets]
    check_names(opened)
    options = ExampleOptions(budget or PAGE_BUDGET, variants, seed, structured, longest_answer, silent)
    with ProgressBar(quiet) as fetching, DocumentReader() as reader, ExampleFile(output) as file:
        generator = LocalGenerator(model or load_settings().model, offline=offline, progress=fetching)
        try:
            maker = ExampleMaker(generator, reader.read, options)
            for dataset in opened:
                records = dataset.records()[skip:][:limit]
                if not records:
                    raise ConfigurationError(f"--skip {skip} leaves no page", where=dataset.name, hint="skip fewer")
                with DatasetProgress(dataset.name, len(records), quiet) as progress:
                    for record in records:
                        progress.step(record.id)
                        for example in maker.of(dataset, record):
                            file.add(example)
            if not maker.tally.examples:
                reasons = ", ".join(f"{count} x {reason}" for reason, count in maker.tally.dropped.most_common(3))
                raise DocumentError(f"no example could be made: {reasons}", code="NO_EXAMPLES")
        finally:
            generator.close()
    print(json.dumps(maker.tally.summary(), ensure_ascii=False), file=sys.stderr)
    return 0
