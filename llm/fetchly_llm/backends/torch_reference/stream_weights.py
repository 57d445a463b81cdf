"""A streams file and the model that it belongs to in; the streams' tensors, adapters fused and scaled, in fp32, out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from fetchly_llm.backends.torch_reference.tensor_files import TensorFiles, TensorReader
from fetchly_llm.config import ModelConfig
from fetchly_llm.errors import ModelMissing, WeightsMismatch
from fetchly_llm.safetensors_file import check_shapes
from fetchly_llm.stream_config import STREAMS_HINT, StreamConfig, read_stream_config, stream_shapes


@dataclass(frozen=True, slots=True)
class LowRank:
    """A linear map up @ down, shapes (outputs, rank) and (rank, inputs)."""

    down: Tensor
    up: Tensor


@dataclass(frozen=True, slots=True)
class LayerAdapters:
    """LoRA (arXiv 2106.09685) of one decoder layer, for the rows of streams alone, its scale alpha / rank in `up`.

    Fused like `LayerWeights`: those of query, key and value are one map whose `up` is block diagonal, and so are those
    of gate and up.
    """

    qkv: LowRank
    output: LowRank
    gate_up: LowRank
    down: LowRank


@dataclass(frozen=True, slots=True)
class MarkovWeights:
    """Factors, each (rank, hidden_size), of the head that scores one token after another."""

    previous: Tensor
    next: Tensor
    gate: Tensor


@dataclass(frozen=True, slots=True)
class ConfidenceWeights:
    """A logistic unit: `weight` (1, hidden_size), `bias` (1,)."""

    weight: Tensor
    bias: Tensor


@dataclass(frozen=True, slots=True)
class StreamWeights:
    """All parts of the streams; None where a part is not there.

    `embedding` (gamma, hidden_size) tells the streams apart; `adapters` are those of layers first_layer.. in order.
    """

    config: StreamConfig
    embedding: Tensor
    insertion: LowRank | None
    anchor: LowRank | None
    adapters: tuple[LayerAdapters, ...] | None
    markov: MarkovWeights | None
    confidence: ConfidenceWeights | None


def load_streams(file: Path, model: ModelConfig, device: torch.device) -> StreamWeights:
    """Read a streams file (`fetchly_llm.stream_config` says what is in one) as fp32 tensors on `device`.

    Raises ModelMissing where there is no file; WeightsMismatch for another version or base model, for missing,
    unexpected or misshapen tensors, for numbers that are not finite, and for a file that is not safetensors.
    """
    if not file.is_file():
        raise ModelMissing(
            f"no streams file {file}",
            hint="Name another file, or none: the streams in the model's folder are taken then.",
        )
    with TensorFiles((file,), hint=STREAMS_HINT) as files:
        config = read_stream_config(files.metadata, model, str(file))
        shapes = stream_shapes(config, model)
        check_shapes(
            f"the tensors in {file} do not fit its metadata",
            shapes,
            files.shapes(),
            hint=STREAMS_HINT,
        )
        broken = sorted(name for name in shapes if not files.tensor(name).isfinite().all())
        if broken:
            raise WeightsMismatch(f"{file} holds numbers that are not finite: {', '.join(broken)}", hint=STREAMS_HINT)
        reader = TensorReader(files, shapes, device)
        return StreamWeights(
            config=config,
            embedding=reader.fused("embedding"),
            insertion=_low_rank(reader, "insertion") if config.insertion_rank else None,
            anchor=_low_rank(reader, "anchor") if config.anchor_rank else None,
            adapters=_adapters(reader, config, model) if config.lora_rank else None,
            markov=(
                MarkovWeights(*(reader.fused(f"markov.{name}.weight") for name in ("previous", "next", "gate")))
                if config.markov_rank
                else None
            ),
            confidence=(
                ConfidenceWeights(reader.fused("confidence.weight"), reader.fused("confidence.bias"))
                if config.confidence
                else None
            ),
        )


def _low_rank(reader: TensorReader, name: str) -> LowRank:
    return LowRank(reader.fused(f"{name}.down.weight"), reader.fused(f"{name}.up.weight"))


def _adapters(reader: TensorReader, config: StreamConfig, model: ModelConfig) -> tuple[LayerAdapters, ...]:
    scale = config.lora_alpha / config.lora_rank

    def fused(number: int, *linears: str) -> LowRank:
        names = [f"layers.{number}.{linear}_proj" for linear in linears]
        ups = [reader.fused(f"{name}.lora_B") for name in names]
        down = reader.fused(*(f"{name}.lora_A" for name in names))
        return LowRank(down, torch.block_diag(*ups).mul_(scale))  # type: ignore[no-untyped-call]

    return tuple(
        LayerAdapters(
            qkv=fused(number, "q", "k", "v"),
            output=fused(number, "o"),
            gate_up=fused(number, "gate", "up"),
            down=fused(number, "down"),
        )
        for number in range(config.first_layer, model.num_layers)
    )
