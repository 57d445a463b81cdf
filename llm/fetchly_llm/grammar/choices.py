"""What the items of an array may be in; how often each, and whether one that begins so is left, out."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Protocol

from fetchly_llm.grammar.spans import SpanBounds, SpanIndex, partial, spelling

if TYPE_CHECKING:
    from fetchly_llm.grammar.uses import Uses


class Choices(Protocol):
    """The strings that an array's items may be, each up to a limit. Immutable."""

    def limit(self, value: str) -> int:
        """How often `value`, one of the choices, may be taken."""
        ...

    def has_free(self, begun: bytes, uses: Uses) -> bool:
        """Whether, beyond `uses`, some choice whose JSON spelling begins with `begun` may be taken."""
        ...


class SpanChoices:
    """The spans of a source within bounds: each as often as it stands there, or `once`."""

    def __init__(self, index: SpanIndex, bounds: Sequence[SpanBounds], *, once: bool) -> None:
        self._index = index
        self._bounds = bounds
        self._once = once

    def limit(self, value: str) -> int:
        """As in Choices."""
        return 1 if self._once else self._index.occurrences(value)

    def has_free(self, begun: bytes, uses: Uses) -> bool:
        """As in Choices."""
        return self._index.has_free(partial(begun), self._bounds, uses.allows)


class ListedChoices:
    """Strings that a schema lists: each once."""

    def __init__(self, values: Collection[str]) -> None:
        self._spellings = sorted(map(spelling, values))

    def limit(self, value: str) -> int:
        """As in Choices."""
        return 1

    def has_free(self, begun: bytes, uses: Uses) -> bool:
        """As in Choices: of those that begin so, fewer are used up than there are."""
        return uses.exhausted_with(begun) < len(beginning_with(self._spellings, begun))


def beginning_with(ordered: Sequence[bytes], prefix: bytes) -> range:
    """Ranks of the members of `ordered` (ascending UTF-8) that begin with `prefix`."""
    low = bisect_left(ordered, prefix)
    return range(low, bisect_left(ordered, prefix + b"\xff", low))  # no UTF-8 text holds the byte ff
