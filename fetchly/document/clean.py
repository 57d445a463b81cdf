"""An element or raw text in; out goes what a reader does not see: dropped and hidden elements, invisible characters."""

from __future__ import annotations

import re
from enum import Enum, auto

from fetchly.document.dom import Element

# fmt: off
# No text for a reader: programs, styles, drawings, form controls, and fall-backs for what a browser shows instead.
# rp and rt are the reading aid of ruby text: in line they would tear the word that they explain.
DROPPED = frozenset((
    "script", "style", "template", "head", "svg", "canvas", "iframe", "frame", "frameset", "noframes", "noembed",
    "object", "embed", "applet", "video", "audio", "map", "select", "option", "optgroup", "datalist", "textarea",
    "input", "progress", "meter", "annotation", "annotation-xml", "rp", "rt", "link", "meta", "base", "title",
))
# fmt: on

_HIDING_STYLE = re.compile(r"(?:^|[;\s])(?:display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse))", re.IGNORECASE)
_DISPLAY = re.compile(r"(?:^|[;\s])display\s*:\s*(block|flex|grid|list-item|table|inline)(?![\w-])", re.IGNORECASE)

# Characters without a width that no reader sees but a model and a comparison do: soft hyphen, zero-width space and
# marks, direction controls, tags, and control characters. The joiners U+200C and U+200D are part of spelling.
_REMOVED = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f"
    "\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


class Sight(Enum):
    """Whether an element is read: shown, not text at all, hidden from the reader, or a fall-back without scripts."""

    SHOWN = auto()
    DROPPED = auto()
    HIDDEN = auto()
    FALLBACK = auto()


def sight_of(element: Element) -> Sight:
    """What a reader sees of an element.

    Hidden: the attribute `hidden` (unless `until-found`), inline `display: none` or `visibility: hidden`, a closed
    dialog. `aria-hidden` hides from screen readers only, so it is shown. On html and body these are the trick of a
    page that reveals itself by script, and do not count.
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
    return Sight.HIDDEN if style and _HIDING_STYLE.search(style) else Sight.SHOWN


def display_of(element: Element) -> str | None:
    """The inline style's display (`block`, `inline`, ...), None where it says nothing that matters here."""
    style = element.attributes.get("style")
    if not style or "display" not in style.lower():
        return None
    found = _DISPLAY.search(style)
    return found[1].lower() if found else None


def visible(text: str) -> str:
    """The text without characters that have no width and no meaning; white space untouched."""
    return text if text.isascii() and text.isprintable() else _REMOVED.sub("", text)


def collapse(text: str) -> str:
    """One line: invisible characters out, every run of white space (no-break spaces too) one space."""
    return " ".join(visible(text).split())


def text_length(element: Element) -> int:
    """How many characters of text stand in a subtree, white space collapsed, scripts and styles not counted."""
    total = 0
    stack: list[Element] = [element]
    while stack:
        for child in stack.pop().children:
            if isinstance(child, str):
                total += len(collapse(child))
            elif child.tag not in DROPPED:
                stack.append(child)
    return total
