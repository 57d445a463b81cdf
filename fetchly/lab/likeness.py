"""The lines of a page and a text of several words in; the span of each line that is most like it out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from fetchly.lab.folding import fold, similarity, token_counts
from fetchly.lab.places import Place, Places

LEAST_TOKENS = 4
"""A text of fewer words is never found by likeness: two of three words may be another thing."""

_NEAR = 3
_MOST_ENDS = 8
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_]+")
_SENTENCE_END = frozenset(".!?…。！？")


@dataclass(frozen=True, slots=True)
class _Word:
    start: int
    end: int
    folded: str


class Likeness:
    """Compares texts with the lines of one page by token F1 (as the scorer does)."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._words: dict[int, tuple[_Word, ...]] = {}

    def of(self, text: str, least: float = 0.8) -> Iterator[Place]:
        """Spans with a token F1 of `least` or more, one a line, likest first."""
        wanted = token_counts(fold(text))
        size = wanted.total()
        if size < LEAST_TOKENS:
            return
        found: list[tuple[float, Place]] = []
        for line in range(len(self._places.lines)):
            words = self._line(line)
            if sum(word.folded in wanted for word in words) * 2 < size:
                continue
            place = self._likest(line, words, wanted, size, least)
            if place is not None:
                found.append((-self._score(place, wanted), place))
        yield from (place for _, place in sorted(found))

    def _line(self, line: int) -> tuple[_Word, ...]:
        if line not in self._words:
            text = self._places.lines[line].text
            self._words[line] = tuple(_Word(m.start(), m.end(), _folded(m[0])) for m in _WORD.finditer(text))
        return self._words[line]

    def _likest(
        self, line: int, words: tuple[_Word, ...], wanted: Counter[str], size: int, least: float
    ) -> Place | None:
        """The likest run of words of a line, from its first shared word to its last, or to the ends of the line where
        they are near; None where it is less like than `least`."""
        best: _Run | None = None
        score = 0.0
        for end in _best_ends(words, wanted, size):
            known = [i for i in range(max(0, end - size), end) if words[i].folded in wanted]
            run = self._run(line, words, known[0], known[-1])
            if run is not None and self._score(run.tight, wanted) > score:
                best, score = run, self._score(run.tight, wanted)
        if best is None:
            return None
        if self._score(best.wide, wanted) >= least:
            return best.wide
        return best.tight if score >= least else None

    def _run(self, line: int, words: tuple[_Word, ...], first: int, last: int) -> _Run | None:
        text = self._places.lines[line].text
        start, end = words[first].start, words[last].end
        end += text[end : end + 1] in _SENTENCE_END
        tight = self._places.widened(line, start, end)
        wide_end = len(text) if last >= len(words) - 1 - _NEAR else end
        wide = self._places.widened(line, 0 if first <= _NEAR else start, wide_end)
        return _Run(tight, wide) if tight is not None and wide is not None else None

    def _score(self, place: Place, wanted: Counter[str]) -> float:
        return similarity(token_counts(fold(place.text)), wanted)


@dataclass(frozen=True, slots=True)
class _Run:
    """A run of words, and the same up to the ends of its line where they are near."""

    tight: Place
    wide: Place


def _best_ends(words: tuple[_Word, ...], wanted: Counter[str], size: int) -> list[int]:
    """Where the windows of `size` words end that share most with `wanted`; none where nothing is shared."""
    inside: Counter[str] = Counter()
    shared, best = 0, 1
    ends: list[int] = []
    for index, word in enumerate(words):
        inside[word.folded] += 1
        shared += inside[word.folded] <= wanted[word.folded]
        if index >= size:
            gone = words[index - size].folded
            shared -= inside[gone] <= wanted[gone]
            inside[gone] -= 1
        if shared > best:
            best, ends = shared, []
        if shared == best and len(ends) < _MOST_ENDS:
            ends.append(index + 1)
    return ends


@lru_cache(maxsize=1 << 16)
def _folded(word: str) -> str:
    return fold(word)
