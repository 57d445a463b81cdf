"""A cache of the torch reference or of the native back-end in; its keys and values, position by position, out."""

from __future__ import annotations

from fetchly_llm.backends.native.kv_cache import KeyValueCache as NativeCache
from fetchly_llm.backends.torch_reference.kv_cache import KeyValueCache as TorchCache

AnyCache = TorchCache | NativeCache


def stored(cache: AnyCache, positions: int | None = None) -> bytes:
    """Keys and values of the first `positions`, the committed ones where it is not said, in their order."""
    count = cache.length if positions is None else positions
    if isinstance(cache, TorchCache):
        layers, both, blocks, heads, size, dim = cache.storage.shape
        by_position = cache.storage.transpose(3, 4).reshape(layers, both, blocks * size, heads, dim)
        return by_position[:, :, :count].contiguous().numpy().tobytes()
    layers, heads, _, dim, _ = cache.keys.shape
    keys = cache.keys.transpose(0, 1, 3, 2, 4).reshape(layers, heads, dim, -1)[..., :count]
    values = cache.values.reshape(layers, heads, -1, cache.values.shape[-1])
    return keys.tobytes() + values[:, :, :count].tobytes()


def slots(cache: AnyCache) -> int:
    """Positions with storage behind them, those of a tree and those that nothing uses included."""
    return cache.positions if isinstance(cache, TorchCache) else cache.keys.shape[2] * cache.keys.shape[4]


def fill(cache: AnyCache, value: float) -> None:
    """Write `value` everywhere."""
    if isinstance(cache, TorchCache):
        cache.storage.fill_(value)
    else:
        cache.keys.fill(value)
        cache.values.fill(value)
