"""The spans an array has taken so far in; whether one, or any that begins so, stands further down the page, out.

The entries of an array are places of the page, one behind the other: each begins where the one before it ends, or
later. Of the places at which a text stands the first that fits is taken, which leaves most for the entries to come. So
a list that has run through a page ends, and does not go on with pieces of what it has.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fetchly_llm.grammar.choices import beginning_with
from fetchly_llm.grammar.spans import SpanBounds, SpanIndex, spelling
from fetchly_llm.grammar.vocabulary import Vocabulary


class OpenPlace(NamedTuple):
    """A place where a span may begin: the JSON spelling of the longest one, and its offset."""

    spelt: bytes
    start: int


class PageSpans:
    """The spans of a source within bounds; with `once` each text is taken once. Immutable."""

    def __init__(self, index: SpanIndex, bounds: Sequence[SpanBounds], *, once: bool) -> None:
        self.index = index
        self.bounds = tuple(bounds)
        self.once = once

    @cached_property
    def open(self) -> tuple[OpenPlace, ...]:
        """Every place where a span may begin, by spelling."""
        longest = ((self.index.longest_from(start, self.bounds), start) for start in self.index.starts)
        return tuple(sorted(OpenPlace(spelt, start) for spelt, start in longest if spelt is not None))

    @cached_property
    def spellings(self) -> tuple[bytes, ...]:
        """Those of the open places, in their order."""
        return tuple(place.spelt for place in self.open)

    @cached_property
    def last(self) -> int:
        """The last offset at which a span may begin; -1 where there is none."""
        return max((place.start for place in self.open), default=-1)

    def ends(self, start: int) -> Sequence[int]:
        """Ends of the spans from `start`, ascending."""
        return sorted({end for each in self.bounds for end in self.index.ends_from(start, each, 1)})


class Places:
    """How far down the page an array has come. Immutable, and a function of the entries in their order."""

    __slots__ = ("_dead", "_end", "_open", "_previous", "_spans", "_spellings", "_values")

    def __init__(self, spans: PageSpans, previous: Places | None = None) -> None:
        self._spans = spans
        self._previous = previous
        self._end = 0
        self._values: frozenset[str] = frozenset()
        self._open: Sequence[OpenPlace] | None = None  # those from `_end` on; worked out on first use
        self._spellings: Sequence[bytes] = ()
        self._dead: frozenset[int] | None = None if previous else frozenset()

    def add(self, value: str) -> Places:
        """These entries and one more, `value`, which must be allowed."""
        start = self._next(value)
        assert start is not None, "an entry stands further down the page"
        made = Places(self._spans, self)
        made._end = start + len(value)
        made._values = self._values | {value} if self._spans.once else self._values
        return made

    def allows(self, value: str) -> bool:
        """Whether `value`, one of the spans, stands further down."""
        return value not in self._values and self._next(value) is not None

    def allows_prefix(self, begun: bytes) -> bool:
        """Whether some span whose JSON spelling begins with `begun` stands further down."""
        if not begun and not self._values:  # asked at every comma
            return self._spans.last >= self._end
        places = self._open_places()
        rank = bisect_left(self._spellings, begun)
        while rank < len(places) and self._spellings[rank].startswith(begun):
            if not self._values or self._has_new(places[rank].start, begun):
                return True
            rank += 1
        return False

    def dead_tokens(self, row: NDArray[np.int32], begun: bytes, vocabulary: Vocabulary) -> NDArray[np.int64]:
        """The tokens that lead, within the string that has `begun`, where nothing is left; `row` is not looked at.

        Only what begins at a place that was passed, or as an entry that may not come again, can be dead.
        """
        if not begun:
            return np.array(sorted(self._dead_starts(vocabulary)), dtype=np.int64)
        within = beginning_with(self._spans.spellings, begun)
        passed = {place.spelt for place in self._spans.open[within.start : within.stop] if place.start < self._end}
        passed |= {spelt for value in self._values if (spelt := spelling(value)).startswith(begun)}
        tokens = {token for spelt in passed for token in vocabulary.beginnings(spelt[len(begun) :])}
        dead = [token for token in tokens if not self.allows_prefix(begun + vocabulary[token])]
        return np.array(dead, dtype=np.int64)

    def _dead_starts(self, vocabulary: Vocabulary) -> frozenset[int]:
        """The tokens that begin a span somewhere, but none further down; worked out from one entry to the next."""
        waiting: list[Places] = []
        places = self
        while places._dead is None:
            waiting.append(places)
            assert places._previous is not None, "nothing is dead before the first entry"
            places = places._previous
        dead = places._dead
        for places in reversed(waiting):
            assert places._previous is not None
            passed = {place.spelt for place in places._previous._open_places() if place.start < places._end}
            passed |= {spelling(value) for value in places._values - places._previous._values}
            tokens = {token for spelt in passed for token in vocabulary.beginnings(spelt)} - dead
            dead |= {token for token in tokens if not places.allows_prefix(vocabulary[token])}
            places._dead = dead
        return dead

    def _open_places(self) -> Sequence[OpenPlace]:
        """Where a span may still begin, by spelling."""
        if self._open is None:
            if self._previous is None:
                self._open, self._spellings = self._spans.open, self._spans.spellings
                return self._open
            self._open = [place for place in self._previous._open_places() if place.start >= self._end]
            self._spellings = [place.spelt for place in self._open]
        return self._open

    def _next(self, value: str) -> int | None:
        places = self._spans.index.places(value)
        rank = bisect_left(places, self._end)
        return places[rank] if rank < len(places) else None

    def _has_new(self, start: int, begun: bytes) -> bool:
        """Whether a span from `start` begins with `begun` and is no entry yet, from here or elsewhere."""
        spans = (self._spans.index.text[start:end] for end in self._spans.ends(start))
        return any(value not in self._values and spelling(value).startswith(begun) for value in spans)
