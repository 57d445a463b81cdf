"""Prepared examples and a base model in; an adapter, trained to write their answers, out, with its log and checkpoints.

The loss is the cross-entropy of the answer's choices: what the prompt says and what the grammar forces is not learnt.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from fetchly_llm.adapter import Adapter, AdapterConfig, read_adapter, write_adapter
from fetchly_llm.backends.torch_reference.weights import load_weights
from fetchly_llm.checkpoint import read_model_config
from fetchly_llm.config import ModelConfig
from fetchly_llm.errors import ModelUnsupported, RequestInvalid
from fetchly_llm.training.batches import Batches, MicroBatch, micro_batches
from fetchly_llm.training.decoder import TrainingDecoder
from fetchly_llm.training.loop import StepDone, TrainingLoop
from fetchly_llm.training.lora import TrainableAdapter
from fetchly_llm.training.schedule import Schedule
from fetchly_llm.training.token_file import TokenExample, TokenExamples

_SEEDS = 1 << 63


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


def fast_precision(device: torch.device) -> Literal["bf16", "fp32"]:
    """bf16 where the hardware multiplies it faster than fp32."""
    if device.type == "cuda":
        return "bf16"
    return "bf16" if torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported() else "fp32"


class SftLearner:
    """An adapter of one model on one device, and the examples that it learns from. `loop` trains it."""

    def __init__(
        self,
        folder: Path,
        base: str,
        examples: TokenExamples,
        settings: SftSettings,
        device: torch.device,
        held_out: Sequence[TokenExample] = (),
        start: Path | None = None,
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
        self._start = None if start is None else _started(start, self._model, self._config)
        _check_vocabulary((*examples.examples, *held_out), self._model.vocab_size)
        self._batches = Batches(examples.examples, settings.batch, settings.seed)
        identity: dict[str, Any] = {"model": examples.model, "format": examples.format, "base": base}
        identity |= {"examples": len(examples.examples), "data": examples.digest()}
        if start is not None:
            identity["start"] = hashlib.sha256(start.read_bytes()).hexdigest()
        schedule = Schedule(settings.steps, settings.warmup, settings.decay)
        self.loop = TrainingLoop(self, {**asdict(settings), **identity}, settings.rate, schedule, settings.steps)

    def parameters(self) -> list[Tensor]:
        """The adapter's."""
        return self._adapter.parameters()

    def begin(self) -> None:
        """An adapter begins as nothing, or as the one that it starts from."""
        if self._start is not None:
            self._adapter.load(self._start.tensors)

    def backward(self, step: int) -> StepDone:
        """The gradients of one step's examples; the loss is nats a choice."""
        examples = self._batches.step(step)
        choices = sum(int(example.chosen.sum()) for example in examples)
        loss = 0.0
        for batch in micro_batches(examples, self._settings.micro_tokens):
            part = self._loss(batch) / choices
            part.backward()  # type: ignore[no-untyped-call]
            loss += float(part.detach())
        return StepDone(loss, sum(map(len, examples)), {"choices": choices})

    def held_out(self) -> tuple[float, Mapping[str, Any]] | None:
        """Nats a choice over the held-out examples."""
        if not self._held_out:
            return None
        total, count = 0.0, 0
        with torch.no_grad():
            for batch in micro_batches(self._held_out, self._settings.micro_tokens):
                total += float(self._loss(batch))
                count += len(batch.targets)
        return total / count, {}

    def write(self, file: Path) -> None:
        """The adapter file."""
        write_adapter(file, Adapter(self._config, self._adapter.tensors()), self._model)

    def _loss(self, batch: MicroBatch) -> Tensor:
        """The sum over the choices of a micro-batch, in nats."""
        tokens, rows, targets = (
            torch.from_numpy(array).to(self._device) for array in (batch.tokens, batch.rows, batch.targets)
        )
        hidden = self._decoder.hidden_states(tokens, self._adapter)
        chosen = hidden.flatten(0, 1).index_select(0, rows)
        return F.cross_entropy(self._decoder.logits(chosen), targets, reduction="sum")


def _started(file: Path, model: ModelConfig, wanted: AdapterConfig) -> Adapter:
    """The adapter that a run starts from. Raises RequestInvalid for one of another base, format, rank or alpha."""
    adapter = read_adapter(file, model)
    for name in ("base", "prompt_format", "rank", "alpha"):
        there, here = getattr(adapter.config, name), getattr(wanted, name)
        if there != here:
            hint = f"train with --{name} {there}" if name in ("rank", "alpha") else "start from one of the same model"
            raise RequestInvalid(f"{file} has {name} {there!r}, the run {here!r}", hint=hint)
    return adapter


def _check_vocabulary(examples: Sequence[TokenExample], vocab_size: int) -> None:
    for example in examples:
        if not 0 <= int(example.tokens.min()) <= int(example.tokens.max()) < vocab_size:
            raise RequestInvalid(f"{example.name} has a token that the model's vocabulary of {vocab_size} lacks")
