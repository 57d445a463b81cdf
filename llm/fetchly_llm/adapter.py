"""An extraction adapter (LoRA) in; its safetensors file, and the weights of a base model with it merged in, out.

What ships of a trained model is the adapter alone: it is merged into its base model once, when that is installed. No
torch: training writes by the same names that the store reads.
"""

from __future__ import annotations

import math
import os
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize, safe_open

from fetchly_llm.config import ModelConfig
from fetchly_llm.errors import ModelMissing, WeightsMismatch
from fetchly_llm.safetensors_file import TensorSource, check_shapes, listed, widened, write_tensors
from fetchly_llm.stream_config import LINEARS, lora_shapes

ADAPTER_VERSION: Final = "fetchly-adapter-1"
_SETTINGS: Final = ("format", "rank", "alpha", "base", "prompt_format")
_LARGEST_FP32: Final = float(np.finfo(np.float32).max)
_LARGEST_BF16: Final = (2 - 2**-7) * 2.0**127
_LINEAR: Final = re.compile(rf"model\.(layers\.\d+)\.(?:self_attn|mlp)\.((?:{'|'.join(LINEARS)})_proj)\.weight")
_HINT: Final = "Train the adapter again, or install this version of the program anew."


@dataclass(frozen=True, slots=True)
class AdapterConfig:
    """What an adapter is and what it belongs to.

    The update of a linear layer is (alpha / rank) * lora_B @ lora_A (LoRA, arXiv 2106.09685). `base` names the only
    base model that it fits: the sha256 of the GGUF file that the model was converted from (`ModelEntry.sha256` of the
    store), or the model's digest where it came from none. `prompt_format` is the version of document, prompt and answer
    that it was trained for.
    """

    rank: int
    alpha: float
    base: str
    prompt_format: str

    @property
    def scale(self) -> float:
        """What the product of the factors counts."""
        return self.alpha / self.rank


@dataclass(frozen=True, slots=True)
class Adapter:
    """An adapter's settings and its tensors in fp32, by the names of `adapter_shapes`."""

    config: AdapterConfig
    tensors: Mapping[str, NDArray[np.float32]]


def adapter_shapes(config: AdapterConfig, model: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the tensors of an adapter of `model`, for every linear layer of every decoder layer.

    `layers.N.{q,k,v,o,gate,up,down}_proj.lora_A` is (rank, inputs), `.lora_B` (outputs, rank).
    """
    return lora_shapes(range(model.num_layers), config.rank, model)


def write_adapter(file: Path, adapter: Adapter, model: ModelConfig) -> None:
    """Write `adapter`, of `model`, as bf16 in one step: a crash leaves the old file, or none.

    Raises WeightsMismatch for names and shapes that are not those of `adapter_shapes`, for numbers that bf16 cannot
    hold (not finite, or beyond 3.38e38) and for settings that cannot be.
    """
    config = adapter.config
    _check_settings(config, str(file))
    shapes = adapter_shapes(config, model)
    _check_shapes(shapes, {name: value.shape for name, value in adapter.tensors.items()}, file)
    _check_numbers(adapter.tensors, _LARGEST_BF16, str(file))
    sources = [TensorSource(name, shape, [_fp32(adapter.tensors[name])]) for name, shape in shapes.items()]
    values = (ADAPTER_VERSION, str(config.rank), repr(float(config.alpha)), config.base, config.prompt_format)
    part = file.with_name(f".{file.name}.{uuid.uuid4().hex}")
    try:
        write_tensors(part, sources, kind="BF16", metadata=dict(zip(_SETTINGS, values, strict=True)))
        os.replace(part, file)
    finally:
        part.unlink(missing_ok=True)


def read_adapter_config(file: Path) -> AdapterConfig:
    """The settings of an adapter's file, its tensors not looked at. Raises like `read_adapter`."""
    with _opened(file) as stored:
        return _config(stored.metadata() or {}, str(file))


def read_adapter(file: Path, model: ModelConfig) -> Adapter:
    """The adapter in `file`, which must be made for the shape of `model`.

    Raises ModelMissing where there is no file; WeightsMismatch for another version, for settings that are missing,
    unknown or cannot be, for missing, unexpected or misshapen tensors, for tensors that are neither bf16 nor fp32, for
    numbers that are not finite, and for a file that is not safetensors.
    """
    with _opened(file) as stored:
        config = _config(stored.metadata() or {}, str(file))
        entries = {name: stored.get_slice(name) for name in stored.keys()}  # noqa: SIM118
        shapes = adapter_shapes(config, model)
        _check_shapes(shapes, {name: tuple(entry.get_shape()) for name, entry in entries.items()}, file)
        kinds = sorted({entry.get_dtype() for entry in entries.values()} - {"BF16", "F32"})
        if kinds:
            raise WeightsMismatch(f"the tensors in {file} are {', '.join(kinds)}, not BF16 or F32", hint=_HINT)
    # The library hands bf16 to NumPy as bytes alone.
    found: list[tuple[str, dict[str, Any]]] = deserialize(file.read_bytes())  # type: ignore[no-untyped-call]
    tensors = {name: widened(entry["data"], entry["dtype"], shapes[name]) for name, entry in found}
    _check_numbers(tensors, _LARGEST_FP32, str(file))
    return Adapter(config, tensors)


def adapted_linear(tensor: str) -> str | None:
    """The adapter's name of a checkpoint's tensor: "layers.3.q_proj"; None for a tensor that no adapter changes."""
    match = _LINEAR.fullmatch(tensor)
    return f"{match[1]}.{match[2]}" if match else None


def merged(weight: NDArray[np.float32], adapter: Adapter, linear: str, first_row: int = 0) -> NDArray[np.float32]:
    """Rows of a weight (outputs, inputs) from `first_row` on, the adapter's update of `linear` added.

    Products of bf16 are exact in fp64, and so are their sums but for terms 2^32 times smaller than others: whatever
    order the machine's BLAS adds in, the sum rounded to fp32 is the same on every machine.
    """
    up = adapter.tensors[f"{linear}.lora_B"][first_row : first_row + len(weight)].astype(np.float64)
    down = adapter.tensors[f"{linear}.lora_A"].astype(np.float64)
    total = up @ down
    total *= adapter.config.scale
    total += weight
    return np.ascontiguousarray(total, dtype="<f4")


def _opened(file: Path) -> Any:
    if not file.is_file():
        raise ModelMissing(f"no adapter {file}", hint=_HINT)
    try:
        return safe_open(file, framework="numpy")
    except (SafetensorError, OSError) as error:
        raise WeightsMismatch(f"{file} cannot be read as safetensors: {error}", hint=_HINT) from error


def _config(metadata: Mapping[str, str], where: str) -> AdapterConfig:
    version = metadata.get("format")
    if version != ADAPTER_VERSION:
        raise WeightsMismatch(f"{where} is of format {version!r}, not {ADAPTER_VERSION!r}", hint=_HINT)
    missing, unknown = sorted(set(_SETTINGS) - metadata.keys()), sorted(metadata.keys() - set(_SETTINGS))
    if missing or unknown:
        raise WeightsMismatch(f"the metadata of {where} lacks {missing} and has the unknown {unknown}", hint=_HINT)
    try:
        rank, alpha = int(metadata["rank"]), float(metadata["alpha"])
    except ValueError as error:
        raise WeightsMismatch(f"the metadata of {where} is garbled: {error}", hint=_HINT) from error
    config = AdapterConfig(rank, alpha, metadata["base"], metadata["prompt_format"])
    _check_settings(config, where)
    return config


def _check_settings(config: AdapterConfig, where: str) -> None:
    problems = {
        "rank must be at least 1": config.rank < 1,
        "alpha must be a positive number": not 0 < config.alpha < math.inf,
        "base must be a sha256 in lower case": re.fullmatch("[0-9a-f]{64}", config.base) is None,
        "prompt_format must not be empty": not config.prompt_format,
    }
    found = [problem for problem, present in problems.items() if present]
    if found:
        raise WeightsMismatch(f"the adapter in {where} cannot be: {'; '.join(found)} ({config})", hint=_HINT)


def _check_shapes(expected: Mapping[str, tuple[int, ...]], found: Mapping[str, tuple[int, ...]], file: Path) -> None:
    check_shapes(f"the tensors in {file} do not fit the model", expected, found, hint=_HINT)


def _check_numbers(tensors: Mapping[str, NDArray[np.float32]], largest: float, where: str) -> None:
    broken = sorted(name for name, values in tensors.items() if not (np.abs(values) <= largest).all())  # nor a NaN
    if broken:
        raise WeightsMismatch(f"{where} holds numbers that are not finite: {listed(broken)}", hint=_HINT)


def _fp32(values: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.ascontiguousarray(values, dtype="<f4")
