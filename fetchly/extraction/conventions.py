"""A document in, how it writes numbers and dates out: what its own unambiguous ones say about the others.

"1.500" is 1500 on a page that also writes "1.299,00 €", and 2/5/2019 is the second of May where 15/4/2019 stands.
What a page writes beats what its language usually does: English pages of European shops exist.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeVar

from fetchly.extraction.currencies import currency_beside
from fetchly.goods import Document

DecimalSign = Literal[".", ","]
DayOrder = Literal["DMY", "MDY"]
T = TypeVar("T")

_NUMBER = re.compile(r"(?<![\d.,])(?<![^\W\dA-Z])\d+(?:[.,]\d+)+(?!\d)")  # "EUR12.50", never "v1.2"
_DATE = re.compile(r"(?<![\d./-])(\d{1,2})([./-])\s?(\d{1,2})\2\s?(\d{4})(?![\d/-])")
_ISO_DATE = re.compile(r"(?<!\d)(\d{4})-(\d\d)-(\d\d)(?!\d)")
_MACHINE = frozenset(("data", "code"))
"""Blocks that are written for programs: a decimal point there says nothing about the page's language."""


@dataclass(frozen=True, slots=True)
class Conventions:
    """None where the page does not say. `mixed_*`: it says both; the more frequent one was taken, None in a tie."""

    decimal: DecimalSign | None = None
    mixed_decimals: bool = False
    order: DayOrder | None = None
    mixed_orders: bool = False


SILENT = Conventions()


def conventions_of(document: Document) -> Conventions:
    """What the page's own numbers and dates tell. One pass over its text."""
    texts = [block.text for block in document.blocks if block.kind not in _MACHINE]
    decimals = Counter(sign for text in texts for sign in _decimal_signs(text))
    orders = Counter(order for order in _day_orders(texts, document.text))
    return Conventions(_most(decimals), len(decimals) > 1, _most(orders), len(orders) > 1)


def _most(counts: Counter[T]) -> T | None:
    ranked = counts.most_common(2)
    if not ranked or (len(ranked) == 2 and ranked[0][1] == ranked[1][1]):
        return None
    return ranked[0][0]


def _decimal_signs(text: str) -> Iterator[DecimalSign]:
    """One sign for each number that can be read in one way only: both signs, groups of three, or a price's cents."""
    for match in _NUMBER.finditer(text):
        signs = re.findall("[.,]", match[0])
        groups = re.split("[.,]", match[0])
        last, rest = signs[-1], set(signs[:-1])
        priced = bool(currency_beside(text, match.start(), match.end()))
        if len(signs) == 1:
            if priced and len(groups[1]) == 2:
                yield _sign(last)
        elif rest == {_other(last)}:
            if _is_grouped(groups[:-1]):
                yield _sign(last)
        elif rest == {last} and _is_grouped(groups) and (priced or last == "," or len(groups) == 3):
            yield _sign(_other(last))


def _is_grouped(groups: list[str]) -> bool:
    """Thousands, or the Indian 12,34,567."""
    first, *middle = groups
    sizes = {len(group) for group in middle[:-1]}
    whole = first != "0" and len(first) <= 3 and len(middle[-1]) == 3
    return whole and (sizes <= {3} or (sizes == {2} and len(first) <= 2))


def _other(sign: str) -> str:
    return "," if sign == "." else "."


def _sign(sign: str) -> DecimalSign:
    return "." if sign == "." else ","


def _day_orders(texts: list[str], whole: str) -> Iterator[DayOrder]:
    """The order of each numeric date that has a day over 12, or whose day the page also writes as ISO 8601."""
    known = {match.groups() for match in _ISO_DATE.finditer(whole)}
    for text in texts:
        for first, _, second, year in _DATE.findall(text):
            a, b = int(first), int(second)
            if a == b or not 1 <= min(a, b) <= 12 or max(a, b) > 31:
                continue
            day_first = (year, f"{b:02}", f"{a:02}") in known or a > 12
            month_first = (year, f"{a:02}", f"{b:02}") in known or b > 12
            if day_first != month_first:
                yield "DMY" if day_first else "MDY"
