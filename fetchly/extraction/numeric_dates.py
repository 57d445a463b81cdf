"""A text, its language and the page's habits in, the days out that it writes in digits: 3/4/2024, 2024年3月5日."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from babel import Locale

from fetchly.extraction.calendars import ERA, era_year, gregorian
from fetchly.extraction.conventions import Conventions, DayOrder
from fetchly.extraction.numbers import locale_of
from fetchly.extraction.written_date import RANGE_TAKEN, WrittenDate, first_of_range, full_year, is_range, joined

_COMPACT = re.compile(r"((?:19|20)\d\d)(\d\d)(\d\d)")
_YEAR_FIRST = re.compile(r"(?<!\d)(?<!\d[./-])(\d{4})([./-])\s?(\d{1,2})\2\s?(\d{1,2})(?!\d)")
_NUMERIC = re.compile(r"(?<!\d)(\d{1,2})([./-])\s?(\d{1,2})\2\s?(\d{4}|'?\d\d)(?!\d)")
_EAST_ASIAN = re.compile(r"(?<!\d)(\d{4})\s*[年년]\s*(\d{1,2})\s*[月월]\s*(\d{1,2})\s*[日일号]?")
_RANGE_BEFORE = re.compile(r"(?<!\d)(\d{1,2})\.?(?:[./-](\d{1,2})\.?)?(\s*(?:-|\b[^\W\d_]{1,7}\b)\s*)$")


def numeric_dates(text: str, lang: str | None, conventions: Conventions) -> Iterator[WrittenDate]:
    """Every date in digits of a text with ASCII digits (numbers.plain), in no particular order."""
    if compact := _COMPACT.fullmatch(text.strip()):
        yield from _made(compact[1], compact[2], compact[3], compact, lang)
    for match in _YEAR_FIRST.finditer(text):
        yield from _made(match[1], match[3], match[4], match, lang)
    for match in _NUMERIC.finditer(text):
        yield from _day_or_month_first(match, lang, conventions)
    yield from _east_asian(text, lang)


def _made(year: str, month: str, day: str, match: re.Match[str], lang: str | None) -> Iterator[WrittenDate]:
    made = gregorian(int(year), int(month), int(day), lang, match.string)
    if made is not None:
        yield WrittenDate(made.date, match.start(), match.end(), made.remark)


def _day_or_month_first(match: re.Match[str], lang: str | None, conventions: Conventions) -> Iterator[WrittenDate]:
    first, mark, second, year = match.groups()
    year = year.lstrip("'")
    before = match.string[: match.start()]
    if re.search(rf"\d{re.escape(mark)}$", before):
        return  # the middle of a longer run: a version, an address
    order, remark = _order(int(first), int(second), mark, len(year), locale_of(lang), bool(lang), conventions)
    parts = dict(zip(order, (int(first), int(second), int(year)), strict=True))
    written = full_year(parts["Y"], len(year))
    made = gregorian(written, parts["M"], parts["D"], lang, match.string)
    if made is None:
        return
    date = WrittenDate(made.date, match.start(), match.end(), joined(remark, made.remark))
    yield _from_range(before, date, order)


def _order(
    first: int, second: int, mark: str, digits: int, locale: Locale, named: bool, conventions: Conventions
) -> tuple[str, str]:
    """("DMY" and the like, remark): by the date's form, the page's habit, its language's. `named`: there is one."""
    usual = day_order(locale)
    if digits == 2 and _is_year_first(locale):
        return "YMD", ""
    if max(first, second) > 12 or first == second:
        return ("DMY" if first > 12 else "MDY" if second > 12 else usual), ""
    if conventions.order is not None:
        mixed = "the page writes day and month in both orders; its more frequent one was taken"
        return conventions.order, mixed if conventions.mixed_orders else ""
    if mark == "." and usual == "MDY":
        return "DMY", "day first was taken, as is usual between dots"
    if conventions.mixed_orders or not named or (locale.language == "en" and locale.territory is None):
        shown = "month" if usual == "MDY" else "day"
        return usual, f"day and month may be the other way round: the page does not say; {shown} first was taken"
    return usual, ""


def day_order(locale: Locale) -> DayOrder:
    """Whether a locale writes the day or the month first, by CLDR's short date."""
    pattern = str(locale.date_formats["short"].pattern)
    return "MDY" if pattern.find("M") < pattern.find("d") else "DMY"


def _is_year_first(locale: Locale) -> bool:
    return str(locale.date_formats["short"].pattern).lstrip().lower().startswith("y")


def _from_range(before: str, date: WrittenDate, order: str) -> WrittenDate:
    """The first day of "12.-14.03.2024" or "12/03 - 14/03/2024"; the date itself elsewhere."""
    found = _RANGE_BEFORE.search(before)
    if found is None or not is_range(found[3]):
        return date
    month, day = date.day.month, int(found[1])
    if found[2]:
        day, month = (int(found[2]), int(found[1])) if order == "MDY" else (int(found[1]), int(found[2]))
    first = first_of_range(date.day, month, day)
    if first is None:
        return date
    return WrittenDate(first, found.start(), date.end, joined(date.remark, RANGE_TAKEN))


def _east_asian(text: str, lang: str | None) -> Iterator[WrittenDate]:
    """2024年3月5日, 2024년 3월 5일; 令和6年5月1日 by its era."""
    eras = [match.start() for match in ERA.finditer(text)]
    # As wide as before, so that places stay what they are; an era and its year are at least three characters.
    years = ERA.sub(lambda match: str(era_year(match[1], match[2])).rjust(len(match[0]), " "), text)
    for match in _EAST_ASIAN.finditer(years):
        of_era = any(start <= match.start() <= start + 2 for start in eras)
        for date in _made(match[1], match[2], match[3], match, lang):
            yield replace(date, remark="an era's year was converted") if of_era else date
