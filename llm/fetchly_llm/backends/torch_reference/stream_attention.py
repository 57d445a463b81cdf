"""Queries, keys and values of the streams of some anchors in; their attention out. The cache is only read."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from fetchly_llm.backends.torch_reference.kv_cache import KeyValueCache
from fetchly_llm.backends.torch_reference.stream_plan import StreamPlan
from fetchly_llm.backends.torch_reference.tree_plan import BLOCK


class StreamAttention:
    """Multi-stream attention (Speculative Streaming, arXiv 2402.11131, equation 2) of the streams of A anchors.

    A stream sees the main keys of its anchor's path, which the cache holds, and itself and the earlier streams of the
    same anchor, whose keys and values live for one layer's call. Rows are grouped by anchor: row a * gamma + j - 1 is
    stream j of anchor a.
    """

    def __init__(self, cache: KeyValueCache, plan: StreamPlan, heads: int) -> None:
        device = cache.storage.device
        self._anchors, self._gamma = plan.positions.shape
        self._cache = cache
        self._kv_heads = cache.storage.shape[3]
        self._group = heads // self._kv_heads
        self._blocks = plan.blocks
        self._tail = plan.tail_slots.shape[1]
        self._scale = 1.0 / math.sqrt(cache.storage.shape[-1])
        rows = np.stack((cache.key_rows(plan.tail_slots), cache.value_rows(plan.tail_slots)))
        self._tail_rows = torch.from_numpy(rows.ravel()).to(device)  # (2 * kv_heads * A * T)
        later = ~np.tri(self._gamma, dtype=np.bool_)
        hidden = np.concatenate(
            (
                np.broadcast_to(plan.tail_hidden[:, None, :], (self._anchors, self._gamma, self._tail)),
                np.broadcast_to(later[None], (self._anchors, self._gamma, self._gamma)),
            ),
            axis=-1,
        )
        bias = torch.from_numpy(np.where(hidden, np.float32(-np.inf), np.float32(0.0))).to(device)
        # (kv_heads * A, gamma * group, T + gamma)
        self._bias = bias.repeat_interleave(self._group, 1).repeat(self._kv_heads, 1, 1)

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Attend in `layer`: query (heads, A * gamma, head_dim), key and value (kv_heads, A * gamma, head_dim).

        Returns (A * gamma, heads * head_dim).
        """
        dim = query.shape[-1]
        per_anchor = (self._kv_heads * self._anchors, -1, dim)
        by_group = query.view(self._kv_heads, self._group, self._anchors, self._gamma, dim).permute(0, 2, 3, 1, 4)
        grouped = by_group.reshape(per_anchor)  # (kv_heads * A, gamma * group, head_dim)
        tails = self._cache.rows(layer).index_select(0, self._tail_rows).view(2, *per_anchor)
        keys = torch.cat((tails[0], key.reshape(per_anchor)), dim=1)  # (kv_heads * A, T + gamma, head_dim)
        values = torch.cat((tails[1], value.reshape(per_anchor)), dim=1)
        near = torch.baddbmm(self._bias, grouped, keys.transpose(1, 2), alpha=self._scale)
        if self._blocks == 0:
            return self._as_rows(torch.bmm(near.softmax(-1), values))
        far = self._far_scores(layer, grouped)
        weights = torch.cat((far, near), dim=-1).softmax(-1)
        mixed = torch.bmm(weights[..., far.shape[-1] :], values)
        return self._as_rows(mixed.add_(self._far_sum(layer, weights[..., : far.shape[-1]])))

    def _far_scores(self, layer: int, grouped: Tensor) -> Tensor:
        """Scores of the whole blocks, (kv_heads * A, gamma * group, blocks * BLOCK)."""
        dim = grouped.shape[-1]
        count = self._blocks * self._kv_heads
        query = grouped.view(1, self._kv_heads, -1, dim).expand(self._blocks, -1, -1, -1).reshape(count, -1, dim)
        keys = self._cache.storage[layer, 0, : self._blocks].flatten(0, 1)  # (blocks * kv_heads, BLOCK, head_dim)
        scores = torch.bmm(query, keys.transpose(1, 2)).mul_(self._scale)
        by_head = scores.view(self._blocks, self._kv_heads, -1, BLOCK).permute(1, 2, 0, 3)
        return by_head.reshape(self._kv_heads * self._anchors, -1, self._blocks * BLOCK)

    def _far_sum(self, layer: int, weights: Tensor) -> Tensor:
        """Weighted sums of the whole blocks' values, (kv_heads * A, gamma * group, head_dim)."""
        dim = self._cache.storage.shape[-1]
        by_block = weights.reshape(self._kv_heads, -1, self._blocks, BLOCK).permute(2, 0, 1, 3)
        values = self._cache.storage[layer, 1, : self._blocks].flatten(0, 1)  # (blocks * kv_heads, BLOCK, head_dim)
        sums = torch.bmm(by_block.reshape(self._blocks * self._kv_heads, -1, BLOCK), values)
        return sums.view(self._blocks, self._kv_heads * self._anchors, -1, dim).sum(0)

    def _as_rows(self, mixed: Tensor) -> Tensor:
        """(kv_heads * A, gamma * group, head_dim) -> (A * gamma, heads * head_dim)."""
        by_row = mixed.view(self._kv_heads, self._anchors * self._gamma, -1)
        return by_row.transpose(0, 1).flatten(1)
