"""An element without its own words in; what its attributes call it out: the name of a link, the date of a time."""

from __future__ import annotations

import re

from fetchly.document.clean import collapse
from fetchly.document.dom import Element

MAX_NAME = 120
MAX_NODES = 50

_DATE = re.compile(r"\s*(([12][0-9]{3})-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01]))(?:[T\s]|\Z)")


def name_of(link: Element) -> str:
    """The name of a link without text: its own `aria-label` or `title`, or the title of the drawing in it."""
    own = collapse(link.get("aria-label")) or collapse(link.get("title"))
    if own:
        return own if len(own) <= MAX_NAME else ""
    stack: list[Element] = [link]
    for _ in range(MAX_NODES):
        if not stack:
            break
        element = stack.pop()
        if element.tag == "title" or element is not link:
            inner = (
                "".join(child for child in element.children if isinstance(child, str)) if element.tag == "title" else ""
            )
            name = collapse(inner or element.get("aria-label") or element.get("title"))
            if name and len(name) <= MAX_NAME:
                return name
        stack.extend(child for child in reversed(element.children) if isinstance(child, Element))
    return ""


def unwritten_date(element: Element, text: str) -> str:
    """The date that `<time datetime>` or `<abbr title>` gives to machines, where the text does not name the year (`2
    days ago`): in parentheses, as `(2026-01-02)`, or bare where there is no text. Else ""."""
    found = _DATE.match(element.get("datetime" if element.tag == "time" else "title"))
    if found is None or found[2] in text:
        return ""
    return f"({found[1]})" if text else found[1]
