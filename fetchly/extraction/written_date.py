"""What numeric_dates and named_dates find in a text: a day with its place, and the first day of a range."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass

from fetchly.extraction.numbers import RANGE

RANGE_TAKEN = "a range; its first day was taken"
_ORDINAL = re.compile(r"^(?:st|nd|rd|th|er|re|[.ºª°])+(?![^\W\d_])", re.IGNORECASE)
_LIST = re.compile(r"\s*(?:&|,|\b(?:and|und|et|y|e|i|og|och|en)\b)\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class WrittenDate:
    """A day at [start, end) of the text; `remark` says what was open, or converted, and how."""

    day: datetime.date
    start: int
    end: int
    remark: str = ""


def is_range(between: str) -> bool:
    """Whether what stands between two days or dates makes them the ends of a range."""
    return RANGE.fullmatch(_ORDINAL.sub("", between.strip()).strip()) is not None


def is_list(between: str) -> bool:
    """Whether what stands between two days makes them members of a list: "12 and 13 March"."""
    return _LIST.fullmatch(_ORDINAL.sub("", between.strip())) is not None


def full_year(value: int, digits: int) -> int:
    """Two digits are a year from 1969 to 2068 (POSIX, strptime's %y)."""
    return value if digits == 4 else value + (1900 if value >= 69 else 2000)


def first_of_range(last: datetime.date, month: int, day: int) -> datetime.date | None:
    """The first day of a range that ends on `last`; its year is the one before where the months say so."""
    try:
        first = datetime.date(last.year - (month > last.month), month, day)
    except ValueError:
        return None
    return first if first <= last else None


def joined(*remarks: str) -> str:
    """Remarks as one, each once."""
    return "; ".join(dict.fromkeys(remark for remark in remarks if remark))
