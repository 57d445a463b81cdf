"""A year, month and day of another calendar in, the Gregorian day out: Buddhist, Minguo, Japanese eras, Persian.

The Islamic calendar is not here: its months begin by observation, and tables differ by a day from country to country.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass

_ERAS = {"令和": 2018, "平成": 1988, "昭和": 1925, "大正": 1911, "明治": 1867, "民國": 1911, "民国": 1911}
ERA = re.compile(f"({'|'.join(_ERAS)})\\s*(\\d{{1,3}}|元)(?=年)")
BUDDHIST = re.compile(r"พ\.?\s?ศ\.?|\bB\.?E\.?(?=\W|$)")
PERSIAN_MONTHS = (
    "فروردین", "اردیبهشت", "خرداد", "تیر", "مرداد", "شهریور", "مهر", "آبان", "آذر", "دی", "بهمن", "اسفند",
)  # fmt: skip
ISLAMIC = re.compile(r"هـ|هجري|\bAH\b|محرم|صفر|ربيع|جمادى|رجب|شعبان|رمضان|شوال|ذو القعدة|ذو الحجة")

_PERSIAN_LANGUAGES = frozenset(("fa", "prs", "ps", "ckb", "glk", "mzn", "lrc", "az-arab"))
_LEAP_REMAINDERS = frozenset((1, 5, 9, 13, 17, 22, 26, 30))
_NOWRUZ_1300 = datetime.date(1921, 3, 21).toordinal()


@dataclass(frozen=True, slots=True)
class Day:
    """A day as written; `remark` says which calendar it was converted from, or is empty."""

    date: datetime.date
    remark: str = ""


def gregorian(year: int, month: int, day: int, lang: str | None, text: str) -> Day | None:
    """The day that three numbers name on a page of this language. None for a day that no calendar has."""
    language = (lang or "").replace("_", "-").split("-")[0].lower()
    if BUDDHIST.search(text) or (language == "th" and year > 2400):
        date = _date(year - 543, month, day)
        return Day(date, "the Buddhist calendar's year was converted") if date else None
    if 1200 <= year < 1500 and (language in _PERSIAN_LANGUAGES or language == "ar" or ISLAMIC.search(text)):
        return persian(year, month, day) if language in _PERSIAN_LANGUAGES and not ISLAMIC.search(text) else None
    date = _date(year, month, day)
    return Day(date) if date else None


def era_year(name: str, year: str) -> int:
    """The Gregorian year of a Japanese era or of the Republic (Minguo); 元 is an era's first."""
    return _ERAS[name] + (1 if year == "元" else int(year))


def persian(year: int, month: int, day: int) -> Day | None:
    """A day of the Solar Hijri calendar, by the 33-year rule: eight leap years in 33, exact from 1178 to 1633.

    Source: K. M. Borkowski, "The Persian calendar for 3000 years" (Earth, Moon and Planets 74, 1996).
    """
    if not (1178 <= year <= 1633 and 1 <= month <= 12 and 1 <= day <= _month_length(year, month)):
        return None
    leaps = sum(_is_leap(y) for y in range(min(year, 1300), max(year, 1300))) * (1 if year >= 1300 else -1)
    days = 365 * (year - 1300) + leaps + sum(_month_length(year, m) for m in range(1, month)) + day - 1
    return Day(datetime.date.fromordinal(_NOWRUZ_1300 + days), "a date of the Persian calendar was converted")


def _month_length(year: int, month: int) -> int:
    if month <= 6:
        return 31
    return 30 if month < 12 or _is_leap(year) else 29


def _is_leap(year: int) -> bool:
    return year % 33 in _LEAP_REMAINDERS


def _date(year: int, month: int, day: int) -> datetime.date | None:
    try:
        return datetime.date(year, month, day)
    except ValueError:
        return None
