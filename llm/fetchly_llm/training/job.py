"""A model's folder and prepared examples in; a finished training run, with its adapter and its picture, out."""

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
from fetchly_llm.training.plot import draw_loss
from fetchly_llm.training.run_folder import RunFolder
from fetchly_llm.training.sft import SftProgress, SftSettings, SftTrainer, fast_precision
from fetchly_llm.training.token_file import TokenExamples, read_token_files


@dataclass(frozen=True, slots=True)
class SftOptions:
    """What a caller says of a run. `steps` None makes it `epochs` long. `held_out` are examples whose loss is looked
    at every `look_every` steps; the run does not learn from them."""

    files: tuple[Path, ...]
    held_out: tuple[Path, ...] = ()
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
    folder: ModelFolder, base: str, run: Path, options: SftOptions, on_step: Callable[[SftProgress], None]
) -> None:
    """Train an adapter of the model in `folder`; `base` tells it from other models (`AdapterConfig`).

    Raises RequestInvalid for files, settings and folders that cannot be, ModelUnsupported for another architecture,
    OSError where the run cannot be written.
    """
    examples = _examples(options.files, folder)
    held_out = _examples(options.held_out, folder).examples if options.held_out else ()
    device = _device(options.device)
    if options.threads is not None:
        if not 1 <= options.threads <= MOST_THREADS:
            raise RequestInvalid(f"threads must be from 1 to {MOST_THREADS}, not {options.threads}")
        torch.set_num_threads(options.threads)
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
    trainer = SftTrainer(folder.path, base, examples, settings, device, held_out)
    place = RunFolder(run)
    with place.held(resume=options.resume):
        try:
            trainer.run(
                place,
                resume=options.resume,
                checkpoint_s=options.checkpoint_s,
                look_every=options.look_every,
                on_step=on_step,
            )
        finally:
            draw_loss(place.log(), place.plot)


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
