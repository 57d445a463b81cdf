"""A fetched Page in; what it says to programs about itself out: follow no link of mine, keep me out of an index.

What a polite extractor does about it:

- `nofollow` of a page (`X-Robots-Tag`, `<meta name=robots>`; `none` says it, too) is obeyed: its links join no crawl.
- `noindex` is about search engines, and nobody finds a page through a record in its reader's own file. The page is
  read, and the crawl says that it asked not to be indexed.
- `rel=nofollow` of a single link tells a search engine not to count it as a recommendation, and closes no page. The
  link is followed where the scope and robots.txt let it be.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser

from fetchly.goods import Page

_LOOK = 256 * 1024  # of a page: the tags stand in its head
_SIGN = re.compile(rb"nofollow|none|noindex", re.IGNORECASE)
_WORDS = re.compile(r"[^\s,]+")
_FOR_SOMEBODY = re.compile(r"\s*([a-z0-9_.-]+)\s*:(.*)", re.IGNORECASE | re.DOTALL)
# Words of a directive that have a colon of their own, so that what stands before it is no program.
_WITH_VALUE = frozenset(("unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"))
_ELSEWHERE = frozenset(("noscript", "template", "textarea", "title", "iframe", "noembed", "noframes", "xmp", "svg"))


@dataclass(frozen=True, slots=True)
class RobotsTags:
    """What holds for this program, whoever said it: header or page, of every program or of this one."""

    nofollow: bool = False
    noindex: bool = False


def robots_tags_of(page: Page, agent: str) -> RobotsTags:
    """The tags of a page for the program with the product token `agent`. The strictest counts.

    Source: Google's "Robots meta tag, data-nosnippet and X-Robots-Tag specifications"; there is no standard.
    """
    said = set(_of_headers(page, agent.lower()))
    if page.media_type in (None, "text/html", "application/xhtml+xml") and _SIGN.search(page.body, 0, _LOOK):
        finder = _Finder(agent.lower())
        finder.feed(page.body[:_LOOK].decode("utf-8", "replace"))
        said |= finder.said
    return RobotsTags(nofollow=bool(said & {"nofollow", "none"}), noindex=bool(said & {"noindex", "none"}))


def _of_headers(page: Page, agent: str) -> Iterator[str]:
    for name, value in page.headers:
        if name != "x-robots-tag":
            continue
        is_for_us = True
        for part in value.lower().split(","):
            directive = part
            addressed = _FOR_SOMEBODY.match(part)
            if addressed is not None and addressed[1] not in _WITH_VALUE:
                is_for_us = addressed[1] in (agent, "robots", "*")
                directive = addressed[2]
            if is_for_us:
                yield from _WORDS.findall(directive)


class _Finder(HTMLParser):
    """Collects the directives of a page's meta elements."""

    def __init__(self, agent: str) -> None:
        super().__init__(convert_charrefs=True)
        self.said: set[str] = set()
        self._names = ("robots", agent)
        self._elsewhere: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element opens."""
        if tag in _ELSEWHERE:
            self._elsewhere.append(tag)
        if tag != "meta" or self._elsewhere:
            return
        values = dict(reversed(attrs))  # of attributes of the same name the first counts
        if (values.get("name") or "").strip().lower() in self._names:
            self.said.update(_WORDS.findall((values.get("content") or "").lower()))

    def handle_endtag(self, tag: str) -> None:
        """An element closes."""
        if self._elsewhere and self._elsewhere[-1] == tag:
            self._elsewhere.pop()

    def parse_marked_section(self, i: int, report: bool = True) -> int:
        """`<![endif]>` and kin, on which the library gives up: a comment, as browsers say."""
        return self.parse_bogus_comment(i)
