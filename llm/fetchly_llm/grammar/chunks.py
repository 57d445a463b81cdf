r"""A text in; the pieces that spans are runs of, out, as offsets.

A piece (chunk) is a number, a word (letters, digits, `_`, with the marks that combine with them), one other character,
or, in scripts that write no spaces between words (Chinese, Japanese, Thai, ...), one letter.

Digits with separators between them are one number, so that no span holds half of it, where they are written as

- a decimal: `12.5`, `24,5`, `.25` after white space, an opening bracket, a currency sign, a dash or an operator;
- thousands: `1.299,00`, `1,299.00`, `1'299.00`, `12,34,567`, and `1 299,00` with a space that does not break. A
  plain space says nothing: `iPhone 15 999 €` is two numbers, and both stay in reach;
- a chain of dots: `192.168.0.1`, `1.2.3`, `303.294.73` (no part of an address, a version or an article number means
  anything by itself).

What else stands between digits separates values, each of which may be wanted: dates (`22.08.2024`, `2024-03-05`), times
(`12:30`), ranges (`10-12`), ratings and fractions (`4.5/5` is `4.5`, `/`, `5`), lists (`1,2,3`). Letters that touch
such a number are a chunk of their own (`EUR209.99`, `19.3g`, `25,500Infinix`: pages glue them), while digits without
separators stay part of their word (`B07XYZ`, `E27`, `5kg`). A sign or a currency sign is a chunk: `-5` may be a span
with or without it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

# A raw line feed never stands inside a JSON string, so it separates lines among the chunks without ever being written.
BREAK = "\n"

_UNSPACED_SCRIPTS = (
    "CJK ",
    "IDEOGRAPHIC ",
    "HIRAGANA ",
    "KATAKANA",
    "HALFWIDTH KATAKANA",
    "BOPOMOFO ",
    "YI ",
    "THAI ",
    "LAO ",
    "KHMER ",
    "MYANMAR ",
    "TIBETAN ",
    "JAVANESE ",
    "BALINESE ",
    "TAI ",
    "NEW TAI ",
)
_JOINERS = frozenset("\u200c\u200d")
# Full-width forms and the Arabic decimal and thousands separators do what their likes do.
_SEPARATORS = {
    **dict.fromkeys(".．٫", "."),
    **dict.fromkeys(",，", ","),
    **dict.fromkeys("'’٬", "'"),
    **dict.fromkeys("\u00a0\u2007\u202f", "~"),
}
_BEFORE_A_NUMBER = frozenset(["Pd", "Ps", "Sc", "Sm"])

# The outline of a text has one letter per character: d digit, w other part of a word, m mark, u letter of an unspaced
# script, s white space, b break, c what may stand before a number, o other, and the separators as . , ' ~ (a space that
# does not break). n is then part of a number that is one chunk.
_CHUNKS = re.compile(r"n+m*|[dw][dwm]*|[uco.,'m]m*|[sb~]")
_CHAIN = re.compile(r"d+(?:[.,'~]d+)+")
_NUMBER = re.compile(r"d+[.,]d+|d{1,3}([.,'~])d{3}(?:\1d{3})*(?:(?!\1)[.,]d+)?|d{1,2}(?:,d{2})+,d{3}(?:\.d+)?")
_DATE = re.compile(r"d{1,2}\.d{1,2}\.(?:dd|d{4})|d{4}\.d{1,2}\.d{1,2}")
_BARE_DECIMAL = re.compile(r"(?:^|(?<=[sbc~]))\.(?:d+(?!d|[.,'~]d)|n+)")
_WEAKEST_FIRST = "~',"


class Chunk(NamedTuple):
    """Characters `start` to `end` (exclusive). `is_space` where they are white space or a BREAK."""

    start: int
    end: int
    is_space: bool


def chunks(text: str) -> Iterator[Chunk]:
    """The chunks of `text`, end to end. What is one chunk depends on its neighbours: `12.5`, but `22.08.2024`."""
    outline = text.translate({ord(character): _kind(character) for character in set(text)})
    marked = _BARE_DECIMAL.sub(_as_number, _CHAIN.sub(lambda chain: _marked(chain[0]), outline))
    for match in _CHUNKS.finditer(marked):
        yield Chunk(*match.span(), marked[match.start()] in "sb~")


def _marked(chain: str) -> str:
    """A chain of digits and separators with its numbers as n."""
    if _NUMBER.fullmatch(chain):
        return "n" * len(chain)
    for separator in _WEAKEST_FIRST:
        if separator in chain:
            return separator.join(map(_marked, chain.split(separator)))
    return chain if "." not in chain or _DATE.fullmatch(chain) else "n" * len(chain)


def _as_number(match: re.Match[str]) -> str:
    return "n" * len(match[0])


@lru_cache(maxsize=1 << 16)
def _kind(character: str) -> str:
    if character == BREAK:
        return "b"
    if character in _SEPARATORS:
        return _SEPARATORS[character]
    if character.isspace():
        return "s"
    category = unicodedata.category(character)
    if category[0] == "M" or character in _JOINERS:
        return "m"
    if category == "Nd":
        return "d"
    if category[0] in "LN" or character == "_":
        return "u" if unicodedata.name(character, "").startswith(_UNSPACED_SCRIPTS) else "w"
    return "c" if category in _BEFORE_A_NUMBER else "o"
