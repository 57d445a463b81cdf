"""Shapes in; a small, valid GGUF file with random weights and a byte-level vocabulary out."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

from fetchly_llm.tokenizer import byte_alphabet
from tests.support.tiny_tokenizer import MERGES, SPECIALS, TEMPLATE


@dataclass
class TinyModel:
    """A model of one layer or two. `tensors` are the values in Hugging Face's names and order of rows."""

    architecture: str = "llama"
    hidden: int = 64
    inner: int = 96
    layers: int = 2
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 16
    tied: bool = True
    pre: str = "smollm"
    unused_tokens: int = 0
    extra: dict[str, Any] = field(default_factory=dict)
    tensors: dict[str, NDArray[np.float32]] = field(default_factory=dict)

    def tokens(self) -> list[str]:
        merged = ["".join(merge.split()) for merge in MERGES]
        padding = [f"[PAD{number}]" for number in range(self.unused_tokens)]
        return [*SPECIALS, *sorted(byte_alphabet()), *merged, *padding]

    def write(self, path: Path, *, seed: int = 0) -> Path:
        """Write the file and remember the values."""
        draw = np.random.default_rng(seed)
        writer = gguf.GGUFWriter(path, self.architecture)
        self._write_metadata(writer)
        for name, shape in self._shapes().items():
            values = draw.standard_normal(shape).astype(np.float32)
            self.tensors[name] = values
            writer.add_tensor(_gguf_name(name), self._as_stored(name, values))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    def _write_metadata(self, writer: gguf.GGUFWriter) -> None:
        tokens = self.tokens()
        writer.add_block_count(self.layers)
        writer.add_context_length(512)
        writer.add_embedding_length(self.hidden)
        writer.add_feed_forward_length(self.inner)
        writer.add_head_count(self.heads)
        writer.add_head_count_kv(self.kv_heads)
        writer.add_key_length(self.head_dim)
        writer.add_value_length(self.head_dim)
        writer.add_layer_norm_rms_eps(1e-5)
        writer.add_rope_freq_base(50_000.0)
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(self.pre)
        writer.add_token_list(tokens)
        kinds = (
            [3] * len(SPECIALS) + [1] * (len(tokens) - len(SPECIALS) - self.unused_tokens) + [5] * self.unused_tokens
        )
        writer.add_token_types(kinds)
        writer.add_token_merges(list(MERGES))
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(2)
        writer.add_chat_template(TEMPLATE)
        for key, value in self.extra.items():
            writer.add_string(key, value) if isinstance(value, str) else writer.add_uint32(key, value)

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (len(self.tokens()), self.hidden)}
        for layer in range(self.layers):
            part = f"model.layers.{layer}."
            shapes[part + "input_layernorm.weight"] = (self.hidden,)
            shapes[part + "post_attention_layernorm.weight"] = (self.hidden,)
            shapes[part + "self_attn.q_proj.weight"] = (queries, self.hidden)
            shapes[part + "self_attn.k_proj.weight"] = (keys, self.hidden)
            shapes[part + "self_attn.v_proj.weight"] = (keys, self.hidden)
            shapes[part + "self_attn.o_proj.weight"] = (self.hidden, queries)
            shapes[part + "mlp.gate_proj.weight"] = (self.inner, self.hidden)
            shapes[part + "mlp.up_proj.weight"] = (self.inner, self.hidden)
            shapes[part + "mlp.down_proj.weight"] = (self.hidden, self.inner)
            if self.architecture == "qwen2":
                for letter, size in (("q", queries), ("k", keys), ("v", keys)):
                    shapes[f"{part}self_attn.{letter}_proj.bias"] = (size,)
            if self.architecture == "qwen3":
                shapes[part + "self_attn.q_norm.weight"] = (self.head_dim,)
                shapes[part + "self_attn.k_norm.weight"] = (self.head_dim,)
        shapes["model.norm.weight"] = (self.hidden,)
        if not self.tied:
            shapes["lm_head.weight"] = (len(self.tokens()), self.hidden)
        return shapes

    def _as_stored(self, name: str, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """What llama.cpp's converter does to the query and key rows of the llama architecture."""
        heads = {"q_proj": self.heads, "k_proj": self.kv_heads}.get(name.split(".")[-2])
        if self.architecture != "llama" or heads is None:
            return values
        halves = values.reshape(heads, 2, self.head_dim // 2, *values.shape[1:])
        return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(values.shape))


def _gguf_name(name: str) -> str:
    for theirs, ours in (
        ("model.embed_tokens.", "token_embd."),
        ("model.norm.", "output_norm."),
        ("lm_head.", "output."),
        ("model.layers.", "blk."),
        ("post_attention_layernorm.", "ffn_norm."),
        ("input_layernorm.", "attn_norm."),
        ("self_attn.o_proj.", "attn_output."),
        ("self_attn.", "attn_"),
        ("mlp.", "ffn_"),
        ("_proj.", "."),
    ):
        name = name.replace(theirs, ours)
    return name
