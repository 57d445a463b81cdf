"""A text and the place of a number in it in, the sign, code or word of a currency beside that number out."""

from __future__ import annotations

import re

from babel.numbers import list_currencies

_SIGNS = "$£¥¤֏؋৳฿៛₠-⃀﷼﹩＄￡￥￦"
# What shops write where neither Unicode has a sign nor ISO 4217 a code.
_WORDS = (
    "Kč|KČ|zł|ZŁ|kr|Kr|KR|Ft|FT|lei|Lei|LEI|лв|руб|грн|тг|دج|ر\\.س|د\\.إ|元|円|원|SFr|Fr|Rs|RS|Rp|RM|kn|Kn|KN|din|Bs|S/"
    "|Euro|euros?|EURO"
)
_BEFORE = re.compile(
    rf"(?:(?P<code>(?<![A-Za-z])[A-Z]{{3}})|(?P<word>(?<!\w)(?:{_WORDS})\.?)|(?P<sign>[{_SIGNS}]))\s?-?$"
)
_AFTER = re.compile(
    rf",?[-–—]{{0,2}}\s?(?:(?P<code>[A-Z]{{3}}(?![A-Za-z]))|(?P<word>(?:{_WORDS})(?!\w))|(?P<sign>[{_SIGNS}]))"
)
_CODES = frozenset(list_currencies())
_REACH = 8
_COUNTRY = re.compile(r"(?<![^\W\d_])(?:[A-Z]{1,2})$")
"""Whose sign it is: "US$", "R$"."""


def currency_beside(text: str, start: int, end: int) -> str:
    """The currency that stands directly before or after `text[start:end]`, as the page writes it; empty without one."""
    for match in (_BEFORE.search(text[max(0, start - _REACH) : start]), _AFTER.match(text[end : end + _REACH])):
        if match is None:
            continue
        if code := match["code"]:
            if code in _CODES:
                return code
            continue
        return match["word"] or match["sign"]
    return ""


def without_currency(text: str) -> str:
    """A text without the currency that it ends with and the space after that; the text itself where it has none."""
    match = _BEFORE.search(text[-_REACH:])
    if match is None or (match["code"] and match["code"] not in _CODES):
        return text
    start = max(0, len(text) - _REACH) + match.start()
    return _COUNTRY.sub("", text[:start]) if match["sign"] else text[:start]
