from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from fetchly_llm.backend import Backend
from fetchly_llm.prefix_cache import PrefixCache


@dataclass
class RecordedCache:
    tokens: list[int] = field(default_factory=list)


@dataclass
class RecordingBackend:
    """Remembers what was prefilled; refuses what a real back-end would."""

    prefill_chunk: int = 4
    prefilled: list[tuple[int, ...]] = field(default_factory=list)

    def new_cache(self, capacity: int) -> RecordedCache:
        return RecordedCache()

    def fork(self, cache: RecordedCache) -> RecordedCache:
        return RecordedCache(list(cache.tokens))

    def prefill(self, cache: RecordedCache, tokens: Sequence[int]) -> None:
        assert len(cache.tokens) % self.prefill_chunk == 0
        self.prefilled.append(tuple(tokens))
        cache.tokens.extend(tokens)


def prefixes(backend: RecordingBackend, entries: int = 2) -> PrefixCache:
    return PrefixCache(cast(Backend, backend), entries, capacity=64)


def held(result: Any) -> list[int]:
    return cast(RecordedCache, result.cache).tokens


def test_whole_chunks_of_the_shared_prefix_are_computed_once() -> None:
    backend = RecordingBackend()
    cache = prefixes(backend)
    first = cache.prefill([1, 2, 3, 4, 5, 6, 70], shared=6)
    second = cache.prefill([1, 2, 3, 4, 5, 6, 80, 81], shared=6)
    assert first.cached_tokens == 0
    assert second.cached_tokens == 4
    assert held(first) == [1, 2, 3, 4, 5, 6, 70]
    assert held(second) == [1, 2, 3, 4, 5, 6, 80, 81]
    assert backend.prefilled == [(1, 2, 3, 4), (5, 6, 70), (5, 6, 80, 81)]


def test_a_prefix_of_another_schema_is_not_taken_for_ours() -> None:
    cache = prefixes(RecordingBackend())
    cache.prefill([1, 2, 3, 4, 5], shared=4)
    other = cache.prefill([1, 2, 9, 4, 5], shared=4)
    assert other.cached_tokens == 0
    assert held(other) == [1, 2, 9, 4, 5]


def test_a_longer_prefix_grows_from_a_shorter_one() -> None:
    backend = RecordingBackend()
    cache = prefixes(backend)
    cache.prefill([1, 2, 3, 4, 5], shared=4)
    longer = cache.prefill([1, 2, 3, 4, 5, 6, 7, 8, 9], shared=8)
    assert longer.cached_tokens == 4
    assert backend.prefilled[2:] == [(5, 6, 7, 8), (9,)]


def test_the_least_recently_used_prefix_leaves_first() -> None:
    cache = prefixes(RecordingBackend(), entries=2)
    for start in (1, 2, 1, 3):
        cache.prefill([start] * 5, shared=4)
    assert len(cache) == 2
    assert cache.prefill([1] * 5, shared=4).cached_tokens == 4
    assert cache.prefill([2] * 5, shared=4).cached_tokens == 0


def test_no_entries_keeps_nothing_and_a_short_prefix_is_not_kept() -> None:
    nothing = prefixes(RecordingBackend(), entries=0)
    nothing.prefill([1] * 9, shared=8)
    assert len(nothing) == 0
    short = prefixes(RecordingBackend())
    short.prefill([1, 2, 3], shared=3)
    assert len(short) == 0
