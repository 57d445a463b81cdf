"""Token ids, positions and an attention in; hidden states and logits out. The Llama family, plainly.

Every tensor of a pass has a fixed number of rows, W of a step or C of a prefill chunk, and every operation but
attention treats rows one by one: at a fixed shape the libraries' matrix products give a row the same bits whatever
its index and its neighbours (`tests/property/test_backend_bits.py` asserts it). The rows of speculative streams, whose
bits matter to nobody, are a pass of their own and have any number.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from fetchly_llm.backends.torch_reference.attention import ChunkAttention
from fetchly_llm.backends.torch_reference.rotary import rotate
from fetchly_llm.backends.torch_reference.stream_weights import LayerAdapters, LowRank
from fetchly_llm.backends.torch_reference.weights import LayerWeights, ModelWeights
from fetchly_llm.config import ModelConfig


class Attention(Protocol):
    """Keeps a layer's new keys and values for as long as they are needed, and attends."""

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Query (heads, rows, head_dim), key and value (kv_heads, rows, head_dim) -> (rows, heads * head_dim)."""


@dataclass(frozen=True, slots=True)
class RotaryRows:
    """Table rows at the positions of a pass, each of shape (rows, head_dim)."""

    cosine: Tensor
    sine: Tensor


@dataclass(frozen=True, slots=True)
class _Heads:
    """Rotated queries (heads, rows, head_dim) and keys, and values (kv_heads, rows, head_dim)."""

    query: Tensor
    key: Tensor
    value: Tensor


class Transformer:
    """RMSNorm, rotary positions, grouped-query attention, SwiGLU (Llama, arXiv 2302.13971; GQA, arXiv 2305.13245)."""

    def __init__(self, config: ModelConfig, weights: ModelWeights) -> None:
        self._config = config
        self._weights = weights

    @property
    def vocab_size(self) -> int:
        """Tokens that have an embedding."""
        return self._config.vocab_size

    def hidden_states(
        self, tokens: Tensor, rotary: RotaryRows, attention: Attention, taps: Collection[int] = ()
    ) -> dict[int, Tensor]:
        """Run all layers over `tokens` of shape (rows,).

        Returns the residual stream, of shape (rows, hidden_size), after the first k layers, for each k in `taps` (0
        is the embedding) and for k = num_layers.
        """
        hidden = self.embedded(tokens)
        tapped = {0: hidden.clone()} if 0 in taps else {}
        for number in range(len(self._weights.layers)):
            self._run_layer(number, hidden, rotary, attention)
            if number + 1 in taps:
                tapped[number + 1] = hidden.clone()
        return tapped | {len(self._weights.layers): hidden}

    def stream_states(
        self,
        hidden: Tensor,
        rotary: RotaryRows,
        attention: Attention,
        first: int,
        adapters: Sequence[LayerAdapters] | None,
    ) -> Tensor:
        """Run the layers from `first` on over rows of streams that start as `hidden` (rows, hidden_size), in place.

        `adapters` are those of these layers, in order. Returns the residual stream after the last layer.
        """
        for number in range(first, len(self._weights.layers)):
            self._run_layer(number, hidden, rotary, attention, adapters[number - first] if adapters else None)
        return hidden

    def write_prompt(self, tokens: Tensor, rotary: RotaryRows, attention: ChunkAttention) -> None:
        """Write the keys and values of a chunk: all layers, but of the last one only what the cache keeps."""
        hidden = self.embedded(tokens)
        last = len(self._weights.layers) - 1
        for number in range(last):
            self._run_layer(number, hidden, rotary, attention)
        heads = self._heads(self._weights.layers[last], hidden, rotary)
        attention.write_only(last, heads.key, heads.value)

    def embedded(self, tokens: Tensor) -> Tensor:
        """Rows of the embedding: (rows,) -> (rows, hidden_size)."""
        return self._weights.embedding.index_select(0, tokens)

    def normed(self, hidden: Tensor) -> Tensor:
        """The final norm, whose result the LM head reads; both shapes are (rows, hidden_size)."""
        return self._norm(hidden, self._weights.final_norm)

    def head(self, normed: Tensor) -> Tensor:
        """The LM head: (rows, hidden_size) -> (rows, vocab_size)."""
        return _project(self._weights.head, normed, None)

    def logits(self, hidden: Tensor) -> Tensor:
        """Final norm and LM head over all rows: (rows, hidden_size) -> (rows, vocab_size)."""
        return self.head(self.normed(hidden))

    def _run_layer(
        self,
        number: int,
        hidden: Tensor,
        rotary: RotaryRows,
        attention: Attention,
        adapters: LayerAdapters | None = None,
    ) -> None:
        """One decoder layer over the residual stream `hidden` (rows, hidden_size), in place."""
        layer = self._weights.layers[number]
        heads = self._heads(layer, hidden, rotary, adapters)
        mixed = attention(number, heads.query, heads.key, heads.value)
        hidden.add_(_project(layer.output, mixed, layer.output_bias, adapters.output if adapters else None))
        hidden.add_(self._mlp(layer, hidden, adapters))

    def _heads(
        self, layer: LayerWeights, hidden: Tensor, rotary: RotaryRows, adapters: LayerAdapters | None = None
    ) -> _Heads:
        heads, kv_heads = self._config.num_heads, self._config.num_kv_heads
        normed = self._norm(hidden, layer.attention_norm)
        stacked = _project(layer.qkv, normed, layer.qkv_bias, adapters.qkv if adapters else None)
        by_head = stacked.t().view(heads + 2 * kv_heads, self._config.head_dim, -1).transpose(1, 2).contiguous()
        query, key, value = torch.split(by_head, [heads, kv_heads, kv_heads])
        if layer.query_norm is not None and layer.key_norm is not None:
            query, key = self._norm(query, layer.query_norm), self._norm(key, layer.key_norm)
            return _Heads(rotate(query, rotary.cosine, rotary.sine), rotate(key, rotary.cosine, rotary.sine), value)
        rotated = rotate(by_head[: heads + kv_heads], rotary.cosine, rotary.sine)
        return _Heads(rotated[:heads], rotated[heads:], value)

    def _mlp(self, layer: LayerWeights, hidden: Tensor, adapters: LayerAdapters | None) -> Tensor:
        normed = self._norm(hidden, layer.mlp_norm)
        gate, up = _project(layer.gate_up, normed, None, adapters.gate_up if adapters else None).chunk(2, dim=1)
        return _project(layer.down, F.silu(gate).mul_(up), None, adapters.down if adapters else None)

    def _norm(self, rows: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(rows, weight.shape, weight, self._config.rms_norm_eps)


def _project(matrix: Tensor, rows: Tensor, bias: Tensor | None, adapter: LowRank | None = None) -> Tensor:
    """A linear layer as matrix @ rows^T: up to twice as fast as rows @ matrix^T for a few rows on the CPU (MKL, AVX2).

    Shapes: (outputs, inputs) and (rows, inputs) give (rows, outputs), a transposed view. `adapter` is added to it.
    """
    columns = rows.contiguous().t()
    product = torch.mm(matrix, columns) if bias is None else torch.addmm(bias.unsqueeze(1), matrix, columns)
    if adapter is not None:
        product.addmm_(adapter.up, torch.mm(adapter.down, columns))
    return product.t()
