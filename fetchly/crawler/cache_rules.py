"""A stored answer and the time in; whether it may be kept, may be used, and how its server is asked about it out.

RFC 9111 for a private cache that only ever holds answers to GET. Where the RFC leaves a choice, the stricter one is
taken: no freshness that the server has not stated (no heuristics, 4.2.2), no stale answer in any case (4.2.4), a
directive that is limited to some fields holds for the whole answer, one that contradicts another loses to it where it
allows more.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from email.utils import parsedate_tz

Fields = tuple[tuple[str, str], ...]
"""Header fields in their order: lower-case names, values as they came (bytes as Latin-1)."""

REDIRECTS = frozenset((301, 302, 303, 307, 308))
_WITH_CONTENT = frozenset((200, 203))
_MOST_SECONDS = 2**31  # RFC 9111, 1.2.2

_DIRECTIVE = re.compile(
    r"""([!#$%&'*+.^_`|~0-9a-z-]+)          # name
        (?:\s*=\s*(?:"((?:[^"\\]|\\.)*)"     # ="quoted"
                   |([^\s,]*)))?             # =token
    """,
    re.IGNORECASE | re.VERBOSE,
)
_SECONDS = re.compile(r"[0-9]+")
# Of one connection (RFC 9111, 3.1; RFC 9110, 7.6.1).
_CONNECTION_FIELDS = frozenset((
    "connection", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade",
    "proxy-authenticate", "proxy-authentication-info", "proxy-authorization",
))  # fmt: skip
# What speaks of the bytes that were read and decoded when the answer was stored: a 304 has none (3.2, last paragraph).
_BODY_FIELDS = frozenset(("content-encoding", "content-length", "content-range", "content-type"))


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """An answer without its body. `asked_at` and `answered_at` are the time of day (seconds since 1970) at which its
    request went out and its head was there, or those of the 304 that confirmed it last."""

    status: int
    fields: Fields
    asked_at: float
    answered_at: float

    def values(self, name: str) -> list[str]:
        """The values of every field of a name."""
        return [value for field, value in self.fields if field == name]


def may_store(answer: StoredAnswer) -> bool:
    """Whether an answer may be kept, and keeping it is of any use: it is fresh for a while, or its server can be asked
    whether it still holds (3; 4.1 for `Vary: *`). Redirects are kept only where they are fresh for a while."""
    directives = _directives(answer)
    if "no-store" in directives or any("*" in value for value in answer.values("vary")):
        return False
    lasts = lifetime_s(answer) > 0 and not _must_always_ask(answer, directives)
    if answer.status in REDIRECTS:
        return lasts and bool(answer.values("location"))
    return answer.status in _WITH_CONTENT and (lasts or bool(conditions(answer)))


def stored_fields(fields: Iterable[tuple[str, str]]) -> Fields:
    """Fields as they are kept: without those of the connection, and those that it names (3.1)."""
    lowered = [(name.lower(), value) for name, value in fields]
    named = {part.strip().lower() for name, value in lowered if name == "connection" for part in value.split(",")}
    return tuple((name, value) for name, value in lowered if name not in _CONNECTION_FIELDS | named)


def is_fresh(answer: StoredAnswer, now: float) -> bool:
    """Whether an answer may be used without a word to its server (4.2). After the clock was set back, none may."""
    if _must_always_ask(answer, _directives(answer)) or now < answer.answered_at:
        return False
    return lifetime_s(answer) > age_s(answer, now)


def lifetime_s(answer: StoredAnswer) -> float:
    """For how many seconds its server calls an answer fresh: max-age, else Expires (4.2.1). 0 where it says nothing, or
    what cannot be read. `s-maxage` speaks to shared caches."""
    ages = _directives(answer).get("max-age")
    if ages is not None:
        return min(float(_seconds(value) or 0) for value in ages)
    expires = answer.values("expires")
    if not expires:
        return 0.0
    until = [_moment(value) for value in expires]
    moments = [moment for moment in until if moment is not None]
    if len(moments) < len(until):
        return 0.0  # "0" above all: already over (5.3)
    return max(0.0, min(moments) - _date(answer))


def age_s(answer: StoredAnswer, now: float) -> float:
    """How old an answer is by the more pessimistic of its Date and its Age (4.2.3)."""
    said = answer.values("age")
    age_value = (_seconds(said[0].partition(",")[0].strip()) or 0) if said else 0
    delay = max(0.0, answer.answered_at - answer.asked_at)
    initial = max(0.0, answer.answered_at - _date(answer), age_value + delay)
    return initial + (now - answer.answered_at)


def conditions(answer: StoredAnswer) -> Fields:
    """The fields that ask a server whether an answer still holds (4.3.1); none where it gave nothing to ask by."""
    asked = []
    if etags := answer.values("etag"):
        asked.append(("if-none-match", etags[0]))
    if dates := answer.values("last-modified"):
        asked.append(("if-modified-since", dates[0]))
    return tuple(asked)


def confirmed(answer: StoredAnswer, by: StoredAnswer) -> StoredAnswer | None:
    """An answer after a 304: its fields brought up to date (3.2). None where the 304 speaks of another one (4.3.4)."""
    for name in ("etag", "last-modified"):
        if theirs := by.values(name):
            if [_opaque(value) for value in theirs] != [_opaque(value) for value in answer.values(name)]:
                return None
            break
    renewed = {name for name, _ in by.fields} - _BODY_FIELDS
    kept = [(name, value) for name, value in answer.fields if name not in renewed]
    new = [(name, value) for name, value in by.fields if name in renewed]
    return replace(answer, fields=(*kept, *new), asked_at=by.asked_at, answered_at=by.answered_at)


def _must_always_ask(answer: StoredAnswer, directives: Mapping[str, list[str]]) -> bool:
    if "no-cache" in directives:
        return True
    return not directives and any("no-cache" in value.lower() for value in answer.values("pragma"))  # 5.4


def _directives(answer: StoredAnswer) -> dict[str, list[str]]:
    """Cache-Control, with every value that a directive is given."""
    found: dict[str, list[str]] = {}
    for name, quoted, token in _DIRECTIVE.findall(", ".join(answer.values("cache-control"))):
        found.setdefault(name.lower(), []).append(quoted or token)
    return found


def _seconds(value: str) -> int | None:
    if not _SECONDS.fullmatch(value):
        return None
    return min(int(value), _MOST_SECONDS) if len(value) <= 10 else _MOST_SECONDS


def _date(answer: StoredAnswer) -> float:
    """When an answer was made. Without a word on it: when it came (RFC 9110, 6.6.1)."""
    moments = [moment for value in answer.values("date") if (moment := _moment(value)) is not None]
    return min(moments, default=answer.answered_at)


def _moment(value: str) -> float | None:
    """A date of HTTP, in any of its three forms, as seconds since 1970."""
    try:
        parts = parsedate_tz(value)
        if parts is None:
            return None
        return float(calendar.timegm((*parts[:6], 0, 0, 0)) - (parts[9] or 0))
    except (ValueError, OverflowError, IndexError, TypeError):
        return None


def _opaque(etag: str) -> str:
    """An entity tag for the weak comparison (RFC 9110, 8.8.3.2)."""
    return etag.strip().removeprefix("W/")
