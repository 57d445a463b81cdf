"""An element in; whether a reader sees it out, as far as its own tag, attributes and inline style say."""

from __future__ import annotations

import re
from enum import Enum, auto

from fetchly.document.clean import DROPPED
from fetchly.document.dom import Element

_DISPLAY = re.compile(r"(?:^|[;\s])display\s*:\s*(block|flex|grid|list-item|table|inline)(?![\w-])", re.IGNORECASE)
_HIDING = re.compile(r"(?:^|[;\s])(?:display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse))", re.IGNORECASE)
_OUT_OF_FLOW = re.compile(r"(?:^|[;\s])position\s*:\s*(?:absolute|fixed)", re.IGNORECASE)
_FAR_AWAY = re.compile(
    r"(?:^|[;\s])(?:left|right|top|bottom|margin(?:-left|-top)?)\s*:\s*-(?:\d{4,}(?:\.\d*)?px|\d{3,}(?:em|rem|vw|vh))",
    re.IGNORECASE,
)
_NO_SIZE = re.compile(r"(?:^|[;\s])font-size\s*:\s*0+(?:\.0*)?(?:px|em|rem|pt|%)?\s*(?:;|!|$)", re.IGNORECASE)


class Sight(Enum):
    """Whether an element is read: shown, not text at all, hidden from the reader, or a fall-back without scripts."""

    SHOWN = auto()
    DROPPED = auto()
    HIDDEN = auto()
    FALLBACK = auto()


def sight_of(element: Element) -> Sight:
    """What a reader sees of an element.

    Hidden: the attribute `hidden` (unless `until-found`), a closed dialog, and by inline style `display: none`,
    `visibility: hidden`, a place far outside the screen (honeypots, link spam), text of size zero. On html and body
    these are the trick of a page that reveals itself by script, and do not count.

    Not hidden, by what 3,000 real pages do: `opacity: 0` (text about to fade in), `height: 0` and `max-height: 0`
    (closed accordions), `clip` and `aria-hidden` (text for, or not for, screen readers only). Style sheets are not
    read: what they hide, scripts open.
    """
    tag = element.tag
    if tag in DROPPED:
        return Sight.DROPPED
    if tag == "noscript":
        return Sight.FALLBACK
    attributes = element.attributes
    if tag == "dialog" and "open" not in attributes:
        return Sight.HIDDEN
    if not attributes or tag in ("html", "body"):
        return Sight.SHOWN
    if "hidden" in attributes and attributes["hidden"].lower() != "until-found":
        return Sight.HIDDEN
    style = attributes.get("style")
    return Sight.HIDDEN if style and _hides(style, element) else Sight.SHOWN


def _hides(style: str, element: Element) -> bool:
    if _HIDING.search(style) or (_FAR_AWAY.search(style) and _OUT_OF_FLOW.search(style)):
        return True
    # Elements inside may have a size of their own again (the old way to close gaps between inline blocks).
    return _NO_SIZE.search(style) is not None and all(isinstance(child, str) for child in element.children)


def display_of(element: Element) -> str | None:
    """The inline style's display (`block`, `inline`, ...), None where it says nothing that matters here."""
    style = element.attributes.get("style")
    if not style or "display" not in style.lower():
        return None
    found = _DISPLAY.search(style)
    return found[1].lower() if found else None
