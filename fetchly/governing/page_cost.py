"""Readings of memory with so many pages under way in; what one more page may take out."""

from __future__ import annotations

import math

FIRST_BYTES = 150_000_000
"""Until pages have been seen: a tab of Chromium and a process that reads it take up to so much."""
LEAST_BYTES = 16_000_000
_HALVED_BY = 8  # finished pages


class PageCost:
    """Learns from readings. `idle` is what is held without any page, as of the last time that there was none; `each`
    is the largest share of a page in what is held beyond, and halves with every so many pages that have ended
    without coming near it."""

    def __init__(self) -> None:
        self.idle = math.inf
        self.each = float(FIRST_BYTES)
        self._finished = 0

    def learn(self, used: float, under_way: int, finished: int) -> None:
        """A reading: `used` bytes while `under_way` pages are, and `finished` have been."""
        self.idle = min(used, self.idle) if under_way else used
        faded = self.each * 0.5 ** (max(0, finished - self._finished) / _HALVED_BY)
        seen = (used - self.idle) / under_way if under_way else 0.0
        self.each = max(LEAST_BYTES, faded, seen)
        self._finished = finished

    def room(self, used: float, under_way: int, most: float) -> int:
        """How many pages may be under way until `most` bytes are held, those that are under way included. They are
        taken to grow yet to what a page takes."""
        expected = max(used, self.idle + under_way * self.each)
        return under_way + math.floor((most - expected) / self.each)
