"""A checkpoint folder with streams and a token sequence in; all streams' outputs, from one plain forward pass, out.

An implementation of its own: float64 numpy, main rows and stream rows together in one attention under `stream_mask`,
from the tensors as they are stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open

from fetchly_llm.checkpoint import read_model_config
from fetchly_llm.stream_config import STREAMS_FILE, read_stream_config
from fetchly_llm.stream_mask import row_positions, stream_mask

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SlowOutput:
    """`main` (length, vocab) logits; of the streams (anchors, gamma, ...): `logits`, `normed` states, `confidence`."""

    main: Array
    logits: Array
    normed: Array
    confidence: Array


class SlowStreams:
    """The model and the streams in `folder` (one safetensors file each)."""

    def __init__(self, folder: Path) -> None:
        self.model = read_model_config(folder)
        assert self.model.rope_scaling is None
        self.tensors = _read(folder / "model.safetensors")
        self.parts = _read(folder / STREAMS_FILE)
        with safe_open(folder / STREAMS_FILE, framework="numpy") as file:
            self.config = read_stream_config(file.metadata(), self.model, str(folder))
        self.embedding = self.tensors["model.embed_tokens.weight"]

    def run(self, tokens: Sequence[int], anchors: Sequence[int], following: Sequence[int | None]) -> SlowOutput:
        """Streams from the positions `anchors` of the sequence `tokens`."""
        gamma, length = self.config.gamma, len(tokens)
        main_mask = np.tri(length, dtype=bool)
        taps = {0: self.embedding[list(tokens)]}
        for number in range(self.model.num_layers):  # the hidden states of the main stream, for the insertion
            taps[number + 1] = self._layer(number, taps[number], np.arange(length), main_mask, streams=0)
        starts = [
            self._start(taps, anchor, token, stream)
            for anchor, token in zip(anchors, following, strict=True)
            for stream in range(gamma)
        ]
        hidden = np.concatenate((taps[self.config.first_layer], np.array(starts)))
        mask, positions = stream_mask(length, anchors, gamma), row_positions(length, anchors, gamma)
        for number in range(self.config.first_layer, self.model.num_layers):
            hidden = self._layer(number, hidden, positions, mask, streams=len(starts))
        normed = self._norm(hidden, self.tensors["model.norm.weight"])
        head = self.embedding if self.model.tie_word_embeddings else self.tensors["lm_head.weight"]
        logits, shape = normed @ head.T, (len(anchors), gamma, -1)
        if self.config.confidence:
            score = normed[length:] @ self.parts["confidence.weight"][0] + self.parts["confidence.bias"]
            confidence = 1 / (1 + np.exp(-score))
        else:
            confidence = (np.exp(logits) / np.exp(logits).sum(-1, keepdims=True))[length:].max(-1)
        return SlowOutput(
            logits[:length],
            logits[length:].reshape(shape),
            normed[length:].reshape(shape),
            confidence.reshape(shape[:2]),
        )

    def markov(self, normed: Array, previous: int, tokens: Sequence[int]) -> Array:
        """B(previous, v) for each v of `tokens`, of a stream with the normed state `normed`."""
        gate = 1 / (1 + np.exp(-self.parts["markov.gate.weight"] @ normed))
        factor = (self.parts["markov.previous.weight"] @ self.embedding[previous]) * gate
        return np.array([factor @ (self.parts["markov.next.weight"] @ self.embedding[token]) for token in tokens])

    def _start(self, taps: dict[int, Array], anchor: int, following: int | None, stream: int) -> Array:
        start = taps[self.config.first_layer][anchor] + self.parts["embedding"][stream]
        if self.config.insertion_rank:
            tapped = np.concatenate([self._norm(taps[tap][anchor], np.ones(1)) for tap in self.config.taps])
            start = start + self.parts["insertion.up.weight"] @ (self.parts["insertion.down.weight"] @ tapped)
        if self.config.anchor_rank and following is not None:
            down = self.parts["anchor.down.weight"] @ self.embedding[following]
            start = start + self.parts["anchor.up.weight"] @ down
        return start

    def _layer(
        self, number: int, hidden: Array, positions: NDArray[np.int64], mask: NDArray[np.bool_], streams: int
    ) -> Array:
        """One decoder layer over all rows; the last `streams` of them have adapters."""
        model, prefix = self.model, f"model.layers.{number}"

        def linear(name: str, where: str, rows: Array) -> Array:
            out = rows @ self.tensors[f"{prefix}.{where}.{name}_proj.weight"].T
            out = out + self.tensors.get(f"{prefix}.{where}.{name}_proj.bias", 0.0)
            if self.config.lora_rank and streams:
                lora = f"layers.{number}.{name}_proj.lora_"
                scale = self.config.lora_alpha / self.config.lora_rank
                out[-streams:] += scale * rows[-streams:] @ self.parts[lora + "A"].T @ self.parts[lora + "B"].T
            return out

        normed = self._norm(hidden, self.tensors[f"{prefix}.input_layernorm.weight"])
        query, key, value = (
            linear(name, "self_attn", normed).reshape(len(hidden), -1, model.head_dim) for name in "qkv"
        )
        if model.qk_norm:
            query = self._norm(query, self.tensors[f"{prefix}.self_attn.q_norm.weight"])
            key = self._norm(key, self.tensors[f"{prefix}.self_attn.k_norm.weight"])
        query, key = self._rotate(query, positions), self._rotate(key, positions)
        mixed = np.empty_like(query)
        for head in range(model.num_heads):
            source = head // (model.num_heads // model.num_kv_heads)
            scores = query[:, head] @ key[:, source].T / np.sqrt(model.head_dim)
            weights = np.where(mask, np.exp(scores - scores.max(-1, keepdims=True)), 0.0)
            mixed[:, head] = weights / weights.sum(-1, keepdims=True) @ value[:, source]
        hidden = hidden + linear("o", "self_attn", mixed.reshape(len(hidden), -1))
        normed = self._norm(hidden, self.tensors[f"{prefix}.post_attention_layernorm.weight"])
        gate = linear("gate", "mlp", normed)
        return hidden + linear("down", "mlp", gate / (1 + np.exp(-gate)) * linear("up", "mlp", normed))

    def _rotate(self, heads: Array, positions: NDArray[np.int64]) -> Array:
        half = self.model.head_dim // 2
        angles = positions[:, None] * self.model.rope_theta ** (-np.arange(half) / half)
        cosine, sine = np.cos(angles)[:, None], np.sin(angles)[:, None]
        left, right = heads[..., :half], heads[..., half:]
        return np.concatenate((left * cosine - right * sine, right * cosine + left * sine), axis=-1)

    def _norm(self, rows: Array, weight: Array) -> Array:
        return rows / np.sqrt((rows**2).mean(-1, keepdims=True) + self.model.rms_norm_eps) * weight


def _read(file: Path) -> dict[str, Array]:
    with safe_open(file, framework="numpy") as opened:
        return {name: opened.get_tensor(name).astype(np.float64) for name in opened.keys()}  # noqa: SIM118
