"""A document and a text in, the place of the text on the page out (Evidence), or the plain word that it is not there.

Offsets are exact: `document.text[start:end]` is what the page writes, also where case, white space or quotes differ.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fetchly.extraction.shape import below
from fetchly.goods import Document, Evidence

NOT_FOUND = Evidence(found=False)

_QUOTES = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛′´`", "'"),
        **dict.fromkeys("“”„‟″«»", '"'),
        **dict.fromkeys("‐‑‒–—−", "-"),
    }
)


@dataclass(frozen=True, slots=True)
class Folded:
    """A text without differences of case, space and quotes; `origin[i]` is where its character i came from."""

    text: str
    origin: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Place:
    block: int
    start: int
    end: int


class Grounder:
    """Finds values in one document. Each place is given once while others are free: list entries get their own."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._folded: dict[int, Folded] = {}
        self._used: set[_Place] = set()

    def evidence(self, value: Any, spans: Mapping[str, str]) -> dict[str, Evidence]:
        """Evidence by JSON pointer for every string of a record and every value that was read from a span."""
        return {pointer: self.locate(text) for pointer, text in _texts(value, spans, "")}

    def locate(self, text: str) -> Evidence:
        """Where a text stands: whole words before parts of words, exactly before folded, never across two blocks."""
        if not fold(text).text:
            return NOT_FOUND
        for whole in (True, False):
            for search in (self._exact, self._loose):
                places = [place for place in search(text) if not whole or self._is_whole(place)]
                if places:
                    place = next((free for free in places if free not in self._used), places[0])
                    self._used.add(place)
                    return self._evidence(place)
        return NOT_FOUND

    def _evidence(self, place: _Place) -> Evidence:
        block = self._document.blocks[place.block]
        return Evidence(True, block.css_path, block.text, block.start + place.start, block.start + place.end)

    def _is_whole(self, place: _Place) -> bool:
        text = self._document.blocks[place.block].text
        return not (_within_word(text, place.start) or _within_word(text, place.end))

    def _exact(self, text: str) -> Iterator[_Place]:
        for index, block in enumerate(self._document.blocks):
            for at in _occurrences(block.text, text):
                yield _Place(index, at, at + len(text))

    def _loose(self, text: str) -> Iterator[_Place]:
        wanted = fold(text).text
        for index, block in enumerate(self._document.blocks):
            if index not in self._folded:
                self._folded[index] = fold(block.text)
            folded = self._folded[index]
            for at in _occurrences(folded.text, wanted):
                end = at + len(wanted)
                if _between_characters(folded, at) and _between_characters(folded, end):
                    yield _Place(index, folded.origin[at], folded.origin[end - 1] + 1)


def fold(text: str) -> Folded:
    """A text with case, white space, quotes, dashes and compatibility forms folded, invisible characters dropped."""
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
    return Folded("".join(out), tuple(origin))


def _occurrences(text: str, needle: str) -> Iterator[int]:
    """Every start of a needle, overlapping ones left out."""
    at = text.find(needle) if needle else -1
    while at >= 0:
        yield at
        at = text.find(needle, at + len(needle))


def _within_word(text: str, at: int) -> bool:
    return 0 < at < len(text) and text[at - 1].isalnum() and text[at].isalnum()


def _between_characters(folded: Folded, at: int) -> bool:
    """Whether a folded offset lies between two characters of the page, accents included."""
    if not 0 < at < len(folded.text):
        return True
    return folded.origin[at] != folded.origin[at - 1] and not unicodedata.combining(folded.text[at])


def _texts(value: Any, spans: Mapping[str, str], pointer: str) -> Iterator[tuple[str, str]]:
    """(pointer, text to look for) of every value with evidence; a span stands for the value that was read from it."""
    if pointer in spans:
        yield pointer, spans[pointer]
    elif isinstance(value, str):
        yield pointer, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, spans, below(pointer, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, spans, below(pointer, index))
