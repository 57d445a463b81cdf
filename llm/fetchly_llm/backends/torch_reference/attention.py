"""Queries, keys and values of a step or a prefill chunk in; attention out, each row's bits fixed by its own path.

Both kinds write the new keys and values into the cache before they read. `tree_plan` says which key is reduced where.
"""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from fetchly_llm.backends.torch_reference.kv_cache import KeyValueCache
from fetchly_llm.backends.torch_reference.tree_plan import BLOCK, TreePlan


class TreeAttention:
    """Attention of the rows of one step.

    Scores and weighted sums come in two kinds of computation, each of one fixed shape: whole blocks of the cache,
    (W * group, head_dim) x (head_dim, BLOCK) per block and key head, and tails, (group, head_dim) x (head_dim, T) per
    row and key head. The maximum is exact in any order; sums are taken within a block, then over the blocks from left
    to right, the tail last. A block that lies above a row's whole blocks (another row's, across a boundary) adds
    zeros.
    """

    def __init__(self, cache: KeyValueCache, plan: TreePlan, heads: int) -> None:
        device = cache.storage.device
        width, tail = plan.tail_slots.shape
        self._cache = cache
        self._kv_heads = cache.storage.shape[3]
        self._group = heads // self._kv_heads
        self._width = width
        self._tail = tail
        self._scale = 1.0 / math.sqrt(cache.storage.shape[-1])
        self._new = _NewRows(cache, plan.slots)
        tail_rows = np.stack((cache.key_rows(plan.tail_slots), cache.value_rows(plan.tail_slots)))
        self._tail_rows = torch.from_numpy(tail_rows.ravel()).to(device)  # (2 * kv_heads * W * T)
        self._tail_bias = (
            _bias(plan.tail_hidden, device)
            .view(1, width, 1, tail)
            .expand(self._kv_heads, width, self._group, tail)
            .reshape(self._kv_heads * width, self._group, tail)
        )
        self._nothing = torch.zeros((1, 1, 1), device=device)
        self._blocks = int(plan.whole_blocks.max())
        self._block_bias = self._make_block_bias(plan.whole_blocks, device)

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Attend in `layer`: query (heads, W, head_dim), key and value (kv_heads, W, head_dim).

        Returns (W, heads * head_dim).
        """
        dim = query.shape[-1]
        self._new.write(self._cache, layer, key, value)
        grouped = query.view(self._kv_heads, self._group, self._width, dim).transpose(1, 2).contiguous()

        rows = self._cache.rows(layer)
        tails = rows.index_select(0, self._tail_rows).view(2, self._kv_heads * self._width, self._tail, dim)
        tail_query = grouped.view(-1, self._group, dim)
        tail_scores = torch.baddbmm(self._tail_bias, tail_query, tails[0].transpose(1, 2), alpha=self._scale)
        peak = tail_scores.amax(-1, keepdim=True)  # (kv_heads * W, group, 1)
        if self._blocks == 0:
            tail_weights = tail_scores.sub_(peak).exp_()
            mixed = torch.bmm(tail_weights, tails[1]).div_(tail_weights.sum(-1, keepdim=True))
            return self._as_rows(mixed)

        scores = self._block_scores(layer, grouped)  # (blocks, kv_heads, W * group, BLOCK)
        peak = torch.maximum(peak.view(self._kv_heads, -1, 1), scores.amax(-1, keepdim=True).amax(0))
        weights = scores.sub_(peak).exp_()
        tail_weights = tail_scores.sub_(peak.view(-1, self._group, 1)).exp_()
        values = self._cache.storage[layer, 1, : self._blocks].flatten(0, 1)  # (blocks * kv_heads, BLOCK, head_dim)
        block_sums = torch.bmm(weights.flatten(0, 1), values).view(self._blocks, -1, self._group, dim)
        total = _left_to_right(weights.sum(-1)).view(-1, self._group, 1) + tail_weights.sum(-1, keepdim=True)
        mixed = _left_to_right(block_sums).add_(torch.bmm(tail_weights, tails[1])).div_(total)
        return self._as_rows(mixed)

    def _block_scores(self, layer: int, grouped: Tensor) -> Tensor:
        dim = grouped.shape[-1]
        count = self._blocks * self._kv_heads
        query = grouped.view(1, self._kv_heads, -1, dim).expand(self._blocks, -1, -1, -1).reshape(count, -1, dim)
        keys = self._cache.storage[layer, 0, : self._blocks].flatten(0, 1)  # (blocks * kv_heads, BLOCK, head_dim)
        scores = torch.baddbmm(self._nothing, query, keys.transpose(1, 2), beta=0, alpha=self._scale)
        scores = scores.view(self._blocks, self._kv_heads, -1, BLOCK)
        return scores if self._block_bias is None else scores.add_(self._block_bias)

    def _make_block_bias(self, whole_blocks: NDArray[np.int64], device: torch.device) -> Tensor | None:
        """Zero or minus infinity, of shape (blocks, 1, W * group, 1); None where every row sees every block."""
        if (whole_blocks == self._blocks).all():
            return None
        hidden = np.arange(self._blocks)[:, None] >= np.repeat(whole_blocks, self._group)[None, :]
        return _bias(hidden, device).view(self._blocks, 1, -1, 1)

    def _as_rows(self, mixed: Tensor) -> Tensor:
        """(kv_heads * W, group, head_dim), or the same elements in another grouping -> (W, heads * head_dim)."""
        return mixed.view(self._kv_heads, self._width, -1).transpose(0, 1).flatten(1)


class ChunkAttention:
    """Attention of one prefill chunk, whose start is an absolute multiple of its length C.

    Row r of the chunk at `start` always meets start + C keys, those after it masked: the shapes, and so the bits,
    follow from its position alone.
    """

    def __init__(self, cache: KeyValueCache, start: int, chunk: int, heads: int) -> None:
        device = cache.storage.device
        positions = np.arange(start, start + chunk, dtype=np.int64)
        self._cache = cache
        self._group = heads // cache.storage.shape[3]
        self._end = start + chunk
        self._new = _NewRows(cache, positions)
        hidden = np.arange(self._end)[None, :] > positions[:, None]
        self._bias = _bias(hidden, device).repeat(self._group, 1)  # (group * C, start + C)

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Attend in `layer`: query (heads, C, head_dim), key and value (kv_heads, C, head_dim).

        Returns (C, heads * head_dim).
        """
        heads, chunk, dim = query.shape
        self.write_only(layer, key, value)
        blocks = -(-self._end // BLOCK)
        seen = self._cache.storage[layer, :, :blocks].transpose(1, 2).flatten(2, 3)[:, :, : self._end]
        # The query heads of one key head are stacked as rows, so that keys need no repetition.
        stacked = query.view(1, -1, self._group * chunk, dim)
        mixed = F.scaled_dot_product_attention(stacked, seen[:1], seen[1:], attn_mask=self._bias)
        return mixed.view(heads, chunk, dim).transpose(0, 1).reshape(chunk, heads * dim)

    def write_only(self, layer: int, key: Tensor, value: Tensor) -> None:
        """Write keys and values without attending: all that a prompt needs of the last layer."""
        self._new.write(self._cache, layer, key, value)


class _NewRows:
    """Where the keys and values of a pass are written."""

    def __init__(self, cache: KeyValueCache, positions: NDArray[np.int64]) -> None:
        device = cache.storage.device
        self._keys = torch.from_numpy(cache.key_rows(positions).ravel()).to(device)  # (kv_heads * rows)
        self._values = torch.from_numpy(cache.value_rows(positions).ravel()).to(device)

    def write(self, cache: KeyValueCache, layer: int, key: Tensor, value: Tensor) -> None:
        """Both of shape (kv_heads, rows, head_dim)."""
        rows = cache.rows(layer)
        rows.index_copy_(0, self._keys, key.reshape(-1, key.shape[-1]))
        rows.index_copy_(0, self._values, value.reshape(-1, value.shape[-1]))


def _bias(hidden: NDArray[np.bool_], device: torch.device) -> Tensor:
    return torch.from_numpy(np.where(hidden, np.float32(-np.inf), np.float32(0.0))).to(device)


def _left_to_right(blocks: Tensor) -> Tensor:
    """Sum over the first axis, one entry after the other: zeros at the end change nothing."""
    total = blocks[0].clone()
    for block in blocks[1:].unbind(0):
        total.add_(block)
    return total
