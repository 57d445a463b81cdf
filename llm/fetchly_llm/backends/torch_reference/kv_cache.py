"""Keys and values of new rows in; one sequence's preallocated store of them, in blocks of absolute positions, out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fetchly_llm.backends.torch_reference.tree_plan import BLOCK
from fetchly_llm.config import ModelConfig
from fetchly_llm.tree import DraftTree


@dataclass(frozen=True, slots=True)
class StreamStart:
    """What streams can start from: the last step.

    `tree` is its tree, `base` the position of the tree's root, `states` maps layers to the hidden states of the tree's
    nodes, (rows, hidden_size). `last` is the last node of the committed path, None before the commit.
    """

    tree: DraftTree
    base: int
    states: Mapping[int, Tensor]
    last: int | None = None


class KeyValueCache:
    """The keys and values of one sequence.

    `storage` has shape (layers, 2, blocks, kv_heads, BLOCK, head_dim): keys then values, and the whole blocks of a
    layer's keys lie together. It holds `capacity` positions, and `scratch` more for the rows that pad a step or a
    prefill chunk. It is not zeroed: no position is read before it is written.

    `pending` is the tree of the last step, until a commit claims it or anything else overwrites it. `start` is what
    that step left for speculative streams, where there are any; a commit keeps it.
    """

    def __init__(self, config: ModelConfig, capacity: int, scratch: int, device: torch.device) -> None:
        blocks = -(-(capacity + scratch) // BLOCK)
        self._config = config
        self._scratch = scratch
        self.capacity = capacity
        self.length = 0
        self.pending: DraftTree | None = None
        self.start: StreamStart | None = None
        self.storage = torch.empty(
            (config.num_layers, 2, blocks, config.num_kv_heads, BLOCK, config.head_dim),
            dtype=torch.float32,
            device=device,
        )

    @property
    def positions(self) -> int:
        """Positions with storage behind them, scratch included."""
        return self.storage.shape[2] * BLOCK

    def forget_step(self) -> None:
        """No step is pending any more, and no stream can start."""
        self.pending = None
        self.start = None

    def rows(self, layer: int) -> Tensor:
        """A layer's storage as flat rows, (2 * blocks * kv_heads * BLOCK, head_dim), numbered as `key_rows` says."""
        return self.storage[layer].view(-1, self.storage.shape[-1])

    def key_rows(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Flat row numbers of the keys at `positions`; the result has shape (kv_heads, *positions.shape)."""
        kv_heads = self.storage.shape[3]
        heads = np.arange(kv_heads, dtype=np.int64).reshape((kv_heads,) + (1,) * positions.ndim)
        block, offset = np.divmod(positions, BLOCK)
        rows: NDArray[np.int64] = (block * kv_heads + heads) * BLOCK + offset
        return rows

    def value_rows(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Flat row numbers of the values at `positions`, shaped like `key_rows`."""
        _, _, blocks, kv_heads, _, _ = self.storage.shape
        return self.key_rows(positions) + blocks * kv_heads * BLOCK

    def keep(self, path: Sequence[int]) -> None:
        """Append the rows in tree slots `path` to the committed ones, moving only those that lie elsewhere."""
        moved = [(self.length + node, self.length + depth) for depth, node in enumerate(path) if node != depth]
        if moved:
            source, target = np.array(moved, dtype=np.int64).T
            flat = self.storage.view(self.storage.shape[0], -1, self.storage.shape[-1])  # (layers, rows, head_dim)
            flat.index_copy_(1, self._both_rows(target), flat.index_select(1, self._both_rows(source)))
        self.length += len(path)
        self.pending = None
        if self.start is not None:
            self.start = replace(self.start, last=path[-1])

    def copy(self) -> KeyValueCache:
        """An independent cache of the same capacity that holds the committed tokens."""
        twin = KeyValueCache(self._config, self.capacity, self._scratch, self.storage.device)
        used = -(-self.length // BLOCK)
        twin.storage[:, :, :used].copy_(self.storage[:, :, :used])
        twin.length = self.length
        return twin

    def _both_rows(self, positions: NDArray[np.int64]) -> Tensor:
        rows = np.concatenate((self.key_rows(positions).ravel(), self.value_rows(positions).ravel()))
        return torch.from_numpy(rows).to(self.storage.device)
