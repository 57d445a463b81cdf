"""A tiny model's folder in; a streams file for it, random or made by hand, in the same folder out."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save_file

from fetchly_llm.checkpoint import read_model_config
from fetchly_llm.config import ModelConfig
from fetchly_llm.stream_config import STREAMS_FILE, StreamConfig, stream_metadata, stream_shapes

PARTS = ("insertion", "anchor", "lora", "markov", "confidence")
Tensors = dict[str, NDArray[np.float32]]


def tiny_stream_config(
    gamma: int = 3,
    parts: Collection[str] = PARTS,
    *,
    first_layer: int = 1,
    taps: tuple[int, ...] = (0, 1, 2),
    top: int = 32,
) -> StreamConfig:
    """Streams of the tiny models with the given PARTS, of small ranks that all differ."""
    assert set(parts) <= set(PARTS)
    return StreamConfig(
        gamma=gamma,
        first_layer=first_layer,
        taps=taps if "insertion" in parts else (),
        insertion_rank=6 if "insertion" in parts else 0,
        anchor_rank=5 if "anchor" in parts else 0,
        lora_rank=4 if "lora" in parts else 0,
        lora_alpha=6.0 if "lora" in parts else 0.0,
        markov_rank=7 if "markov" in parts else 0,
        confidence="confidence" in parts,
        top=top,
    )


def make_tiny_streams(folder: Path, seed: int = 0, config: StreamConfig | None = None) -> Path:
    """Write random streams.safetensors for the model in `folder` and return the file.

    Every part is large enough to change the logits of every stream visibly.
    """
    model, streams = read_model_config(folder), config or tiny_stream_config()
    return write_streams(folder, streams, random_tensors(streams, model, seed))


def make_fixed_streams(folder: Path, tokens: Collection[int]) -> Path:
    """Streams by hand: stream j proposes tokens[j - 1] first, whatever the text, with a probability near 1.

    They start from the embedding, and a stream embedding far larger than all that layers can add to it points at its
    token.
    """
    model = read_model_config(folder)
    with safe_open(folder / "model.safetensors", framework="numpy") as checkpoint:
        head = checkpoint.get_tensor("model.embed_tokens.weight" if model.tie_word_embeddings else "lm_head.weight")
        norm = checkpoint.get_tensor("model.norm.weight")
    directions = head[list(tokens)] / norm
    streams = StreamConfig(gamma=len(tokens), first_layer=0, top=min(32, model.vocab_size))
    return write_streams(folder, streams, {"embedding": np.ascontiguousarray(directions * np.float32(1e4))})


def write_streams(folder: Path, streams: StreamConfig, tensors: Tensors) -> Path:
    """A streams file in `folder`, for its model."""
    file = folder / STREAMS_FILE
    save_file(tensors, file, metadata=stream_metadata(streams, read_model_config(folder)))
    return file


def random_tensors(streams: StreamConfig, model: ModelConfig, seed: int = 0) -> Tensors:
    """All tensors of the streams by name."""
    random = np.random.default_rng([seed, 4711])

    def spread(name: str, inputs: int) -> np.float32:
        if name == "embedding":
            return np.float32(1.0)
        return np.float32((4.0 if name.startswith("markov") else 1.5) / np.sqrt(inputs))

    return {
        name: random.standard_normal(shape, dtype=np.float32) * spread(name, shape[-1])
        for name, shape in stream_shapes(streams, model).items()
    }
