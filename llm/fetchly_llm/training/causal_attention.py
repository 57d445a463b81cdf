"""Queries, keys and values of whole sequences in; causal attention, with its gradient, out.

On the processor torch's own kernel spends most of a training step here: it computes the scores again on the way back,
without the matrix instructions. `BlockAttention` keeps the probabilities (23 MB a layer for 1,600 tokens and nine heads
in bf16) and does all else in matrix products of blocks of queries: half the time in bf16 (AVX-512).
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

BLOCK = 128
"""Queries that are scored at once; keys behind the last of them are not looked at."""


def causal_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Each position looks at itself and what stands before it.

    Shapes: query (batch, heads, length, head_dim), key and value (batch, kv_heads, length, head_dim); the result is
    shaped as query. Any device and floating type.
    """
    if query.device.type == "cpu":
        mixed: Tensor = BlockAttention.apply(query, key, value)  # type: ignore[no-untyped-call]
        return mixed
    return F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)


class BlockAttention(torch.autograd.Function):
    """Softmax attention by blocks of queries. Keys and values of a head serve all queries of its group at once."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Shapes as in `causal_attention`."""
        batch, heads, length, dim = query.shape
        kv_heads = key.shape[1]
        shape = (batch * kv_heads, heads // kv_heads, length, dim)
        grouped = (query * (1.0 / math.sqrt(dim))).reshape(shape)  # (pairs, group, length, head_dim)
        keys, values = (part.reshape(batch * kv_heads, length, dim) for part in (key, value))
        columns = keys.transpose(1, 2)
        later = _later(query)
        out = torch.empty(shape, dtype=query.dtype)
        kept: list[Tensor] = []
        for start in range(0, length, BLOCK):
            end = min(length, start + BLOCK)
            scores = torch.bmm(grouped[:, :, start:end].flatten(1, 2), columns[:, :, :end])
            scores.view(-1, end - start, end)[:, :, start:].add_(later[: end - start, : end - start])
            weights = torch.softmax(scores, dim=-1)
            out[:, :, start:end] = torch.bmm(weights, values[:, :end]).view(shape[0], shape[1], end - start, dim)
            kept.append(weights)
        ctx.save_for_backward(grouped, keys, values, *kept)
        ctx.shapes = (query.shape, key.shape)
        return out.view(query.shape)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The gradients of query, key and value."""
        grouped, keys, values, *kept = ctx.saved_tensors
        query_shape, key_shape = ctx.shapes
        pairs, group, length, dim = grouped.shape
        incoming = gradient.reshape(grouped.shape)
        to_query = torch.empty_like(grouped)
        to_key, to_value = (torch.zeros(part.shape, dtype=torch.float32) for part in (keys, values))
        columns = values.transpose(1, 2)
        for number, weights in enumerate(kept):
            start = number * BLOCK
            end = min(length, start + BLOCK)
            block = incoming[:, :, start:end].flatten(1, 2)
            to_value[:, :end] += torch.bmm(weights.transpose(1, 2), block)
            to_weights = torch.bmm(block, columns[:, :, :end])
            to_scores = torch._softmax_backward_data(to_weights, weights, -1, weights.dtype)
            to_query[:, :, start:end] = torch.bmm(to_scores, keys[:, :end]).view(pairs, group, end - start, dim)
            to_key[:, :end] += torch.bmm(to_scores.transpose(1, 2), grouped[:, :, start:end].flatten(1, 2))
        to_query.mul_(1.0 / math.sqrt(dim))
        return (
            to_query.view(query_shape),
            to_key.to(keys.dtype).view(key_shape),
            to_value.to(values.dtype).view(key_shape),
        )


def _later(query: Tensor) -> Tensor:
    """What is added to the scores of a block's own keys: minus infinity for those behind the query."""
    square = torch.full((BLOCK, BLOCK), -math.inf, dtype=query.dtype)
    return square.triu_(1)
