"""The choices an array has taken so far in; whether one, or any that begins so, may be taken once more, out."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np
from numpy.typing import NDArray

from fetchly_llm.grammar import bitmask
from fetchly_llm.grammar.choices import Choices, beginning_with
from fetchly_llm.grammar.spans import spelling
from fetchly_llm.grammar.vocabulary import Vocabulary

_FEW_PREFIXES = 8  # up to so many, looking up the tokens of each is cheaper than looking at each legal token


class Uses:
    """A multiset of choices that grows by `add`. Immutable, and comparable by the text that led to it alone."""

    __slots__ = ("_choices", "_counts", "_dead", "_exhausted", "_last", "_previous")

    def __init__(self, choices: Choices) -> None:
        self._choices = choices
        self._previous: Uses | None = None
        self._last = b""
        self._counts: dict[str, int] = {}
        self._exhausted: tuple[bytes, ...] = ()  # spellings, ascending
        self._dead: tuple[bytes, ...] | None = ()

    def add(self, value: str) -> Uses:
        """These uses and one of `value`."""
        made = Uses(self._choices)
        made._previous = self
        made._counts = {**self._counts, value: self._counts.get(value, 0) + 1}
        made._exhausted = self._exhausted
        made._dead = self._dead
        if not made.allows(value):
            made._last = spelling(value)
            at = bisect_left(self._exhausted, made._last)
            made._exhausted = (*self._exhausted[:at], made._last, *self._exhausted[at:])
            made._dead = None
        return made

    def allows(self, value: str) -> bool:
        """Whether `value`, one of the choices, may be taken once more."""
        count = self._counts.get(value, 0)
        return count == 0 or count < self._choices.limit(value)

    def allows_prefix(self, begun: bytes) -> bool:
        """Whether some choice whose JSON spelling begins with `begun` may be taken once more.

        Some choice must begin so, as the grammar sees to.
        """
        return not beginning_with(self._exhausted, begun) or self._choices.has_free(begun, self)

    def dead_tokens(self, row: NDArray[np.int32], begun: bytes, vocabulary: Vocabulary) -> NDArray[np.int64]:
        """The tokens of the mask `row` that lead, within the string that has `begun`, where nothing is left.

        Further ones, that are not legal in `row`, may be among them.
        """
        dead = self.dead_prefixes()
        within = beginning_with(dead, begun)  # all longer than `begun`, which is not dead
        if not within:
            return np.empty(0, np.int64)
        if len(within) <= _FEW_PREFIXES:
            return np.concatenate([vocabulary.starting_with(dead[rank][len(begun) :]) for rank in within])
        dead = dead[within.start : within.stop]
        legal = bitmask.legal_tokens(row).tolist()
        return np.array([t for t in legal if passes_any(begun + vocabulary[t], dead)], dtype=np.int64)

    def exhausted_with(self, begun: bytes) -> int:
        """How many choices whose spelling begins with `begun` are used up."""
        return len(beginning_with(self._exhausted, begun))

    def dead_prefixes(self) -> tuple[bytes, ...]:
        """The shortest JSON spellings all of whose continuations are used up, ascending; worked out on first use.

        When a choice runs out, only its own prefixes can newly be dead, and if one is, so is every longer one: a
        bisection per choice. None of them begins another.
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
                within = beginning_with(dead, prefix)
                dead = (*dead[: within.start], prefix, *dead[within.stop :])
            uses._dead = dead
        return dead

    def _shortest_dead(self) -> bytes | None:
        """The shortest dead prefix of the choice that ran out last; None where even the whole of it can go on."""
        low, high = 0, len(self._last) + 1
        while low < high:
            middle = (low + high) // 2
            if middle > len(self._last):
                break
            if self.allows_prefix(self._last[:middle]):
                low = middle + 1
            else:
                high = middle
        return self._last[:low] if low <= len(self._last) else None


def passes_any(text: bytes, prefixes: tuple[bytes, ...]) -> bool:
    """Whether `text` begins with one of `prefixes`, which are ascending and none of which begins another."""
    at = bisect_right(prefixes, text)
    return at > 0 and text.startswith(prefixes[at - 1])
