"""Sites, and the sitemaps that a user named, in; the next whose list of pages is to be read out.

What is to be read, and what has been, is noted in the crawl's state: a run that ends in between leaves it to the next,
also where no page of the site is queued that would lead back to it.
"""

from __future__ import annotations

from collections.abc import Sequence

from fetchly.crawler.frontier import Frontier

_WANTED, _READ = "sitemap wanted ", "sitemap "


class Listings:
    """`named` are the URLs of sitemaps; a site is its origin. Changes belong in the frontier's transactions."""

    def __init__(self, frontier: Frontier, named: Sequence[str]) -> None:
        self._frontier = frontier
        self._named = frozenset(named)
        self._known = set[str]()
        self._waiting: list[str] = []
        for source in (*named, *frontier.notes(_WANTED)):
            self._add(source)

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def want(self, origin: str) -> None:
        """What the sitemaps of a site list is to be read, once."""
        self._frontier.note(_WANTED + origin)
        self._add(origin)

    def take(self) -> str:
        """One to be read now."""
        return self._waiting.pop()

    def is_named(self, source: str) -> bool:
        """Whether it is the URL of a sitemap, and not a site."""
        return source in self._named

    def read(self, source: str) -> None:
        """It was read to its end, and need not be again."""
        self._frontier.note(_READ + source)

    def _add(self, source: str) -> None:
        if source not in self._known and not self._frontier.noted(_READ + source):
            self._known.add(source)
            self._waiting.append(source)
