"""The facts about a string or number go in; finite nodes that llguidance writes exactly come out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

MAX_LENGTH: Final = 2000  # characters, where the schema sets no maxLength
MAX_ITEMS: Final = 200
SIGNIFICANT_DIGITS: Final = 15  # what a double keeps
LARGEST_COUNT: Final = 1_000_000  # characters or items that any schema may ask for

# Longest texts of formats whose grammar does not end by itself; date, uuid and addresses do.
_FORMAT_LENGTHS: Final[Mapping[str, int | None]] = {
    **dict.fromkeys(("date", "time", "date-time", "uuid", "ipv4", "ipv6")),
    "duration": 60,
    "hostname": 253,
    "email": 254,
}
_DATE = (
    r"(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    r"|02-(?:0[1-9]|1[0-9]|2[0-8]))|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)"
)
_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,9})?(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
# llguidance 1.9.1 writes 29 February in every year and second 60 at any time: these say exactly what RFC 3339 means,
# leap seconds left out.
_FORMAT_PATTERNS: Final[Mapping[str, str]] = {
    "date": f"^{_DATE}$",
    "time": f"^{_TIME}$",
    "date-time": f"^{_DATE}[Tt]{_TIME}$",
}
_LARGEST = 10**SIGNIFICANT_DIGITS - 1
_WIDE_DECIMALS = 6  # an unbounded number has 9 digits before the point and 6 after it, or 15 and none
_MOST_DECIMALS = 9
_MOST_STATES = 10_000  # llguidance 1.9.1 takes 0.15 s for 100 075 remainders, and gigabytes for 123 456 789
_LARGEST_INT64 = 2**63 - 2


class Unwritable(Exception):
    """A bound that the grammar cannot express; `keyword` names it."""

    def __init__(self, keyword: str, why: str) -> None:
        super().__init__(why)
        self.keyword = keyword


@dataclass(slots=True)
class NumberFacts:
    """What all schemas of one place say about a number; None where they say nothing."""

    low: Fraction | None = None
    low_open: bool = False
    high: Fraction | None = None
    high_open: bool = False
    step: Fraction | None = None
    integer: bool = False

    def read(self, schema: Mapping[str, Any]) -> None:
        """Take in one schema's keywords (draft-04's boolean exclusive bounds included)."""
        for keyword in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"):
            value = schema.get(keyword)
            if isinstance(value, bool) or value is None:
                continue
            flag = schema.get("exclusiveMinimum" if keyword == "minimum" else "exclusiveMaximum")
            is_open = keyword.startswith("exclusive") or flag is True
            self._narrow(_exact(value), is_open, is_low=keyword in ("minimum", "exclusiveMinimum"))
        if "multipleOf" in schema:
            self.step = _common_multiple(self.step, _exact(schema["multipleOf"]))

    def _narrow(self, bound: Fraction, is_open: bool, *, is_low: bool) -> None:
        if is_low and (self.low is None or (bound, is_open) > (self.low, self.low_open)):
            self.low, self.low_open = bound, is_open
        if not is_low and (self.high is None or (-bound, is_open) > (-self.high, self.high_open)):
            self.high, self.high_open = bound, is_open

    def nodes(self) -> list[dict[str, Any]]:
        """Finite nodes whose union is what is written for these facts; [] when nothing fits. Raises Unwritable.

        Bounds are inclusive and on the grid of written decimals: llguidance 1.9.1 writes `0` for an exclusive
        minimum 0 with a maximum below 1.
        """
        if self._is_empty():
            return []
        step = _common_multiple(self.step, Fraction(1)) if self.integer else self.step
        if step is not None:
            return self._on_grid(step, "integer" if step.denominator == 1 else "number")
        ends = [abs(end) for end in (self.low, self.high) if end is not None]
        if len(ends) == 2 and max(ends) < 10**9:
            digits = len(str(math.ceil(max(ends))))
            wanted = max(_MOST_DECIMALS, *(_decimals(end) for end in ends))
            nodes = self._on_grid(Fraction(1, 10 ** min(SIGNIFICANT_DIGITS - digits, wanted)), "number")
            if not nodes:
                raise Unwritable("minimum" if self.low is not None else "maximum", "the bounds are too close together")
            return nodes
        near = NumberFacts(self.low, self.low_open, self.high, self.high_open)
        near._narrow(Fraction(-(10**9) + 1), False, is_low=True)
        near._narrow(Fraction(10**9 - 1), False, is_low=False)
        fine = [] if near._is_empty() else near._on_grid(Fraction(1, 10**_WIDE_DECIMALS), "number")
        return fine + self._on_grid(Fraction(1), "integer")

    def _is_empty(self) -> bool:
        if self.low is None or self.high is None:
            return False
        return self.low > self.high or (self.low == self.high and (self.low_open or self.high_open))

    def _on_grid(self, step: Fraction, kind: str) -> list[dict[str, Any]]:
        decimals = _decimals(step)
        if decimals >= SIGNIFICANT_DIGITS:
            raise Unwritable("multipleOf", "it has too many digits")
        if _states(step) > _MOST_STATES:
            raise Unwritable("multipleOf", f"the generator counts remainders up to {_MOST_STATES}")
        reach = Fraction(10 ** max(1, SIGNIFICANT_DIGITS - decimals) - 1)
        if (self.low or 0) > reach or (self.high or 0) < -reach:
            reach = Fraction(_LARGEST_INT64)
            if decimals or (self.low or 0) > reach or (self.high or 0) < -reach:
                raise Unwritable("minimum" if (self.low or 0) > 0 else "maximum", "the bound has too many digits")
        low = -reach if self.low is None else max(self.low, -reach)
        high = reach if self.high is None else min(self.high, reach)
        first, last = math.ceil(low / step), math.floor(high / step)
        first += self.low_open and first * step == self.low
        last -= self.high_open and last * step == self.high
        if first > last:
            return []
        node: dict[str, Any] = {"type": kind, "minimum": _plain(first * step), "maximum": _plain(last * step)}
        if step != 1 or kind == "number":
            node["multipleOf"] = _plain(step)
        return [node]

    def open_ends(self) -> bool:
        """Whether the schema leaves a side unbounded, or bounds it beyond what is written."""
        return any(end is None or abs(end) > _LARGEST for end in (self.low, self.high))


@dataclass(slots=True)
class TextFacts:
    """What all schemas of one place say about a string."""

    shortest: int = 0
    longest: int | None = None
    patterns: list[str] = field(default_factory=list)
    formats: list[str] = field(default_factory=list)

    def read(self, schema: Mapping[str, Any], formats: frozenset[str]) -> None:
        """Take in one schema's keywords; of its formats, those named in `formats`."""
        self.shortest = max(self.shortest, count(schema.get("minLength", 0)))
        if "maxLength" in schema:
            longest = count(schema["maxLength"])
            self.longest = longest if self.longest is None else min(self.longest, longest)
        if "pattern" in schema and schema["pattern"] not in self.patterns:
            self.patterns.append(schema["pattern"])
        if schema.get("format") in formats and schema["format"] not in self.formats:
            self.formats.append(schema["format"])

    def node(self) -> dict[str, Any] | None:
        """The finite string node; None when minLength is above maxLength."""
        longest = self.longest
        if longest is None:
            # A format that ends by itself (its entry is None) needs no bound of ours.
            lengths = [_FORMAT_LENGTHS.get(name, MAX_LENGTH) for name in self.formats]
            known = [length for length in lengths if length is not None]
            default = min(known) if known else None if lengths else MAX_LENGTH
            longest = None if default is None else max(self.shortest, default)
        if longest is not None and self.shortest > longest:
            return None
        node: dict[str, Any] = {"type": "string"}
        if self.shortest:
            node["minLength"] = self.shortest
        if longest is not None:
            node["maxLength"] = min(longest, LARGEST_COUNT)
        facts = [{"pattern": pattern} for pattern in self.patterns] + [{"format": name} for name in self.formats]
        facts += [{"pattern": _FORMAT_PATTERNS[name]} for name in self.formats if name in _FORMAT_PATTERNS]
        patterns, formats = [fact["pattern"] for fact in facts if "pattern" in fact], self.formats
        if patterns:
            node["pattern"] = patterns[0]
        if formats:
            node["format"] = formats[0]
        rest = [
            fact for fact in facts if fact not in ({"pattern": node.get("pattern")}, {"format": node.get("format")})
        ]
        if rest:
            node["allOf"] = rest
        return node


def count(value: Any) -> int:
    """A length or number of items: 3.0 is 3, as every draft since 6 says."""
    return int(value)


def _exact(value: float) -> Fraction:
    """The decimal number that the schema's author wrote."""
    return Fraction(value) if isinstance(value, int) else Fraction(Decimal(repr(value)))


def _common_multiple(one: Fraction | None, other: Fraction) -> Fraction:
    if one is None:
        return other
    scale = math.lcm(one.denominator, other.denominator)
    return Fraction(math.lcm(int(one * scale), int(other * scale)), scale)


def _decimals(value: Fraction) -> int:
    """Digits after the point (all our fractions are decimal numbers)."""
    digits = 0
    while value.denominator != 1:
        value, digits = value * 10, digits + 1
    return digits


def _states(step: Fraction) -> int:
    """How many remainders a writer of multiples of `step` must tell apart: its digits, powers of ten left out."""
    digits = step.numerator * (int(10 ** _decimals(step)) // step.denominator)
    while digits % 10 == 0:
        digits //= 10
    return digits


def _plain(value: Fraction) -> int | float:
    return int(value) if value.denominator == 1 else float(value)
