"""The spans an array has taken so far in; whether a span, or any span that begins so, may be taken once more, out."""

from __future__ import annotations

from collections.abc import Sequence

from fetchly_llm.grammar.spans import Partial, SpanBounds, SpanIndex, partial, spelling


class Uses:
    """A multiset of spans that grows by `add`. Immutable, and comparable by the text that led to it alone.

    `index` is the source and `bounds` what an item of the array may be.
    """

    __slots__ = ("_bounds", "_counts", "_dead", "_exhausted", "_index", "_last", "_previous")

    def __init__(self, index: SpanIndex, bounds: Sequence[SpanBounds]) -> None:
        self._index = index
        self._bounds = bounds
        self._previous: Uses | None = None
        self._last: str | None = None
        self._counts: dict[str, int] = {}
        self._exhausted: tuple[str, ...] = ()
        self._dead: tuple[bytes, ...] | None = ()

    def add(self, value: str) -> Uses:
        """These uses and one of `value`."""
        made = Uses(self._index, self._bounds)
        made._previous = self
        made._counts = {**self._counts, value: self._counts.get(value, 0) + 1}
        made._exhausted = self._exhausted
        made._dead = self._dead
        if made._counts[value] >= self._index.occurrences(value):
            made._last = value
            made._exhausted = (*self._exhausted, value)
            made._dead = None
        return made

    def allows(self, value: str) -> bool:
        """Whether the span `value` may be taken once more."""
        return value not in self._exhausted

    def allows_prefix(self, begun: Partial) -> bool:
        """Whether some span that begins with `begun` may be taken once more.

        `begun` must be the beginning of some span within the bounds, as the grammar sees to.
        """
        if not any(value.startswith(begun.value) for value in self._exhausted):
            return True
        return self._index.has_free(begun, self._bounds, self._counts)

    def dead_prefixes(self) -> tuple[bytes, ...]:
        """The shortest JSON spellings all of whose continuations are used up; worked out on first use.

        When a span runs out, only its own prefixes can newly be dead, and if one is, so is every longer one: a
        bisection per span.
        """
        open_ends = []
        uses = self
        while uses._dead is None:
            open_ends.append(uses)
            assert uses._previous is not None
            uses = uses._previous
        dead = uses._dead
        for uses in reversed(open_ends):
            prefix = uses._shortest_dead()
            if prefix is not None:
                dead = (*(other for other in dead if not other.startswith(prefix)), prefix)
            uses._dead = dead
        return dead

    def _shortest_dead(self) -> bytes | None:
        """The shortest dead prefix of the span that ran out last; None where even the whole span can go on."""
        if self._last is None:
            return None
        spelt = spelling(self._last)
        low, high = 0, len(spelt) + 1
        while low < high:
            middle = (low + high) // 2
            if middle > len(spelt):
                break
            if self.allows_prefix(partial(spelt[:middle])):
                low = middle + 1
            else:
                high = middle
        return spelt[:low] if low <= len(spelt) else None
