"""What the pages of a site turned out to need in; whether its next page is rendered without being judged first out.

A page is judged by its answer alone: it has too little text, and the marks of a shell that scripts fill. Where a few
pages of one part of a site in a row were of that kind, and a browser did bring out more, the next ones of that part are
taken for the same: a shell with a long menu, or one that waits for its data, has too much text to be told by itself.
Now and then one is judged again, and a single page that says enough without a browser takes the part back to judging.

A part is an origin and the first segment of the path (/app/... beside /blog/...). Where parts are many and small, what
the origin's pages had in common decides, until a part has shown to be otherwise.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from urllib.parse import urlsplit

PART_AFTER = 3
"""Pages in a row of one part that needed a browser, after which the next is taken for one, too."""
ORIGIN_AFTER = 6
"""The same for parts that have shown nothing yet, by all pages of their origin."""
JUDGE_EVERY = 20
"""Of the pages that would be rendered unjudged, each so manieth is judged all the same."""
_MOST_PLACES = 10_000  # remembered; the ones heard of least recently go first


class RenderChoice:
    """A memory of sites. Safe to share between threads.

    `memory` is what it holds by place: how many of its latest pages in a row needed a browser, up to ORIGIN_AFTER.
    """

    def __init__(self, memory: Mapping[str, int] | None = None) -> None:
        self._lock = threading.Lock()
        self._streaks = dict(memory or {})
        self._unjudged: dict[str, int] = {}
        self._changes: dict[str, int] = {}

    @property
    def memory(self) -> dict[str, int]:
        """A copy of what it holds."""
        with self._lock:
            return dict(self._streaks)

    def restore(self, memory: Mapping[str, int]) -> None:
        """Go on with what another one held."""
        with self._lock:
            self._streaks = dict(memory)

    def take_changes(self) -> dict[str, int]:
        """What has changed in `memory` since this was last asked."""
        with self._lock:
            changes, self._changes = self._changes, {}
        return changes

    def skips_judging(self, url: str) -> bool:
        """Whether this page is to be rendered whatever its answer looks like. To be asked once a page."""
        origin, part = _places(url)
        with self._lock:
            of_part = self._streaks.get(part)
            if of_part is not None and of_part >= PART_AFTER:
                decisive = part
            elif of_part != 0 and self._streaks.get(origin, 0) >= ORIGIN_AFTER:
                decisive = origin
            else:
                return False
            self._unjudged[decisive] = self._unjudged.get(decisive, 0) + 1
            return self._unjudged[decisive] % JUDGE_EVERY != 0

    def learn(self, url: str, needed: bool) -> None:
        """A page was judged: a browser brought out what its answer lacked, or it said enough by itself."""
        with self._lock:
            for place in _places(url):
                before = self._streaks.pop(place, None)
                now = min((before or 0) + 1, ORIGIN_AFTER) if needed else 0
                self._streaks[place] = now  # as the latest
                if now != before:
                    self._changes[place] = now
            while len(self._streaks) > _MOST_PLACES:
                oldest = next(iter(self._streaks))
                del self._streaks[oldest]
                self._unjudged.pop(oldest, None)


def _places(url: str) -> tuple[str, str]:
    """The origin of a page, and the part of it that the page belongs to."""
    parts = urlsplit(url)
    origin = f"{parts.scheme}://{parts.netloc}".lower()
    first, slash, _ = parts.path.lstrip("/").partition("/")
    return origin, f"{origin}/{first}/" if slash else f"{origin}/"
