"""A text and its language in, the days out that it writes with the name of a month: 3rd of March 2024, 3. März 2024."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fetchly.extraction.calendars import Day, gregorian, persian
from fetchly.extraction.month_names import MonthNames, common_month_names, fold_word, month_names
from fetchly.extraction.written_date import (
    RANGE_TAKEN,
    WrittenDate,
    first_of_range,
    full_year,
    is_list,
    is_range,
    joined,
)

SEVERAL_TAKEN = "several days; the first was taken"

_NUMBER = re.compile(r"(?<![\d:])'?\d{1,4}(?![\d:])")
_TIGHT = re.compile(r"\.?[-\s/.]\s?'?")
_PERSIAN = 100
LONGEST_GAP = 16
LONGEST_FILLER = 4
"""Between day, month and year stand "of", "de", "th,", "gada": at most two short words."""


@dataclass(frozen=True, slots=True)
class _Number:
    value: int
    digits: int
    start: int
    end: int
    apostrophe: bool

    @property
    def is_day(self) -> bool:
        return self.digits <= 2 and 1 <= self.value <= 31 and not self.apostrophe

    @property
    def is_year(self) -> bool:
        return self.digits == 4 and 1000 <= self.value < 3000


@dataclass(frozen=True, slots=True)
class _Roles:
    """What the numbers around a month are: one day, or the first and last of a range or list; a year, or none."""

    days: tuple[_Number, ...]
    year: _Number | None


def named_dates(text: str, lang: str | None) -> list[WrittenDate]:
    """Every date with a month's name of a text with ASCII digits (numbers.plain), in its order.

    Names are looked for in the page's language and in English, then in the most common languages: pages often carry
    their template's language.
    """
    numbers = [
        _Number(int(m[0].strip("'")), len(m[0].strip("'")), m.start(), m.end(), m[0].startswith("'"))
        for m in _NUMBER.finditer(text)
    ]
    if len(numbers) < 2:
        return []
    folded = fold_word(text)
    own = _Text(text, folded, lang, numbers)
    return list(own.dates(month_names(lang))) or list(own.dates(common_month_names()))


@dataclass(frozen=True, slots=True)
class _Text:
    text: str
    folded: str
    lang: str | None
    numbers: list[_Number]

    def dates(self, names: MonthNames) -> Iterator[WrittenDate]:
        opened: tuple[re.Match[str], _Roles] | None = None
        found = list(names.pattern.finditer(self.folded))
        for index, match in enumerate(found):
            least = found[index - 1].end() if index else 0
            most = found[index + 1].start() if index + 1 < len(found) else len(self.text)
            before = [n for n in reversed(self.numbers) if least <= n.start and n.end <= match.start()]
            after = [n for n in self.numbers if match.end() <= n.start and n.end <= most]
            before, after = self._chain(before, match.start()), self._chain(after, match.end())
            roles = self._roles(match, before, after)
            if roles is None or roles.year is None:
                opened = (match, roles) if roles else None
                continue
            month = names.numbers[match[0]]
            date = self._date(match, month, roles)
            if date is not None and opened is not None:
                date = self._from_range(opened[0], names.numbers[opened[0][0]], opened[1], date)
            if date is not None:
                yield date
            opened = None

    def _chain(self, numbers: Sequence[_Number], at: int) -> list[_Number]:
        """The nearest numbers on one side of `at` that only short words part from it and from each other."""
        kept: list[_Number] = []
        for number in numbers[:3]:
            gap = self.text[at : number.start] if number.start >= at else self.text[number.end : at]
            words = re.findall(r"[^\W\d_]+", gap)
            if len(gap) > LONGEST_GAP or len(words) > 2 or any(len(word) > LONGEST_FILLER for word in words):
                break
            if any(mark in gap for mark in ";:|!?"):
                break
            kept.append(number)
            at = number.end if number.start >= at else number.start
        return kept

    def _roles(self, month: re.Match[str], before: list[_Number], after: list[_Number]) -> _Roles | None:
        """Who is day and who is year; the orders of the world's languages, the most telling first."""
        b1, b2 = before[0] if before else None, before[1] if len(before) > 1 else None
        a1, a2, a3 = (after[i] if len(after) > i else None for i in range(3))
        if b1 and b1.is_day and a1 and a1.is_year:  # 3 March 2024, 3-5 March 2024
            return _Roles(self._days(b2, b1), a1)
        if a1 and a1.is_day and a2 and a2.is_year:  # March 3, 2024
            return _Roles((a1,), a2)
        if a1 and a1.is_day and a2 and a3 and a3.is_year and len(days := self._days(a1, a2)) == 2:  # March 3-5, 2024
            return _Roles(days, a3)
        if b1 and b1.is_year and a1 and a1.is_day:  # 2024. március 3.
            return _Roles((a1,) if a2 is None else self._from_first(a1, a2), b1)
        if b1 and b1.is_day and b2 and b2.is_year:  # 2024. gada 3. marts
            return _Roles((b1,), b2)
        if b1 and b1.is_day and a1 and a1.digits == 2 and _TIGHT.fullmatch(self.text[month.end() : a1.start]):
            return _Roles(self._days(b2, b1), a1)  # 3 Mar 24
        if a1 and a1.is_day and a2 and a2.digits == 2 and a2.apostrophe:  # Mar 3 '24
            return _Roles((a1,), a2)
        day = b1 if b1 and b1.is_day else a1 if a1 and a1.is_day else None
        return _Roles((day,), None) if day else None

    def _days(self, first: _Number | None, last: _Number) -> tuple[_Number, ...]:
        """Both days where they are the ends of a range or members of a list, else the one beside the month."""
        if first is None or not first.is_day or not last.is_day or first.value >= last.value:
            return (last,)
        between = self.text[first.end : last.start]
        return (first, last) if is_range(between) or is_list(between) else (last,)

    def _from_first(self, first: _Number, last: _Number) -> tuple[_Number, ...]:
        return days if len(days := self._days(first, last)) == 2 else (first,)

    def _date(self, month: re.Match[str], number: int, roles: _Roles) -> WrittenDate | None:
        assert roles.year is not None
        made = self._day(full_year(roles.year.value, roles.year.digits), number, roles.days[0].value)
        if made is None:
            return None
        several = ""
        if len(roles.days) == 2:
            between = self.text[roles.days[0].end : roles.days[1].start]
            several = RANGE_TAKEN if is_range(between) else SEVERAL_TAKEN
        around = (*roles.days, roles.year)
        start = min(month.start(), *(n.start for n in around))
        return WrittenDate(made.date, start, max(month.end(), *(n.end for n in around)), joined(made.remark, several))

    def _day(self, year: int, month: int, day: int) -> Day | None:
        if month > _PERSIAN:
            return persian(year, month - _PERSIAN, day)
        return gregorian(year, month, day, self.lang, self.text)

    def _from_range(self, opened: re.Match[str], month: int, roles: _Roles, date: WrittenDate) -> WrittenDate:
        """The first day of "28 February - 3 March 2024", whose year stands at the end alone."""
        end = max(opened.end(), roles.days[0].end)
        if end > date.start or not is_range(self.text[end : date.start]) or month > _PERSIAN:
            return date
        first = first_of_range(date.day, month, roles.days[0].value)
        if first is None:
            return date
        return WrittenDate(first, min(opened.start(), roles.days[0].start), date.end, joined(date.remark, RANGE_TAKEN))
