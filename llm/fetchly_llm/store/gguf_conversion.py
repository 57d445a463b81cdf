"""A GGUF file in; a checkpoint folder in the Hugging Face layout (safetensors, tokenizer.json) out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fetchly_llm.safetensors_file import TensorSource, write_tensors
from fetchly_llm.store.adaptation import WEIGHTS, write_adapted
from fetchly_llm.store.entry import Progress
from fetchly_llm.store.gguf_config import config_json
from fetchly_llm.store.gguf_file import GgufFile
from fetchly_llm.store.gguf_tensors import NamedTensor, named_tensors
from fetchly_llm.store.gguf_tokenizer import tokenizer_config, tokenizer_json


def convert_gguf(source: Path, folder: Path, progress: Progress, adapter: Path | None = None) -> None:
    """Write the checkpoint of `source` into the existing, empty `folder`: in fp32, or with `adapter` merged in.

    Peak memory is the mapped file plus a few blocks of rows. Raises ModelUnsupported, WeightsMismatch.
    """
    progress.start("reading the vocabulary", None)
    try:
        file = GgufFile(source)
        config = config_json(file)
        tensors = named_tensors(file, config)
        (folder / "tokenizer.json").write_text(tokenizer_json(file), encoding="utf-8")
        _write_json(folder / "tokenizer_config.json", tokenizer_config(file))
        _write_json(folder / "config.json", config)
        ends: dict[str, Any] = {
            key: config[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id") if key in config
        }
        _write_json(folder / "generation_config.json", ends)
    finally:
        progress.finish()
    progress.start("converting", sum(4 * int(np.prod(named.tensor.shape)) for named in tensors))
    try:
        sources = [TensorSource(named.name, named.tensor.shape, _blocks(named, progress)) for named in tensors]
        if adapter is None:
            write_tensors(folder / WEIGHTS, sources)
        else:
            write_adapted(folder, sources, adapter)
    finally:
        progress.finish()


def _blocks(named: NamedTensor, progress: Progress) -> Iterator[NDArray[np.float32]]:
    for block in named.tensor.chunks(named.order):
        yield block
        progress.advance(block.nbytes)


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
