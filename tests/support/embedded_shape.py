"""The embedded model's shape: matrix libraries and kernels choose their code by it."""

from __future__ import annotations

from dataclasses import replace

from fetchly_llm.config import ModelConfig

EMBEDDED = ModelConfig(
    family="llama",
    vocab_size=49152,
    hidden_size=576,
    intermediate_size=1536,
    num_layers=30,
    num_heads=9,
    num_kv_heads=3,
    head_dim=64,
    rope_theta=100000.0,
    rms_norm_eps=1e-5,
    tie_word_embeddings=True,
    qkv_bias=False,
    qk_norm=False,
    max_position=8192,
    eos_token_ids=(2,),
)
WIDE = replace(EMBEDDED, vocab_size=320, num_layers=2)
"""Two layers of it, and few tokens."""
