"""A folded text in, the number, minutes, date, moment, amounts or currencies that it says out, whatever the locale.

These readings judge answers; they are deliberately not those of `extraction`, whose mistakes they are to find.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from dataclasses import dataclass

_FRACTION = re.compile(r"(?:(\d+) )?(\d+)/([1-9]\d*)")
_NUMBER = re.compile(r"\d{1,3}(?:[ '.,]\d{3})+(?:[.,]\d{1,2})?(?!\d)|\d+(?:[.,]\d+)?")
_THOUSANDS_ONLY = re.compile(r"[1-9]\d{0,2}(?:[.,]\d{3})+")
_RANGE = re.compile(r"(\d+)\s*(?:-|to|bis|à|a|tot|until)\s*(\d+)")

_CODES_BY_SYMBOL = {
    "€": "eur",
    "£": "gbp",
    "$": "usd cad aud nzd sgd hkd mxn ars clp cop",
    "us$": "usd",
    "nz$": "nzd",
    "r$": "brl",
    "¥": "jpy cny",
    "円": "jpy",
    "元": "cny",
    "₩": "krw",
    "원": "krw",
    "₹": "inr",
    "rs": "inr pkr lkr npr mur",
    "₽": "rub",
    "руб": "rub",
    "₴": "uah",
    "₺": "try",
    "₸": "kzt",
    "тг": "kzt",
    "ر.س": "sar",
    "zł": "pln",
    "kč": "czk",
    "ft": "huf",
    "lei": "ron",
    "kn": "hrk",
    "kr": "sek nok dkk isk",
    "fr": "chf",
}

_ISO_DURATION = re.compile(r"p(?:(\d+)d)?t?(?:([\d.]+)h)?(?:([\d.]+)m)?(?:[\d.]+s)?")
_CLOCK = re.compile(r"(\d+):(\d\d)(?: h\w*)?")
_PLAIN_NUMBER = re.compile(r"\d+(\.\d+)?")
_AMOUNT_OF_TIME = re.compile(r"(\d+(?:[.,]\d+)?)\s*(d|tag|jour|día|h|u|st|ore|t(?=im)|m(?!on))|(\d+)$")
_DAY_UNITS = frozenset(("d", "tag", "jour", "día"))

_MONTHS = tuple(
    re.compile(stems)
    for stems in (
        "jan|jän|ene|gen",
        "feb|fév|fev",
        "mar|mär|maa|mrt",
        "apr|avr|abr",
        "may|mai|mei|mag",
        "jun|juin|giu",
        "jul|juil|lug",
        "aug|août|aou|ago",
        "sep|set",
        "o[ckt]t|out",
        "nov",
        "de[cz]|déc|dic",
    )
)
_YEAR_FIRST = re.compile(
    r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})"
    r"|\b(\d{4})(\d\d)(\d\d)(?=t\d|\b)"
    r"|(\d{4})[年년]\s*(\d{1,2})[月월]\s*(\d{1,2})"
)
_YEAR_LAST = re.compile(r"(\d{1,2})([./-])\s?(\d{1,2})[./-]\s?(\d{4}|\d\d)(?!\d)")
_DATE_IN_DIGITS = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}t?|\d{1,2}[./-]\s?\d{1,2}[./-]\s?\d{2,4}(?!\d)")
_IN_WORDS = (
    re.compile(
        r"(?P<day>\d{1,2})(?:st|nd|rd|th|er|\.|º)?\s*(?:de |of )?"
        r"(?P<month>[^\W\d]{3,})\.?,?\s+(?:de |del )?(?P<year>\d{4})"
    ),
    re.compile(r"(?P<month>[^\W\d]{3,})\.?\s+(?P<day>\d{1,2})(?:st|nd|rd|th)?,?\s+(?P<year>\d{4})"),
    re.compile(r"(?P<month>[^\W\d]{3,})\.?,?\s+(?:de |del )?(?P<year>\d{4})(?P<day>)"),
)
_TIME_OF_DAY = re.compile(
    r"(?<![\d:+-])(\d{1,2})[:.h](\d\d)(?!\d)(?::(\d\d)(?:[.,]\d+)?)?(?:\s?([ap])\.?m\b\.?)?"
    r"(?:\s?\(?(?:(z|utc|gmt)\b)?\s?([+-]\d\d?(?::?\d\d)?(?!\d))?)"
)


@dataclass(frozen=True, slots=True)
class Moment:
    """A day with a time of day. `clock` is local; `offset` its distance from UTC, None where the text names none;
    `to_the_second`: it names seconds."""

    clock: datetime.datetime
    offset: datetime.timedelta | None
    to_the_second: bool

    def is_same(self, other: Moment) -> bool:
        """Whether both are one moment, as far as both say it: seconds and zone count where both name them."""
        one, two = self.clock, other.clock
        if not (self.to_the_second and other.to_the_second):
            one, two = one.replace(second=0), two.replace(second=0)
        if self.offset is None or other.offset is None:
            return one == two
        return one - two == self.offset - other.offset


def plain(value: float) -> str:
    """A number as a decimal of at most four places, without trailing zeros."""
    return f"{value:.4f}".rstrip("0").rstrip(".")


def first_number(text: str) -> str | None:
    """The first number of a text as a plain decimal; None without one."""
    digit = re.search(r"\d", text)
    fraction = _FRACTION.match(text, digit.start()) if digit else None
    if fraction is not None:
        return _fraction(fraction)
    found = _NUMBER.search(text)
    return _decimal(found[0]) if found else None


def numbers(text: str) -> frozenset[str]:
    """Every number of a text, as `first_number` writes them. `10 200` is 10200, and also 10 and 200."""
    found = {_fraction(match) for match in _FRACTION.finditer(text)}
    for match in _NUMBER.finditer(text):
        found.add(_decimal(match[0]))
        found.update(_decimal(part) for part in match[0].split(" "))
    return frozenset(found)


def _fraction(match: re.Match[str]) -> str:
    whole, over, under = (float(part or 0) for part in match.groups())  # an int of 5,000 digits is refused
    return f"{whole + over / under:g}"


def _decimal(text: str) -> str:
    """`1.234` and `1,234,567` have no decimals; else the last separator is the decimal point."""
    digits = re.sub(r"[ ']", "", text)
    point = max(digits.rfind("."), digits.rfind(","))
    if point < 0 or _THOUSANDS_ONLY.fullmatch(digits):
        return re.sub(r"[.,]", "", digits).lstrip("0") or "0"
    return plain(float(f"{re.sub(r'[.,]', '', digits[:point])}.{digits[point + 1 :]}"))


def amounts(text: str) -> frozenset[str]:
    """The number of a yield, or both ends of its range; the text itself where it has no number."""
    ends = _RANGE.search(text)
    return frozenset(ends.groups()) if ends else frozenset((first_number(text) or text,))


def currencies(text: str) -> frozenset[str]:
    """The currency codes that a symbol may stand for; any other text stands for itself."""
    symbol = text.strip(".~ ")
    return frozenset(_CODES_BY_SYMBOL.get(symbol, symbol).split())


def currency_symbols(code: str) -> tuple[str, ...]:
    """The symbols that may stand for a code."""
    return tuple(symbol for symbol, codes in _CODES_BY_SYMBOL.items() if code in codes.split())


def minutes(text: str) -> str | None:
    """`pt1h20m`, `1 h 20 min`, `1:20` and `80` are 80; None for a text without a duration."""
    if iso := _ISO_DURATION.fullmatch(text):
        days, hours, rest = (float(part or 0) for part in iso.groups())
    elif clock := _CLOCK.fullmatch(text):
        days, hours, rest = 0.0, float(clock[1]), float(clock[2])
    elif _PLAIN_NUMBER.fullmatch(text):
        days, hours, rest = 0.0, 0.0, float(text)
    else:
        parts = list(_AMOUNT_OF_TIME.finditer(text))
        if not parts:
            return None
        days = hours = rest = 0.0
        for part in parts:
            amount, unit = float((part[1] or part[3]).replace(",", ".")), part[2]
            if unit in _DAY_UNITS:
                days += amount
            elif unit in ("m", None):
                rest += amount
            else:
                hours += amount
    return f"{days * 1440 + hours * 60 + rest:g}"


def first_date(text: str) -> str | None:
    """The first date of a text as YYYY-MM-DD, or YYYY-MM where it names no day; None for none, or one that is none.

    Of `3/4/2019` the month is the first (as the labels of the sets have it), of `3.4.2019` the second.
    """
    return next(_dates(text), None)


def first_moment(text: str) -> Moment | None:
    """The first date of a text with its first time of day; None where it lacks one of them. Fractions of a second, and
    zones other than UTC and offsets, are not read."""
    day = first_date(text)
    if day is None or len(day) < len("2000-01-01"):
        return None
    for found in _TIME_OF_DAY.finditer(_DATE_IN_DIGITS.sub(lambda match: " " * len(match[0]), text)):
        hour, minute, second = (int(part or 0) for part in found.group(1, 2, 3))
        if found[4]:
            hour = hour % 12 + 12 * (found[4] == "p")
        try:
            clock = datetime.datetime.combine(datetime.date.fromisoformat(day), datetime.time(hour, minute, second))
        except ValueError:
            continue
        return Moment(
            clock, _offset(found[6]) if found[6] else datetime.timedelta() if found[5] else None, bool(found[3])
        )
    return None


def _offset(written: str) -> datetime.timedelta:
    digits = written[1:].replace(":", "")
    hours, minutes = (digits[:-2], digits[-2:]) if len(digits) > 2 else (digits, "0")
    return (-1 if written[0] == "-" else 1) * datetime.timedelta(hours=int(hours), minutes=int(minutes))


def _dates(text: str) -> Iterator[str | None]:
    for found in _YEAR_FIRST.finditer(text):
        year, month, day = (int(part) for part in found.groups() if part)
        yield _iso(year, month, day)
    for found in _YEAR_LAST.finditer(text):
        first, second, year = int(found[1]), int(found[3]), int(found[4])
        day_first = found[2] == "." or first > 12
        yield _iso(year + 2000 * (year < 100), *((second, first) if day_first else (first, second)))
    for pattern in _IN_WORDS:
        for found in pattern.finditer(text):
            for month, name in enumerate(_MONTHS, 1):
                if name.match(found["month"]):
                    year = int(found["year"])
                    yield _iso(year, month, int(found["day"])) if found["day"] else f"{found['year']}-{month:02}"


def month_of(word: str) -> int | None:
    """The month that a folded word begins to name, in English, German, French, Spanish, Italian, Dutch, Portuguese."""
    return next((month for month, name in enumerate(_MONTHS, 1) if name.match(word)), None)


def _iso(year: int, month: int, day: int) -> str | None:
    try:
        return datetime.date(year, month, day).isoformat()
    except ValueError:
        return None
