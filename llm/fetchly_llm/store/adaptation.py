"""The tensors of a base model and an adapter's file in; the checkpoint folder of the model that both make out."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fetchly_llm.adapter import Adapter, adapted_linear, merged, read_adapter, read_adapter_config
from fetchly_llm.checkpoint import read_model_config, weight_files
from fetchly_llm.errors import ModelUnsupported, WeightsMismatch
from fetchly_llm.safetensors_file import (
    WIDTHS,
    TensorPlace,
    TensorSource,
    check_shapes,
    read_header,
    read_metadata,
    widened,
    write_tensors,
)
from fetchly_llm.store.digest import MODEL_FILES
from fetchly_llm.store.entry import Progress
from fetchly_llm.store.model_card import ModelCard, write_card
from fetchly_llm.stream_config import STREAMS_FILE, TARGET

# fp16 loses nothing that the int8 of the native back-end keeps, and takes half the room; bf16 would lose a little.
_KIND: Final = "F16"
_LARGEST: Final = float(np.finfo(np.float16).max)
_BLOCK_ELEMENTS: Final = 1 << 24
WEIGHTS: Final = "model.safetensors"


def check_base(adapter: Path, sha256: str) -> None:
    """Raise WeightsMismatch unless `adapter` was trained on the base model `sha256` (see AdapterConfig.base)."""
    base = read_adapter_config(adapter).base
    if base != sha256:
        raise WeightsMismatch(
            f"{adapter} was trained on the base model with sha256 {base}, not {sha256}",
            hint="install fetchly again, or train the adapter again",
        )


def add_streams(folder: Path, streams: Path, adapter: str) -> None:
    """Put a copy of a streams file into the folder of the model that it was trained for: the one with the adapter of
    that sha256. Raises WeightsMismatch for the streams of another."""
    found = read_metadata(streams).get(TARGET)
    if found != adapter:
        raise WeightsMismatch(
            f"{streams} was trained for the model with the adapter {found}, not {adapter}",
            hint="install fetchly again, or train the streams again",
        )
    shutil.copyfile(streams, folder / STREAMS_FILE)


def write_adapted(folder: Path, tensors: list[TensorSource], adapter: Path) -> None:
    """Write the weights `tensors`, merged with `adapter`, and the model's card into `folder`, which has the rest.

    Peak memory is that of the adapter and a few blocks of rows. Raises WeightsMismatch for an adapter that does not fit
    the configuration in `folder`, or the weights.
    """
    found = read_adapter(adapter, read_model_config(folder))
    _check_linears(tensors, found, folder)
    sources = [replace(tensor, blocks=_merged_blocks(tensor, found)) for tensor in tensors]
    write_tensors(folder / WEIGHTS, sources, kind=_KIND)
    write_card(folder, ModelCard(format=found.config.prompt_format))


def adapt_folder(base: Path, folder: Path, adapter: Path, progress: Progress) -> None:
    """Write the adapted model of the checkpoint `base` into the existing, empty `folder`, in one file of weights.

    What the base has beside its own weights (streams) stays behind: it was made for the base. Raises WeightsMismatch
    also for a damaged base, ModelUnsupported for one that is not stored in fp32, fp16 or bf16.
    """
    for pattern in MODEL_FILES:
        for file in base.glob(pattern):
            if ".safetensors" not in file.suffixes:
                shutil.copyfile(file, folder / file.name)
    places = {name: place for file in weight_files(base) for name, place in read_header(file).items()}
    kinds = sorted({place.kind for place in places.values()} - WIDTHS.keys())
    if kinds:
        raise ModelUnsupported(f"the weights in {base} are stored as {', '.join(kinds)}, not {', '.join(WIDTHS)}")
    progress.start("merging", sum(4 * math.prod(place.shape) for place in places.values()))
    try:
        tensors = [TensorSource(name, places[name].shape, _blocks(places[name], progress)) for name in sorted(places)]
        write_adapted(folder, tensors, adapter)
    finally:
        progress.finish()


def _blocks(place: TensorPlace, progress: Progress) -> Iterator[NDArray[np.float32]]:
    data = np.memmap(place.file, dtype=np.uint8, mode="r")
    row = max(1, math.prod(place.shape[1:]))
    width, step = row * WIDTHS[place.kind], max(1, _BLOCK_ELEMENTS // row)
    for start in range(place.start, place.end, step * width):
        stored = data[start : min(start + step * width, place.end)]
        block = widened(stored, place.kind, (len(stored) // width, *place.shape[1:]))
        yield block
        progress.advance(block.nbytes)


def _check_linears(tensors: list[TensorSource], adapter: Adapter, folder: Path) -> None:
    """Each linear of the adapter has its weight, and no other."""
    ups = {name.removesuffix(".lora_B"): up for name, up in adapter.tensors.items() if name.endswith(".lora_B")}
    check_shapes(
        f"the weights for {folder} are not those of the adapter's model",
        {linear: (len(up), adapter.tensors[f"{linear}.lora_A"].shape[1]) for linear, up in ups.items()},
        {linear: tensor.shape for tensor in tensors if (linear := adapted_linear(tensor.name))},
        hint="take the base model that the adapter was trained on",
    )


def _merged_blocks(tensor: TensorSource, adapter: Adapter) -> Iterator[NDArray[np.float32]]:
    linear, row = adapted_linear(tensor.name), 0
    for block in tensor.blocks:
        values = block if linear is None else merged(block, adapter, linear, row)
        if not (np.abs(values) <= _LARGEST).all():
            raise WeightsMismatch(f"{tensor.name} holds numbers that fp16 cannot, once the adapter is merged")
        yield values
        row += len(block)
