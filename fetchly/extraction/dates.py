"""A span of the page and its language in, an ISO 8601 date, date-time or time out (RFC 3339, as JSON Schema asks).

Absolute dates only: "two days ago" means nothing on a stored page. The same span on the same page is the same date on
any day and in any time zone.
"""

from __future__ import annotations

import datetime
import re
import unicodedata
from dataclasses import dataclass
from typing import Literal

from fetchly.extraction.calendars import gregorian
from fetchly.extraction.clocks import Clock, clock_in
from fetchly.extraction.conventions import SILENT, Conventions
from fetchly.extraction.named_dates import named_dates
from fetchly.extraction.numbers import plain
from fetchly.extraction.numeric_dates import numeric_dates
from fetchly.extraction.written_date import RANGE_TAKEN, WrittenDate, is_range, joined

_MACHINE = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:?\d\d(?::?\d\d(?:[.,]\d+)?)?(?:Z|\s?[+-]\d\d:?\d\d)?(?!\d)")


@dataclass(frozen=True, slots=True)
class ParsedDate:
    """`value` None: no date in the span. `remark` says what the page left open and how it was read, or is empty."""

    value: str | None
    remark: str = ""


def parse_date(
    span: str, lang: str | None, form: Literal["date", "date-time", "time"], conventions: Conventions = SILENT
) -> ParsedDate:
    """The date that a span names, in the form of a JSON Schema format.

    Day, month and year must all be there: nothing is filled in from today's date. 03/04/2024 is read in the order that
    the page's other dates show, else in that of its language and region. Of a range the first day is taken. A date-time
    without a zone is taken as UTC, one without a time of day as midnight. `remark` says all of that.
    """
    text = " ".join(plain(unicodedata.normalize("NFC", span)).split())
    if form == "time":
        return _time(text)
    machine = _machine(text, lang) if form == "date-time" else None
    if machine is not None:
        return machine
    dates = written_dates(text, lang, conventions)
    if not dates:
        return ParsedDate(None)
    first = dates[0]
    remark = joined(first.remark, _others(text, dates))
    if form == "date":
        return ParsedDate(first.day.isoformat(), remark)
    rest = "".join(text[i] for i in range(len(text)) if not any(date.start <= i < date.end for date in dates))
    clock = clock_in(rest)
    remark = joined(remark, "" if clock else "the page gives no time of day; midnight was taken", _zone_remark(clock))
    moment = datetime.datetime.combine(first.day, clock.time if clock else datetime.time())
    return ParsedDate(_shown(moment.replace(tzinfo=(clock and clock.zone) or datetime.UTC)), remark)


def written_dates(text: str, lang: str | None, conventions: Conventions = SILENT) -> list[WrittenDate]:
    """Every date of a text with ASCII digits (numbers.plain), in its order; none of them overlaps another."""
    found = [*numeric_dates(text, lang, conventions), *named_dates(text, lang)]
    chosen: list[WrittenDate] = []
    for date in sorted(found, key=lambda date: (date.start, -date.end)):
        if not chosen or date.start >= chosen[-1].end:
            chosen.append(date)
    return chosen


def _time(text: str) -> ParsedDate:
    clock = clock_in(text)
    if clock is None:
        return ParsedDate(None)
    zoned = clock.time.replace(tzinfo=clock.zone or datetime.UTC)
    return ParsedDate(_shown(zoned), _zone_remark(clock))


def _machine(text: str, lang: str | None) -> ParsedDate | None:
    """ISO 8601 with a time of day: seconds and zone are kept as they are."""
    found = _MACHINE.search(text)
    if found is None:
        return None
    try:
        moment = datetime.datetime.fromisoformat(re.sub(r"\s(?=[+-])", "", found[0]))
    except ValueError:
        return ParsedDate(None)
    day = gregorian(moment.year, moment.month, moment.day, lang, text)
    if day is None:
        return ParsedDate(None)
    moment = datetime.datetime.combine(day.date, moment.timetz())
    remark = joined(day.remark, "" if moment.tzinfo else _zone_remark(None))
    return ParsedDate(_shown(moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)), remark)


def _others(text: str, dates: list[WrittenDate]) -> str:
    """What the dates after the first make of it."""
    if len({date.day for date in dates}) == 1:
        return ""
    return RANGE_TAKEN if is_range(text[dates[0].end : dates[1].start]) else "several dates; the first was taken"


def _zone_remark(clock: Clock | None) -> str:
    return "" if clock and clock.zone else "the page gives no time zone; UTC was taken"


def _shown(moment: datetime.datetime | datetime.time) -> str:
    return moment.isoformat().replace("+00:00", "Z")
