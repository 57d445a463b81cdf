"""`fetchly lab synthesize`: invented pages with random schemas and right answers, as a dataset."""

from __future__ import annotations

from pathlib import Path

import typer


def synthesize(
    output: Path = typer.Option(..., "--output", "-o", help="Folder to write: train.jsonl, html/, schemas/."),
    count: int = typer.Option(1000, "--count", "-n", min=1, max=1_000_000, help="How many pages."),
    seed: int = typer.Option(0, "--seed", min=0, help="Another seed gives other pages, the same one the same bytes."),
    quiet: bool = typer.Option(False, "-q", "--quiet", help="No progress."),
) -> None:
    """Write invented pages with random schemas and right answers, to teach a model to follow any schema."""
    from fetchly.cli.dataset_progress import DatasetProgress
    from fetchly.lab.synthetic.corpus import write_corpus

    with DatasetProgress("synthetic", count, quiet) as progress:
        write_corpus(output, count, seed, progress.step)
