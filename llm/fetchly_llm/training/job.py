"""A model's folder and what it is to learn from in; a finished training run, with its picture, out."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from fetchly_llm.backends.torch_reference.backend import MOST_THREADS
from fetchly_llm.errors import RequestInvalid
from fetchly_llm.store.entry import ModelFolder
from fetchly_llm.stream_config import STREAMS_FILE, StreamConfig
from fetchly_llm.training.loop import TrainingLoop, TrainingProgress
from fetchly_llm.training.plot import draw_loss
from fetchly_llm.training.run_folder import RunFolder
from fetchly_llm.training.sft import SftLearner, SftSettings, fast_precision
from fetchly_llm.training.streams import StreamLearner, StreamSettings
from fetchly_llm.training.token_file import TokenExamples, read_token_files


@dataclass(frozen=True, slots=True)
class SftOptions:
    """What a caller says of a run. `steps` None makes it `epochs` long. `held_out` are examples whose loss is looked
    at every `look_every` steps; the run does not learn from them. `start` is the adapter that it goes on from."""

    files: tuple[Path, ...]
    held_out: tuple[Path, ...] = ()
    start: Path | None = None
    steps: int | None = None
    epochs: float = 1.0
    rank: int = 16
    alpha: float = 32.0
    rate: float = 8e-4
    batch: int = 8
    warmup: int = 20
    decay: float = 0.3
    seed: int = 0
    micro_tokens: int | None = None
    precision: Literal["auto", "bf16", "fp32"] = "auto"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    threads: int | None = None
    resume: bool = False
    checkpoint_s: float = 300.0
    look_every: int = 50


def train(
    folder: ModelFolder, base: str, run: Path, options: SftOptions, on_step: Callable[[TrainingProgress], None]
) -> None:
    """Train an adapter of the model in `folder`; `base` tells it from other models (`AdapterConfig`).

    Raises RequestInvalid for files, settings and folders that cannot be, ModelUnsupported for another architecture,
    OSError where the run cannot be written.
    """
    examples = _examples(options.files, folder)
    held_out = _examples(options.held_out, folder).examples if options.held_out else ()
    device = _device(options.device)
    _use_threads(options.threads)
    settings = SftSettings(
        steps=options.steps or _steps(options, len(examples.examples)),
        rank=options.rank,
        alpha=options.alpha,
        rate=options.rate,
        batch=options.batch,
        warmup=options.warmup,
        decay=options.decay,
        seed=options.seed,
        micro_tokens=options.micro_tokens or (2048 if device.type == "cpu" else 32768),
        precision=fast_precision(device) if options.precision == "auto" else options.precision,
    )
    learner = SftLearner(folder.path, base, examples, settings, device, held_out, options.start)
    _run(learner.loop, RunFolder(run), options, on_step)


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What a caller says of a run of streams. `held_out` answers, the first ones, are looked at every `look_every`
    steps; the run does not learn from them."""

    streams: StreamConfig
    steps: int
    rate: float = 1e-3
    batch: int = 4
    anchors: int = 64
    warmup: int = 20
    decay: float = 0.3
    seed: int = 0
    held_out: int = 16
    precision: Literal["auto", "bf16", "fp32"] = "auto"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    threads: int | None = None
    resume: bool = False
    checkpoint_s: float = 300.0
    look_every: int = 50


def train_streams(
    folder: ModelFolder,
    target: str | None,
    states: Path,
    run: Path,
    options: StreamOptions,
    on_step: Callable[[TrainingProgress], None],
) -> None:
    """Train the streams of the model in `folder` on states of its answers; `target` as in `StreamLearner`.

    Raises RequestInvalid for states, settings and folders that cannot be, ModelUnsupported for another architecture,
    OSError where the run cannot be written.
    """
    device = _device(options.device)
    _use_threads(options.threads)
    settings = StreamSettings(
        steps=options.steps,
        streams=options.streams,
        rate=options.rate,
        batch=options.batch,
        anchors=options.anchors,
        warmup=options.warmup,
        decay=options.decay,
        seed=options.seed,
        precision=fast_precision(device) if options.precision == "auto" else options.precision,
    )
    learner = StreamLearner(folder.path, folder.digest, states, settings, device, options.held_out, target)
    _run(learner.loop, RunFolder(run, STREAMS_FILE), options, on_step)


def _run(
    loop: TrainingLoop,
    place: RunFolder,
    options: SftOptions | StreamOptions,
    on_step: Callable[[TrainingProgress], None],
) -> None:
    with place.held(resume=options.resume):
        try:
            loop.run(
                place,
                resume=options.resume,
                checkpoint_s=options.checkpoint_s,
                look_every=options.look_every,
                on_step=on_step,
            )
        finally:
            draw_loss(place.log(), place.plot)


def _use_threads(threads: int | None) -> None:
    if threads is not None:
        if not 1 <= threads <= MOST_THREADS:
            raise RequestInvalid(f"threads must be from 1 to {MOST_THREADS}, not {threads}")
        torch.set_num_threads(threads)


def _examples(files: tuple[Path, ...], folder: ModelFolder) -> TokenExamples:
    found = read_token_files(files)
    if found.model != folder.digest:
        raise RequestInvalid(
            f"{files[0]} is prepared for another model", hint="prepare the examples with the model that is to learn"
        )
    return found


def _steps(options: SftOptions, examples: int) -> int:
    if not math.isfinite(options.epochs):
        raise RequestInvalid(f"epochs must be a number, not {options.epochs}")
    return max(1, round(options.epochs * examples / max(1, options.batch)))


def _device(wanted: Literal["auto", "cpu", "cuda"]) -> torch.device:
    has_cuda = torch.cuda.is_available()
    if wanted == "cuda" and not has_cuda:
        raise RequestInvalid("torch sees no GPU", hint="train with --device cpu")
    return torch.device("cuda" if has_cuda and wanted != "cpu" else "cpu")
