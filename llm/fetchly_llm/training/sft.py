"""Prepared examples and a base model in; an adapter, trained to write their answers, out, with its log and checkpoints.

The loss is the cross-entropy of the answer's choices: what the prompt says and what the grammar forces is not learnt.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from fetchly_llm.adapter import Adapter, AdapterConfig, write_adapter
from fetchly_llm.backends.torch_reference.weights import load_weights
from fetchly_llm.checkpoint import read_model_config
from fetchly_llm.errors import EngineError, ModelUnsupported, RequestInvalid
from fetchly_llm.training.batches import Batches, MicroBatch, micro_batches
from fetchly_llm.training.decoder import TrainingDecoder
from fetchly_llm.training.lora import TrainableAdapter
from fetchly_llm.training.run_folder import Checkpoint, RunFolder
from fetchly_llm.training.schedule import Schedule
from fetchly_llm.training.token_file import TokenExample, TokenExamples

_BETAS = (0.9, 0.99)
_LARGEST_NORM = 1.0
_SEEDS = 1 << 63
FREE = ("steps", "decay")
"""Settings that may change when a run is resumed, as long as neither its old nor its new decay has begun."""


@dataclass(frozen=True, slots=True)
class SftSettings:
    """What a run depends on beside its data. `batch` is examples a step; `micro_tokens` are places of one forward pass
    (memory and speed; no more). `precision` is the type of the matrix products."""

    steps: int
    rank: int = 16
    alpha: float = 32.0
    rate: float = 8e-4
    batch: int = 8
    warmup: int = 20
    decay: float = 0.3
    seed: int = 0
    micro_tokens: int = 2048
    precision: Literal["bf16", "fp32"] = "fp32"

    def check(self) -> None:
        """Raises RequestInvalid for what cannot be."""
        least = {"steps": self.steps, "rank": self.rank, "batch": self.batch, "micro_tokens": self.micro_tokens}
        for name, value in least.items():
            if value < 1:
                raise RequestInvalid(f"{name} must be at least 1, not {value}")
        if not (0 < self.alpha < math.inf and 0 < self.rate < math.inf and 0 <= self.decay <= 1 and self.warmup >= 0):
            raise RequestInvalid("alpha and rate must be positive, decay between 0 and 1, warmup not negative")
        if not 0 <= self.seed < _SEEDS:
            raise RequestInvalid(f"seed must be from 0 to {_SEEDS - 1}, not {self.seed}")


@dataclass(frozen=True, slots=True)
class SftProgress:
    """One step that was made. `loss` is nats a choice; `tokens_per_s` counts all tokens of the sequences."""

    step: int
    steps: int
    loss: float
    held_out: float | None
    tokens_per_s: float


def fast_precision(device: torch.device) -> Literal["bf16", "fp32"]:
    """bf16 where the hardware multiplies it faster than fp32."""
    if device.type == "cuda":
        return "bf16"
    return "bf16" if torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported() else "fp32"


class SftTrainer:
    """One run over one model on one device."""

    def __init__(
        self,
        folder: Path,
        base: str,
        examples: TokenExamples,
        settings: SftSettings,
        device: torch.device,
        held_out: Sequence[TokenExample] = (),
    ) -> None:
        settings.check()
        self._settings = settings
        self._examples = examples
        self._held_out = held_out
        self._device = device
        self._model = read_model_config(folder)
        if self._model.family == "other":
            raise ModelUnsupported("adapters are trained for models of the Llama family only")
        kind = torch.bfloat16 if settings.precision == "bf16" else torch.float32
        self._decoder = TrainingDecoder(self._model, load_weights(folder, self._model, device), kind)
        self._adapter = TrainableAdapter(self._model, settings.rank, settings.alpha, settings.seed, device)
        self._config = AdapterConfig(settings.rank, settings.alpha, base, examples.format)
        _check_vocabulary((*examples.examples, *held_out), self._model.vocab_size)
        self._made = 0  # steps
        self._in_update = False
        self._batches = Batches(examples.examples, settings.batch, settings.seed)
        self._schedule = Schedule(settings.steps, settings.warmup, settings.decay)
        self._optimizer = torch.optim.AdamW(
            self._adapter.parameters(), lr=settings.rate, betas=_BETAS, weight_decay=0.0, foreach=True
        )

    def run(
        self,
        run: RunFolder,
        *,
        resume: bool = False,
        checkpoint_s: float = 300.0,
        look_every: int = 50,
        on_step: Callable[[SftProgress], None] = lambda progress: None,
    ) -> None:
        """Train to the last step; the folder then holds the adapter. Ctrl-C leaves a checkpoint behind.

        Raises RequestInvalid for a folder that does not fit (see `RunFolder`), and where the loss is no number.
        """
        self._made = self._start(run, resume)
        saved = time.monotonic()
        try:
            while self._made < self._settings.steps:
                on_step(self._step(run, self._made, look_every))
                if time.monotonic() - saved > checkpoint_s:
                    self._save(run)
                    saved = time.monotonic()
        except BaseException as error:
            if not self._in_update and not isinstance(error, EngineError):
                self._save(run)
            raise
        self._save(run)

    def held_out_loss(self) -> float:
        """Nats a choice over the held-out examples."""
        total, count = 0.0, 0
        with torch.no_grad():
            for batch in micro_batches(self._held_out, self._settings.micro_tokens):
                total += float(self._loss(batch))
                count += len(batch.targets)
        return total / count

    def _start(self, run: RunFolder, resume: bool) -> int:
        settings = {**asdict(self._settings), "model": self._examples.model, "format": self._examples.format}
        settings |= {"examples": len(self._examples.examples), "data": self._examples.digest()}
        settings["base"] = self._config.base
        if not resume:
            run.begin(settings)
            return 0
        checkpoint = run.resume(settings, self._may_change)
        if checkpoint is None:
            return 0
        self._restore(checkpoint)
        return checkpoint.step

    def _may_change(self, begun: Mapping[str, Any], step: int) -> Sequence[str]:
        old = Schedule(begun["steps"], begun["warmup"], begun["decay"])
        return FREE if step <= min(old.decay_begins, self._schedule.decay_begins) else ()

    def _step(self, run: RunFolder, step: int, look_every: int) -> SftProgress:
        begun = time.perf_counter()
        examples = self._batches.step(step)
        choices = sum(int(example.chosen.sum()) for example in examples)
        rate = self._settings.rate * self._schedule.share(step)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        loss = 0.0
        for batch in micro_batches(examples, self._settings.micro_tokens):
            part = self._loss(batch) / choices
            part.backward()  # type: ignore[no-untyped-call]
            loss += float(part.detach())
        norm = float(torch.nn.utils.clip_grad_norm_(self._adapter.parameters(), _LARGEST_NORM))
        if not math.isfinite(loss) or not math.isfinite(norm):
            raise RequestInvalid(f"the loss of step {step} is {loss}; begin again with a lower --rate")
        self._in_update = True  # a Ctrl-C in here leaves parameters of two steps: the last checkpoint stands then
        self._optimizer.step()
        self._made = step + 1
        self._in_update = False
        self._optimizer.zero_grad()
        seconds = time.perf_counter() - begun
        tokens = sum(map(len, examples))
        line = {"step": step, "loss": round(loss, 5), "rate": rate, "norm": round(norm, 4), "choices": choices}
        line |= {"tokens": tokens, "seconds": round(seconds, 3)}
        look = bool(self._held_out) and (self._made % look_every == 0 or self._made == self._settings.steps)
        held_out = None
        try:
            if look:
                held_out = self.held_out_loss()
                line["held_out"] = round(held_out, 5)
        finally:  # a Ctrl-C during a look, which may be long, does not undo the step
            run.add(line)
        return SftProgress(step + 1, self._settings.steps, loss, held_out, tokens / seconds)

    def _loss(self, batch: MicroBatch) -> Tensor:
        """The sum over the choices of a micro-batch, in nats."""
        tokens, rows, targets = (
            torch.from_numpy(array).to(self._device) for array in (batch.tokens, batch.rows, batch.targets)
        )
        hidden = self._decoder.hidden_states(tokens, self._adapter)
        chosen = hidden.flatten(0, 1).index_select(0, rows)
        return F.cross_entropy(self._decoder.logits(chosen), targets, reduction="sum")

    def _save(self, run: RunFolder) -> None:
        parameters = self._adapter.parameters()
        first, second = (
            [self._optimizer.state[each][name] if self._made else torch.zeros_like(each) for each in parameters]
            for name in ("exp_avg", "exp_avg_sq")
        )
        run.save(Checkpoint(self._made, parameters, first, second))
        write_adapter(run.adapter, Adapter(self._config, self._adapter.tensors()), self._model)

    def _restore(self, checkpoint: Checkpoint) -> None:
        parameters = self._adapter.parameters()
        if [tensor.shape for tensor in checkpoint.parameters] != [tensor.shape for tensor in parameters]:
            raise RequestInvalid("the checkpoint is of another model", hint="begin the run anew")
        with torch.no_grad():
            for parameter, kept in zip(parameters, checkpoint.parameters, strict=True):
                parameter.copy_(kept)
        for parameter, first, second in zip(parameters, checkpoint.first, checkpoint.second, strict=True):
            self._optimizer.state[parameter] = {
                "step": torch.tensor(float(checkpoint.step)),
                "exp_avg": first.to(self._device),
                "exp_avg_sq": second.to(self._device),
            }


def _check_vocabulary(examples: Sequence[TokenExample], vocab_size: int) -> None:
    for example in examples:
        if not 0 <= int(example.tokens.min()) <= int(example.tokens.max()) < vocab_size:
            raise RequestInvalid(f"{example.name} has a token that the model's vocabulary of {vocab_size} lacks")
