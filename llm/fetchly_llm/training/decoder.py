"""Frozen weights, an adapter and sequences in; hidden states, differentiable in the adapter, out.

The same family as `backends/torch_reference/transformer.py`, over whole sequences. The residual stream and the norms
are fp32, matrix products are of the type that the frozen weights are kept in (bf16 where the hardware multiplies it
faster). Gradients of frozen weights are never computed.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from fetchly_llm.backends.torch_reference.rotary import RotaryTable
from fetchly_llm.backends.torch_reference.weights import LayerWeights, ModelWeights
from fetchly_llm.config import ModelConfig
from fetchly_llm.training.causal_attention import causal_attention
from fetchly_llm.training.layer_functions import converted, gated, linear, normed, rotated
from fetchly_llm.training.lora import TrainableAdapter


class TrainingDecoder:
    """A frozen model of the Llama family that is run over whole sequences, with an adapter on every linear."""

    def __init__(self, config: ModelConfig, weights: ModelWeights, kind: torch.dtype) -> None:
        self._config = config
        self._kind = kind
        self._embedding = weights.embedding.to(kind)
        self._head = self._embedding if weights.head is weights.embedding else weights.head.to(kind)
        self._final_norm = weights.final_norm
        self._layers = tuple(converted(layer, kind) for layer in weights.layers)
        self._rotary = RotaryTable(config, 0, weights.embedding.device)

    def hidden_states(self, tokens: Tensor, adapter: TrainableAdapter) -> Tensor:
        """The residual stream after the last layer, fp32: (batch, length) -> (batch, length, hidden_size).

        Sequences are padded at their end, if at all: what stands before the padding does not see it.
        """
        batch, length = tokens.shape
        if self._rotary.positions < length:
            self._rotary = RotaryTable(self._config, -(-length // 512) * 512, tokens.device)
        cosine, sine = (table[:length].to(self._kind) for table in (self._rotary.cosine, self._rotary.sine))
        hidden = F.embedding(tokens.reshape(-1), self._embedding).float()  # (batch * length, hidden_size)
        for layer, low_rank in zip(self._layers, adapter.layers, strict=True):
            stacked = self._norm(hidden, layer.attention_norm)
            stacked = linear(stacked, layer.qkv, low_rank.qkv, adapter.scale, layer.qkv_bias)
            mixed = self._attention(stacked.view(batch, length, -1, self._config.head_dim), layer, cosine, sine)
            hidden = hidden + linear(mixed, layer.output, low_rank.output, adapter.scale, layer.output_bias)
            stacked = linear(self._norm(hidden, layer.mlp_norm), layer.gate_up, low_rank.gate_up, adapter.scale)
            hidden = hidden + linear(gated(stacked), layer.down, low_rank.down, adapter.scale)
        return hidden.view(batch, length, -1)

    def logits(self, hidden: Tensor) -> Tensor:
        """Final norm and LM head: (rows, hidden_size) -> (rows, vocab_size), fp32."""
        return F.linear(self._norm(hidden, self._final_norm), self._head).float()

    def _attention(self, heads: Tensor, layer: LayerWeights, cosine: Tensor, sine: Tensor) -> Tensor:
        """Stacked queries, keys and values (batch, length, heads, head_dim) -> (batch * length, heads * head_dim)."""
        batch, length = heads.shape[:2]
        queries, keys = self._config.num_heads, self._config.num_kv_heads
        by_head = heads.transpose(1, 2)  # (batch, heads, length, head_dim)
        turned = by_head[:, : queries + keys]
        if layer.query_norm is not None and layer.key_norm is not None:
            query = self._norm(by_head[:, :queries].float(), layer.query_norm)
            key = self._norm(by_head[:, queries : queries + keys].float(), layer.key_norm)
            turned = torch.cat((query, key), dim=1)
        turned = rotated(turned, cosine, sine)
        mixed = causal_attention(turned[:, :queries], turned[:, queries:], by_head[:, queries + keys :])
        return mixed.transpose(1, 2).reshape(batch * length, -1)

    def _norm(self, rows: Tensor, weight: Tensor) -> Tensor:
        return normed(rows, weight, self._config.rms_norm_eps, self._kind)
