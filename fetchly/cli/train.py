"""`fetchly train`: examples in; an adapter that teaches a model, or streams that say its answers ahead, out."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

if TYPE_CHECKING:
    from fetchly.cli.engine import TrainingProgress

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
_LINE_EVERY = 10
BASE = "smollm2-135m-instruct"
DEFAULT_MODEL = "fetchly-135m"


@app.callback()
def _group() -> None:
    """Teach a model to extract. Training needs torch."""


@app.command("prepare")
def prepare(
    files: list[Path] = typer.Argument(help="Examples of `fetchly lab examples`, .jsonl or .jsonl.gz."),
    output: Path = typer.Option(..., "-o", "--output", help="The tokens, .safetensors."),
    take: list[str] = typer.Option([], help="SET=N: at most N examples of that set; repeatable."),
    model: str = typer.Option(BASE, help="The model that is to learn."),
    offline: bool = typer.Option(False, "--offline", help="Never fetch a model."),
    quiet: bool = typer.Option(False, "-q", "--quiet", help="No progress."),
) -> int:
    """Walk each answer through its grammar, and write prompts and answers as tokens. One summary line on stderr."""
    from fetchly.cli import engine
    from fetchly.cli.progress import ProgressBar

    _check_inputs(files)
    _check_output(output)
    bounds = dict(_bound(text) for text in take)
    with ProgressBar(quiet) as fetching, _written(output):
        summary = engine.prepare_examples(
            model, files, output, bounds, offline=offline, progress=fetching, on_example=lambda name: None
        )
    print(json.dumps(summary, ensure_ascii=False), file=sys.stderr)
    return 0


@app.command("sft")
def sft(
    files: list[Path] = typer.Argument(help="Prepared examples (fetchly train prepare)."),
    run: Path = typer.Option(..., "-o", "--output", help="Folder of the run: log, checkpoint, adapter, picture."),
    held_out: list[Path] = typer.Option([], help="Prepared examples to look at and not to learn from; repeatable."),
    start: Path | None = typer.Option(
        None, help="An adapter to go on from, in place of none (run/adapter.safetensors)."
    ),
    model: str = typer.Option(BASE, help="The model that is to learn."),
    epochs: float = typer.Option(1.0, min=0.001, help="How often every example is seen."),
    steps: int | None = typer.Option(None, min=1, help="Optimizer steps, in place of --epochs."),
    batch: int = typer.Option(8, min=1, help="Examples a step."),
    rank: int = typer.Option(16, min=1, help="Of the adapter."),
    alpha: float = typer.Option(32.0, min=0.001, help="The adapter counts alpha / rank."),
    rate: float = typer.Option(8e-4, min=1e-9, help="Highest learning rate."),
    warmup: int = typer.Option(20, min=0, help="Steps in which the rate rises."),
    decay: float = typer.Option(0.3, min=0.0, max=1.0, help="Share of the steps in which the rate falls."),
    seed: int = typer.Option(0, min=0, help="Of the adapter and of the order of examples."),
    precision: Literal["auto", "bf16", "fp32"] = typer.Option("auto", help="Of the matrix products."),
    device: Literal["auto", "cpu", "cuda"] = typer.Option("auto", help="Where to train."),
    threads: int | None = typer.Option(None, min=1, help="CPU threads."),
    micro_tokens: int | None = typer.Option(None, min=1, help="Tokens of one forward pass: memory and speed, no more."),
    checkpoint_every: float = typer.Option(300.0, min=1.0, help="Seconds between checkpoints."),
    look_every: int = typer.Option(50, min=1, help="Steps between looks at the held-out examples."),
    resume: bool = typer.Option(False, "--resume", help="Go on from the run's newest checkpoint."),
    offline: bool = typer.Option(False, "--offline", help="Never fetch a model."),
    quiet: bool = typer.Option(False, "-q", "--quiet", help="Only errors."),
) -> int:
    """Train a low-rank adapter on the choices of the answers. Ctrl-C and SIGTERM lose nothing, kill -9 what came after
    the last checkpoint: --resume goes on."""
    from fetchly.cli import engine
    from fetchly.cli.progress import ProgressBar

    _check_inputs([*files, *held_out, *([start] if start else [])])
    options: dict[str, Any] = {
        "files": tuple(files), "held_out": tuple(held_out), "start": start, "epochs": epochs, "steps": steps,
        "batch": batch,
        "rank": rank, "alpha": alpha, "rate": rate, "warmup": warmup, "decay": decay, "seed": seed,
        "precision": precision, "device": device, "threads": threads, "micro_tokens": micro_tokens,
        "checkpoint_s": checkpoint_every, "look_every": look_every, "resume": resume,
    }  # fmt: skip
    with ProgressBar(quiet) as fetching, _written(run), _resumable(run):
        engine.train_sft(
            model, run, options, offline=offline, progress=fetching, on_step=lambda done: _say(done, quiet)
        )
    if not quiet:
        print(run / "adapter.safetensors")
    return 0


@app.command("states")
def states(
    files: list[Path] = typer.Argument(help="Examples of `fetchly lab examples`, .jsonl or .jsonl.gz."),
    output: Path = typer.Option(..., "-o", "--output", help="Folder of states; one that has some is gone on with."),
    take: list[str] = typer.Option([], help="SET=N: at most N examples of that set; repeatable."),
    model: str = typer.Option(DEFAULT_MODEL, help="The model whose streams are to learn."),
    first_layer: int = typer.Option(20, min=0, help="Keys and values are kept from this layer on."),
    taps: str = typer.Option("5,12,20,26", help="Layers whose hidden states are kept, the first layer among them."),
    warm: float = typer.Option(0.3, min=0.0, max=1.0, help="Share of the answers that are drawn at --temperature."),
    temperature: float = typer.Option(0.7, min=0.001, help="Of those; the others are drawn at 0."),
    longest: int = typer.Option(700, min=1, help="Tokens of an answer; one that comes to no end is left out."),
    seed: int = typer.Option(0, min=0, help="Of the sampling noise."),
    threads: int | None = typer.Option(None, min=1, help="CPU threads."),
    offline: bool = typer.Option(False, "--offline", help="Never fetch a model."),
    quiet: bool = typer.Option(False, "-q", "--quiet", help="No progress."),
) -> int:
    """Have a model answer examples under their grammars, and keep the states that speculative streams learn from: about
    8 MB an answer. Whatever stops it, the same command goes on. One summary line on stderr."""
    from fetchly.cli import engine
    from fetchly.cli.progress import ProgressBar

    _check_inputs(files)
    bounds = dict(_bound(text) for text in take)
    options: dict[str, Any] = {
        "first_layer": first_layer, "taps": _layers(taps), "warm": warm, "temperature": temperature,
        "longest": longest, "seed": seed, "threads": threads,
    }  # fmt: skip
    with ProgressBar(quiet) as fetching, _written(output):
        summary = engine.write_states(
            model, files, output, bounds, options, offline=offline, progress=fetching, on_example=_teller(quiet)
        )
    print(json.dumps(summary, ensure_ascii=False), file=sys.stderr)
    return 0


@app.command("streams")
def streams(
    states: Path = typer.Argument(help="Folder of states (fetchly train states)."),
    run: Path = typer.Option(..., "-o", "--output", help="Folder of the run: log, checkpoint, streams, picture."),
    model: str = typer.Option(DEFAULT_MODEL, help="The model whose streams are to learn."),
    gamma: int = typer.Option(4, min=1, help="Streams: how many tokens ahead."),
    first_layer: int = typer.Option(20, min=0, help="The layer after which they start."),
    taps: str = typer.Option("5,12,20,26", help="Layers that the insertion layer reads; empty for none."),
    insertion_rank: int = typer.Option(128, min=0, help="Of the insertion layer; 0 with no taps."),
    anchor_rank: int = typer.Option(128, min=0, help="Of the layer that tells them the token after the anchor."),
    lora_rank: int = typer.Option(16, min=0, help="Of the adapters on the streams' rows; 0 for none."),
    markov_rank: int = typer.Option(64, min=0, help="Of the Markov head; 0 for none."),
    steps: int = typer.Option(400, min=1, help="Optimizer steps."),
    batch: int = typer.Option(4, min=1, help="Answers a step."),
    anchors: int = typer.Option(64, min=1, help="Places of each that streams start from."),
    rate: float = typer.Option(1e-3, min=1e-9, help="Highest learning rate."),
    warmup: int = typer.Option(20, min=0, help="Steps in which the rate rises."),
    decay: float = typer.Option(0.3, min=0.0, max=1.0, help="Share of the steps in which the rate falls."),
    held_out: int = typer.Option(16, min=0, help="Answers to look at and not to learn from."),
    seed: int = typer.Option(0, min=0, help="Of the parameters and of the order of answers."),
    precision: Literal["auto", "bf16", "fp32"] = typer.Option("auto", help="Of the matrix products."),
    device: Literal["auto", "cpu", "cuda"] = typer.Option("auto", help="Where to train."),
    threads: int | None = typer.Option(None, min=1, help="CPU threads."),
    checkpoint_every: float = typer.Option(300.0, min=1.0, help="Seconds between checkpoints."),
    look_every: int = typer.Option(50, min=1, help="Steps between looks at the held-out answers."),
    resume: bool = typer.Option(False, "--resume", help="Go on from the run's newest checkpoint."),
    offline: bool = typer.Option(False, "--offline", help="Never fetch a model."),
    quiet: bool = typer.Option(False, "-q", "--quiet", help="Only errors."),
) -> int:
    """Train speculative streams (arXiv 2402.11131) of a frozen model: its answers stay the same bytes. Ctrl-C and
    SIGTERM lose nothing: --resume goes on."""
    from fetchly.cli import engine
    from fetchly.cli.progress import ProgressBar

    layers = _layers(taps)
    options: dict[str, Any] = {
        "streams": {
            "gamma": gamma, "first_layer": first_layer, "taps": layers,
            "insertion_rank": insertion_rank if layers else 0, "anchor_rank": anchor_rank, "lora_rank": lora_rank,
            "lora_alpha": float(lora_rank),
            "markov_rank": markov_rank, "confidence": True,
        },
        "steps": steps, "batch": batch, "anchors": anchors, "rate": rate, "warmup": warmup, "decay": decay,
        "held_out": held_out, "seed": seed, "precision": precision, "device": device, "threads": threads,
        "checkpoint_s": checkpoint_every, "look_every": look_every, "resume": resume,
    }  # fmt: skip
    with ProgressBar(quiet) as fetching, _written(run), _resumable(run):
        engine.train_streams(
            model, states, run, options, offline=offline, progress=fetching, on_step=lambda done: _say(done, quiet)
        )
    if not quiet:
        print(run / "streams.safetensors")
    return 0


@app.command("merge")
def merge(
    adapter: Path = typer.Argument(help="The adapter of a run (run/adapter.safetensors)."),
    output: Path = typer.Option(..., "-o", "--output", help="Folder to write the model into."),
    model: str = typer.Option(BASE, help="The model that learnt."),
    offline: bool = typer.Option(False, "--offline", help="Never fetch a model."),
    quiet: bool = typer.Option(False, "-q", "--quiet", help="No progress."),
) -> int:
    """Merge an adapter into its base model: a folder that --model takes."""
    from fetchly.cli import engine
    from fetchly.cli.progress import ProgressBar

    _check_inputs([adapter])
    _check_output(output)
    with ProgressBar(quiet) as progress, _written(output):
        engine.merge_adapter(model, adapter, output, offline=offline, progress=progress)
    print(output)
    return 0


@contextmanager
def _written(place: Path) -> Iterator[None]:
    """What the system refuses while `place` is written, in one line."""
    from fetchly.errors import OutputError

    try:
        yield
    except OSError as error:
        raise OutputError(
            f"cannot be written: {error.strerror or error}", where=str(error.filename or place)
        ) from error


@contextmanager
def _resumable(run: Path) -> Iterator[None]:
    """A run that Ctrl-C or a service manager's stop ends, and how to go on."""
    from fetchly.errors import Interrupted

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        begun = (run / "settings.json").exists()
        hint = "go on with the same command and --resume" if begun else "nothing is done yet: begin again"
        raise Interrupted("stopped", where=str(run), hint=hint) from None


def _teller(quiet: bool) -> Callable[[str], None]:
    """Says every so many examples how far it is."""
    seen = 0

    def tell(name: str) -> None:
        nonlocal seen
        seen += 1
        if not quiet and seen % _LINE_EVERY == 0:
            print(f"example {seen}: {name}", file=sys.stderr, flush=True)

    return tell


def _layers(text: str) -> tuple[int, ...]:
    """Numbers between commas."""
    from fetchly.errors import ConfigurationError

    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise ConfigurationError(f"{text!r} is no list of layers", where="--taps", hint="such as 5,12,20") from None


def _say(done: TrainingProgress, quiet: bool) -> None:
    if quiet or (done.step % _LINE_EVERY and done.step != done.steps and done.held_out is None):
        return
    held_out = f", held out {done.held_out:.4f}" if done.held_out is not None else ""
    print(
        f"step {done.step} of {done.steps}: loss {done.loss:.4f}{held_out}, {done.tokens_per_s:.0f} tokens/s",
        file=sys.stderr,
        flush=True,
    )


def _bound(text: str) -> tuple[str, int]:
    from fetchly.errors import ConfigurationError

    name, _, number = text.partition("=")
    if not name or not number.isdecimal() or int(number) < 1:
        raise ConfigurationError(f"--take {text!r} is not SET=N", hint="for example --take recipes=500")
    return name, int(number)


def _check_inputs(files: list[Path]) -> None:
    from fetchly.errors import DocumentError

    for file in files:
        if not file.is_file():
            raise DocumentError("there is no such file", where=str(file), code="FILE_MISSING")


def _check_output(file: Path) -> None:
    from fetchly.errors import ConfigurationError

    if not file.resolve().parent.is_dir():
        raise ConfigurationError("its folder does not exist", where=str(file))
    if file.exists():
        raise ConfigurationError(
            "exists already", where=str(file), hint="name another file, or remove it", code="OUTPUT_EXISTS"
        )
