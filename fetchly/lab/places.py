"""The lines that values are copied from in; the places where a text stands, as spans that a model may write, out."""

from __future__ import annotations

import html
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from fetchly.extraction.local import span_chunks
from fetchly.extraction.text_search import fold
from fetchly.goods import BlockKind

MOST_PLACES = 1000
"""Occurrences of one text that are looked at: a page may repeat a short one thousands of times."""


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of the source: `text` as spans are taken from it, `shown` as the model sees it, the kind of its block."""

    text: str
    shown: str
    kind: BlockKind


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A span: [start, end) of line `line`, which reads `text` there."""

    line: int
    start: int
    end: int
    text: str


class Places:
    """Searches the lines of one page. Every place is a span that the grammar allows: whole chunks of one line."""

    def __init__(self, lines: Sequence[SourceLine]) -> None:
        self.lines = tuple(lines)
        self._edges: dict[int, _Edges] = {}
        self._origins: dict[int, tuple[int, ...]] = {}

    def find(self, text: str) -> Iterator[Place]:
        """Where a text stands, in the page's own spelling; case, accents, white space and punctuation may differ.

        Only where whole chunks say it ("30" does not stand in "30min"). Signs at the ends are those of `text`, as far
        as the page has them.
        """
        wanted = html.unescape(text).strip()
        core = wanted.translate(_LETTERS)
        if not core:  # a currency sign, a row of stars
            if wanted:
                yield from islice(self.matches(re.compile(re.escape(wanted))), MOST_PLACES)
            return
        lead, tail = _outer_signs(wanted)
        for line, start, end in islice(self._cores(core), MOST_PLACES):
            body = self.lines[line].text
            place = self.widened(line, _back_over(body, start, lead), _forward_over(body, end, tail))
            if place is not None and len(place.text.translate(_LETTERS)) == len(core):
                yield place

    def matches(self, pattern: re.Pattern[str]) -> Iterator[Place]:
        """Every match of a pattern, line by line, its end widened to a whole chunk; not one that begins inside a chunk
        ("built1990" where a page forgets a space)."""
        for number in range(len(self.lines)):
            for match in self.matches_in(number, pattern):
                place = self.widened(number, *match.span())
                if place is not None:
                    yield place

    def matches_in(self, line: int, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
        """The matches in one line. After one that would begin inside a chunk the search goes on at the chunk's end, so
        that it takes nothing with it: the number after "Bb7 5,130" is 5,130."""
        text, edges, at = self.lines[line].text, self._edges_of(line), 0
        while match := pattern.search(text, at):
            chunk = bisect_right(edges.ends, match.start())
            if chunk < len(edges.starts) and edges.starts[chunk] < match.start():
                at = edges.ends[chunk]
                continue
            yield match
            at = match.end() + (not match[0])

    def widened(self, line: int, start: int, end: int) -> Place | None:
        """The shortest span that covers what [start, end) holds beside white space; None where that is no span."""
        edges = self._edges_of(line)
        first = bisect_right(edges.ends, start)
        last = bisect_left(edges.starts, end) - 1
        if first > last:
            return None
        begin, stop = edges.starts[first], edges.ends[last]
        text = self.lines[line].text[begin:stop]
        return Place(line, begin, stop, text) if len(text.splitlines()) == 1 else None

    def link(self, identity: str) -> Place | None:
        """Where the mark of a link or image stands ("Manual [L3]"): its line and its offset in what is shown of it."""
        mark = f"[{identity}]"
        for number, line in enumerate(self.lines):
            at = line.shown.find(mark)
            if at >= 0:
                return Place(number, at, at + len(mark), identity)
        return None

    def _cores(self, core: str) -> Iterator[tuple[int, int, int]]:
        """(line, start, end) of each occurrence of a run of letters and digits."""
        letters, starts = self._letters
        at = letters.find(core)
        while at >= 0:
            line = bisect_right(starts, at) - 1
            origin = self._origin(line)
            first = at - starts[line]
            yield line, origin[first], origin[first + len(core) - 1] + 1
            at = letters.find(core, at + 1)

    @cached_property
    def _letters(self) -> tuple[str, list[int]]:
        """The letters and digits of all lines with a line break between two lines, and where each line begins."""
        parts: list[str] = []
        starts: list[int] = []
        at = 0
        for line in self.lines:
            parts.append(line.text.translate(_LETTERS))
            starts.append(at)
            at += len(parts[-1]) + 1
        return "\n".join(parts), starts

    def _origin(self, line: int) -> tuple[int, ...]:
        """For each letter of a line in `_letters` its offset in the line."""
        if line not in self._origins:
            text = self.lines[line].text
            self._origins[line] = tuple(i for i, char in enumerate(text) for _ in char.translate(_LETTERS))
        return self._origins[line]

    def _edges_of(self, line: int) -> _Edges:
        if line not in self._edges:
            starts: list[int] = []
            ends: list[int] = []
            at = 0
            for chunk in span_chunks(self.lines[line].text):
                if not chunk.isspace():
                    starts.append(at)
                    ends.append(at + len(chunk))
                at += len(chunk)
            self._edges[line] = _Edges(starts, ends)
        return self._edges[line]


@dataclass(frozen=True, slots=True)
class _Edges:
    """Where the chunks of a line start and end, white space left out."""

    starts: Sequence[int]
    ends: Sequence[int]


class _LetterTable(dict[int, str]):
    """For `str.translate`: a character as its letters and digits without case and accents, anything else as nothing."""

    def __missing__(self, code: int) -> str:
        folded = unicodedata.normalize("NFKD", chr(code)).casefold()
        self[code] = "".join(char for char in folded if char.isalnum())
        return self[code]


_LETTERS = _LetterTable()


def _outer_signs(text: str) -> tuple[str, str]:
    """What stands before the first letter or digit of a text, nearest first, and after the last one."""
    inside = [i for i, char in enumerate(text) if char.translate(_LETTERS)]
    return text[: inside[0]][::-1], text[inside[-1] + 1 :]


def _back_over(line: str, start: int, signs: str) -> int:
    """The start of a span, moved back over the signs that the line has before it."""
    for sign in signs:
        at = start - 1
        while at >= 0 and line[at].isspace():
            at -= 1
        if sign.isspace():
            continue
        if at < 0 or fold(line[at]).text != fold(sign).text:
            break
        start = at
    return start


def _forward_over(line: str, end: int, signs: str) -> int:
    """The end of a span, moved on over the signs that the line has after it."""
    for sign in signs:
        at = end
        while at < len(line) and line[at].isspace():
            at += 1
        if sign.isspace():
            continue
        if at == len(line) or fold(line[at]).text != fold(sign).text:
            break
        end = at + 1
    return end
