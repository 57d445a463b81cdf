"""A language in, its names of months out: CLDR's forms, their beginnings, the Persian calendar's where in use."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from babel import Locale

from fetchly.extraction.calendars import PERSIAN_MONTHS
from fetchly.extraction.numbers import locale_of, plain

COMMON_LANGUAGES = (
    "en", "de", "fr", "es", "pt", "it", "nl", "pl", "ru", "tr", "sv", "da", "nb", "fi", "cs", "sk", "sl", "hr", "sr",
    "bs", "ro", "hu", "bg", "uk", "el", "ca", "gl", "eu", "et", "lv", "lt", "vi", "id", "ms", "th", "ar", "he", "hi",
)  # fmt: skip
"""Asked where neither the page's language nor English knows a word: pages often carry their template's language."""
SHORTEST_BEGINNING = 3
_FILLERS = re.compile(r"^(?:de |d'|d’|del |di )")


@dataclass(frozen=True, slots=True)
class MonthNames:
    """`numbers` by folded name: 1 to 12, and 101 to 112 for the months of the Persian calendar."""

    numbers: dict[str, int]
    pattern: re.Pattern[str]


def fold_word(text: str) -> str:
    """Case and accents folded, length kept: one character in, one out."""
    return "".join(_fold_character(char) for char in text)


@lru_cache(maxsize=4096)
def _fold_character(char: str) -> str:
    base = unicodedata.normalize("NFD", char)[0].casefold()
    return base if len(base) == 1 else char


@lru_cache(maxsize=32)
def month_names(lang: str | None) -> MonthNames:
    """The names in a page's language and in English."""
    language = locale_of(lang).language
    return _compiled(_names("en") | _names(language))


@lru_cache(maxsize=1)
def common_month_names() -> MonthNames:
    """The names of the most common languages, without those that are different months in two of them (listopad)."""
    joined: dict[str, int] = {}
    torn: set[str] = set()
    for language in COMMON_LANGUAGES:
        for name, number in _names(language).items():
            if joined.setdefault(name, number) != number:
                torn.add(name)
    return _compiled({name: number for name, number in joined.items() if name not in torn})


def _compiled(numbers: dict[str, int]) -> MonthNames:
    longest_first = sorted(numbers, key=lambda name: (-len(name), name))
    names = "|".join(map(re.escape, longest_first))
    return MonthNames(numbers, re.compile(rf"(?<![^\W\d_])(?:{names})(?![^\W_])"))


@lru_cache(maxsize=64)
def _names(language: str) -> dict[str, int]:
    found: dict[str, int] = {}
    torn: set[str] = set()
    beginnings: dict[str, set[int]] = {}
    for widths in Locale.parse(language).months.values():
        for width in ("wide", "abbreviated"):
            for number, written in widths.get(width, {}).items():
                name = _FILLERS.sub("", fold_word(plain(str(written)))).strip(" .")
                if re.fullmatch(r"\d*[月월]?", name):
                    continue
                for form in (name, *_declined(language, name)):
                    if found.setdefault(form, number) != number:
                        torn.add(form)
                for end in range(SHORTEST_BEGINNING, len(name)) if name.isalpha() and width == "wide" else ():
                    beginnings.setdefault(name[:end], set()).add(number)
    for name, numbers in beginnings.items():
        if len(numbers) == 1:
            found.setdefault(name, *numbers)
    for name in torn:
        del found[name]
    if language in ("fa", "ps", "ckb", "mzn", "lrc"):
        found.update({fold_word(name): 101 + index for index, name in enumerate(PERSIAN_MONTHS)})
    return found


def _declined(language: str, name: str) -> tuple[str, ...]:
    """Forms that CLDR writes into its date patterns instead of its names: Hebrew "in", the Basque genitive."""
    if language == "he":
        return (f"ב{name}",)
    return (f"{name}ren", f"{name}aren", f"{name}k") if language == "eu" else ()
