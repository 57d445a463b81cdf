"""A right value and a page's lines in; the spans that are right for it, best first, out: `convert` turned round.

Nothing is trusted: a span is a candidate only where the caller's judge, which converts and scores it, says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, Literal

from fetchly.extraction import text_search
from fetchly.extraction.decoding import LeafKind
from fetchly.extraction.durations import TimeUnit
from fetchly.lab.folding import fold
from fetchly.lab.likeness import Likeness
from fetchly.lab.places import Place, Places
from fetchly.lab.quantities import currencies, currency_symbols, first_number
from fetchly.lab.runs import (
    as_number,
    date_places,
    duration_places,
    is_iso_date,
    moment_places,
    number_places,
    quantity_places,
    time_places,
)
from fetchly.lab.scoring import FieldKind

How = Literal["exact", "folded", "loose", "converted", "bare", "alike"]
"""How a span gives the value. exact: as the answer writes it; folded: case, space and quotes apart; loose: accents and
punctuation apart; converted: read as the same date, number with its unit, or amount; bare: read as the same number,
which the page gives no unit; alike: a text that the scorer takes for the same."""

RANKS: Mapping[How, int] = {"exact": 0, "folded": 1, "loose": 2, "converted": 3, "bare": 4, "alike": 5}
MOST_CANDIDATES = 60
_LABEL_REACH = 80
_AFTER_REACH = 16
_SMALL, _FEW = 100, 3
# What recipes make, in the languages of Europe: servings, portions, persons, pieces.
_SERVING = re.compile(
    r"\b(?:serv|yield|makes|portion|porci|porz|porç|persona|person|people|pers\b|rende|rinde|ració|racion|pièce|piece"
    r"|stück|stuks|stk|annos|adag|порц)",
    re.IGNORECASE,
)
_WORD_AFTER = re.compile(r"[ \u00a0]?[^\W\d_]+")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A value to find. `options` are the spellings or values of which any is right; `judge` says whether a span is
    right; `unit` is the unit of time that the field counts; `labels` are words that stand beside such a value;
    `spelling` is the value as the page is known to write it."""

    kind: LeafKind
    field_kind: FieldKind
    options: tuple[Any, ...]
    judge: Callable[[str], bool]
    longest: int
    shortest: int = 1
    unit: TimeUnit | None = None
    labels: frozenset[str] = frozenset()
    spelling: str | None = None

    @property
    def is_timed(self) -> bool:
        """Whether the field counts time: a span with its unit is what says it."""
        return self.unit is not None or self.field_kind == "minutes"

    @property
    def is_plain_number(self) -> bool:
        """Whether the field is a number of anything else."""
        return self.kind in ("integer", "number") and not self.is_timed


@dataclass(frozen=True, slots=True)
class Candidate:
    """A span that is right. `labelled`: a word of the field's name stands beside it."""

    place: Place
    how: How
    labelled: bool


class Candidates:
    """Finds values on the lines of one page in one language."""

    def __init__(self, places: Places, lang: str | None) -> None:
        self.places = places
        self._lang = lang
        self._likeness = Likeness(places)

    def of(self, wanted: Wanted) -> tuple[Candidate, ...]:
        """At most MOST_CANDIDATES spans, in no order; none where the lines do not say the value, or only as a number
        that stands about the page for other reasons."""
        found: dict[Place, Candidate] = {}
        judged: dict[str, bool] = {}
        for search in self._searches(wanted):
            for place, how in search:
                if place in found or not wanted.shortest <= len(place.text) <= wanted.longest:
                    continue
                if place.text not in judged:
                    judged[place.text] = wanted.judge(place.text)
                if judged[place.text]:
                    found[place] = Candidate(place, how, self._is_labelled(place, wanted.labels))
                    if len(found) == MOST_CANDIDATES:
                        break
            if found:
                break
        return () if _is_by_chance(wanted, found.values()) else tuple(found.values())

    def _searches(self, wanted: Wanted) -> Iterator[Iterator[tuple[Place, How]]]:
        """Ways to find a value, the next one for where the one before finds nothing."""
        if wanted.spelling is not None:
            if wanted.is_plain_number:
                yield self._numbers_inside(wanted, wanted.spelling)
            yield self._spelled((wanted.spelling,))
        if wanted.kind in ("verbatim", "email"):
            yield self._spelled(wanted.options)
            yield self._read(wanted)
            yield from (self._alike(option) for option in wanted.options if isinstance(option, str))
        elif wanted.kind in ("integer", "number"):
            yield self._numbers(wanted)
            yield ((place, "converted") for place in quantity_places(self.places))
        else:
            yield self._moments(wanted)

    def _spelled(self, options: Sequence[Any]) -> Iterator[tuple[Place, How]]:
        for option in options:
            text = _spelling(option)
            folded = text_search.fold(text).text
            for place in self.places.find(text):
                if place.text == text:
                    yield place, "exact"
                elif text_search.fold(place.text).text == folded:
                    yield place, "folded"
                else:
                    yield place, "loose"

    def _read(self, wanted: Wanted) -> Iterator[tuple[Place, How]]:
        """Spans that say the value of a text field in another form: a date, an amount, a price, a currency."""
        if wanted.field_kind in ("date", "date-time"):
            yield from self._moments(wanted)
        elif wanted.field_kind in ("number", "minutes"):
            yield from self._numbers(wanted)
        elif wanted.field_kind == "yield":
            yield from self._amounts(wanted)
        elif wanted.field_kind == "currency":
            codes = [code for option in wanted.options for code in currencies(fold(option))]
            signs = [sign for code in codes for sign in (code, *currency_symbols(code))]
            for place, _ in self._spelled(list(dict.fromkeys(signs))):
                yield place, "converted"

    def _numbers_inside(self, wanted: Wanted, spelling: str) -> Iterator[tuple[Place, How]]:
        """The bare number of a spelling such as "28 cm": on every page a number is written without its unit."""
        around = [place for place, _ in self._spelled((spelling,))]
        for place, _ in self._numbers(wanted):
            if any(p.line == place.line and p.start <= place.start and place.end <= p.end for p in around):
                yield place, "exact"

    def _numbers(self, wanted: Wanted) -> Iterator[tuple[Place, How]]:
        timed = wanted.is_timed
        if timed:
            for place in duration_places(self.places, self._lang):
                yield place, "converted"
        for option in wanted.options:
            value = as_number(option)
            if value is not None:
                for place in number_places(self.places, value):
                    yield place, "bare" if timed else "converted"

    def _amounts(self, wanted: Wanted) -> Iterator[tuple[Place, How]]:
        """A number with a word for what is served, before or after it: "4 personer", "Serves 4" for "4 servings"."""
        for option in wanted.options:
            value = as_number(first_number(fold(option)))
            for place in number_places(self.places, value) if value is not None else ():
                line = self.places.lines[place.line].text
                word = _WORD_AFTER.match(line, place.end)
                if word and _SERVING.search(word[0]):
                    longer = self.places.widened(place.line, place.start, word.end())
                    if longer is not None:
                        yield longer, "converted"
                elif _SERVING.search(self._before(place)):
                    yield place, "converted"

    def _moments(self, wanted: Wanted) -> Iterator[tuple[Place, How]]:
        if wanted.kind == "duration":
            yield from ((place, "converted") for place in duration_places(self.places, self._lang))
            return
        if wanted.kind == "time":
            yield from ((place, "converted") for place in time_places(self.places))
            return
        for option in wanted.options:
            if is_iso_date(option):
                timed = wanted.kind == "date-time" or (wanted.kind == "verbatim" and len(option) > len("2000-01-01"))
                if wanted.kind == "date-time":
                    yield from ((place, "converted") for place in moment_places(self.places, option))
                for place in date_places(self.places, option, with_time=timed):
                    yield place, "converted"

    def _alike(self, text: str) -> Iterator[tuple[Place, How]]:
        yield from ((place, "alike") for place in islice(self._likeness.of(text), 3))

    def _is_labelled(self, place: Place, labels: frozenset[str]) -> bool:
        """Whether a label stands before a place or just after it."""
        if not labels:
            return False
        line = self.places.lines[place.line].text
        return bool(label_words(f"{self._before(place)} {line[place.end : place.end + _AFTER_REACH]}") & labels)

    def _before(self, place: Place) -> str:
        """What is shown before a place: in its line ("Price: "), and in a short line just above."""
        line = self.places.lines[place.line]
        shift = max(0, len(line.shown) - len(line.text))
        above = self.places.lines[place.line - 1].shown if place.line else ""
        own = line.shown[max(0, place.start + shift - _LABEL_REACH) : place.start + shift]
        return f"{above if len(above) <= _LABEL_REACH else ''} {own}"

    @cached_property
    def line_offsets(self) -> tuple[int, ...]:
        """Where each line begins in the text of all lines."""
        offsets, at = [], 0
        for line in self.places.lines:
            offsets.append(at)
            at += len(line.text) + 1
        return tuple(offsets)

    def position(self, place: Place) -> int:
        """A place's offset in the text of all lines: what nearness is measured by."""
        return self.line_offsets[place.line] + place.start


def _is_by_chance(wanted: Wanted, found: Collection[Candidate]) -> bool:
    """A small number, or one without its unit, is on most pages somewhere: without a label near it, it says nothing."""
    if any(candidate.labelled or candidate.how not in ("converted", "bare") for candidate in found):
        return False
    if all(candidate.how == "bare" for candidate in found):
        return bool(found)
    small = any(value is not None and abs(value) < _SMALL for value in map(as_number, wanted.options))
    return wanted.is_plain_number and small and len(found) > _FEW


def label_words(text: str) -> frozenset[str]:
    """The beginnings of the words of a name or a line, by which a label is known in spite of its ending."""
    words = re.findall(r"[^\W\d_]{3,}", _CAMEL.sub(" ", text.replace("_", " ")))
    return frozenset(word.casefold()[:5] for word in words)


def _spelling(option: Any) -> str:
    """A right value as a page would spell it."""
    if isinstance(option, float) and option.is_integer():
        return str(int(option))
    return option if isinstance(option, str) else str(option)
