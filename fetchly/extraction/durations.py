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
from fetchly.extraction.numbers import (
    RANGE,
    SPACES,
    THIN,
    FoundNumber,
    ParsedNumber,
    locale_of,
    numbers_in,
    parse_number,
    plain,
)

TimeUnit = Literal["second", "minute", "hour", "day", "week", "month", "year"]
SECONDS: dict[TimeUnit, int] = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}
MONTHS: dict[TimeUnit, int] = {"month": 1, "year": 12}
SIZE: dict[TimeUnit, int] = {**SECONDS, "month": 2_629_746, "year": 31_556_952}
"""Seconds, of months and years on average: for order only."""

_PART = r"(\d+(?:[.,]\d+)?)"
_ISO_DURATION = re.compile(
    rf"P(?=.)(?:{_PART}Y)?(?:{_PART}M)?(?:{_PART}W)?(?:{_PART}D)?"
    rf"(?:T(?=.)(?:{_PART}H)?(?:{_PART}M)?(?:{_PART}S)?)?"
)
_ISO_ORDER: tuple[TimeUnit, ...] = ("year", "month", "week", "day", "hour", "minute", "second")
_CLOCK = re.compile(r"\s*(\d{1,3}):([0-5]\d)(?::([0-5]\d))?\s*([^\W\d]*)\.?\s*")
_LABEL = re.compile(r"^[^\d:]+:\s*(?=\d)")
_FRACTION = re.compile(r"(?<![\d/.,])(?<!\d[ \u2009])(?<!\u2009)(\d+/\d+)(?![\d/])")
_AFTER_HOURS = re.compile(r"\d\s?(?:h|u|std\.?|時間|小时|小時|시간)\s?$", re.IGNORECASE)
_AFTER_UNIT = re.compile(r"(?:\((?:s|e|n|en)\))?\.?")
_SUM = re.compile(r"\s*(?:\+|plus)\s*")
_AND_WORDS = "&|and|und|et|y|e|en|i|a|og|och|ja|ve|és|și|un|ir|in|и|і|та|και|و|और"
_AND = re.compile(rf"[\s.,]*(?:{_AND_WORDS})\s*")
_EITHER = re.compile(rf"\s*(?:{_AND_WORDS}|or|oder|ou|o|of|lub|eller|или)\s*", re.IGNORECASE)
_MIXED = re.compile(r"\s*(?:-|and|und|et|y|e|en|og|och)\s*", re.IGNORECASE)
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
    """Amounts by unit, as written; none where the span names units but no length that can be told."""

    parts: dict[TimeUnit, Decimal]
    remark: str = ""

    def size(self) -> Decimal:
        """What lengths are compared by."""
        return sum((amount * SIZE[unit] for unit, amount in self.parts.items()), Decimal(0))


@dataclass(frozen=True, slots=True)
class _Amount:
    """A number with its unit at [start, end) of the text; `lent`: the unit stands at the next amount."""

    value: Decimal
    unit: TimeUnit
    start: int
    end: int
    lent: bool = False


def parse_duration(span: str, lang: str | None, unit: TimeUnit, conventions: Conventions = SILENT) -> ParsedNumber:
    """A length of time in `unit`: "1 hr 20 min", "PT80M", "1:20 h", "1 Std. 20 Min.", "1h20" are 80 minutes.

    A bare number counts units. Of a range the lower end is taken, of several lengths the first; lengths joined by a
    plus are added. The remark says so. None for months in a smaller unit, and the other way round.
    """
    length = _length(span, lang, conventions)
    if length is None:
        return parse_number(span, lang, conventions)
    scale = MONTHS if unit in MONTHS else SECONDS
    if not length.parts or not length.parts.keys() <= scale.keys():
        return ParsedNumber(None)
    total = sum((amount * scale[part] for part, amount in length.parts.items()), Decimal(0))
    return ParsedNumber(total / scale[unit], length.remark)


def parse_iso_duration(span: str, lang: str | None, conventions: Conventions = SILENT) -> ParsedDuration:
    """A length of time as ISO 8601 writes it (RFC 3339, appendix A): "1 hr 20 min" is PT1H20M, "2 weeks" is P14D.

    A number without a unit is no length of time. Weeks become days, as the RFC's grammar wants weeks alone.
    """
    length = _length(span, lang, conventions)
    if length is None or not length.parts or length.size() < 0:
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
    if clock := _clock(text, words):
        return clock
    text = _FRACTION.sub(rf"{THIN}\1", text)  # of an hour "1/2" is a half, never a rating
    amounts = _amounts(text, list(numbers_in(text, lang, conventions)), words)
    if not amounts:
        return None
    first, rest = _run(text, amounts)
    if not rest:
        return first
    between = text[amounts[-len(rest) - 1].end : rest[0].start]
    lent = amounts[-len(rest) - 1].lent
    ascending = first.size() <= _run(text, rest)[0].size()
    if lent and not ascending and len(amounts) - len(rest) == 1:  # "30-1 hour": thirty of what?
        return _Length({})
    is_range = RANGE.fullmatch(between) is not None and (lent or ascending)
    remark = "a range; its lower end was taken" if is_range else "several lengths of time; the first was taken"
    return _Length(first.parts, "; ".join(filter(None, (first.remark, remark))))


def _amounts(text: str, found: list[FoundNumber], words: tuple[tuple[str, TimeUnit], ...]) -> list[_Amount]:
    """The numbers that have a unit, or share that of the next one ("10-15 min"), in their order."""
    amounts: list[_Amount] = []
    for number in reversed(found):
        start = number.start + (number is not found[0] and number.value < 0)  # "30 min.-1 h": a dash, no sign
        value = abs(number.value) if start > number.start else number.value
        unit, end = _leading_unit(text, number.end, words)
        following = amounts[0] if amounts else None
        between = text[number.end : following.start] if following else ""
        if unit is not None:
            amounts.insert(0, _Amount(value, unit, start, end))
        elif _AFTER_HOURS.search(text[:start]) and value < 60 and not re.match(r"\s*\w", text[number.end :]):
            amounts.insert(0, _Amount(value, "minute", start, end))  # "1h20"
        elif following and (RANGE.fullmatch(between) or _EITHER.fullmatch(between)):
            if following.value < 1 <= value and not following.lent and _MIXED.fullmatch(between):
                amounts[0] = _Amount(value + following.value, following.unit, start, following.end)  # "1-1/2 hours"
            else:
                amounts.insert(0, _Amount(value, following.unit, start, number.end, lent=True))
    return amounts


def _run(text: str, amounts: list[_Amount]) -> tuple[_Length, list[_Amount]]:
    """The length that the first amounts make together ("1 hr 20 min", "45 min + 15 min"), and the amounts after it."""
    last = amounts[0]
    parts = {last.unit: last.value}
    remark = ""
    for index, amount in enumerate(amounts[1:], 1):
        between = text[last.end : amount.start].casefold()
        if _SUM.fullmatch(between):
            remark = "a sum; its parts were added"
        elif last.lent or not _continues(between, last.unit, amount):
            return _Length(parts, remark), amounts[index:]
        parts[amount.unit] = parts.get(amount.unit, Decimal(0)) + amount.value
        last = amount
    return _Length(parts, remark), []


def _continues(between: str, unit: TimeUnit, amount: _Amount) -> bool:
    """Whether an amount is the smaller part of the length that an amount of `unit` began: "1 hr and 20 min"."""
    if SIZE[amount.unit] >= SIZE[unit]:
        return False
    if not between.strip(SPACES + ".,"):
        return True
    return _AND.fullmatch(between) is not None and amount.value * SIZE[amount.unit] < SIZE[unit]


def _clock(text: str, words: tuple[tuple[str, TimeUnit], ...]) -> _Length | None:
    """1:20 is hours and minutes, 3:45 min minutes and seconds, 1:02:03 all three; of a range the lower end."""
    ends = [_CLOCK.fullmatch(part) for part in RANGE.split(_LABEL.sub("", text), maxsplit=1)]
    first = ends[0]
    if first is None or ends[-1] is None:
        return None
    amounts = [Decimal(part) for part in first.groups()[:3] if part]
    unit, _ = _leading_unit(first[4] or ends[-1][4], 0, words)
    units: tuple[TimeUnit, ...] = ("hour", "minute", "second")
    named = units[1 if len(amounts) == 2 and unit == "minute" else 0 :]
    return _Length(
        dict(zip(named, amounts, strict=False)), "a range; its lower end was taken" if len(ends) == 2 else ""
    )


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


def _leading_unit(text: str, at: int, words: tuple[tuple[str, TimeUnit], ...]) -> tuple[TimeUnit | None, int]:
    """The unit of time that stands at an offset, and where it ends; None and the offset without one."""
    begin = at
    while text[begin : begin + 1] and text[begin] in SPACES + "-":
        begin += 1
    start = text[begin : begin + 40].lower()
    for word, unit in words:
        if start.startswith(word) and not start[len(word) : len(word) + 1].isalpha():
            rest = _AFTER_UNIT.match(text, begin + len(word))
            assert rest is not None, "it may be empty"
            return unit, rest.end()
    return None, at
