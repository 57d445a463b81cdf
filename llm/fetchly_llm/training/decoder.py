"""Frozen weights, an adapter and sequences in; hidden states, differentiable in the adapter, out.

The same family as `backends/torch_reference/transformer.py`, over whole sequences. The residual stream and the norms
are fp32, matrix products are of the type that the frozen weights are kept in (bf16 where the hardware multiplies it
faster). Gradients of frozen weights are never computed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fetchly_llm.backends.torch_reference.rotary import RotaryTable
from fetchly_llm.backends.torch_reference.weights import LayerWeights, ModelWeights
from fetchly_llm.config import ModelConfig
from fetchly_llm.training.causal_attention import causal_attention
from fetchly_llm.training.lora import LowRankParameters, TrainableAdapter


class TrainingDecoder:
    """A frozen model of the Llama family that is run over whole sequences, with an adapter on every linear."""

    def __init__(self, config: ModelConfig, weights: ModelWeights, kind: torch.dtype) -> None:
        self._config = config
        self._kind = kind
        self._embedding = weights.embedding.to(kind)
        self._head = self._embedding if weights.head is weights.embedding else weights.head.to(kind)
        self._final_norm = weights.final_norm
        self._layers = tuple(_converted(layer, kind) for layer in weights.layers)
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
            normed = self._norm(hidden, layer.attention_norm)
            stacked = _linear(normed, layer.qkv, low_rank.qkv, adapter.scale, layer.qkv_bias)
            mixed = self._attention(stacked.view(batch, length, -1, self._config.head_dim), layer, cosine, sine)
            hidden = hidden + _linear(mixed, layer.output, low_rank.output, adapter.scale, layer.output_bias)
            stacked = _linear(self._norm(hidden, layer.mlp_norm), layer.gate_up, low_rank.gate_up, adapter.scale)
            gated: Tensor = _Gated.apply(stacked)  # type: ignore[no-untyped-call]
            hidden = hidden + _linear(gated, layer.down, low_rank.down, adapter.scale)
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
        turned = _Rotated.apply(turned, cosine, sine)  # type: ignore[no-untyped-call]
        mixed = causal_attention(turned[:, :queries], turned[:, queries:], by_head[:, queries + keys :])
        return mixed.transpose(1, 2).reshape(batch * length, -1)

    def _norm(self, rows: Tensor, weight: Tensor) -> Tensor:
        normed: Tensor = _Normed.apply(rows, weight, self._config.rms_norm_eps, self._kind)  # type: ignore[no-untyped-call]
        return normed


def _converted(layer: LayerWeights, kind: torch.dtype) -> LayerWeights:
    """The layer with its matrices in the type of the products; norms and biases stay fp32."""
    return replace(
        layer,
        qkv=layer.qkv.to(kind),
        output=layer.output.to(kind),
        gate_up=layer.gate_up.to(kind),
        down=layer.down.to(kind),
    )


def _linear(
    rows: Tensor, matrix: Tensor, low_rank: LowRankParameters, scale: float, bias: Tensor | None = None
) -> Tensor:
    factors = (low_rank.down, low_rank.up)
    product: Tensor = _AdaptedLinear.apply(rows, matrix, *factors, low_rank, scale)  # type: ignore[no-untyped-call]
    return product if bias is None else product + bias.to(product.dtype)


class _AdaptedLinear(torch.autograd.Function):
    """y = x W^T + scale (x A^T) B^T with W frozen. Gradients of A and B are summed in fp32 by autograd."""

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, matrix: Tensor, down: Tensor, up: Tensor, parts: LowRankParameters, scale: float
    ) -> Tensor:
        down, up = down.to(matrix.dtype), (up * scale).to(matrix.dtype)
        narrow = rows @ down.t()
        ctx.save_for_backward(rows, matrix, down, up, narrow)
        ctx.parts, ctx.scale = parts, scale
        return F.linear(rows, matrix).addmm_(narrow, up.t())

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        rows, matrix, down, up, narrow = ctx.saved_tensors
        gradient = gradient.to(matrix.dtype)
        to_narrow = gradient @ up
        to_rows = (gradient @ matrix).addmm_(to_narrow, down)
        to_down = (to_narrow.t() @ rows).float()
        to_up = ctx.parts.keep_blocks((gradient.t() @ narrow).float().mul_(ctx.scale))
        return to_rows, None, to_down, to_up, None, None


class _Normed(torch.autograd.Function):
    """RMSNorm (arXiv 1910.07467) over the last dimension: fp32 in, the type of the products out."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, epsilon: float, kind: torch.dtype) -> Tensor:
        inverse = torch.rsqrt(rows.square().mean(-1, keepdim=True) + epsilon)
        ctx.save_for_backward(rows, inverse, weight)
        return (rows * inverse).mul_(weight).to(kind)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        rows, inverse, weight = ctx.saved_tensors
        weighted = gradient.float() * weight
        unit = rows * inverse
        along = (weighted * unit).mean(-1, keepdim=True)
        return weighted.sub_(unit.mul_(along)).mul_(inverse), None, None, None


class _Rotated(torch.autograd.Function):
    """Rotary positions in the half-split layout; `sine`'s first half is negated (`RotaryTable`)."""

    @staticmethod
    def forward(ctx: Any, heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        ctx.save_for_backward(cosine, sine)
        return torch.addcmul(heads * cosine, _swapped(heads), sine)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        cosine, sine = ctx.saved_tensors
        return torch.addcmul(gradient * cosine, _swapped(gradient), _swapped(sine)), None, None


class _Gated(torch.autograd.Function):
    """SwiGLU (arXiv 2002.05202) of stacked gate and up, computed again on the way back instead of kept."""

    @staticmethod
    def forward(ctx: Any, stacked: Tensor) -> Tensor:
        ctx.save_for_backward(stacked)
        gate, up = stacked.chunk(2, dim=-1)
        return F.silu(gate).mul_(up)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (stacked,) = ctx.saved_tensors
        gate, up = stacked.chunk(2, dim=-1)
        out = torch.empty_like(stacked)
        to_gate, to_up = out.chunk(2, dim=-1)
        torch.mul(gradient, F.silu(gate), out=to_up)
        to_gate.copy_(torch.ops.aten.silu_backward(gradient * up, gate))
        return out


def _swapped(heads: Tensor) -> Tensor:
    """The two halves of the last dimension in each other's place."""
    half = heads.shape[-1] // 2
    return torch.cat((heads[..., half:], heads[..., :half]), dim=-1)
