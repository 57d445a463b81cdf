"""States of answers that a model wrote in; speculative streams, trained to say them ahead, out.

Speculative Streaming (Bhendawade et al. 2024, arXiv 2402.11131) in its lossless form: the model is frozen, adapters act
on the rows of streams alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from fetchly_llm.backends.torch_reference.weights import load_weights
from fetchly_llm.checkpoint import read_model_config
from fetchly_llm.errors import ModelUnsupported, RequestInvalid
from fetchly_llm.stream_config import NOTE, TARGET, StreamConfig
from fetchly_llm.training.loop import StepDone, TrainingLoop
from fetchly_llm.training.schedule import Schedule
from fetchly_llm.training.stream_layers import Anchors, StreamLayers
from fetchly_llm.training.stream_loss import (
    LossWeights,
    StreamScore,
    StreamTargets,
    expected_accepted,
    stream_loss,
    weight_of,
)
from fetchly_llm.training.stream_parameters import StreamParameters
from fetchly_llm.training.stream_start import fit_start
from fetchly_llm.training.stream_states import StateFolder, StreamStates, read_states

_HELD_OUT_ANCHORS = 48
_FITTED = 300  # answers that the start is fitted to
_SEEDS = 1 << 62


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """What a run depends on beside its states. `batch` is answers a step, `anchors` places of each, `others` random
    tokens that logits are computed of beside those of the page; `untold` is the share of anchors that are not told the
    token after them, as in fused passes."""

    steps: int
    streams: StreamConfig
    weights: LossWeights = field(default_factory=LossWeights)
    rate: float = 1e-3
    batch: int = 4
    anchors: int = 64
    others: int = 1024
    untold: float = 0.1
    warmup: int = 20
    decay: float = 0.3
    seed: int = 0
    precision: Literal["bf16", "fp32"] = "fp32"

    def check(self) -> None:
        """Raises RequestInvalid for what cannot be."""
        for name in ("steps", "batch", "anchors"):
            if getattr(self, name) < 1:
                raise RequestInvalid(f"{name} must be at least 1, not {getattr(self, name)}")
        if not (self.rate > 0 and 0 <= self.decay <= 1 and self.warmup >= 0 and 0 <= self.untold <= 1):
            raise RequestInvalid("rate must be positive, decay and untold shares, warmup not negative")
        if not 0 <= self.seed < _SEEDS:
            raise RequestInvalid(f"seed must be from 0 to {_SEEDS - 1}, not {self.seed}")


class StreamLearner:
    """The streams of one model on one device, and the states that they learn from. `loop` trains them. `target` is the
    sha256 of the adapter that makes the model, where one does: streams are shipped with that model alone."""

    def __init__(
        self,
        folder: Path,
        digest: str,
        states: Path,
        settings: StreamSettings,
        device: torch.device,
        held_out: int = 0,
        target: str | None = None,
    ) -> None:
        settings.check()
        self._model = read_model_config(folder)
        if self._model.family == "other":
            raise ModelUnsupported("streams are trained for models of the Llama family only")
        place = StateFolder(states)
        made = place.settings()
        if made.get("model") != digest:
            raise RequestInvalid(f"the states in {states} are another model's", hint="make them with this model")
        files = place.files()
        if len(files) <= held_out:
            raise RequestInvalid(f"{states} holds {len(files)} answers, and {held_out} are to be held out")
        self._taps, self._layers_cut = _places(made, settings.streams, states)
        self._held_out, self._files = files[:held_out], files[held_out:]
        self._settings = settings
        self._device = device
        self._target = target
        kind = torch.bfloat16 if settings.precision == "bf16" else torch.float32
        self._layers = StreamLayers(self._model, load_weights(folder, self._model, device), settings.streams, kind)
        self._parameters = StreamParameters(settings.streams, self._model, settings.seed, device)
        identity = {"model": digest, "states": made, "answers": len(self._files)}
        schedule = Schedule(settings.steps, settings.warmup, settings.decay)
        plain = {**asdict(settings), "streams": {**asdict(settings.streams), "taps": list(settings.streams.taps)}}
        self.loop = TrainingLoop(self, {**plain, **identity}, settings.rate, schedule, settings.steps)

    def parameters(self) -> list[Tensor]:
        """The streams'."""
        return self._parameters.parameters()

    def begin(self) -> None:
        """Start the streams where the next position's state is expected."""
        files = self._files[:_FITTED]
        start = fit_start(
            (read_states(file) for file in files),
            self._settings.streams,
            self._taps,
            lambda tokens: self._layers.embedded(tokens.to(self._device)).cpu(),
            self._model.rms_norm_eps,
        )
        self._parameters.load_own(start.tensors)

    def backward(self, step: int) -> StepDone:
        """The gradients of one step's answers; the loss is nats a token ahead that was open."""
        settings = self._settings
        rng = np.random.default_rng((settings.seed, step))
        chosen = [self._examples(number) for number in range(step * settings.batch, (step + 1) * settings.batch)]
        parts = [self._part(read_states(file), settings.anchors, rng, settings.untold) for file in chosen]
        parts = [part for part in parts if bool(part[1].counts.any())]
        whole = max(1e-9, sum(weight_of(targets.counts, settings.streams.gamma) for _, targets in parts))
        scores: list[StreamScore] = []
        for anchors, targets in parts:
            normed = self._layers(anchors, self._parameters)
            loss, score = stream_loss(normed, targets, self._layers, self._parameters, settings.weights)
            (loss / whole).backward()  # type: ignore[no-untyped-call]
            scores.append(score)
        rows = sum(len(targets.tokens) for _, targets in parts)
        return StepDone(sum(score.loss for score in scores) / whole, rows, _figures(scores))

    def held_out(self) -> tuple[float, Mapping[str, Any]] | None:
        """The loss on answers that are not learnt from, and how often each stream was right there."""
        if not self._held_out:
            return None
        scores: list[StreamScore] = []
        whole = 0.0
        with torch.no_grad():
            for number, file in enumerate(self._held_out):
                rng = np.random.default_rng(number)
                anchors, targets = self._part(read_states(file), _HELD_OUT_ANCHORS, rng, 0.0)
                if not bool(targets.counts.any()):
                    continue
                normed = self._layers(anchors, self._parameters)
                scores.append(stream_loss(normed, targets, self._layers, self._parameters, self._settings.weights)[1])
                whole += weight_of(targets.counts, self._settings.streams.gamma)
        figures = {f"held_out_{name}": value for name, value in _figures(scores).items()}
        return sum(score.loss for score in scores) / max(whole, 1e-9), figures

    def write(self, file: Path) -> None:
        """The streams file."""
        notes = {f"{NOTE}trained": f"{self._settings.steps} steps of {self._settings.batch} answers"}
        if self._target is not None:
            notes[TARGET] = self._target
        self._parameters.write(file, notes)

    def _examples(self, place: int) -> Path:
        epoch, index = divmod(place, len(self._files))
        order = np.random.default_rng((self._settings.seed, 1 << 32, epoch)).permutation(len(self._files))
        return self._files[int(order[index])]

    def _part(
        self, states: StreamStates, most: int, rng: np.random.Generator, untold: float
    ) -> tuple[Anchors, StreamTargets]:
        """Some anchors of an answer, and what their streams are about."""
        answer = states.tokens[states.prompt :].astype(np.int64)
        gamma = self._settings.streams.gamma
        possible = np.arange(max(1, len(answer) - 1))
        picked = np.sort(rng.choice(possible, size=min(most, len(possible)), replace=False))
        following = np.where(rng.random(len(picked)) < untold, -1, answer[picked])
        ahead = picked[:, None] + np.arange(1, gamma + 1)
        there = ahead < len(answer)
        ahead = np.minimum(ahead, len(answer) - 1).ravel()
        counts = there.ravel() & states.chosen[ahead]
        tokens, previous = answer[ahead], answer[ahead - 1]
        likely, chances = states.likely[ahead].astype(np.int64), states.chances[ahead]
        others = rng.integers(0, self._model.vocab_size, size=self._settings.others)
        shortlist = np.unique(np.concatenate((states.tokens.astype(np.int64), likely.ravel(), others)))
        last = int(states.prompt + picked.max())  # keys after the last anchor are seen by none
        on = self._on
        anchors = Anchors(
            positions=on(states.prompt - 1 + picked),
            following=on(following),
            first=on(states.taps[self._taps[0], picked]),
            taps=on(states.taps[list(self._taps[1:])][:, picked]),
            keys=on(states.keys[self._layers_cut :, :, :last]).float(),
            values=on(states.values[self._layers_cut :, :, :last]).float(),
        )
        targets = StreamTargets(
            tokens=on(tokens),
            previous=on(previous),
            counts=on(counts),
            likely=on(likely),
            chances=on(chances),
            shortlist=on(shortlist),
        )
        return anchors, targets

    def _on(self, array: np.ndarray[Any, Any]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self._device)


def _places(made: Mapping[str, Any], streams: StreamConfig, where: Path) -> tuple[tuple[int, ...], int]:
    """Where the states keep the first layer's hidden state and those of the taps; how many layers of keys to skip."""
    kept, first = list(made["taps"]), int(made["first_layer"])
    wanted = (streams.first_layer, *streams.taps)
    missing = [layer for layer in wanted if layer not in kept]
    if missing or streams.first_layer < first:
        raise RequestInvalid(
            f"the states in {where} hold the layers {kept} and keys from layer {first} on, not what streams from layer"
            f" {streams.first_layer} with taps {list(streams.taps)} need",
            hint="make the states with those layers",
        )
    return tuple(kept.index(layer) for layer in wanted), streams.first_layer - first


def _figures(scores: Sequence[StreamScore]) -> dict[str, Any]:
    rows = torch.stack([score.rows for score in scores]).sum(0)
    shares = {
        name: [round(float(share), 4) for share in torch.stack(parts).sum(0) / rows.clamp_min(1)]
        for name, parts in (
            ("right_alone", [score.right_alone for score in scores]),
            ("right", [score.right for score in scores]),
        )
    }
    return {"rows": rows.tolist(), **shares, "ahead": round(expected_accepted(shares["right"]), 3)}
