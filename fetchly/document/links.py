"""Addresses as a page writes them in; absolute URLs with short ids out: `L1`, `L2` for links, `I1`, `I2` for images."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, urljoin

from fetchly.document.clean import collapse
from fetchly.document.dom import Dom, Element
from fetchly.goods import Link

# `javascript:`, `data:` and `about:` lead nowhere that a record could name.
_FOLLOWED = ("http://", "https://", "mailto:", "tel:", "ftp://", "file:")
_LETTERS = re.compile(r"[^\x00-\x7f]+")
_CONTROLS = re.compile(r"[\t\r\n\0]")  # WHATWG: removed inside, spaces stripped outside
MAX_URL = 4096


@dataclass(slots=True)
class _Entry:
    id: str
    text: str
    element: Element


class LinkTable:
    """Numbers the links and the images of a page in reading order; the same URL keeps its id and its first text."""

    def __init__(self, base: str | None) -> None:
        self._base = base
        self._links: dict[str, _Entry] = {}
        self._images: dict[str, _Entry] = {}

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

    def add(self, href: str, text: str, element: Element) -> str | None:
        """Register a link; its id, or None where it leads nowhere."""
        return self._added(self._links, "L", href, text, element)

    def add_areas(self, image_map: Element) -> None:
        """Register what the parts of a picture lead to: a reader clicks them, and no word of the page names them."""
        stack: list[Element] = [image_map]
        while stack:
            element = stack.pop()
            if element.tag == "area" and element.get("href"):
                self.add(element.get("href"), collapse(element.get("alt")), element)
            stack.extend(child for child in reversed(element.children) if isinstance(child, Element))

    def add_image(self, source: str, text: str, element: Element) -> str | None:
        """Register an image; its id, or None where its address is none."""
        return self._added(self._images, "I", source, text, element)

    def _added(self, table: dict[str, _Entry], letter: str, href: str, text: str, element: Element) -> str | None:
        url = self.absolute(href)
        if url is None:
            return None
        entry = table.setdefault(url, _Entry(f"{letter}{len(table) + 1}", text, element))
        if text and not entry.text:
            entry.text = text
        return entry.id

    def links(self, dom: Dom) -> tuple[Link, ...]:
        """Every link in the order of its id, then every image."""
        return tuple(
            Link(id=entry.id, text=entry.text, url=url, css_path=dom.css_path(entry.element))
            for table in (self._links, self._images)
            for url, entry in table.items()
        )


def in_charset(url: str, charset: str) -> str:
    """A link of a page in that charset as a browser sends it: letters of the query in the charset, where it has them.

    Source: WHATWG URL, "query state"; of UTF-16, of a charset that python does not know and of lone surrogates, UTF-8.
    """
    place, mark, query = url.partition("?")
    if query.isascii():
        return url
    codec = "utf-8" if charset.lower().startswith("utf") else charset
    try:
        said = _LETTERS.sub(lambda found: quote(found[0].encode(codec, "xmlcharrefreplace"), safe=""), query)
    except (LookupError, UnicodeError):
        said = _LETTERS.sub(lambda found: quote(found[0], errors="replace"), query)
    return f"{place}{mark}{said}"


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
