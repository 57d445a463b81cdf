"""A source text in; the spans that an `x-verbatim` string may be out, as chunks for a grammar and counts for a rule.

A span is a run of whole chunks (chunks.py: numbers, words, single signs) within one line of the source that neither
begins nor ends with white space. Lines end where `str.splitlines` ends them. A character that the tokenizer cannot
spell byte by byte (and a lone surrogate) ends a span like a line break does.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, islice
from typing import NamedTuple

from fetchly_llm.grammar.chunks import BREAK, chunks

DEFAULT_MAX_LENGTH = 300

_KEY_LENGTH = 32  # characters by which the places where a span may start are sorted

_CUT_ESCAPE = re.compile(rb"(?<!\\)(?:\\\\)*(\\(?:u[0-9a-f]{0,3})?)\Z")


@dataclass(frozen=True, slots=True)
class SpanBounds:
    """Length limits of a span in characters of the value (not of its JSON spelling), both inclusive."""

    minimum: int = 1
    maximum: int = DEFAULT_MAX_LENGTH


@dataclass(frozen=True, slots=True)
class Partial:
    """A span cut anywhere: the characters that are complete, then the bytes of one whose spelling is not."""

    value: str
    tail: bytes = b""


def escape(text: str) -> str:
    """The JSON spelling of `text` without the quotes: raw UTF-8, the shortest escapes."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def spelling(text: str) -> bytes:
    """The bytes of `escape(text)`."""
    return escape(text).encode()


def partial(raw: bytes) -> Partial:
    """What `raw`, a prefix of a span's JSON spelling, says so far. `raw` may end inside a character or an escape."""
    cut = len(raw) - _incomplete_utf8(raw)
    if cut == len(raw) and (match := _CUT_ESCAPE.search(raw)):
        cut = match.start(1)
    head = raw[:cut].decode()
    return Partial(json.loads(f'"{head}"') if "\\" in head else head, raw[cut:])


def _incomplete_utf8(raw: bytes) -> int:
    """How many bytes at the end of `raw` begin a character without completing it (0 to 3)."""
    for back in range(1, min(4, len(raw) + 1)):
        byte = raw[-back]
        if byte >= 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return back if back < length else 0
        if byte < 0x80:
            return 0
    return 0


class _Start(NamedTuple):
    """An offset at which a span may start, and what stands there."""

    text: str
    offset: int


def _is_character(character: str) -> bool:
    """Whether UTF-8 has it: lone surrogates are not characters."""
    return not "\ud800" <= character <= "\udfff"


class SpanIndex:
    """The chunks of one source, and what the repetition rule asks about them. Immutable after construction.

    `text` is the source with one BREAK for every line end and every character that cannot be written; `starts` are the
    offsets at which a span may begin, ascending.
    """

    def __init__(self, source: str, can_write: Callable[[str], bool] = lambda _: True) -> None:
        lines = BREAK.join(source.splitlines())
        unwritable = {ord(c): BREAK for c in set(lines) - {BREAK} if not _is_character(c) or not can_write(c)}
        self.text = lines.translate(unwritable)
        found = list(chunks(self.text))
        self.chunks: Sequence[str] = tuple(self.text[chunk.start : chunk.end] for chunk in found)
        self.starts = [chunk.start for chunk in found if not chunk.is_space]
        self._ends = [chunk.end for chunk in found if not chunk.is_space]
        self._end_set = frozenset(self._ends)
        self._spellings = sorted((spelling(c), c) for c in set(self.text) - {BREAK})
        self._found: dict[str, Sequence[int]] = {}

    def occurrences(self, value: str) -> int:
        """How often the span `value` stands in the source, overlapping occurrences counted."""
        return len(self.places(value))

    def places(self, value: str) -> Sequence[int]:
        """The offsets in `text` at which the span `value` stands, ascending. Kept: entries ask again and again."""
        found = self._found.get(value)
        if found is None:
            starts = (start for start in self._starts_with(value) if start + len(value) in self._end_set)
            found = self._found[value] = sorted(starts)
        return found

    def count(self, bounds: Sequence[SpanBounds], limit: int) -> int:
        """How many places of the source hold a span that satisfies one of `bounds`, counted up to `limit`."""
        return sum(1 for _ in islice(self._places(bounds), limit))

    def count_distinct(self, bounds: Sequence[SpanBounds], limit: int) -> int:
        """How many different spans satisfy one of `bounds`, counted up to `limit`."""
        found: set[str] = set()
        for start, end in self._places(bounds):
            found.add(self.text[start:end])
            if len(found) >= limit:
                break
        return min(len(found), limit)

    def has_free(self, begun: Partial, bounds: Sequence[SpanBounds], is_free: Callable[[str], bool]) -> bool:
        """Whether `is_free` holds of some span within `bounds` that begins with `begun`."""
        if begun.tail:
            wholes = self._characters_spelt(begun.tail)
            return any(self.has_free(Partial(begun.value + whole), bounds, is_free) for whole in wholes)
        return any(
            is_free(self.text[start:end])
            for start in self._starts_with(begun.value)
            for each in bounds
            for end in self.ends_from(start, each, max(len(begun.value), 1))
        )

    def _places(self, bounds: Sequence[SpanBounds]) -> Iterator[tuple[int, int]]:
        for start in self.starts:
            for end in {end for each in bounds for end in self.ends_from(start, each, 1)}:
                yield start, end

    def _characters_spelt(self, beginning: bytes) -> Iterator[str]:
        """The characters of the source whose spelling begins so."""
        for rank in range(bisect_left(self._spellings, (beginning, "")), len(self._spellings)):
            spelt, character = self._spellings[rank]
            if not spelt.startswith(beginning):
                break
            yield character

    @cached_property
    def _sorted_starts(self) -> Sequence[_Start]:
        """Where a span may start, by the text that begins there. Only a rule that forbids something asks for it."""
        return sorted(_Start(self.text[start : start + _KEY_LENGTH], start) for start in self.starts)

    def _starts_with(self, value: str) -> Iterator[int]:
        """The offsets at which a span may start and `value` stands."""
        if BREAK in value:
            return
        key = value[:_KEY_LENGTH]
        for rank in range(bisect_left(self._sorted_starts, (key, -1)), len(self._sorted_starts)):
            text, start = self._sorted_starts[rank]
            if not text.startswith(key):
                break
            if self.text.startswith(value, start):
                yield start

    def longest_from(self, start: int, bounds: Sequence[SpanBounds]) -> bytes | None:
        """The JSON spelling of the longest span from `start` within one of `bounds`; None where there is none."""
        found = [end for each in bounds if (end := self._last_end(start, each)) is not None]
        return self._whole[self._offsets[start] : self._offsets[max(found)]] if found else None

    def _last_end(self, start: int, bounds: SpanBounds) -> int | None:
        rank = bisect_left(self._ends, self._last(start, bounds) + 1) - 1
        return self._ends[rank] if rank >= 0 and self._ends[rank] >= start + max(1, bounds.minimum) else None

    @cached_property
    def _whole(self) -> bytes:
        """The JSON spelling of the text; `_offsets` says where each character's begins."""
        return b"".join(map(spelling, self.text))

    @cached_property
    def _offsets(self) -> Sequence[int]:
        return [0, *accumulate(len(spelling(character)) for character in self.text)]

    def ends_from(self, start: int, bounds: SpanBounds, least: int) -> Sequence[int]:
        """Ends of the spans from `start` that are within `bounds`, at least `least` long and within the line."""
        low = bisect_left(self._ends, start + max(least, bounds.minimum))
        return self._ends[low : bisect_left(self._ends, self._last(start, bounds) + 1, low)]

    def _last(self, start: int, bounds: SpanBounds) -> int:
        """Where a span from `start` must end: by the longest length, and within the line."""
        stop = self.text.find(BREAK, start, start + bounds.maximum + 1)
        return start + bounds.maximum if stop < 0 else min(stop, start + bounds.maximum)
