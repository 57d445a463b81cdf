"""A document in, every place of a text in it out: whole words before parts of words, exactly before folded."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fetchly.goods import Document

_QUOTES = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛′´`", "'"),
        **dict.fromkeys("“”„‟″«»", '"'),
        **dict.fromkeys("‐‑‒–—−", "-"),
    }
)


@dataclass(frozen=True, slots=True)
class Place:
    """Offsets in Document.text, within block number `block`."""

    block: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Folded:
    """A text without differences of case, space and quotes; `origin[i]` is where its character i came from."""

    text: str
    origin: Sequence[int]


class TextSearch:
    """Places of texts in one document. What was sought once is kept: list entries often share a value."""

    def __init__(self, document: Document) -> None:
        self._text = document.text
        self._starts = [block.start for block in document.blocks]
        self._ends = [block.end for block in document.blocks]
        self._folded: Folded | None = None
        self._found: dict[str, tuple[Place, ...]] = {}

    def places(self, text: str) -> tuple[Place, ...]:
        """The places of a text in reading order, of the best kind that there is; never across two blocks."""
        if text not in self._found:
            self._found[text] = self._search(text)
        return self._found[text]

    def _search(self, text: str) -> tuple[Place, ...]:
        wanted = fold(text).text
        if not wanted:
            return ()
        exact = tuple(self._exact(text))
        if whole := tuple(filter(self._is_whole, exact)):
            return whole
        loose = tuple(self._loose(wanted))
        return tuple(filter(self._is_whole, loose)) or exact or loose

    def _exact(self, text: str) -> Iterator[Place]:
        for at in _occurrences(self._text, text):
            yield from self._in_block(at, at + len(text))

    def _loose(self, wanted: str) -> Iterator[Place]:
        if self._folded is None:
            lines = [self._text[start:end] for start, end in zip(self._starts, self._ends, strict=True)]
            self._folded = _fold_lines(lines, self._starts)
        folded = self._folded
        for at in _occurrences(folded.text, wanted):
            end = at + len(wanted)
            if _between_characters(folded, at) and _between_characters(folded, end):
                yield from self._in_block(folded.origin[at], folded.origin[end - 1] + 1)

    def _in_block(self, start: int, end: int) -> Iterator[Place]:
        block = bisect_right(self._starts, start) - 1
        if block >= 0 and end <= self._ends[block]:
            yield Place(block, start, end)

    def _is_whole(self, place: Place) -> bool:
        low, high = self._starts[place.block], self._ends[place.block]
        return not any(
            low < at < high and self._text[at - 1].isalnum() and self._text[at].isalnum()
            for at in (place.start, place.end)
        )


def fold(text: str) -> Folded:
    """A text with case, white space, quotes, dashes and compatibility forms folded, invisible characters dropped."""
    if text.isascii() and " ".join(text.split()) == text and text.isprintable():
        return Folded(text.lower().replace("`", "'"), range(len(text)))
    out: list[str] = []
    origin: list[int] = []
    for index, char in enumerate(text):
        if char.isspace():
            if out and out[-1] != " ":
                out.append(" ")
                origin.append(index)
            continue
        if unicodedata.category(char) == "Cf":
            continue
        for piece in unicodedata.normalize("NFKD", char.translate(_QUOTES)).casefold():
            if not piece.isspace():
                out.append("/" if piece == "\u2044" else piece)
                origin.append(index)
    if out and out[-1] == " ":
        del out[-1], origin[-1]
    return Folded("".join(out), origin)


def _fold_lines(lines: list[str], starts: list[int]) -> Folded:
    """Blocks folded and joined by line breaks, which no folded text holds."""
    pieces: list[str] = []
    origin: list[int] = []
    for line, start in zip(lines, starts, strict=True):
        folded = fold(line)
        pieces.append(folded.text)
        origin.extend(start + at for at in folded.origin)
        origin.append(start + len(line))
    return Folded("\n".join(pieces), origin)


def _occurrences(text: str, needle: str) -> Iterator[int]:
    """Every start of a needle, overlapping ones left out."""
    at = text.find(needle) if needle else -1
    while at >= 0:
        yield at
        at = text.find(needle, at + len(needle))


def _between_characters(folded: Folded, at: int) -> bool:
    """Whether a folded offset lies between two characters of the page, accents included."""
    if not 0 < at < len(folded.text):
        return True
    return folded.origin[at] != folded.origin[at - 1] and not unicodedata.combining(folded.text[at])
