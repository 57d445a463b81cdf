"""A model's shape and a capacity in; one sequence's preallocated keys and values, in blocks of positions, out."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fetchly_llm.backends.native.library import BLOCK, CacheView
from fetchly_llm.config import ModelConfig
from fetchly_llm.tree import DraftTree

LANES = 16
_ALIGNMENT = 64  # bytes of a vector


@dataclass(frozen=True, slots=True)
class StreamStart:
    """What streams can start from: the last step.

    `tree` is its tree, `states` what it left of the tree's nodes, (taps, nodes, hidden_size). `last` is the last node
    of the committed path, None before the commit.
    """

    tree: DraftTree
    states: NDArray[np.float32]
    last: int | None = None


class KeyValueCache:
    """The keys and values of one sequence, fp32.

    `keys` has shape (layers, kv_heads, blocks, head_dim, BLOCK), `values` (layers, kv_heads, blocks, BLOCK, head_dim in
    whole vectors): lanes are keys where scores are computed, and dimensions where values are summed. Neither is zeroed:
    no position is read before it is written. `pending` is the tree of the last step, until a commit claims it or
    anything else overwrites it. `start` is what that step left for speculative streams, where there are any; a commit
    keeps it.
    """

    def __init__(self, config: ModelConfig, capacity: int) -> None:
        layers, heads, dim = config.num_layers, config.num_kv_heads, config.head_dim
        blocks = -(-capacity // BLOCK)
        self._config = config
        self.capacity = capacity
        self.length = 0
        self.pending: DraftTree | None = None
        self.start: StreamStart | None = None
        self.keys = _aligned((layers, heads, blocks, dim, BLOCK))
        self.values = _aligned((layers, heads, blocks, BLOCK, -(-dim // LANES) * LANES))

    @property
    def view(self) -> CacheView:
        """The same for the library."""
        return CacheView(
            self.keys.ctypes.data_as(ctypes.c_void_p), self.values.ctypes.data_as(ctypes.c_void_p), self.keys.shape[2]
        )

    def forget_step(self) -> None:
        """No step is pending any more, and no stream can start."""
        self.pending = None
        self.start = None

    def end_step(self, path: Sequence[int]) -> None:
        """The rows of the pending tree's nodes `path` lie in their final places: they are committed."""
        self.length += len(path)
        self.pending = None
        if self.start is not None:
            self.start = replace(self.start, last=path[-1])

    def copy(self) -> KeyValueCache:
        """An independent cache of the same capacity that holds the committed tokens."""
        twin = KeyValueCache(self._config, self.capacity)
        used = -(-self.length // BLOCK)
        twin.keys[:, :, :used] = self.keys[:, :, :used]
        twin.values[:, :, :used] = self.values[:, :, :used]
        twin.length = self.length
        return twin


def _aligned(shape: tuple[int, ...]) -> NDArray[np.float32]:
    size = int(np.prod(shape, dtype=np.int64))
    raw = np.empty(size + _ALIGNMENT // 4, dtype=np.float32)
    start = -raw.ctypes.data % _ALIGNMENT // 4
    return raw[start : start + size].reshape(shape)
