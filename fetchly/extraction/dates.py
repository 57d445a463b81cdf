"""A span of the page and its language in, an ISO 8601 date, date-time or time out (RFC 3339, as JSON Schema asks).

dateparser reads the words; absolute dates only, as "two days ago" means nothing on a stored page.
"""

from __future__ import annotations

import datetime
import re
import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from babel import Locale

from fetchly.extraction.numbers import locale_of

if TYPE_CHECKING:
    from dateparser import DateDataParser

COMMON_LANGUAGES = 30
_OTHER_NAMES = {"no": "nb", "iw": "he", "in": "id"}
_CLOCK = re.compile(r"(?<![\d:.])(?:[01]?\d|2[0-3])[:h][0-5]\d")
_HALF_DAY = re.compile(r"\b\d{1,2}\s*[ap]\.?m\b", re.IGNORECASE)
_NUMERIC = re.compile(r"(?<!\d)(\d{1,2})([./-])\s?(\d{1,2})\2\s?(?:\d{4}|\d\d)(?!\d)")
_INSIDE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?")


@dataclass(frozen=True, slots=True)
class ParsedDate:
    """`value` None: no date in the span. `remark` says what the page left open and how it was read, or is empty."""

    value: str | None
    remark: str = ""


@dataclass(frozen=True, slots=True)
class _Reading:
    moment: datetime.datetime
    several: bool = False


def parse_date(span: str, lang: str | None, form: Literal["date", "date-time", "time"]) -> ParsedDate:
    """The date that a span names, in the form of a JSON Schema format.

    Day, month and year must all be there: nothing is filled in from today's date. 03/04/2024 is read in the order of
    the page's language (its region, where the tag has one). A date-time without a zone is taken as UTC, one without a
    time of day as midnight; `remark` says so.
    """
    text = " ".join(span.split())
    moment = _iso(text)
    if moment is None and re.match(r"\d{4}-\d\d-\d\d(?!\d)", text):
        return ParsedDate(None)  # ISO 8601 in form, and no day of the calendar: not to be read in another order
    if moment is None and form == "time":
        text = f"2000-01-01 {text}" if not re.search(r"\d{4}", text) else text
    reading = _Reading(moment) if moment else _read(text, lang)
    if reading is None:
        return ParsedDate(None)
    moment = reading.moment
    remarks = [_order_remark(text, lang), "several dates; the first was taken" if reading.several else ""]
    if form == "date":
        return ParsedDate(moment.date().isoformat(), _joined(remarks))
    clock = bool(_CLOCK.search(text) or _HALF_DAY.search(text))
    if not clock and form == "time":
        return ParsedDate(None)
    if not clock and not re.search(r"T\d\d", text):
        remarks.append("the page gives no time of day; midnight was taken")
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
        remarks.append("the page gives no time zone; UTC was taken")
    shown = moment.timetz().isoformat() if form == "time" else moment.isoformat()
    return ParsedDate(shown.replace("+00:00", "Z"), _joined(remarks))


def _joined(remarks: list[str]) -> str:
    return "; ".join(remark for remark in remarks if remark)


def _iso(text: str) -> datetime.datetime | None:
    """ISO 8601 alone or inside other text."""
    found = _INSIDE.findall(text)
    for candidate in (text, found[0] if len(set(found)) == 1 else ""):
        if re.match(r"\d{4}-?\d\d", candidate):
            try:
                return datetime.datetime.fromisoformat(candidate)
            except ValueError:
                continue
    return None


def _order_remark(text: str, lang: str | None) -> str:
    """Day and month could change places and nothing says which is which."""
    numeric = _NUMERIC.search(text)
    if lang or numeric is None or numeric[1] == numeric[3] or max(int(numeric[1]), int(numeric[3])) > 12:
        return ""
    return "day and month may be the other way round: the page names no language; month first was taken"


def _read(text: str, lang: str | None) -> _Reading | None:
    """dateparser's reading in the page's language, then in English, then of a date inside the text.

    Where the page names no language, the most common ones are tried after English.
    """
    from dateparser.data.languages_info import language_order
    from dateparser.search import search_dates

    locale = locale_of(lang)
    names = [(name,) for name in _names(locale)]
    if lang is None:
        names.append(tuple(language_order[:COMMON_LANGUAGES]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of libraries that dateparser calls
        for group in names:
            found = _parser(group).get_date_data(text).date_obj
            if found is not None:
                return _Reading(found)
        for language in dict.fromkeys(name.split("-")[0] for name in _names(locale)):
            inside = search_dates(text, languages=[language], settings=_settings(locale)) or ()
            moments = [moment for piece, moment in inside if any(c.isdigit() for c in piece)]
            if moments:
                return _Reading(moments[0], several=len({moment.date() for moment in moments}) > 1)
    return None


def _names(locale: Locale) -> tuple[str, ...]:
    """What to ask dateparser for: language with region where it knows the tag, language, English."""
    from dateparser.data.languages_info import language_locale_dict

    language = _OTHER_NAMES.get(locale.language, locale.language)
    if language not in language_locale_dict:
        return ("en",)
    region = f"{language}-{locale.territory}"
    return tuple(
        dict.fromkeys((region, language, "en") if region in language_locale_dict[language] else (language, "en"))
    )


def _settings(locale: Locale | None) -> dict[str, object]:
    order = _order(locale) if locale else {}
    return {"STRICT_PARSING": True, "PARSERS": ["custom-formats", "absolute-time"], **order}


def _order(locale: Locale) -> dict[str, str]:
    """Day, month and year in the order of CLDR's short date."""
    pattern = str(locale.date_formats["short"].pattern)
    marks = sorted((pattern.find(mark), mark) for mark in "dMy")
    return {"DATE_ORDER": "".join(mark.upper() for _, mark in marks)} if marks[0][0] >= 0 else {}


@lru_cache(maxsize=32)
def _parser(names: tuple[str, ...]) -> DateDataParser:
    """A parser for one locale ("en-GB") or for languages."""
    from dateparser import DateDataParser

    if "-" in names[0]:
        return DateDataParser(locales=list(names), settings=_settings(locale_of(names[0])))
    order = _settings(locale_of(names[0])) if len(names) == 1 else _settings(None)
    return DateDataParser(languages=list(names), settings=order)
