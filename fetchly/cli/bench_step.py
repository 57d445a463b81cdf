"""`fetchly bench step`: what a decode step costs by its number of rows; one JSON line each, or a table on stderr."""

from __future__ import annotations

import sys
from typing import Literal

import typer


def step(
    context: int = typer.Option(1024, min=1, help="Tokens before the step."),
    rows: list[int] = typer.Option([1, 2, 4, 8, 16], min=1, help="Rows of a step; repeatable."),
    model: str | None = typer.Option(None, help="A name, a folder, hf:ORG/NAME or pypi:NAME==VERSION/FILE."),
    device: Literal["auto", "native", "cpu", "cuda"] | None = typer.Option(None, help="Where the model runs."),
    threads: int | None = typer.Option(None, min=1, help="CPU threads."),
    width: int | None = typer.Option(None, min=1, help="Rows of a step, of back-ends that have a width."),
    offline: bool = typer.Option(False, "--offline", help="Never fetch a model."),
    as_json: bool = typer.Option(False, "--json", help="One JSON line for each number of rows on stdout."),
    quiet: bool = typer.Option(False, "-q", "--quiet", help="No progress."),
) -> int:
    """Milliseconds of a decode step by its number of rows, beside the limit that this machine's memory sets."""
    import json

    from fetchly.cli import engine_bench
    from fetchly.cli.progress import ProgressBar
    from fetchly.settings import load_settings

    settings = load_settings()
    with ProgressBar(quiet) as fetching:
        lines = engine_bench.measure_steps(
            model or settings.model,
            device=device or settings.device,
            threads=threads or settings.threads,
            width=width,
            context=context,
            rows=rows,
            offline=offline,
            progress=fetching,
        )
    if as_json:
        for line in lines:
            print(json.dumps(line), flush=True)
    first = lines[0]
    _say(
        f"{first['backend']}, {first['threads']} threads, context {first['context']}: "
        f"prefill {first['prefill_tokens_per_s']:.0f} tokens/s; memory {first['bandwidth_gb_s']:.1f} GB/s, "
        f"limit {first['limit_ms']:.2f} ms"
    )
    _say(f"{'rows':>4}  {'ms':>8}  {'x one row':>9}  {'x limit':>8}")
    for line in lines:
        _say(f"{line['rows']:>4}  {line['ms']:>8.2f}  {line['ratio_to_one_row']:>9.2f}  {line['ratio_to_limit']:>8.2f}")
    return 0


def _say(text: str) -> None:
    print(text, file=sys.stderr)
