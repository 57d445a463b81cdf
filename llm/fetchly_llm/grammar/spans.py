r"""A source text in; the spans that an `x-verbatim` string may be out, as chunks for a grammar and counts for a rule.

A span is a run of whole chunks within one line of the source that neither begins nor ends with white space. A chunk is
a word (letters, digits, `_`, with the marks that combine with them), one other character, or, in scripts that write no
spaces between words (Chinese, Japanese, Thai, ...), one letter. Lines end where `str.splitlines` ends them. A character
that the tokenizer cannot spell byte by byte (and a lone surrogate) ends a span like a line break does.
"""

from __future__ import annotations

import json
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

DEFAULT_MAX_LENGTH = 300

# A raw line feed never stands inside a JSON string, so it separates lines among the chunks without ever being written.
BREAK = "\n"

_UNSPACED_SCRIPTS = (
    "CJK ",
    "IDEOGRAPHIC ",
    "HIRAGANA ",
    "KATAKANA",
    "HALFWIDTH KATAKANA",
    "BOPOMOFO ",
    "YI ",
    "THAI ",
    "LAO ",
    "KHMER ",
    "MYANMAR ",
    "TIBETAN ",
    "JAVANESE ",
    "BALINESE ",
    "TAI ",
    "NEW TAI ",
)
_JOINERS = frozenset("\u200c\u200d")

# One letter per character: w word, m mark, u letter of an unspaced script, s white space, b break, o other.
_CHUNKS = re.compile(r"w[wm]*|[uom]m*|[sb]")
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


@lru_cache(maxsize=1 << 16)
def _kind(character: str) -> str:
    if character == BREAK:
        return "b"
    if character.isspace():
        return "s"
    category = unicodedata.category(character)
    if category[0] == "M" or character in _JOINERS:
        return "m"
    if category[0] in "LN" or character == "_":
        return "u" if unicodedata.name(character, "").startswith(_UNSPACED_SCRIPTS) else "w"
    return "o"


def _is_character(character: str) -> bool:
    """Whether UTF-8 has it: lone surrogates are not characters."""
    return not "\ud800" <= character <= "\udfff"


class SpanIndex:
    """The chunks of one source, and what the repetition rule asks about them. Immutable after construction.

    `text` is the source with one BREAK for every line end and every character that cannot be written.
    """

    def __init__(self, source: str, can_write: Callable[[str], bool] = lambda _: True) -> None:
        lines = BREAK.join(source.splitlines())
        unwritable = {ord(c): BREAK for c in set(lines) - {BREAK} if not _is_character(c) or not can_write(c)}
        self.text = lines.translate(unwritable)
        self._kinds = {ord(c): _kind(c) for c in set(self.text)}
        outline = self.text.translate(self._kinds)
        chunks: list[str] = []
        starts: list[int] = []
        ends: list[int] = []
        places: dict[str, list[int]] = {}
        for match in _CHUNKS.finditer(outline):
            start, end = match.span()
            chunks.append(self.text[start:end])
            if outline[start] not in "sb":
                places.setdefault(chunks[-1], []).append(start)
                starts.append(start)
                ends.append(end)
        self.chunks: Sequence[str] = tuple(chunks)
        self._starts = starts
        self._ends = ends
        self._end_set = frozenset(ends)
        self._places = places
        self._sorted_chunks = sorted(places)
        self._spellings = sorted((spelling(c), c) for c in set(self.text) - {BREAK})
        self._counts: dict[str, int] = {}

    @property
    def is_empty(self) -> bool:
        """Whether the source holds no span at all."""
        return not self._starts

    def occurrences(self, value: str) -> int:
        """How often the span `value` stands in the source, overlapping occurrences counted."""
        count = self._counts.get(value)
        if count is None:
            count = sum(start + len(value) in self._end_set for start in self._starts_with(value))
            self._counts[value] = count
        return count

    def count(self, bounds: Sequence[SpanBounds], limit: int) -> int:
        """How many places of the source hold a span that satisfies one of `bounds`, counted up to `limit`."""
        found = 0
        for start in self._starts:
            found += len({end for each in bounds for end in self._ends_from(start, each, 1)})
            if found >= limit:
                return limit
        return found

    def has_free(self, begun: Partial, bounds: Sequence[SpanBounds], uses: Mapping[str, int]) -> bool:
        """Whether some span that begins with `begun` has been used (`uses`) less often than it stands in the source."""
        if begun.tail:
            wholes = self._characters_spelt(begun.tail)
            return any(self.has_free(Partial(begun.value + whole), bounds, uses) for whole in wholes)
        for start in self._starts_with(begun.value):
            for each in bounds:
                for end in self._ends_from(start, each, max(len(begun.value), 1)):
                    value = self.text[start:end]
                    if value not in uses or uses[value] < self.occurrences(value):
                        return True
        return False

    def _characters_spelt(self, beginning: bytes) -> Iterator[str]:
        """The characters of the source whose spelling begins so."""
        for rank in range(bisect_left(self._spellings, (beginning, "")), len(self._spellings)):
            spelt, character = self._spellings[rank]
            if not spelt.startswith(beginning):
                break
            yield character

    def _starts_with(self, value: str) -> Iterator[int]:
        """The offsets at which a span may start and `value` stands."""
        if not value:
            yield from self._starts
            return
        match = _CHUNKS.match(value.translate(self._kinds))
        if match is None:
            return
        first = value[: match.end()]
        if len(first) < len(value):
            yield from (start for start in self._places.get(first, ()) if self.text.startswith(value, start))
            return
        for rank in range(bisect_left(self._sorted_chunks, first), len(self._sorted_chunks)):
            chunk = self._sorted_chunks[rank]
            if not chunk.startswith(first):
                break
            yield from self._places[chunk]

    def _ends_from(self, start: int, bounds: SpanBounds, least: int) -> Sequence[int]:
        """Ends of the spans from `start` that are within `bounds`, at least `least` long and within the line."""
        stop = self.text.find(BREAK, start, start + bounds.maximum + 1)
        last = start + bounds.maximum if stop < 0 else min(stop, start + bounds.maximum)
        low = bisect_left(self._ends, start + max(least, bounds.minimum))
        return self._ends[low : bisect_left(self._ends, last + 1, low)]
