"""A model's configuration in; the model's error for numbers that the kernels cannot have, or nothing, out."""

from __future__ import annotations

from pathlib import Path

from fetchly_llm.config import ModelConfig
from fetchly_llm.errors import ModelUnsupported

MOST = 1 << 24
"""Of any one number of a shape, and of all queries' channels: `kMost` of source/weights.cpp."""


def check_sizes(file: Path, config: ModelConfig) -> None:
    """Raises ModelUnsupported, with the field of `file` (config.json), before memory is asked for on its word."""
    sizes = {
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.num_kv_heads,
        "head_dim": config.head_dim,
        "num_attention_heads times head_dim": config.num_heads * config.head_dim,
    }
    for field, size in sizes.items():
        if size > MOST:
            raise ModelUnsupported(
                f"{file}: {field} is {size}, and the native back-end runs at most {MOST}",
                hint="Check config.json, or pull the model again.",
            )
