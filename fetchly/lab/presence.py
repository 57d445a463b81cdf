"""The text that a model is shown, and a right value in; whether the value stands there out.

Conservative on purpose: what counts as standing there could be copied, or read off, by a model that saw this text
alone. A text stands there where its words do, in order, punctuation and white space aside, and never as part of a
longer word. A number, a date, a duration or a currency stands there where one block says the same, in whatever form; a
bare number is no duration and no yield unless its block is short, or speaks of servings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from fetchly.lab.folding import fold, fold_inside, similarity, squash, token_counts, tokens
from fetchly.lab.quantities import amounts, currencies, currency_symbols, first_date, minutes, month_of, numbers
from fetchly.lab.scoring import SAME_TEXT, FieldKind, alternatives, entries, form

SHORTEST_LOOSE = 4
"""Letters and digits below which a text must stand there with its punctuation: `C++` is not `C`."""
DATE_SPAN = 6
"""Day, month and year stand together where this many words and numbers in a row hold them."""
SHORT_LINE = 40
"""A line this short is a label with its value: there a bare number may be minutes or servings."""

_MONTH = re.compile(r"\d{4}-\d\d")
_DATE_PART = re.compile(r"\d+|[^\W\d_]+")
_TIME = re.compile(
    r"(?:(\d+)\s*(?:d|days?|tage?n?|jours?|días?)\b\W{0,3})?"
    r"(?:(\d+ \d+/\d+|\d+/\d+|\d+(?:[.,]\d+)?)\W?(?:h|hrs?|hours?|std|stunden?|heures?|horas?|ore|ora|uur|uren|timm\w*|"
    r"timer?|tim|godz\w*|hod\w*|óra|tuntia?|ч\w*)\b\.?(?:\s*(?:hrs?|h|and|und|et|y|e|en|og|och|,)\s*)?\s*)?"
    r"(?:(\d+)\W?(?:m|mins?|minut\w*|perc|мин\w*|λεπτ\w*|分\w*)?(?!\w))?"
)
_TIME_UNIT = re.compile(r"[^\W\d_]|分")
_CLOCK = re.compile(r"(?<![\d:])(\d{1,2}):(\d\d)(?![\d:])")
_ISO = re.compile(r"\bp(?:\d+d)?t?(?:\d+h)?(?:\d+m)?(?:\d+s)?\b")
_SERVINGS = re.compile(
    r"serv|yield|portion|makes?\b|person|people|porc|porç|porzion|dose|raciones|ración|cookies|pieces|stück|st\b|"
    r"adag|annos|hapje|порц|人分|für|for\b|pour\b|para\b|voor\b|till\b|til\b|antal|quantit"
)


@dataclass(frozen=True, slots=True)
class _ShownLine:
    folded: str
    words: tuple[str, ...]


class ShownText:
    """Blocks of text in reading order; `joined[i]` says that block i follows block i - 1 without a gap.

    A text may run over blocks that follow each other; a number, a date or a duration stands in one block.
    """

    def __init__(self, blocks: Sequence[str], joined: Sequence[bool], lang: str | None = None) -> None:
        assert len(blocks) == len(joined)
        self._lang = (lang or "").split("-")[0].lower()
        self._lines = [_line(block) for block in blocks]
        stretches: list[list[_ShownLine]] = []
        for line, follows in zip(self._lines, joined, strict=True):
            if follows and stretches:
                stretches[-1].append(line)
            else:
                stretches.append([line])
        self._stretches = [
            _ShownLine(" ".join(line.folded for line in stretch), tuple(w for line in stretch for w in line.words))
            for stretch in stretches
        ]
        self._run = "\n".join(f" {' '.join(stretch.words)} " for stretch in self._stretches)

    def share(self, kind: FieldKind, is_list: bool, gold: Any) -> float:
        """The share of a field's right value that stands here, 0 to 1: of a list, of names and of tags each entry
        counts alike; of alternatives one is enough."""
        if is_list or kind in ("names", "tags"):
            wanted = entries(kind, gold)
            return sum(self._has_text(entry) for entry in wanted) / len(wanted) if wanted else 0.0
        return float(any(self._has(kind, option) for option in alternatives(gold)))

    def missing(self, kind: FieldKind, is_list: bool, gold: Any) -> list[str]:
        """The parts of a value that do not stand here, folded."""
        if is_list or kind in ("names", "tags"):
            return [entry for entry in entries(kind, gold) if not self._has_text(entry)]
        return [] if self.share(kind, is_list, gold) else [fold(gold)]

    def _has(self, kind: FieldKind, value: Any) -> bool:
        if kind == "number":
            wanted = form(kind, value)
            return any(wanted in numbers(line.folded) for line in self._lines) or self._has_text(fold(value))
        if kind in ("date", "date-time"):
            found = fold(value) if _MONTH.fullmatch(fold(value)) else first_date(fold(value))
            return self._has_date(found) if found else self._has_text(fold(value))
        if kind == "minutes":
            return self._has_minutes(minutes(fold(value)) or fold(value))
        if kind == "yield":
            return self._has_text(fold(value)) or self._has_yield(amounts(fold(value)))
        if kind == "currency":
            return any(self._has_currency(code) for code in currencies(fold(value)))
        if kind == "text" and self._has_alike(fold(value)):
            return True
        return self._has_text(fold(value)) or (kind == "string" and self._has_letters(fold(value)))

    def _has_text(self, folded: str) -> bool:
        words = tokens(folded)
        if not words or f" {' '.join(words)} " not in self._run:
            return False
        return len(squash(folded)) >= SHORTEST_LOOSE or any(folded in line.folded for line in self._lines)

    def _has_letters(self, folded: str) -> bool:
        """One block, or blocks in a row, that say the same letters and digits, however they are cut into words."""
        letters = squash(folded)
        if len(letters) < SHORTEST_LOOSE:
            return False
        for stretch in self._stretches:
            ends = {0}
            at = 0
            for word in stretch.words:
                at += len(word)
                ends.add(at)
            text, start = "".join(stretch.words), -1
            while (start := text.find(letters, start + 1)) >= 0:
                if start in ends and start + len(letters) in ends:
                    return True
        return False

    def _has_alike(self, folded: str) -> bool:
        """A block that is the same long text but for a few words."""
        wanted = token_counts(folded)
        size = sum(wanted.values())
        near = (line for line in self._lines if size * 0.6 <= len(line.words) <= size * 1.6)
        return any(similarity(wanted, token_counts(line.folded)) >= SAME_TEXT for line in near)

    def _has_date(self, date: str) -> bool:
        year, month, *day = (int(part) for part in date.split("-"))
        wanted_day = day[0] if day else None
        return any(_says_date(line.folded, year, month, wanted_day, self._lang) for line in self._lines)

    def _has_minutes(self, wanted: str) -> bool:
        return any(wanted in _durations(line.folded) for line in self._lines)

    def _has_yield(self, wanted: Iterable[str]) -> bool:
        return any(
            numbers(line.folded).intersection(wanted) and (_SERVINGS.search(line.folded) or len(line.folded) <= 3)
            for line in self._lines
        )

    def _has_currency(self, code: str) -> bool:
        signs = "|".join(re.escape(sign) for sign in (code, *currency_symbols(code)))
        beside = re.compile(rf"(?<![^\W\d_])(?:{signs})\W{{0,2}}\d|\d\W{{0,3}}(?:{signs})(?![^\W\d_])")
        alone = re.compile(rf"(?<!\w){re.escape(code)}(?!\w)")
        return any(beside.search(line.folded) or alone.search(line.folded) for line in self._lines)


def _line(block: str) -> _ShownLine:
    folded = fold_inside(block)
    return _ShownLine(folded, tuple(tokens(folded)))


def _says_date(text: str, year: int, month: int, day: int | None, lang: str) -> bool:
    if f"{year}{month:02}{day or 0:02}" in text:
        return True
    parts = _DATE_PART.findall(text)
    for at, part in enumerate(parts):
        if part not in (str(year), f"{year % 100:02}"):
            continue
        for start in range(max(0, at - DATE_SPAN + 1), at + 1):
            others = parts[start:at] + parts[at + 1 : start + DATE_SPAN]
            months = [i for i, other in enumerate(others) if _is_month(other, month, lang)]
            days = [i for i, other in enumerate(others) if other.isdecimal() and int(other) == day]
            if months and (day is None or any(i != j for i in months for j in days)):
                return True
    return False


def _is_month(part: str, month: int, lang: str) -> bool:
    if part.isdecimal():
        return int(part) == month
    return len(part) >= 3 and (month_of(part) == month or any(part.startswith(n) for n in _month_stems(month, lang)))


@cache
def _month_stems(month: int, lang: str) -> tuple[str, ...]:
    """How the names of a month begin in a language (CLDR), folded; nothing for a language that is not known."""
    from babel import Locale, UnknownLocaleError

    try:
        locale = Locale.parse(lang)
    except (UnknownLocaleError, ValueError, TypeError):
        return ()
    names = {
        fold(locale.months[use][width][month]) for use in ("format", "stand-alone") for width in ("wide", "abbreviated")
    }
    return tuple(name for name in names if len(name) >= 3 and not name.isdecimal())


def _durations(text: str) -> frozenset[str]:
    """Every duration of a line in minutes: `1 h 20 min` is 80. Of a short line, every number too."""
    found: set[str] = set()
    for match in _TIME.finditer(text):
        days, hours, rest = match.groups()
        if not (days or hours or (rest and _TIME_UNIT.search(match[0]))):
            continue
        total = 1440 * float(days or 0) + 60 * _amount(hours) + float(rest or 0)
        found.add(f"{total:g}")
    found.update(f"{int(m[1]) * 60 + int(m[2])}" for m in _CLOCK.finditer(text))
    found.update(read for m in _ISO.finditer(text) if len(m[0]) > 1 and (read := minutes(m[0])))
    if len(text) <= SHORT_LINE:
        found.update(numbers(text))
    return frozenset(found)


def _amount(text: str | None) -> float:
    if not text:
        return 0.0
    if "/" in text:
        whole, _, part = text.rpartition(" ")
        over, _, under = part.partition("/")
        return float(whole or 0) + (int(over) / int(under) if int(under) else 0.0)
    return float(text.replace(",", "."))
