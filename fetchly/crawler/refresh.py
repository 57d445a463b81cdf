"""The bytes of a page and its headers in; the address that it sends its visitor to by itself out (`meta refresh`).

Own code: w3lib's get_meta_refresh cuts scripts out before comments, so that a comment that mentions a script hides or
invents a refresh; it wants quotes and `url=` where browsers do not; and it looks for a base in another pass.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html.parser import HTMLParser

# A page that is shown for longer than this is there to be read.
MAX_DELAY_S = 10
_LOOK = 256 * 1024
_TAIL = 4096  # after the words that gave the meta element away

_SIGN = re.compile(rb"http-equiv[\s=\"']{1,20}refresh", re.IGNORECASE)
_CONTENT = re.compile(r"[\t\n\f\r ]*(?=[\d.])(\d*)[\d.]*(?:[\t\n\f\r ]*[;,]|[\t\n\f\r ])?[\t\n\f\r ]*(.*)", re.DOTALL)
_URL_WORD = re.compile(r"url[\t\n\f\r ]*=[\t\n\f\r ]*", re.IGNORECASE)
# What stands in these is no element of the page, or one for other readers than us.
_ELSEWHERE = frozenset(
    ("noscript", "template", "textarea", "title", "iframe", "noembed", "noframes", "xmp", "svg", "math", "select")
)


@dataclass(frozen=True, slots=True)
class Refresh:
    """Where a page leads and after how many seconds. `target` and `base` are as the page writes them."""

    delay_s: int
    target: str
    base: str | None = None


def refresh_of(body: bytes, header: str | None = None) -> Refresh | None:
    """The refresh of a page: that of its `Refresh` header, else the first of its meta elements that names an address.

    None for a page that stays, that only loads itself again, or that waits longer than MAX_DELAY_S. Comments, scripts,
    noscript and template declare nothing. Source: WHATWG HTML, "shared declarative refresh steps".
    """
    said = None if header is None else _read(header, None)
    if said is None:
        signs = list(_SIGN.finditer(body, 0, _LOOK))
        if not signs:
            return None
        head = body[: signs[-1].end() + _TAIL]
        finder = _Finder()
        try:
            finder.feed(head.decode("utf-8"))
        except UnicodeDecodeError:
            finder = _Finder()
            finder.feed(head.decode("latin-1"))
        said = finder.found
    return said if said is not None and said.delay_s <= MAX_DELAY_S else None


def _read(content: str, base: str | None) -> Refresh | None:
    """`5; url=/next` taken apart; None where it names no address or cannot be read."""
    match = _CONTENT.match(content)
    if match is None or not match[2]:
        return None
    target = _URL_WORD.sub("", match[2], count=1) if _URL_WORD.match(match[2]) else match[2]
    if target[:1] in ("'", '"'):
        target = target[1:].partition(target[0])[0]
    target = target.strip("\t\n\f\r ")
    # Nine digits are years: enough for every comparison, and no number of a hostile length.
    return Refresh(int(match[1][:9] or "0"), target, base) if target else None


class _Finder(HTMLParser):
    """Takes note of the first base and of the first refresh of a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: Refresh | None = None
        self._base: str | None = None
        self._elsewhere: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element opens."""
        if tag in _ELSEWHERE:
            self._elsewhere.append(tag)
        if self._elsewhere or tag not in ("base", "meta") or self.found is not None:
            return
        values = dict(reversed(attrs))  # of attributes of the same name the first counts
        if tag == "base" and self._base is None:
            self._base = values.get("href")
        elif tag == "meta" and (values.get("http-equiv") or "").strip().lower() == "refresh":
            self.found = _read(values.get("content") or "", self._base)

    def parse_marked_section(self, i: int, report: bool = True) -> int:
        """`<![endif]>` and kin, on which the library gives up: a comment, as browsers say."""
        return self.parse_bogus_comment(i)

    def handle_endtag(self, tag: str) -> None:
        """An element closes."""
        if self._elsewhere and self._elsewhere[-1] == tag:
            self._elsewhere.pop()
