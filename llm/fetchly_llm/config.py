"""What a model and an engine are: frozen numbers, read once, valid for the life of an engine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Family = Literal["llama", "mistral", "qwen2", "qwen3", "other"]


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """The piecewise frequency scaling of Llama 3.1 ("llama3" in checkpoints)."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position: int


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The shape of a decoder-only transformer of the Llama family.

    `family` is "other" for architectures that only the transformers back-end can run. `max_position` is the
    number of positions that the checkpoint supports; a sliding window, where a checkpoint has one, bounds it.
    `eos_token_ids` are all ids that end a generation. `vocab_size` is the width of the logits.
    """

    family: Family
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rope_theta: float
    rms_norm_eps: float
    tie_word_embeddings: bool
    qkv_bias: bool
    qk_norm: bool
    max_position: int
    eos_token_ids: tuple[int, ...]
    rope_scaling: RopeScaling | None = None


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """How one engine runs. Everything here that changes bits is part of the output's identity.

    `device` "auto" is cuda where torch sees a GPU, else native (C++ kernels on the processor) where they were built and
    run the model, else cpu (torch on the processor). `threads` = None leaves the choice to the back-end (physical
    cores). `context_length` bounds prompt plus answer in tokens. `prefix_entries` is how many shared prompt prefixes
    the prefix cache keeps. `streams_file` holds the model's speculative streams; None takes those in the model's
    folder, if any. Streams change no bits.
    """

    device: Literal["auto", "native", "cpu", "cuda"] = "auto"
    threads: int | None = None
    context_length: int = 4096
    width: int = 8
    prefill_chunk: int = 128
    prefix_entries: int = 8
    streams_file: Path | None = None
