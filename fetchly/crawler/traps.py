"""An address in; the shape that it shares with others of its kind out: what a site makes without end has few shapes.

A calendar links to its next month for ever, a relative link grows its own path, a visitor's number makes every page a
new one. No such page looks wrong by itself: what gives them away is how many there are of one shape. Heritrix refuses
repeated segments outright and bounds the depth; here whatever is refused is counted, kept, and may be asked for again.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from dataclasses import dataclass

from fetchly.crawler.fingerprint import Address

TRAP_SUSPECTED = "TRAP_SUSPECTED"
"""Why a page is skipped that is one too many of its shape."""
PER_SHAPE = 10_000
"""Pages of one shape that are read, unless the user says otherwise."""
REPEATING_SHARE = 100
"""Of a shape whose paths repeat themselves, a hundredth of that: 31 of 237,787 links on real pages are of this kind."""

_DIGITS = re.compile(r"[0-9]+")
# A number in another guise: a UUID, a session, a hash. Words are shorter, or have no digit in them.
_TOKEN = re.compile(r"(?=[a-z-]*[0-9])[0-9a-f-]{16,}|(?=[a-z]*[0-9])[0-9a-z]{24,}", re.IGNORECASE)
_SHORTEST_TOKEN = 16
_TIMES = 3  # a segment that stands in a path so often repeats itself
_SHOWN = 160  # characters of an address in a message


@dataclass(frozen=True, slots=True)
class Shape:
    """`key` is the same for all pages of a shape. `repeats`: some segment stands in the path three times or more."""

    key: bytes
    repeats: bool

    def most(self, per_shape: int) -> int:
        """How many pages of this shape are read, where `per_shape` are of a common one."""
        return max(1, per_shape // REPEATING_SHARE) if self.repeats else per_shape


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A shape that has come to its bound. `example` is the first page that was left out."""

    example: str
    repeats: bool
    most: int

    def line(self) -> str:
        """What the user is told, once a shape."""
        url = self.example if len(self.example) <= _SHOWN else f"{self.example[:_SHOWN]}..."
        why = "whose paths repeat themselves" if self.repeats else "that differ in numbers alone"
        return (
            f"{TRAP_SUSPECTED} {url}: it is one of more than {self.most:,} pages {why}, and the rest is left out "
            "(--exclude keeps all of them out, --resume with a higher --per-shape reads more; in a pipeline exclude "
            "and per_shape)"
        )


def shape_of(address: Address) -> Shape:
    """The shape of an address: its host, path and query, numbers and long tokens folded. Where a segment of the path
    stands three times or more, in whatever order, it is the set of the segments."""
    query = address.url.partition("#")[0].partition("?")[2]
    segments = [_folded(segment) for segment in address.path.split("/")]
    words = Counter(segment for segment in segments if segment.strip("#-_."))
    repeats = max(words.values(), default=0) >= _TIMES
    path = "/".join(sorted(words)) if repeats else "/".join(segments)
    text = "\n".join((address.host, "~" if repeats else "", path, "" if repeats else _folded(query)))
    return Shape(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest(), repeats)


def _folded(text: str) -> str:
    if len(text) >= _SHORTEST_TOKEN:
        text = _TOKEN.sub("#", text)
    return _DIGITS.sub("#", text)
