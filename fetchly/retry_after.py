"""The value of a Retry-After header in; the seconds to wait, bounded, beside what was asked for, out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

MAX_WAIT_S = 3600.0
"""No pause is longer, whatever a server asks for: the request is tried again then, and may be sent off again."""

_SECONDS = re.compile(r"\d+(?:\.\d+)?", re.ASCII)  # RFC 9110 has whole seconds; fractions are seen
_RFC_850 = re.compile(r"[a-z]+,\s*\d+-[a-z]{3}-(\d\d)\s", re.IGNORECASE | re.ASCII)
_LONGEST = 100  # characters; a date has thirty


@dataclass(frozen=True, slots=True)
class Wait:
    """`seconds` to wait from now on; `asked_s` is what the server asks for (inf: more than a float can hold)."""

    seconds: float
    asked_s: float

    @property
    def is_cut(self) -> bool:
        """Whether the server asks for more than is waited for. To be reported."""
        return self.seconds < self.asked_s


def read_retry_after(value: str | None, now: datetime, *, maximum_s: float = MAX_WAIT_S) -> Wait | None:
    """The wait that a header asks for at the moment `now`: 0 s for a date that has passed, None for no header and for
    what cannot be read (a negative number, words).

    Source: RFC 9110, 10.2.3 (seconds or a date) and 5.6.7 (the three forms of a date).
    """
    text = "" if value is None else value.strip()
    if not text:
        return None
    asked = float(text) if _SECONDS.fullmatch(text) else _until(text, now)
    return None if asked is None else Wait(min(asked, maximum_s), asked)


def in_words(asked_s: float) -> str:
    """A number of seconds as a person reads it; hostile servers name numbers of any length."""
    return f"{asked_s:,.0f} s" if asked_s < 1e10 else "centuries"


def _until(text: str, now: datetime) -> float | None:
    """Seconds from `now` to a date, None where it is none."""
    if len(text) > _LONGEST:
        return None
    try:
        moment = parsedate_to_datetime(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        short = _RFC_850.match(text)
        if short is not None:
            moment = _with_century(moment, int(short[1]), now)
        return max(0.0, (moment - now).total_seconds())
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


def _with_century(moment: datetime, two_digits: int, now: datetime) -> datetime:
    """RFC 9110, 5.6.7: what seems more than fifty years ahead is the latest such year of the past."""
    year = now.year - now.year % 100 + two_digits
    return moment.replace(year=year - 100 if year > now.year + 50 else year)
