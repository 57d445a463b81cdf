"""The metadata of a streams file and a model's shape in; which parts the streams have, and their tensors' shapes, out.

A streams file is a safetensors file of its own, made for one base model. Its metadata says what is in it; a rank of 0
says that a part is not there. No tensors here: training writes by the same names that back-ends read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fetchly_llm.config import ModelConfig
from fetchly_llm.errors import WeightsMismatch

STREAMS_FILE: Final = "streams.safetensors"
"""Beside a model's weights: its streams."""
STREAMS_VERSION: Final = "fetchly-streams-1"
STREAMS_HINT: Final = "Train the streams again, take their file anew, or remove it: the model runs without streams."
"""What to do about a streams file that cannot be used."""
LINEARS: Final = ("q", "k", "v", "o", "gate", "up", "down")
"""The linear layers that adapters exist for."""
NOTE: Final = "note."
"""Metadata that begins so is for people: who trained the streams, on what, how well they do."""
TARGET: Final = f"{NOTE}target"
"""Metadata of shipped streams: the sha256 of the adapter that makes the model which they were trained for."""
_BASE: Final = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_layers",
    "num_heads",
    "num_kv_heads",
    "head_dim",
)
_NUMBERS: Final = ("gamma", "first_layer", "insertion_rank", "anchor_rank", "lora_rank", "markov_rank", "top")


@dataclass(frozen=True, slots=True)
class StreamConfig:
    """Which parts the speculative streams of a model have.

    `gamma` streams start from the residual stream after `first_layer` layers, so in the paper's terms (Speculative
    Streaming, arXiv 2402.11131) N - Ns, and run through the rest. `taps` are the layers whose hidden states the
    insertion layer reads (k: after the first k layers). Adapters (LoRA, arXiv 2106.09685, on the rows of streams only)
    count lora_alpha / lora_rank. `confidence` says that there is a confidence head. `top` is how many candidates a
    stream reports.
    """

    gamma: int
    first_layer: int
    taps: tuple[int, ...] = ()
    insertion_rank: int = 0
    anchor_rank: int = 0
    lora_rank: int = 0
    lora_alpha: float = 0.0
    markov_rank: int = 0
    confidence: bool = False
    top: int = 32


def stream_shapes(streams: StreamConfig, model: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the tensors of a streams file; matrices are (outputs, inputs)."""
    hidden = model.hidden_size
    shapes: dict[str, tuple[int, ...]] = {"embedding": (streams.gamma, hidden)}
    if streams.insertion_rank:
        shapes["insertion.down.weight"] = (streams.insertion_rank, len(streams.taps) * hidden)
        shapes["insertion.up.weight"] = (hidden, streams.insertion_rank)
    if streams.anchor_rank:
        shapes["anchor.down.weight"] = (streams.anchor_rank, hidden)
        shapes["anchor.up.weight"] = (hidden, streams.anchor_rank)
    if streams.lora_rank:
        shapes |= lora_shapes(range(streams.first_layer, model.num_layers), streams.lora_rank, model)
    if streams.markov_rank:
        shapes |= {f"markov.{name}.weight": (streams.markov_rank, hidden) for name in ("previous", "next", "gate")}
    if streams.confidence:
        shapes |= {"confidence.weight": (1, hidden), "confidence.bias": (1,)}
    return shapes


def lora_shapes(layers: range, rank: int, model: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the adapters (LoRA) of all linear layers in these decoder layers: lora_B @ lora_A."""
    shapes: dict[str, tuple[int, ...]] = {}
    for number in layers:
        for name in LINEARS:
            outputs, inputs = _linear(name, model)
            shapes[f"layers.{number}.{name}_proj.lora_A"] = (rank, inputs)
            shapes[f"layers.{number}.{name}_proj.lora_B"] = (outputs, rank)
    return shapes


def stream_parameters(streams: StreamConfig, model: ModelConfig) -> int:
    """How many parameters the streams add to the model's own."""
    return sum(math.prod(shape) for shape in stream_shapes(streams, model).values())


def check_streams(streams: StreamConfig, model: ModelConfig, where: str) -> None:
    """Raise WeightsMismatch, naming the setting, for streams that `model` cannot have; `where` names their file."""
    ranks = {name: getattr(streams, name) for name in _NUMBERS if name.endswith("_rank")}
    taps = streams.taps
    problems = {
        "gamma must be at least 1": streams.gamma < 1,
        f"first_layer must be from 0 to {model.num_layers - 1}": not 0 <= streams.first_layer < model.num_layers,
        f"taps must rise and be from 0 to {model.num_layers}": (
            list(taps) != sorted(set(taps)) or not all(0 <= tap <= model.num_layers for tap in taps)
        ),
        "taps and insertion_rank come together": bool(taps) != bool(streams.insertion_rank),
        "ranks must not be negative": min(ranks.values()) < 0,
        "lora_alpha must be a positive number with adapters and 0 without": (
            not math.isfinite(streams.lora_alpha) or (streams.lora_alpha > 0) != (streams.lora_rank > 0)
        ),
        f"top must be from 1 to {model.vocab_size}": not 1 <= streams.top <= model.vocab_size,
    }
    found = [problem for problem, present in problems.items() if present]
    if found:
        raise WeightsMismatch(f"the streams in {where} cannot be: {'; '.join(found)} ({streams})", hint=STREAMS_HINT)


def stream_metadata(streams: StreamConfig, model: ModelConfig) -> dict[str, str]:
    """The metadata of a streams file for `model`. Raises WeightsMismatch for streams that cannot be."""
    check_streams(streams, model, "the file to be written")
    return {
        "version": STREAMS_VERSION,
        **{f"base.{name}": str(getattr(model, name)) for name in _BASE},
        **{name: str(getattr(streams, name)) for name in _NUMBERS},
        "taps": ",".join(map(str, streams.taps)),
        "lora_alpha": repr(float(streams.lora_alpha)),
        "confidence": str(int(streams.confidence)),
    }


def read_stream_config(metadata: Mapping[str, str], model: ModelConfig, where: str) -> StreamConfig:
    """What the metadata of the streams file `where` says, which must be made for the shape of `model`.

    Raises WeightsMismatch for another version, another base, and settings that are missing, unknown (unless they begin
    with NOTE) or cannot be.
    """
    version = metadata.get("version")
    if version != STREAMS_VERSION:
        raise WeightsMismatch(
            f"{where} is of version {version!r}, not {STREAMS_VERSION!r}",
            hint="Train the streams again, or take the file that belongs to this version of the engine.",
        )
    known = {"version", "format", "taps", "lora_alpha", "confidence", *_NUMBERS, *(f"base.{name}" for name in _BASE)}
    missing = sorted(known - metadata.keys() - {"format"})  # "format" is what some writers of safetensors add
    unknown = sorted(name for name in metadata.keys() - known if not name.startswith(NOTE))
    if missing or unknown:
        raise WeightsMismatch(
            f"the metadata of {where} lacks {missing} and has the unknown {unknown}", hint=STREAMS_HINT
        )
    others = [
        f"{name} {metadata[f'base.{name}']} instead of {getattr(model, name)}"
        for name in _BASE
        if metadata[f"base.{name}"] != str(getattr(model, name))
    ]
    if others:
        raise WeightsMismatch(
            f"the streams in {where} were made for another model: {', '.join(others)}",
            hint="Take the streams that were trained for this model.",
        )
    try:
        streams = StreamConfig(
            **{name: int(metadata[name]) for name in _NUMBERS},
            taps=tuple(int(tap) for tap in metadata["taps"].split(",") if tap),
            lora_alpha=float(metadata["lora_alpha"]),
            confidence={"0": False, "1": True}[metadata["confidence"]],
        )
    except (ValueError, KeyError) as error:
        raise WeightsMismatch(f"the metadata of {where} is garbled: {error}", hint=STREAMS_HINT) from error
    check_streams(streams, model, where)
    return streams


def _linear(name: str, model: ModelConfig) -> tuple[int, int]:
    """Outputs and inputs of a linear layer."""
    queries, keys = model.num_heads * model.head_dim, model.num_kv_heads * model.head_dim
    sizes = {
        "q": (queries, model.hidden_size),
        "k": (keys, model.hidden_size),
        "v": (keys, model.hidden_size),
        "o": (model.hidden_size, queries),
        "gate": (model.intermediate_size, model.hidden_size),
        "up": (model.intermediate_size, model.hidden_size),
        "down": (model.hidden_size, model.intermediate_size),
    }
    return sizes[name]
