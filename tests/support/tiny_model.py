"""A folder and a family in; a whole tiny random checkpoint of that family (weights, tokenizer, chat template) in it."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from fetchly_llm.tokenizer import byte_alphabet

HIDDEN, INNER, LAYERS, HEADS = 64, 96, 2, 4
END_OF_TEXT, TURN_START, TURN_END = 0, 1, 2
SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MERGES = (
    ('"', ":"),
    ('":', "Ġ"),
    (",", "Ġ"),
    ("Ġ", '"'),
    ("e", "r"),
    ("i", "n"),
    ("i", "c"),
    ("p", "r"),
    ("pr", "ic"),
    ("pric", "e"),
    ("Ġ", "a"),
    ("t", "h"),
    ("th", "e"),
    ("n", "ull"),
    ("ul", "l"),
    ("u", "l"),
)
SMALLEST_VOCABULARY = len(SPECIALS) + 256 + len(MERGES)
CHATML = (
    "{% for message in messages %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


@dataclass(frozen=True, slots=True)
class _Variant:
    model_type: str
    kv_heads: int = 2
    head_dim: int = HIDDEN // HEADS
    tied: bool = False
    qkv_bias: bool = False
    output_bias: bool = False
    qk_norm: bool = False
    config: dict[str, Any] = field(default_factory=dict)


_LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
_VARIANTS = {
    "llama": _Variant("llama", tied=True, config={"rope_theta": 10000.0}),
    "llama-untied": _Variant("llama", kv_heads=1, config={"rope_theta": 500000.0}),
    "llama-mha": _Variant("llama", kv_heads=HEADS, config={"rope_theta": 10000.0}),
    "llama-bias": _Variant("llama", qkv_bias=True, output_bias=True, config={"attention_bias": True}),
    "llama3": _Variant("llama", tied=True, config={"rope_theta": 10000.0, "rope_scaling": _LLAMA3}),
    "mistral": _Variant("mistral", config={"rope_theta": 10000.0, "sliding_window": None}),
    "qwen2": _Variant("qwen2", tied=True, qkv_bias=True, config={"rope_theta": 1000000.0, "use_sliding_window": False}),
    "qwen3": _Variant(
        "qwen3",
        head_dim=24,
        tied=True,
        qk_norm=True,
        config={"rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0}, "head_dim": 24},
    ),
}
TINY_FAMILIES = tuple(_VARIANTS)


def make_tiny_model(folder: Path, family: str = "llama", seed: int = 0, vocab_size: int = 320) -> Path:
    """Write a random checkpoint into `folder` (made if need be) and return it.

    `family` is one of TINY_FAMILIES. Two layers, hidden size 64, fp32. The tokenizer spells all 256 bytes, has a few
    merges and the three special tokens of ChatML, of which `<|im_end|>` ends a generation; ids above it, up to
    `vocab_size`, stand for nothing.
    """
    assert vocab_size >= SMALLEST_VOCABULARY, f"the tokenizer needs {SMALLEST_VOCABULARY} ids"
    variant = _VARIANTS[family]
    folder.mkdir(parents=True, exist_ok=True)
    _write_json(folder / "config.json", _config(variant, vocab_size))
    _write_json(folder / "generation_config.json", {"eos_token_id": [TURN_END, END_OF_TEXT]})
    _write_json(folder / "tokenizer.json", _tokenizer())
    _write_json(
        folder / "tokenizer_config.json",
        {"chat_template": CHATML, "eos_token": "<|im_end|>", "tokenizer_class": "PreTrainedTokenizerFast"},
    )
    save_file(tiny_weights(family, seed, vocab_size), folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def tiny_weights(family: str, seed: int, vocab_size: int) -> dict[str, NDArray[np.float32]]:
    """The tensors of the checkpoint by their Hugging Face names."""
    variant = _VARIANTS[family]
    random = np.random.default_rng([seed, zlib.crc32(family.encode())])

    def matrix(*shape: int) -> NDArray[np.float32]:
        return random.standard_normal(shape, dtype=np.float32) * np.float32(1.5 / np.sqrt(shape[-1]))

    def norm(size: int) -> NDArray[np.float32]:
        return np.float32(1.0) + np.float32(0.2) * random.standard_normal(size, dtype=np.float32)

    queries, keys = HEADS * variant.head_dim, variant.kv_heads * variant.head_dim
    tensors = {"model.embed_tokens.weight": matrix(vocab_size, HIDDEN), "model.norm.weight": norm(HIDDEN)}
    if not variant.tied:
        tensors["lm_head.weight"] = matrix(vocab_size, HIDDEN)
    for number in range(LAYERS):
        layer, attention = f"model.layers.{number}.", f"model.layers.{number}.self_attn."
        tensors[layer + "input_layernorm.weight"] = norm(HIDDEN)
        tensors[layer + "post_attention_layernorm.weight"] = norm(HIDDEN)
        for name, size in (("q", queries), ("k", keys), ("v", keys)):
            tensors[f"{attention}{name}_proj.weight"] = matrix(size, HIDDEN)
            if variant.qkv_bias:
                tensors[f"{attention}{name}_proj.bias"] = np.float32(0.3) * norm(size)
        tensors[attention + "o_proj.weight"] = matrix(HIDDEN, queries)
        if variant.output_bias:
            tensors[attention + "o_proj.bias"] = np.float32(0.3) * norm(HIDDEN)
        if variant.qk_norm:
            tensors[attention + "q_norm.weight"] = norm(variant.head_dim)
            tensors[attention + "k_norm.weight"] = norm(variant.head_dim)
        tensors[layer + "mlp.gate_proj.weight"] = matrix(INNER, HIDDEN)
        tensors[layer + "mlp.up_proj.weight"] = matrix(INNER, HIDDEN)
        tensors[layer + "mlp.down_proj.weight"] = matrix(HIDDEN, INNER)
    return tensors


def _config(variant: _Variant, vocab_size: int) -> dict[str, Any]:
    return {
        "architectures": [f"{variant.model_type.capitalize()}ForCausalLM"],
        "model_type": variant.model_type,
        "vocab_size": vocab_size,
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": variant.kv_heads,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": variant.tied,
        "bos_token_id": TURN_START,
        "eos_token_id": TURN_END,
        "dtype": "float32",
        **variant.config,
    }


def _tokenizer() -> dict[str, Any]:
    symbols = [symbol for symbol, _ in sorted(byte_alphabet().items(), key=lambda item: item[1])]
    tokens = [*SPECIALS, *symbols, *(left + right for left, right in MERGES)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    special = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": number, "content": token, **special} for number, token in enumerate(SPECIALS)],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: number for number, token in enumerate(tokens)},
            "merges": [list(pair) for pair in MERGES],
        },
    }


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1), encoding="utf-8")
