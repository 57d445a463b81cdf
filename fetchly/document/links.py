"""Link targets as a page writes them in; absolute URLs with short ids out."""

from __future__ import annotations

import re
from urllib.parse import urljoin

from fetchly.document.clean import collapse
from fetchly.document.dom import Dom, Element
from fetchly.goods import Link

# `javascript:`, `data:` and `about:` lead nowhere that a record could name.
_FOLLOWED = ("http://", "https://", "mailto:", "tel:", "ftp://", "file:")
_CONTROLS = re.compile(r"[\t\r\n\0]")  # WHATWG: removed inside, spaces stripped outside
MAX_URL = 4096


class LinkTable:
    """Numbers the links of a page in reading order; the same URL keeps its id and its first text."""

    def __init__(self, base: str | None) -> None:
        self._base = base
        self._ids: dict[str, str] = {}
        self._texts: dict[str, str] = {}

    def absolute(self, href: str) -> str | None:
        """The absolute URL of a link, or None where it leads nowhere (a script, a fragment of nothing, nonsense)."""
        href = _CONTROLS.sub("", href).strip(" ")
        if not href or href == "#" or len(href) > MAX_URL:
            return None
        try:
            url = urljoin(self._base, href) if self._base else href
        except ValueError:
            return None
        if self._base and href.startswith("#"):
            return None  # a place in this page
        if not self._base and not re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*:", url):
            return url if not href.startswith("#") else None  # standard input: no base to join with
        return url.replace(" ", "%20") if url.lower().startswith(_FOLLOWED) else None

    def add(self, href: str, text: str) -> str | None:
        """Register a link; its id (`L1`, `L2`, ...), or None where it leads nowhere."""
        url = self.absolute(href)
        if url is None:
            return None
        identifier = self._ids.setdefault(url, f"L{len(self._ids) + 1}")
        if text and not self._texts.get(url):
            self._texts[url] = text
        return identifier

    def links(self) -> tuple[Link, ...]:
        """Every link, in the order of its id."""
        return tuple(Link(id=name, text=self._texts.get(url, ""), url=url) for url, name in self._ids.items())


def base_url(dom: Dom, page_url: str | None) -> str | None:
    """What relative links are relative to: the first <base href>, itself relative to the page's URL."""
    stack: list[Element] = [dom.root]
    while stack:
        element = stack.pop()
        if element.tag == "base" and element.get("href").strip():
            href = collapse(element.get("href"))
            try:
                joined = urljoin(page_url, href) if page_url else href
            except ValueError:
                return page_url
            return joined if joined.lower().startswith(("http://", "https://", "file:")) else page_url
        # A base counts in the head; pages that write it at the top of the body mean it too.
        if element.tag in ("html", "head", "body"):
            stack.extend(child for child in reversed(element.children) if isinstance(child, Element))
    return page_url
