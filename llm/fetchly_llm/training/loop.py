"""Parameters and what one optimizer step learns from in; trained parameters out: updates, log, checkpoints, resume.

What is learnt is somebody else's; here is what every run has in common, so that each can be stopped and gone on with
to the same bytes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from fetchly_llm.errors import EngineError, RequestInvalid
from fetchly_llm.training.run_folder import Checkpoint, RunFolder
from fetchly_llm.training.schedule import Schedule

_BETAS = (0.9, 0.99)
_LARGEST_NORM = 1.0
FREE = ("steps", "decay")
"""Settings that may change when a run is resumed, as long as neither its old nor its new decay has begun."""


@dataclass(frozen=True, slots=True)
class StepDone:
    """What a step learnt from: its loss, in nats, as told to people; `tokens` of work; further figures for the log."""

    loss: float
    tokens: int
    figures: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """One step that was made. `loss` is in nats; `tokens_per_s` counts all tokens of the sequences."""

    step: int
    steps: int
    loss: float
    held_out: float | None
    tokens_per_s: float


class Learner(Protocol):
    """What is trained."""

    def parameters(self) -> Sequence[Tensor]:
        """Every tensor to be trained, in a fixed order."""

    def begin(self) -> None:
        """Once, before the first step of a run."""

    def backward(self, step: int) -> StepDone:
        """Add the gradients of optimizer step `step` (the first is 0) to the parameters'."""

    def held_out(self) -> tuple[float, Mapping[str, Any]] | None:
        """The loss on what is not learnt from, and further figures; None where there is nothing."""

    def write(self, file: Path) -> None:
        """Write what was learnt as it is used."""


class TrainingLoop:
    """One run of a learner. `settings` are all that it depends on, `steps` and `decay` among them."""

    def __init__(
        self, learner: Learner, settings: Mapping[str, Any], rate: float, schedule: Schedule, steps: int
    ) -> None:
        self._learner = learner
        self._parameters = list(learner.parameters())
        self._settings = settings
        self._rate = rate
        self._schedule = schedule
        self._steps = steps
        self._made = 0
        self._in_update = False
        self._optimizer = torch.optim.AdamW(self._parameters, lr=rate, betas=_BETAS, weight_decay=0.0, foreach=True)

    def run(
        self,
        run: RunFolder,
        *,
        resume: bool = False,
        checkpoint_s: float = 300.0,
        look_every: int = 50,
        on_step: Callable[[TrainingProgress], None] = lambda progress: None,
    ) -> None:
        """Train to the last step; the folder then holds the result. Ctrl-C leaves a checkpoint behind.

        Raises RequestInvalid for a folder that does not fit (see `RunFolder`), and where the loss is no number.
        """
        self._made = self._start(run, resume)
        saved = time.monotonic()
        try:
            while self._made < self._steps:
                on_step(self._step(run, self._made, look_every))
                if time.monotonic() - saved > checkpoint_s:
                    self._save(run)
                    saved = time.monotonic()
        except BaseException as error:
            if not self._in_update and not isinstance(error, EngineError):
                self._save(run)
            raise
        self._save(run)

    def _start(self, run: RunFolder, resume: bool) -> int:
        checkpoint = None
        if resume:
            checkpoint = run.resume(self._settings, self._may_change)
        else:
            run.begin(self._settings)
        if checkpoint is None:
            self._learner.begin()
            return 0
        self._restore(checkpoint)
        return checkpoint.step

    def _may_change(self, begun: Mapping[str, Any], step: int) -> Sequence[str]:
        old = Schedule(begun["steps"], begun["warmup"], begun["decay"])
        return FREE if step <= min(old.decay_begins, self._schedule.decay_begins) else ()

    def _step(self, run: RunFolder, step: int, look_every: int) -> TrainingProgress:
        begun = time.perf_counter()
        rate = self._rate * self._schedule.share(step)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        done = self._learner.backward(step)
        norm = float(torch.nn.utils.clip_grad_norm_(self._parameters, _LARGEST_NORM))
        if not math.isfinite(done.loss) or not math.isfinite(norm):
            raise RequestInvalid(f"the loss of step {step} is {done.loss}; begin again with a lower --rate")
        self._in_update = True  # a Ctrl-C in here leaves parameters of two steps: the last checkpoint stands then
        self._optimizer.step()
        self._made = step + 1
        self._in_update = False
        self._optimizer.zero_grad()
        seconds = time.perf_counter() - begun
        line: dict[str, Any] = {"step": step, "loss": round(done.loss, 5), "rate": rate, "norm": round(norm, 4)}
        line |= {**done.figures, "tokens": done.tokens, "seconds": round(seconds, 3)}
        held_out = None
        try:
            if self._made % look_every == 0 or self._made == self._steps:
                look = self._learner.held_out()
                if look is not None:
                    held_out = look[0]
                    line |= {"held_out": round(held_out, 5), **look[1]}
        finally:  # a Ctrl-C during a look, which may be long, does not undo the step
            run.add(line)
        return TrainingProgress(step + 1, self._steps, done.loss, held_out, done.tokens / seconds)

    def _save(self, run: RunFolder) -> None:
        first, second = (
            [self._optimizer.state[each][name] if self._made else torch.zeros_like(each) for each in self._parameters]
            for name in ("exp_avg", "exp_avg_sq")
        )
        run.save(Checkpoint(self._made, self._parameters, first, second))
        self._learner.write(run.result)

    def _restore(self, checkpoint: Checkpoint) -> None:
        if [tensor.shape for tensor in checkpoint.parameters] != [tensor.shape for tensor in self._parameters]:
            raise RequestInvalid("the checkpoint is of another model", hint="begin the run anew")
        with torch.no_grad():
            for parameter, kept in zip(self._parameters, checkpoint.parameters, strict=True):
                parameter.copy_(kept)
        for parameter, first, second in zip(self._parameters, checkpoint.first, checkpoint.second, strict=True):
            self._optimizer.state[parameter] = {
                "step": torch.tensor(float(checkpoint.step)),
                "exp_avg": first.to(parameter.device),
                "exp_avg_sq": second.to(parameter.device),
            }
