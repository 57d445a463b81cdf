"""A span of the page and its language in, a length of time out: as a number of a unit, or as ISO 8601 writes it.

The words are CLDR's in the page's language and in English. Months and years have no fixed length: they are told in
months and years, never in days.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Literal

from babel import Locale

from fetchly.extraction.conventions import SILENT, Conventions
from fetchly.extraction.numbers import RANGE, SPACES, ParsedNumber, locale_of, numbers_in, parse_number, plain

TimeUnit = Literal["second", "minute", "hour", "day", "week", "month", "year"]
SECONDS: dict[TimeUnit, int] = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}
MONTHS: dict[TimeUnit, int] = {"month": 1, "year": 12}

_PART = r"(\d+(?:[.,]\d+)?)"
_ISO_DURATION = re.compile(
    rf"P(?=.)(?:{_PART}Y)?(?:{_PART}M)?(?:{_PART}W)?(?:{_PART}D)?"
    rf"(?:T(?=.)(?:{_PART}H)?(?:{_PART}M)?(?:{_PART}S)?)?"
)
_ISO_ORDER: tuple[TimeUnit, ...] = ("year", "month", "week", "day", "hour", "minute", "second")
_CLOCK = re.compile(r"\s*(\d{1,3}):([0-5]\d)(?::([0-5]\d))?\s*([^\W\d]*)\.?\s*")
# Words that CLDR lacks: what recipes and shops write.
_MORE_UNITS: dict[TimeUnit, tuple[str, ...]] = {
    "second": ("s", "sek", "secs", '"', "''"),
    "minute": ("m", "min", "mins", "mn", "'"),
    "hour": ("h", "hr", "hrs", "std", "stdn", "u", "uur"),
    "day": ("d", "tg"),
    "week": ("wk", "wks"),
    "month": ("mo", "mos", "mon"),
    "year": ("yr", "yrs"),
}


@dataclass(frozen=True, slots=True)
class ParsedDuration:
    """`value` None: no length of time in the span, or one that the form asked for cannot say."""

    value: str | None
    remark: str = ""


@dataclass(frozen=True, slots=True)
class _Length:
    """Amounts by unit, as written."""

    parts: dict[TimeUnit, Decimal]
    remark: str = ""


def parse_duration(span: str, lang: str | None, unit: TimeUnit, conventions: Conventions = SILENT) -> ParsedNumber:
    """A length of time in `unit`: "1 hr 20 min", "PT80M", "1:20 h", "1 Std. 20 Min.", "1h20" are 80 minutes.

    A bare number counts units. None for months in a smaller unit, and the other way round.
    """
    length = _length(span, lang, conventions)
    if length is None:
        return parse_number(span, lang, conventions)
    scale = MONTHS if unit in MONTHS else SECONDS
    if not length.parts.keys() <= scale.keys():
        return ParsedNumber(None)
    total = sum((amount * scale[part] for part, amount in length.parts.items()), Decimal(0))
    return ParsedNumber(total / scale[unit], length.remark)


def parse_iso_duration(span: str, lang: str | None, conventions: Conventions = SILENT) -> ParsedDuration:
    """A length of time as ISO 8601 writes it (RFC 3339, appendix A): "1 hr 20 min" is PT1H20M, "2 weeks" is P14D.

    A number without a unit is no length of time. Weeks become days, as the RFC's grammar wants weeks alone.
    """
    length = _length(span, lang, conventions)
    if length is None:
        return ParsedDuration(None)
    months = sum((length.parts.get(unit, Decimal(0)) * size for unit, size in MONTHS.items()), Decimal(0))
    seconds = sum((length.parts.get(unit, Decimal(0)) * size for unit, size in SECONDS.items()), Decimal(0))
    if months != months.to_integral_value() or seconds != seconds.to_integral_value():
        return ParsedDuration(None)
    years, months = divmod(months, 12)
    days, rest = divmod(seconds, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    date = _letters((years, "Y"), (months, "M"), (days, "D"))
    time = _letters((hours, "H"), (minutes, "M"), (rest, "S"))
    return ParsedDuration(f"P{date}" + (f"T{time}" if time else "") if date or time else "PT0S", length.remark)


def _letters(*parts: tuple[Decimal, str]) -> str:
    """Amounts with their letters; the RFC's grammar leaves out zeros at the ends, none in between."""
    kept = [index for index, (amount, _) in enumerate(parts) if amount]
    return "".join(f"{int(amount)}{letter}" for amount, letter in parts[kept[0] : kept[-1] + 1]) if kept else ""


def _length(span: str, lang: str | None, conventions: Conventions) -> _Length | None:
    """The amounts of time that a span names, by unit; None where it names no unit."""
    text = plain(span)
    if iso := _ISO_DURATION.fullmatch(text.strip().upper()):
        written = zip(_ISO_ORDER, iso.groups(), strict=True)
        return _Length({unit: Decimal(part.replace(",", ".")) for unit, part in written if part})
    words = _unit_words(locale_of(lang).language)
    if clock := _CLOCK.fullmatch(text):
        return _clock(clock, words)
    found = list(numbers_in(text, lang, conventions))
    parts: dict[TimeUnit, Decimal] = {}
    remark = ""
    skip = False
    for index, number in enumerate(found):
        following = found[index + 1].start if index + 1 < len(found) else len(text)
        if skip:
            skip = False
            continue
        gap = text[number.end : following]
        if index + 1 < len(found) and RANGE.fullmatch(gap):
            remark, skip = "a range; its lower end was taken", True
            gap = text[found[index + 1].end :]
        named = _leading_unit(gap, words)
        if named is None and parts.keys() == {"hour"} and not gap.strip() and number.value < 60:
            named = "minute"  # "1h20"
        if named is not None and named not in parts:
            parts[named] = number.value
    return _Length(parts, remark) if parts else None


def _clock(clock: re.Match[str], words: tuple[tuple[str, TimeUnit], ...]) -> _Length:
    """1:20 is hours and minutes, 3:45 min minutes and seconds, 1:02:03 all three."""
    amounts = [Decimal(part) for part in clock.groups()[:3] if part]
    first = 1 if len(amounts) == 2 and _leading_unit(clock[4], words) == "minute" else 0
    units: tuple[TimeUnit, ...] = ("hour", "minute", "second")
    return _Length(dict(zip(units[first:], amounts, strict=False)))


@lru_cache(maxsize=64)
def _unit_words(language: str) -> tuple[tuple[str, TimeUnit], ...]:
    """Words for units of time, longest first, case and dots folded; ours before the language's before English."""
    words: dict[str, TimeUnit] = {word: unit for unit, more in _MORE_UNITS.items() for word in more}
    for name in dict.fromkeys((language, "en")):
        patterns = Locale.parse(name)._data["unit_patterns"]
        for unit in _ISO_ORDER:
            for forms in patterns[f"duration-{unit}"].values():
                for form in forms.values() if hasattr(forms, "values") else ():
                    word = str(form).replace("{0}", "").strip().casefold().rstrip(".")
                    if word and not word.startswith("/"):  # "/h" is a rate
                        words.setdefault(word, unit)
    return tuple(sorted(words.items(), key=lambda pair: -len(pair[0])))


def _leading_unit(text: str, words: tuple[tuple[str, TimeUnit], ...]) -> TimeUnit | None:
    """The unit of time that a text begins with."""
    start = text.lstrip(SPACES + "-").casefold()
    for word, unit in words:
        if start.startswith(word) and not start[len(word) : len(word) + 1].isalpha():
            return unit
    return None
