"""The prompt and the output so far in; continuations copied from them out: the longest match first.

Prompt lookup (Saxena 2023) over an n-gram index of tokens that grows with the output. Under a JSON grammar the copy is
told what a line of the page becomes in a string: its end closes the string, and the item after it is the next line.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fetchly_llm.speculation.line_ends import LineEnds
from fetchly_llm.speculation.source import Candidate

LONGEST = 8
"""Tokens of context that a match is compared over; longer ones count as equally good."""

_PLACES = 64  # of one n-gram, the latest, that are compared
_CANDIDATES = 4
# How often the best continuation of a match of so many tokens is right, before anything is measured.
_CHANCES = (0.0, 0.2, 0.4, 0.55, 0.65, 0.7, 0.75, 0.8, 0.85)
_NEXT_BEST = 0.4
_CLOSE, _CLOSE_GLUED, _NEXT_LINE = 0.8, 0.6, 0.4

# Grades: plain copies by length and rank, then the others by what they are.
_GRADE_CLOSE = (LONGEST + 1) * _CANDIDATES
_GRADE_GLUED = _GRADE_CLOSE + 8
_GRADE_NEXT = _GRADE_GLUED + 8


@dataclass(frozen=True, slots=True)
class _Match:
    """`length` tokens before `place` equal the end of the context."""

    length: int
    place: int


class LookupSource:
    """Copies from prompt and output.

    `keys[token]` is the id that stands for a token where contexts are compared (`LineEnds`, or the same id for words
    with and without a leading space). `ends` is given under a JSON grammar.
    """

    name = "lookup"

    def __init__(self, prompt_ids: Sequence[int], keys: Sequence[int], ends: LineEnds | None = None) -> None:
        self._key_of = keys
        self._ends = ends
        self._tokens: list[int] = []
        self._keys: list[int] = []
        self._after_one: defaultdict[int, list[int]] = defaultdict(list)
        self._after_two: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        self.extend(prompt_ids)

    def extend(self, tokens: Sequence[int]) -> None:
        """The text has grown by `tokens`."""
        for token in tokens:
            place = len(self._tokens)
            if self._keys:
                self._after_one[self._keys[-1]].append(place)
            if len(self._keys) > 1:
                self._after_two[self._keys[-2], self._keys[-1]].append(place)
            self._tokens.append(token)
            self._keys.append(self._key_of[token])

    def propose(self, path: Sequence[int]) -> Sequence[Candidate]:
        """What followed the longest matches of the text's end, `path` included, elsewhere in the text."""
        recent = [*self._tokens[-LONGEST - 2 :], *path][-LONGEST - 2 :]
        found: dict[int, Candidate] = {}
        for candidate in self._candidates(recent):
            known = found.get(candidate.token)
            if known is None or known.probability < candidate.probability:
                found[candidate.token] = candidate
        return tuple(found.values())

    def _candidates(self, recent: Sequence[int]) -> Iterator[Candidate]:
        matches = self._longest(recent[-LONGEST:])
        for rank, match in enumerate(matches):
            share = _NEXT_BEST**rank
            token = self._tokens[match.place]
            grade = match.length * _CANDIDATES + rank
            yield Candidate(token, _CHANCES[match.length] * share, grade)
            if self._ends is not None and rank == 0:
                yield from self._closing(self._ends, match)
        if self._ends is not None and len(recent) > 1 and self._ends.opens(recent[-1]):
            yield from self._next_lines(self._ends, recent)

    def _closing(self, ends: LineEnds, match: _Match) -> Iterator[Candidate]:
        """The ends of a JSON string, where the line that is copied ends, or does with the token that comes next."""
        if ends.breaks(self._tokens[match.place]):
            for number, closer in enumerate(ends.closers):
                yield Candidate(closer, _CLOSE * _CHANCES[match.length] * _NEXT_BEST**number, _GRADE_CLOSE + number)
        elif match.place + 1 < len(self._tokens) and ends.breaks(self._tokens[match.place + 1]):
            for number, glued in enumerate(ends.glued(self._tokens[match.place])):
                if glued is not None:
                    chance = _CLOSE_GLUED * _CHANCES[match.length] * _NEXT_BEST**number
                    yield Candidate(glued, chance, _GRADE_GLUED + number)

    def _next_lines(self, ends: LineEnds, recent: Sequence[int]) -> Iterator[Candidate]:
        """The beginnings of the lines after those that the last string was copied from."""
        before = recent[:-1]
        if ends.closes(before[-1]):
            before = before[:-1]
        for rank, match in enumerate(self._longest(before[-LONGEST:])):
            place = match.place
            if not ends.breaks(self._tokens[place]):
                continue
            while place < len(self._tokens) and ends.marks(self._tokens[place]):
                place += 1
            if place < len(self._tokens):
                yield Candidate(
                    self._key_of[self._tokens[place]],
                    _NEXT_LINE * _NEXT_BEST**rank,
                    _GRADE_NEXT + min(match.length, LONGEST // 2) * _CANDIDATES + rank,
                )

    def _longest(self, context: Sequence[int]) -> list[_Match]:
        """For each of the best few continuations, its longest (then most frequent, then latest) match."""
        keys = [self._key_of[token] for token in context]
        places: Sequence[int] = ()
        if len(keys) > 1:
            places = self._after_two.get((keys[-2], keys[-1]), ())
        if keys and not places:
            places = self._after_one.get(keys[-1], ())
        best: dict[int, tuple[int, int, int]] = {}  # token: length, how many places, latest place
        for place in places[-_PLACES:]:
            length = self._common(keys, place)
            token = self._tokens[place]
            known = best.get(token, (0, 0, 0))
            if known[0] <= length:
                best[token] = (length, known[1] + 1 if known[0] == length else 1, place)
        ranked = sorted(best.values(), reverse=True)[:_CANDIDATES]
        return [_Match(length, place) for length, _, place in ranked]

    def _common(self, keys: Sequence[int], place: int) -> int:
        """How many tokens before `place` equal the end of the context."""
        length = 0
        for key in reversed(keys):
            place -= 1
            if place < 0 or self._keys[place] != key:
                break
            length += 1
        return length
