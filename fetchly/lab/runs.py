"""A page's lines and a number, a span of time or a date in; the runs of the page that may say it, as places, out.

They only propose: that a run is read as the value is decided by converting it (`extraction/values.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from functools import lru_cache

from fetchly.extraction.durations import parse_duration
from fetchly.lab.places import Place, Places

_NUMBER = re.compile(
    r"(?:(?<![\w.,])[-−])?"
    r"(?:(?:\d+[ \u2009])?\d+[/⁄]\d+(?![/⁄\d])|\d*\s?[¼-¾⅐-⅞]|\d+(?:[.,'’٬٫ \u00a0\u202f\u2009]\d+)*)"
)
_SIGN = "[%\u00a2-\u00a5\u20a0-\u20cf$\u0e3f]"
_NUMBER_WITH_WORD = re.compile(rf"(?:{_SIGN}\s?)?\d[\d.,'’ \u00a0\u202f]*(?<=\d)(?:\s?(?:[^\W\d_]+\.?|{_SIGN}))?")
_INNER_SPACE = re.compile(r"[ \u00a0\u202f\u2009]")
_GROUPED = re.compile(r"-?\d{1,3}(?:[ \u00a0\u202f\u2009]\d{3})+(?:[.,]\d+)?")
_FRACTION = re.compile(r"[/⁄¼-¾⅐-⅞]")
_UNIT = re.compile(r"\s*([^\W\d_]+)\.?")
_JOINER = re.compile(r"\s*(?:,|&|\+|\b(?:and|und|et|y|e|en|og|och|i)\b)?\s*(?=\d)", re.IGNORECASE)
_RANGE = re.compile(r"\s*(?:[-–—]|\b(?:to|bis|à|a|tot)\b)\s*(?=\d)", re.IGNORECASE)
_ISO_DURATION = re.compile(r"\bP(?:\d+D)?(?:T(?:\d+H)?(?:\d+M)?(?:\d+S)?)?\b")
_CLOCK_DURATION = re.compile(r"(?<![\d:])\d{1,2}:[0-5]\d(?::[0-5]\d)?(?![\d:])")
_MOST_PARTS = 3

_MONTH_WORD = r"[^\W\d_]{3,}\.?"
_ORDINAL = r"(?:st|nd|rd|th|er|ème|\.|º|ª|:e)?"
_OF = r"(?:de |del |of |d')?"
_DATES = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?<!\d)\d{4}([-/.])\s?\d{1,2}\1\s?\d{1,2}\.?(?!\d)",
        r"(?<!\d)\d{1,2}\s?([-/.])\s?\d{1,2}\s?\1\s?(?:\d{4}|\d{2})(?!\d)",
        rf"(?<!\d)\d{{1,2}}{_ORDINAL}\s*[-/ ]?\s*{_OF}{_MONTH_WORD},?\s*[-/ ]?\s*{_OF}\d{{4}}(?!\d)",
        rf"(?<!\w){_MONTH_WORD}\s*[-/ ]?\s*\d{{1,2}}(?:st|nd|rd|th)?,?\s*[-/ ]?\s*\d{{4}}(?!\d)",
        rf"(?<!\d)\d{{4}},?\s*[-/ ]?\s*{_MONTH_WORD}\s*[-/ ]?\s*\d{{1,2}}(?!\d)",
        r"\d{4}\s*[年년]\s*\d{1,2}\s*[月월]\s*\d{1,2}\s*[日일]?",
        rf"(?<!\d)\d{{1,2}}(?:\.|-| )\s?{_MONTH_WORD}(?:-| )'?\d{{2}}(?!\d)",
    )
)
_TIME = r"\d{1,2}(?:[:.h][0-5]\d(?::[0-5]\d(?:\.\d+)?)?)?(?:\s?[AaPp]\.?[Mm]\b\.?)?"
_ZONE = r"(?:\s?\(?(?:Z\b|(?:UTC|GMT)(?:\s?[+-]\d\d?(?::?\d\d)?)?|[A-Z]{2,4}T\b|MES?Z\b|Uhr\b|[+-]\d\d:?\d\d)\)?)?"
_TIME_AFTER_DATE = re.compile(rf"(?:T|[\s,|·•–-]+(?:(?:at|um|à|às|a las|ore|kl\.?|o)\s+)?){_TIME}{_ZONE}")
_TIMES = re.compile(rf"(?<![\d:.,]){_TIME}{_ZONE}(?![\d:])")
_CLOCKS = re.compile(
    rf"(?<![\d:.,])\d{{1,2}}(?:[:.h][0-5]\d(?::[0-5]\d(?:\.\d+)?)?(?:\s?[AaPp]\.?[Mm]\b\.?)?"
    rf"|\s?(?:[AaPp]\.?[Mm]\b\.?|h\b|(?=Uhr\b))){_ZONE}(?![\d:])"
    r"|(?:午前|午後|上午|下午|오전|오후)?\s?\d{1,2}\s?[時时시點点](?:\s?\d{1,2}\s?[分분])?"
)
_CLOCK_REACH = 40
_STAMP = re.compile(r"T\d{1,2}$")
_DIGITS = re.compile(r"\d+")


def number_places(places: Places, value: Decimal) -> Iterator[Place]:
    """Numbers whose digits begin as those of `value`, and fractions."""
    whole = str(int(abs(value)))
    for found in places.matches(_NUMBER):
        for place in _parts(places, found):
            digits = "".join(char for char in place.text if char.isdecimal()).lstrip("0") or "0"
            if digits.startswith(whole) or _FRACTION.search(place.text) or whole == "0":
                yield place


def quantity_places(places: Places) -> Iterator[Place]:
    """Numbers with the sign or word beside them that decides how they are read: "2 Mio", "€ 1.234"."""
    yield from places.matches(_NUMBER_WITH_WORD)


def duration_places(places: Places, lang: str | None) -> Iterator[Place]:
    """Spans of time with their units: "1 hr 20 min", "PT80M", "1:20", "10-15 minutes"."""
    yield from places.matches(_ISO_DURATION)
    yield from places.matches(_CLOCK_DURATION)
    for number in range(len(places.lines)):
        for match in places.matches_in(number, _NUMBER):
            place = _duration_place(places, number, match.end() - len(_last_number(match[0])), match.end(), lang)
            if place is not None:
                yield place


def date_places(places: Places, value: str, *, with_time: bool = False) -> Iterator[Place]:
    """Dates that name the day and the year of `value` (ISO 8601), the time of day included where one follows."""
    parts = re.match(r"(\d{4})(?:-(\d\d))?(?:-(\d\d))?", value)
    if parts is None:
        return
    year, day = parts[1], parts[3]
    seen: set[Place] = set()
    for pattern in _DATES:
        for place in places.matches(pattern):
            numbers = [int(digits) for digits in _DIGITS.findall(place.text)]
            if not {int(year), int(year) % 100} & set(numbers) or (day and int(day) not in numbers):
                continue
            if place in seen:
                continue
            seen.add(place)
            stamp = _STAMP.search(place.text)  # the chunk of an ISO date goes on into the hour: "2019-10-19T12"
            end = place.start + stamp.start() if stamp else place.end
            later = _TIME_AFTER_DATE.match(places.lines[place.line].text, end) if stamp or with_time else None
            longer = places.widened(place.line, place.start, later.end()) if later else None
            if longer is not None:
                yield longer
            if not stamp:
                yield place


def moment_places(places: Places, value: str) -> Iterator[Place]:
    """Dates, as `date_places` finds them, together with a time of day near by in the line, before them or after them:
    "at 09:14 UTC on 7 June 2025"."""
    for place in date_places(places, value):
        for clock in places.matches_in(place.line, _CLOCKS):
            if max(clock.start() - place.end, place.start - clock.end()) in range(_CLOCK_REACH):
                start, end = min(place.start, clock.start()), max(place.end, clock.end())
                if (moment := places.widened(place.line, start, end)) is not None:
                    yield moment


def time_places(places: Places) -> Iterator[Place]:
    """Times of day."""
    yield from places.matches(_TIMES)


def as_number(value: object) -> Decimal | None:
    """The number that a right answer is or spells in plain digits."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    text = str(value).strip()
    if not re.fullmatch(r"-?\d+(?:\.\d+)?", text):
        return None
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


def is_iso_date(value: object) -> bool:
    """Whether a right answer is a date as ISO 8601 writes it, a time of day allowed."""
    return isinstance(value, str) and re.match(r"\d{4}-\d\d(?:-\d\d)?(?:$|[T ]\d\d:\d\d)", value) is not None


@lru_cache(maxsize=4096)
def is_time_unit(word: str, lang: str | None) -> bool:
    """Whether a word counts time, in the page's language or English."""
    seconds = parse_duration(f"7 {word}", lang, "second").value
    return seconds is not None and seconds in (7 * 60, 7 * 3600, 7 * 86400)


def _parts(places: Places, found: Place) -> Iterator[Place]:
    """The number that a run is, where it has no spaces or they group thousands; and the numbers between the spaces."""
    if not _INNER_SPACE.search(found.text) or _GROUPED.fullmatch(found.text) or _FRACTION.search(found.text):
        yield found
    if _INNER_SPACE.search(found.text):
        for match in re.finditer(r"[^ \u00a0\u202f\u2009]+", found.text):
            part = places.widened(found.line, found.start + match.start(), found.start + match.end())
            if part is not None:
                yield part


def _last_number(run: str) -> str:
    """The number that a unit after a run belongs to: the whole run, unless its spaces part several numbers."""
    if _GROUPED.fullmatch(run) or _FRACTION.search(run):
        return run
    return _INNER_SPACE.split(run)[-1]


def _duration_place(places: Places, number: int, start: int, end: int, lang: str | None) -> Place | None:
    """The span of time whose first number is [start, end) of a line."""
    line = places.lines[number].text
    stop = _unit_end(line, end, lang)
    if stop is not None:
        return places.widened(number, start, stop)
    if not line[start:end].isdecimal():
        return None
    place = places.widened(number, start, end)  # "1h20" and "30min" are one chunk each
    return place if place and place.text != line[start:end] else None


def _unit_end(line: str, end: int, lang: str | None) -> int | None:
    """The end of a span of time whose first number ends at `end`; None where no unit follows it."""
    if between := _RANGE.match(line, end):
        upper = _NUMBER.match(line, between.end())
        end = upper.end() if upper else end
    reached: int | None = None
    for _ in range(_MOST_PARTS):
        unit = _UNIT.match(line, end)
        if unit is None or not is_time_unit(unit[1].casefold(), lang):
            break
        reached = unit.end(1)
        joiner = _JOINER.match(line, unit.end())
        following = _NUMBER.match(line, joiner.end()) if joiner else None
        if following is None:
            break
        end = following.end()
    return reached
