"""The signature of a page in, the page of the same crawl that it is like out.

The signatures of pages that are done stand in the crawl's state, with an index by bands (locality-sensitive hashing),
and are written in the transaction that makes a page done: no memory grows with the crawl, and a resumed one knows what
its earlier runs have seen. Pages whose record is still being written are in memory: as many as wait for the model.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fetchly.crawler.signatures import bands_of, likeness

NEAR_DUPLICATE = "NEAR_DUPLICATE"
"""Why a page is skipped that says nearly the same as another one that has been read."""

Execute = Callable[..., sqlite3.Cursor]


@dataclass(frozen=True, slots=True)
class Alike:
    """A page that another one is like; `share` is their likeness. `is_done`: its record is in the state."""

    page: int
    url: str
    share: float
    is_done: bool


@dataclass(frozen=True, slots=True)
class _Open:
    url: str
    signature: bytes
    schema: str


class NearDuplicates:
    """What the pages of one crawl are like. One thread at a time.

    `execute` runs a statement in the caller's transaction; `threshold` is the likeness, from 0 to 1, from which on a
    page is another one's double. Pages of which different records are wanted (`schema`) are no doubles.
    """

    def __init__(self, execute: Execute, threshold: float) -> None:
        self._execute = execute
        self._threshold = threshold
        self._open: dict[int, _Open] = {}

    def find(self, signature: bytes, schema: str = "") -> Alike | None:
        """The page that is likest, if any is as like as the threshold asks."""
        best: Alike | None = None
        for number, url, other, is_done in self._candidates(signature, schema):
            share = likeness(signature, other)
            if share >= self._threshold and (best is None or share > best.share):
                best = Alike(number, url, share, is_done)
        return best

    def begin(self, page: int, url: str, signature: bytes, schema: str = "") -> None:
        """The record of a page is being written; others may be like it from now on."""
        self._open[page] = _Open(url, signature, schema)

    def end(self, page: int, *, is_done: bool) -> None:
        """Its record is in the state, or there is none: then nothing is like it any more."""
        ended = self._open.pop(page, None)
        if ended is None or not is_done:
            return
        self._execute("INSERT OR REPLACE INTO signatures VALUES (?, ?)", page, ended.signature)
        for band in self._bands(ended.signature, ended.schema):
            self._execute("INSERT OR IGNORE INTO bands VALUES (?, ?)", band, page)

    def _bands(self, signature: bytes, schema: str) -> list[bytes]:
        return [band + schema.encode() for band in bands_of(signature, self._threshold)]

    def _candidates(self, signature: bytes, schema: str) -> Iterator[tuple[int, str, bytes, bool]]:
        for number, page in self._open.items():
            if page.schema == schema:
                yield number, page.url, page.signature, False
        bands = self._bands(signature, schema)
        rows = self._execute(
            "SELECT id, url, signature FROM pages JOIN signatures ON page = id WHERE id IN "
            f"(SELECT page FROM bands WHERE band IN ({', '.join('?' * len(bands))})) ORDER BY id",
            *bands,
        )
        for number, url, other in rows:
            yield number, url, other, True
