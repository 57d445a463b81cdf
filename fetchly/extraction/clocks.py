"""A text without its dates in, the time of day and the offset from UTC that it names out."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass

_COLON = re.compile(
    r"(?<![\d:])(2[0-4]|[01]?\d):([0-5]\d)(?::([0-5]\d)(?:[.,]\d+)?)?(?![\d:])(?:\s*([ap])\.?\s?m\b)?", re.IGNORECASE
)
_FRENCH = re.compile(r"(?<!\d)(2[0-4]|[01]?\d)\s?h\s?([0-5]\d)(?!\d)", re.IGNORECASE)
_WORD = re.compile(r"(?<!\d)(2[0-4]|[01]?\d)(?:[.:]([0-5]\d))?\s?(?:uhr|uur|h)\b(?:\s([0-5]\d)\b)?", re.IGNORECASE)
_DOTTED = re.compile(r"(?:\bkl\.?|\bklo|\bum|\bore|\balle|\bat|\bà)\s(2[0-4]|[01]?\d)\.([0-5]\d)(?!\d)", re.IGNORECASE)
_HALF_DAY = re.compile(r"(?<![\d:.])(1[0-2]|0?\d)(?:\.([0-5]\d))?\s*([ap])\.?\s?m\b", re.IGNORECASE)
_EAST_ASIAN = re.compile(r"(午前|午後|上午|下午|오전|오후)?\s*(\d{1,2})\s*[時时시點点]\s*(?:(\d{1,2})\s*[分분])?")
_AFTERNOON = frozenset(("午後", "下午", "오후"))
_ZONE = re.compile(r"\s*\(?(?:(Z\b)|(?:UTC|GMT)?\s?([+-])(\d\d?)(?::?(\d\d))?(?!\d)|([A-Z]{3,5})\b)")
# Abbreviations with one meaning in practice; BST, IST, CST and the like have several and are left out.
_OFFSETS = {
    "UTC": 0, "GMT": 0, "WET": 0, "WEST": 1, "CET": 1, "MEZ": 1, "CEST": 2, "MESZ": 2, "EET": 2, "EEST": 3, "MSK": 3,
    "EST": -5, "EDT": -4, "CDT": -5, "MDT": -6, "PST": -8, "PDT": -7, "JST": 9, "KST": 9, "AEST": 10, "AEDT": 11,
    "NZST": 12, "NZDT": 13, "HKT": 8,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Clock:
    """A time of day; `zone` None where the text names none that has one meaning."""

    time: datetime.time
    zone: datetime.timezone | None = None


def clock_in(text: str) -> Clock | None:
    """The first time of day: 14:30, 2.30 pm, 15h30, 14 Uhr, kl. 14.30, 午後2時30分. None without one."""
    for pattern in (_COLON, _FRENCH, _WORD, _DOTTED, _HALF_DAY, _EAST_ASIAN):
        for match in pattern.finditer(text):
            time = _time(pattern, match)
            if time is not None:
                return Clock(time, _zone(text[match.end() : match.end() + 16]))
    return None


def _time(pattern: re.Pattern[str], match: re.Match[str]) -> datetime.time | None:
    half, seconds = "", 0
    if pattern is _EAST_ASIAN:
        half = "p" if match[1] in _AFTERNOON else "a" if match[1] else ""
        hour, minute = int(match[2]), int(match[3] or 0)
    else:
        hour, minute = int(match[1]), int(match[2] or 0)
    if pattern is _COLON:
        half, seconds = (match[4] or "").lower(), int(match[3] or 0)
    elif pattern is _HALF_DAY:
        half = match[3].lower()
    elif pattern is _WORD and match[3]:
        minute = int(match[3])
    if half and not 1 <= hour <= 12 and not (pattern is _COLON or pattern is _EAST_ASIAN):
        return None
    if half == "p" and hour < 12:
        hour += 12
    elif half == "a" and hour == 12:
        hour = 0
    try:
        return datetime.time(hour, minute, seconds)
    except ValueError:
        return None


def _zone(following: str) -> datetime.timezone | None:
    match = _ZONE.match(following)
    if match is None:
        return None
    if match[1]:
        return datetime.UTC
    if match[5]:
        hours = _OFFSETS.get(match[5])
        return None if hours is None else datetime.timezone(datetime.timedelta(hours=hours))
    offset = datetime.timedelta(hours=int(match[3]), minutes=int(match[4] or 0))
    if offset >= datetime.timedelta(hours=24):
        return None
    return datetime.timezone(offset if match[2] == "+" else -offset)
