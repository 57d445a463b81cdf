"""A span of the page, its language and the page's habits in, a decimal number out: separators, digits, magnitudes.

Babel's locale data (CLDR) knows how each language writes numbers and millions; what is decided here is only which
convention holds: the page's own, else its language's, else the one that the number's form fits.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import lru_cache

from babel import Locale, UnknownLocaleError
from babel.numbers import NumberFormatError, parse_decimal

from fetchly.extraction.conventions import SILENT, Conventions, DecimalSign
from fetchly.extraction.currencies import currency_beside, without_currency

THIN = "\u2009"
"""Stands before what was one sign for a fraction: "4/5" in ASCII is more often a rating than four fifths."""
SPACES = " \u00a0\u202f\u2009"
RANGE = re.compile(
    r"\s*(?:-|\.\.|~|\b(?:to|until|till|through|thru|bis|à|a|au|al|tot|til|till|do|až|до|по)\b)\s*", re.IGNORECASE
)
_OPENS_RANGE = re.compile(rf"(?:{RANGE.pattern})$", re.IGNORECASE)
_EXACT = Context(prec=400)
_TOKEN = re.compile(rf"(?<![\w.,])\.\d+|\d+(?:[.,'{SPACES}]\d+)*")
_MIXED = re.compile(r"(?:(\d+)[ \u2009]+)?(\d+)/(\d+)(?![\d/])")
_OPEN = re.compile(r"[1-9]\d{0,2}[.,]\d{3}")
"""A number that is thousands under one convention and has three decimals under the other."""
_FOLD = str.maketrans(
    {"−": "-", "–": "-", "—": "-", "‐": "-", "‑": "-", "’": "'", "⁄": "/", "٫": ".", "٬": ",", "،": ",", "〜": "~"}
)
# Words that CLDR lacks: what newspapers, shops and South Asia write. With and without a space before them.
_MORE_MAGNITUDES = {
    "tsd": 10**3, "mio": 10**6, "mln": 10**6, "bn": 10**9, "bln": 10**9, "mrd": 10**9, "mld": 10**9,
    "tn": 10**12, "trn": 10**12,
    "lac": 10**5, "lacs": 10**5, "lakh": 10**5, "lakhs": 10**5, "cr": 10**7, "crore": 10**7, "crores": 10**7,
}  # fmt: skip
# One letter is a magnitude at a price ("€2.5 m"), elsewhere more often a unit ("5 m", "3 t"); a small k is always one.
_LETTER = re.compile(r" ?([kmbt])(?![\w'-])", re.IGNORECASE)
_LETTERS = {"k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}
_LETTER_WORDS = {"k": "thousand", "m": "million", "b": "billion (10^9)", "t": "trillion (10^12)"}
_MAY_BE_NEGATIVE = "in parentheses, as accounts write negative amounts; a positive one was taken"
_REACH = 80
"""Characters before a number that are looked at for its sign."""
_VALUE = re.compile(r"\d[^,;:/|(]*$")
"""A number before a dash, which then leads to the end of a range and is no sign."""
_ACCOUNTED = re.compile(r"[^\d(]{0,4}\([^\d(),;:]{0,4}\d+(?:[.,' ]\d+)*[^\d(),;:]{0,4}\)[^\d(]{0,4}")
_CENTS = re.compile(r"[.,]\d\d\)")


@dataclass(frozen=True, slots=True)
class ParsedNumber:
    """`value` None: no number in the span. `remark` says what a reader should know about the choice, or is empty."""

    value: Decimal | None
    remark: str = ""


@dataclass(frozen=True, slots=True)
class FoundNumber:
    """A number at [start, end) of a plain text. `remark`: what its form left open and how it was decided."""

    value: Decimal
    start: int
    end: int
    remark: str = ""


@dataclass(frozen=True, slots=True)
class _Magnitude:
    """What a number is to be multiplied by, and where the word for it ends."""

    factor: int
    end: int
    remark: str = ""


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


def parse_number(span: str, lang: str | None, conventions: Conventions = SILENT) -> ParsedNumber:
    """The number that a span names: "1.234,56 €" in German is 1234.56, "12 %" is 12, "1½" is 1.5, "2 Mio." 2000000.

    Of several numbers the one beside a currency is taken, else the first, and the remark says so. A form that does
    not fit the convention is read as it must be meant ("4.5" in German is 4.5, never 45). A word is no number: "free"
    gives None, as it is said of shipping, trials and returns as often as of a price.
    """
    text = plain(span)
    found = list(numbers_in(text, lang, conventions))
    if not found:
        return ParsedNumber(None)
    if len(found) == 1:
        remark = found[0].remark or (_MAY_BE_NEGATIVE if _is_accounted(text, found[0]) else "")
        return ParsedNumber(found[0].value, remark)
    priced = [number for number in found if currency_beside(text, number.start, number.end)]
    chosen = priced[0] if priced else found[0]
    if len(priced) == 1 and not RANGE.fullmatch(text[found[0].end : found[1].start]):
        return ParsedNumber(chosen.value, chosen.remark)
    index = found.index(chosen)
    first = index - 1 if index and RANGE.fullmatch(text[found[index - 1].end : chosen.start]) else index
    between = text[found[first].end : found[first + 1].start] if first + 1 < len(found) else ""
    if RANGE.fullmatch(_without_currency(between)):
        chosen, remark = found[first], "a range; its lower end was taken"
    else:
        remark = "several numbers; the first was taken"
    return ParsedNumber(chosen.value, "; ".join(filter(None, (chosen.remark, remark))))


def _is_accounted(text: str, number: FoundNumber) -> bool:
    """Whether a span is an amount in parentheses: pages set those beside things, accounts mean negative ones."""
    if number.value < 0 or not _ACCOUNTED.fullmatch(text.strip()):
        return False
    return bool(currency_beside(text, number.start, number.end) or _CENTS.search(text))


def _without_currency(text: str) -> str:
    """What stands between two numbers, without the currency of one of them: "$10 - $20", "10 EUR - 20 EUR"."""
    return without_currency(re.sub(r"^\s*(?:[^\w\s.~-]+|[A-Z]{3}\b)|[^\w\s.~-]+\s*$", "", text))


def plain(text: str) -> str:
    """ASCII digits and signs in place of those of other scripts; "½" as thin space and 1/2."""
    out: list[str] = []
    for char in text.translate(_FOLD):
        if char.isascii():
            out.append(char)
            continue
        digit = unicodedata.decimal(char, None)
        if digit is not None:
            out.append(str(digit))
        elif unicodedata.category(char) == "No" and "\u2044" in unicodedata.normalize("NFKC", char):
            out.append(THIN + unicodedata.normalize("NFKC", char).replace("\u2044", "/"))
        elif "\uff00" <= char <= "\uffef":
            out.append(unicodedata.normalize("NFKC", char))
        elif unicodedata.category(char) != "Cf":
            out.append(char)
    return "".join(out)


def numbers_in(text: str, lang: str | None, conventions: Conventions = SILENT) -> Iterator[FoundNumber]:
    """Every number of a plain text, left to right."""
    locale = locale_of(lang)
    at = 0
    while match := _TOKEN.search(text, at):
        fraction = _MIXED.match(text, match.start())
        if fraction and (fraction[1] or text[: match.start()].endswith(THIN)) and int(fraction[2]) < int(fraction[3]):
            value = Decimal(int(fraction[1] or 0)) + Decimal(int(fraction[2])) / Decimal(int(fraction[3]))
            yield FoundNumber(value, fraction.start(), fraction.end())
            at = fraction.end()
            continue
        token = _longest(match[0], locale)
        at = end = match.start() + len(token)
        sign, remark = conventions.decimal, ""
        if _OPEN.fullmatch(token) and sign is None:
            sign, remark = _decided(token, currency_beside(text, match.start(), end), lang, conventions)
        written = _by_convention(token, locale, sign)
        if written is None:
            continue
        power = _magnitude(text, match.start(), end, locale)
        at = power.end
        value = _EXACT.multiply(written, Decimal(power.factor))
        before = text[max(0, match.start() - _REACH) : match.start()]
        if _is_negative(before):
            value = value.copy_negate()
        start = match.start() - (value.is_signed() and before.endswith("-"))
        yield FoundNumber(value, start, at, "; ".join(filter(None, (remark, power.remark))))


def _is_negative(before: str) -> bool:
    """A minus sign before the number or before its currency: "-5", "-$5", "-EUR 5", "EUR -5".

    A dash after a value leads to the end of a range ("5 €-10 €"), one in or after a word is a hyphen ("A-3").
    """
    bare = before if before.endswith("-") else without_currency(before)
    if not bare.endswith("-"):
        return False
    head = bare[:-1].rstrip()
    if _VALUE.search(head) and not _OPENS_RANGE.search(head):
        return False
    return not head[-1:].isalnum() or (bare is before and without_currency(head) != head)


def _decided(token: str, currency: str, lang: str | None, conventions: Conventions) -> tuple[DecimalSign | None, str]:
    """The decimal sign for a number that has two readings, where the page's other numbers do not say."""
    if currency in ("€", "EUR") and "." in token and locale_of(lang).number_symbols["latn"]["decimal"] == ".":
        # No price in euro has three decimals after a point: where the euro is at home, the point groups thousands.
        return ",", "the point was read as grouping thousands"
    if conventions.mixed_decimals:
        return None, "the page writes numbers in two ways; its language's was taken"
    if not lang:
        return None, "point and comma may be the other way round: neither the page nor its language says"
    return None, ""


def _longest(token: str, locale: Locale) -> str:
    """The part of a run of digits and separators that is one number: a space joins only groups of three."""
    if not any(space in token for space in SPACES):
        return token
    joins = locale.number_symbols[locale.default_numbering_system]["group"] in SPACES
    spaces = SPACES if joins else SPACES[1:]
    grouped = re.match(rf"\d{{1,3}}(?:[{spaces}]\d{{3}})+(?![\d])(?:[.,]\d+)?", token)
    return grouped[0] if grouped else re.split(f"[{SPACES}]", token, maxsplit=1)[0]


def _by_convention(token: str, locale: Locale, sign: DecimalSign | None) -> Decimal | None:
    """The number by the first convention that it fits strictly."""
    token = re.sub(f"[{SPACES}]", "", token)
    if token.startswith("."):  # ".50" is half of something in any language that writes it
        return Decimal(f"0{token}")
    separators = set(token) - set("0123456789")
    for convention in _conventions(locale, sign):
        symbols = convention.number_symbols["latn"]
        if not separators <= {symbols["decimal"], symbols["group"].replace("’", "'")}:
            continue
        try:
            return parse_decimal(token.replace("'", symbols["group"]), locale=convention, strict=True)
        except NumberFormatError:
            continue
    return None


@lru_cache(maxsize=128)
def _conventions(locale: Locale, sign: DecimalSign | None) -> tuple[Locale, ...]:
    """The page's locale, then its family (decimal point or comma), then the other, Swiss and Indian grouping.

    `sign` is what the page itself was seen to use: conventions with another one come last.
    """
    own = [locale] if "latn" in locale.number_symbols else []
    family = ("de", "en") if locale.number_symbols["latn" if own else "arab"]["decimal"] == "," else ("en", "de")
    ranked = [*own, *(Locale.parse(name) for name in (*family, "de_CH", "en_IN"))]
    if sign is not None:
        ranked.sort(key=lambda convention: convention.number_symbols["latn"]["decimal"] != sign)
    return tuple(ranked)


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
                        word = word if len(word.strip()) == 1 else word.lower()
                        words.setdefault(_spaced(word), int(size) // 10 ** (len(zeros[0]) - 1))
    for word, size in list(words.items()):  # "2 Mio" for "2 Mio."
        words.setdefault(word.rstrip("."), size)
    words.setdefault("k", 10**3)
    for word, size in _MORE_MAGNITUDES.items():
        words.setdefault(word, size)
        words.setdefault(f" {word}", size)
    return tuple(sorted(words.items(), key=lambda pair: -len(pair[0])))


def _magnitude(text: str, start: int, end: int, locale: Locale) -> _Magnitude:
    """The word for thousands or millions after the number at [start, end); factor 1 without one."""
    rest = _spaced(text[end : end + 24])
    if rest.strip():
        folded = rest.lower()
        for word, factor in _magnitudes(locale.language):
            ideograph = word[-1] > "\u2fff"  # these need no space after them
            written = rest if len(word.strip()) == 1 else folded  # 5M are millions, 5m are metres
            if written.startswith(word) and (ideograph or not rest[len(word) : len(word) + 1].isalnum()):
                return _Magnitude(factor, end + len(word))
        letter = _LETTER.match(rest)
        if letter and (letter[1] == "k" or currency_beside(text, start, end + letter.end())):
            size = letter[1].lower()
            return _Magnitude(_LETTERS[size], end + letter.end(), f"“{letter[1]}” was read as {_LETTER_WORDS[size]}")
    return _Magnitude(1, end)


def _spaced(text: str) -> str:
    return text.replace("\u00a0", " ").replace("\u202f", " ")
