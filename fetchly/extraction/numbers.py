"""A span of the page and its language in, a decimal number out: separators, digits, magnitudes and units of time.

Babel's locale data (CLDR) knows how each language writes numbers, millions and hours; what is decided here is only
which convention a page follows when its own language's does not fit.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import lru_cache
from typing import Literal

from babel import Locale, UnknownLocaleError
from babel.numbers import NumberFormatError, list_currencies, parse_decimal

TimeUnit = Literal["second", "minute", "hour", "day"]
SECONDS: dict[TimeUnit, int] = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}

_THIN = "\u2009"
"""Stands before what was one sign for a fraction: "4/5" in ASCII is more often a rating than four fifths."""
_EXACT = Context(prec=400)
_SPACES = " \u00a0\u202f\u2009"
_TOKEN = re.compile(rf"(?<![\w.,])\.\d+|\d+(?:[.,'{_SPACES}]\d+)*")
_MIXED = re.compile(r"(?:(\d+)[ \u2009]+)?(\d+)/(\d+)(?![\d/])")
_RANGE = re.compile(r"\s*(?:-|\.\.|\bto\b|\bbis\b|\bà\b|\ba\b|\btot\b)\s*")
_ISO_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+(?:[.,]\d+)?)H)?(?:(\d+(?:[.,]\d+)?)M)?(?:(\d+(?:[.,]\d+)?)S)?)?")
_CLOCK = re.compile(r"\s*(\d{1,3}):([0-5]\d)(?::([0-5]\d))?\s*[^\W\d]*\.?\s*")
_FOLD = str.maketrans(
    {"−": "-", "–": "-", "—": "-", "‐": "-", "‑": "-", "’": "'", "⁄": "/", "٫": ".", "٬": ",", "،": ","}
)
_CURRENCY_CODES = frozenset(list_currencies())
# Words that CLDR lacks: what recipes and shops write.
_MORE_UNITS: dict[TimeUnit, tuple[str, ...]] = {
    "second": ("sek", "secs"),
    "minute": ("min", "mins", "mn", "'"),
    "hour": ("h", "hr", "hrs", "std", "stdn", "u", "uur"),
    "day": ("d", "tg"),
}


@dataclass(frozen=True, slots=True)
class ParsedNumber:
    """`value` None: no number in the span. `remark` says what a reader should know about the choice, or is empty."""

    value: Decimal | None
    remark: str = ""


@dataclass(frozen=True, slots=True)
class _Found:
    value: Decimal
    start: int
    end: int


@lru_cache(maxsize=64)
def locale_of(lang: str | None) -> Locale:
    """The locale of a language tag (BCP 47, also with "_"); English for none and for one that CLDR lacks."""
    tag = (lang or "en").strip().replace("_", "-")
    for candidate in (tag, tag.split("-")[0]):
        try:
            return Locale.parse(candidate, sep="-")
        except (ValueError, UnknownLocaleError):
            continue
    return Locale.parse("en")


def parse_number(span: str, lang: str | None) -> ParsedNumber:
    """The number that a span names: "1.234,56 €" in German is 1234.56, "12 %" is 12, "1½" is 1.5, "2 Mio." 2000000.

    Of several numbers the one beside a currency is taken, else the first, and the remark says so. A convention that
    does not fit the page's language is read by its own form ("4.5" in German is 4.5, never 45).
    """
    text = _plain(span)
    found = list(_numbers(text, locale_of(lang)))
    if not found:
        return ParsedNumber(None)
    chosen = found[0]
    if len(found) == 1:
        return ParsedNumber(chosen.value)
    priced = [number for number in found if _beside_currency(text, number)]
    chosen = priced[0] if priced else chosen
    if len(priced) == 1:
        return ParsedNumber(chosen.value)
    between = text[found[0].end : found[1].start]
    kind = "a range; its lower end was taken" if _RANGE.fullmatch(between) else "several numbers; the first was taken"
    return ParsedNumber(chosen.value, kind)


def parse_duration(span: str, lang: str | None, unit: TimeUnit) -> ParsedNumber:
    """A span of time in `unit`: "1 hr 20 min", "PT80M", "1:20 h", "1 Std. 20 Min.", "1h20" are 80 minutes.

    A bare number counts units. The written form is ISO 8601's, the words are CLDR's in the page's language and English.
    """
    text = _plain(span)
    if (iso := _ISO_DURATION.fullmatch(text.strip().upper())) and any(iso.groups()):
        days, hours, minutes, rest = (Decimal((part or "0").replace(",", ".")) for part in iso.groups())
        seconds = days * 86400 + hours * 3600 + minutes * 60 + rest
        return ParsedNumber(seconds / SECONDS[unit])
    if clock := _CLOCK.fullmatch(text):
        whole, sixtieth, last = (int(part or 0) for part in clock.groups())
        return ParsedNumber(Decimal(whole * 3600 + sixtieth * 60 + last) / SECONDS[unit])
    words = _unit_words(locale_of(lang).language)
    total, remark, found = Decimal(0), "", list(_numbers(text, locale_of(lang)))
    counted: set[TimeUnit] = set()
    skip = False
    for index, number in enumerate(found):
        following = found[index + 1].start if index + 1 < len(found) else len(text)
        if skip:
            skip = False
            continue
        gap = text[number.end : following]
        if index + 1 < len(found) and _RANGE.fullmatch(gap):
            remark, skip = "a range; its lower end was taken", True
            gap = text[found[index + 1].end :]
        named = _leading_unit(gap, words)
        if named is None and counted == {"hour"} and not gap.strip() and number.value < 60:
            named = "minute"  # "1h20"
        if named is None or named in counted:
            continue
        counted.add(named)
        total += number.value * SECONDS[named]
    if counted:
        return ParsedNumber(total / SECONDS[unit], remark)
    return parse_number(span, lang)


def _plain(text: str) -> str:
    """ASCII digits and signs in place of those of other scripts; "½" as thin space and 1/2."""
    out: list[str] = []
    for char in text.translate(_FOLD):
        digit = unicodedata.decimal(char, None)
        if digit is not None:
            out.append(str(digit))
        elif unicodedata.category(char) == "No" and "\u2044" in unicodedata.normalize("NFKC", char):
            out.append(_THIN + unicodedata.normalize("NFKC", char).replace("\u2044", "/"))
        elif "\uff00" <= char <= "\uffef":
            out.append(unicodedata.normalize("NFKC", char))
        elif unicodedata.category(char) != "Cf":
            out.append(char)
    return "".join(out)


def _numbers(text: str, locale: Locale) -> Iterator[_Found]:
    """Every number of a plain text, left to right."""
    at = 0
    while match := _TOKEN.search(text, at):
        fraction = _MIXED.match(text, match.start())
        if fraction and (fraction[1] or text[: match.start()].endswith(_THIN)) and int(fraction[2]) < int(fraction[3]):
            value = Decimal(int(fraction[1] or 0)) + Decimal(int(fraction[2])) / Decimal(int(fraction[3]))
            yield _Found(value, fraction.start(), fraction.end())
            at = fraction.end()
            continue
        token = _longest(match[0], locale)
        end = match.start() + len(token)
        written = _by_convention(token, locale)
        at = end
        if written is None:
            continue
        power, end = _magnitude(text, end, locale)
        before = text[: match.start()]
        negative = before.endswith("-") and not before[:-1][-1:].isalnum()
        value = _EXACT.multiply(written, Decimal(power))
        yield _Found(value.copy_negate() if negative else value, match.start() - negative, end)
        at = end


def _longest(token: str, locale: Locale) -> str:
    """The part of a run of digits and separators that is one number: a space joins only groups of three."""
    if not any(space in token for space in _SPACES):
        return token
    joins = locale.number_symbols[locale.default_numbering_system]["group"] in _SPACES
    spaces = _SPACES if joins else _SPACES[1:]
    grouped = re.match(rf"\d{{1,3}}(?:[{spaces}]\d{{3}})+(?![\d])(?:[.,]\d+)?", token)
    return grouped[0] if grouped else re.split(f"[{_SPACES}]", token, maxsplit=1)[0]


def _by_convention(token: str, locale: Locale) -> Decimal | None:
    """The number by the page's convention, else by the first other one that it fits strictly."""
    token = re.sub(f"[{_SPACES}]", "", token)
    if token.startswith("."):  # ".50" is half of something in any language that writes it
        return Decimal(f"0{token}")
    separators = set(token) - set("0123456789")
    for convention in _conventions(locale):
        symbols = convention.number_symbols["latn"]
        if not separators <= {symbols["decimal"], symbols["group"].replace("’", "'")}:
            continue
        try:
            return parse_decimal(token.replace("'", symbols["group"]), locale=convention, strict=True)
        except NumberFormatError:
            continue
    return None


@lru_cache(maxsize=64)
def _conventions(locale: Locale) -> tuple[Locale, ...]:
    """The page's locale, then its family (decimal point or comma), then the other, Swiss and Indian grouping."""
    family = ("de", "en") if locale.number_symbols["latn"]["decimal"] == "," else ("en", "de")
    own = [locale] if "latn" in locale.number_symbols else []
    return (*own, *(Locale.parse(name) for name in (*family, "de_CH", "en_IN")))


def _beside_currency(text: str, number: _Found) -> bool:
    before, after = text[: number.start].rstrip(), text[number.end :].lstrip()
    sign = any(unicodedata.category(c) == "Sc" for c in (before[-1:], after[:1]) if c)
    return sign or before[-3:] in _CURRENCY_CODES or after[:3] in _CURRENCY_CODES


@lru_cache(maxsize=64)
def _magnitudes(language: str) -> tuple[tuple[str, int], ...]:
    """Words of a language for thousands and more, longest first, as CLDR's compact forms write them after "0"."""
    words: dict[str, int] = {}
    for name in dict.fromkeys((language, "en")):
        for style in ("short", "long"):
            forms = Locale.parse(name).compact_decimal_formats.get(style, {})
            for plural in forms.values():
                for size, pattern in plural.items():
                    zeros = re.match(r"0+", pattern.pattern)
                    if zeros and (word := pattern.pattern[zeros.end() :].replace("'", "")).strip():
                        words.setdefault(word.replace("\u00a0", " "), int(size) // 10 ** (len(zeros[0]) - 1))
    return tuple(sorted(words.items(), key=lambda pair: -len(pair[0])))


def _magnitude(text: str, at: int, locale: Locale) -> tuple[int, int]:
    """(factor, end) of a word for thousands or millions at `at`; (1, at) without one."""
    rest = text[at : at + 24].replace("\u00a0", " ")
    for word, factor in _magnitudes(locale.language):
        if rest.startswith(word) and not rest[len(word) : len(word) + 1].isalpha():
            return factor, at + len(word)
    return 1, at


@lru_cache(maxsize=64)
def _unit_words(language: str) -> tuple[tuple[str, TimeUnit], ...]:
    """Words for units of time, longest first, case and dots folded."""
    words: dict[str, TimeUnit] = {}
    for unit, more in _MORE_UNITS.items():
        words.update(dict.fromkeys(more, unit))
    for name in dict.fromkeys(("en", language)):
        patterns = Locale.parse(name)._data["unit_patterns"]
        for unit in SECONDS:
            for forms in patterns[f"duration-{unit}"].values():
                for form in forms.values() if hasattr(forms, "values") else ():
                    word = str(form).replace("{0}", "").strip().casefold().rstrip(".")
                    if word and name == language:
                        words[word] = unit
                    elif word:
                        words.setdefault(word, unit)
    return tuple(sorted(words.items(), key=lambda pair: -len(pair[0])))


def _leading_unit(text: str, words: tuple[tuple[str, TimeUnit], ...]) -> TimeUnit | None:
    """The unit of time that a text begins with."""
    start = text.lstrip(_SPACES + "-").casefold()
    for word, unit in words:
        if start.startswith(word) and not start[len(word) : len(word) + 1].isalpha():
            return unit
    return None
