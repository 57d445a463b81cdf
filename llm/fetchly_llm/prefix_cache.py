"""Prompt prefixes in, caches that already hold them out: what many prompts share is prefilled once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from fetchly_llm.backend import Backend, Cache


@dataclass(frozen=True, slots=True)
class PrefilledPrompt:
    """A cache that holds the prompt, and how many of its tokens came from the prefix cache."""

    cache: Cache
    cached_tokens: int


class PrefixCache:
    """Keeps the caches of the `entries` least recently unused shared prefixes.

    Only whole prefill chunks are handed over, so that a warm start repeats the bits of a cold one.
    """

    def __init__(self, backend: Backend, entries: int, capacity: int) -> None:
        self._backend = backend
        self._entries = entries
        self._capacity = capacity
        self._kept: OrderedDict[tuple[int, ...], Cache] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def prefill(self, tokens: Sequence[int], shared: int) -> PrefilledPrompt:
        """A cache of its own for `tokens`, whose first `shared` are kept for the next caller (whole chunks only)."""
        tokens = tuple(tokens)
        chunk = self._backend.prefill_chunk
        keep = min(shared, len(tokens)) // chunk * chunk if self._entries else 0
        found = self._longest(tokens)
        cache = self._backend.fork(self._kept[found]) if found else self._backend.new_cache(self._capacity)
        cached = len(found)
        done = cached
        if keep > cached:
            self._backend.prefill(cache, tokens[cached:keep])
            self._keep(tokens[:keep], self._backend.fork(cache))
            done = keep
        if len(tokens) > done:
            self._backend.prefill(cache, tokens[done:])
        return PrefilledPrompt(cache, cached)

    def clear(self) -> None:
        """Forget every prefix."""
        self._kept.clear()

    def _longest(self, tokens: tuple[int, ...]) -> tuple[int, ...]:
        hits = [kept for kept in self._kept if tokens[: len(kept)] == kept]
        best = max(hits, key=len, default=())
        if best:
            self._kept.move_to_end(best)
        return best

    def _keep(self, tokens: tuple[int, ...], cache: Cache) -> None:
        self._kept[tokens] = cache
        while len(self._kept) > self._entries:
            self._kept.popitem(last=False)
