"""The tree of a page in; which of its hidden elements a reader can open out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fetchly.document.clean import has_text
from fetchly.document.dom import Dom, Element
from fetchly.document.sight import Sight, sight_of

DEFERRED = 1000
"""Characters: an element hidden until a script has run holds at least so many."""
BARE = 500
"""Characters: a page that shows fewer outside its navigation has not been revealed yet."""
MIN_RATIO = 10
MAX_SIBLINGS = 100

_STREAMED = re.compile(r"S:[0-9a-f]{1,8}\Z")
_PLACE = re.compile(r"[BP]:([0-9a-f]{1,8})\Z")
# Parts of a page that are opened beside it or over it: none of its content.
_ASIDE = re.compile(
    r"(?:^|[\s_-])(?:modal|popup|pop-up|popover|popunder|overlay|lightbox|dialog|tooltip|dropdown|drop-down|megamenu|"
    r"mega-menu|menu|submenu|sub-menu|flyout|offcanvas|nav|navbar|navigation|login|signin|signup|register|newsletter|"
    r"search|share|sharing|cart|basket|minicart|error|alert|toast|cookie|consent|filter|filters|lang|language)"
    r"(?:[\s_-]|\Z)",
    re.IGNORECASE,
)
_ASIDE_ROLES = frozenset(
    ("menu", "menubar", "dialog", "alertdialog", "alert", "tooltip", "listbox", "status", "search")
)
_PANEL = re.compile(
    r"accordion|collaps|expand|toggle|disclosure|drawer-?body|faq|tab-?(?:s-?)?(?:content|pane|panel|body)|tabs?[-_]|"
    r"show-?hide|spoiler|read-?more|show-?more",
    re.IGNORECASE,
)
_NAMING = ("aria-controls", "aria-owns", "data-target", "data-bs-target", "data-toggle", "data-controls")
_QUOTED = re.compile(r"['\"(]#?([A-Za-z][\w:.-]{0,100})['\")]")


@dataclass(frozen=True, slots=True)
class HiddenPart:
    """A hidden element that the walk passed by, and the length of its text."""

    element: Element
    length: int


class Disclosure:
    """Tells hidden content that a reader reaches from hidden text that nobody is meant to see.

    Read in its place is a hidden element

    - that a control of the page opens: its id is named by `aria-controls`, `data-target`, a link `#id` or an `onclick`;
    - that is a tab panel (`role=tabpanel`), or the body of an accordion by its class, after its shown header;
    - that a streaming server sent after its place (React: `<div hidden id="S:1">` for `<template id="B:1">`);

    unless it is a menu, a dialog, a form, a message or the like. `deferred` adds what a page hides until its scripts
    have run, where the page shows next to nothing without it. Anything else stays hidden: a page whose visible text is
    complete cannot slip a reader's model text that the reader does not get.
    """

    def __init__(self, dom: Dom, deferred: frozenset[Element] = frozenset()) -> None:
        self._dom = dom
        self._deferred = deferred
        self._controlled: set[str] | None = None
        self._streamed: dict[str, Element] | None = None

    def opens(self, element: Element) -> bool:
        """Whether a hidden element is content of the page."""
        if element in self._deferred:
            return True
        names = f"{element.get('id')} {element.get('class')}"
        role = element.get("role").lower()
        if element.tag in ("dialog", "form", "nav", "menu") or role in _ASIDE_ROLES or _ASIDE.search(names):
            return False
        if role == "tabpanel":
            return True
        if _PANEL.search(f"{names} {element.parent.get('class') if element.parent else ''}") and _follows_text(element):
            return True
        identifier = element.get("id")
        return bool(identifier) and identifier in self._controls()

    def streamed(self, place: Element) -> Element | None:
        """What was sent later for a `template` that keeps its place; each is given once."""
        found = _PLACE.match(place.get("id"))
        return self._segments().pop(f"S:{found[1]}", None) if found else None

    def awaits(self, element: Element) -> bool:
        """Whether an element was sent for a place that has been read already."""
        return bool(_STREAMED.match(element.get("id"))) and element.get("id") not in self._segments()

    def _controls(self) -> set[str]:
        if self._controlled is None:
            self._scan()
        assert self._controlled is not None
        return self._controlled

    def _segments(self) -> dict[str, Element]:
        if self._streamed is None:
            self._scan()
        assert self._streamed is not None
        return self._streamed

    def _scan(self) -> None:
        named: set[str] = set()
        streamed: dict[str, Element] = {}
        stack: list[Element] = [self._dom.root]
        while stack:
            element = stack.pop()
            attributes = element.attributes
            if attributes:
                for name in _NAMING:
                    if name in attributes:
                        named.update(part.lstrip("#") for part in attributes[name].split())
                href = attributes.get("href", "")
                if href.startswith("#") and len(href) > 1:
                    named.add(href[1:])
                if "onclick" in attributes:
                    named.update(_QUOTED.findall(attributes["onclick"]))
                if "hidden" in attributes and _STREAMED.match(attributes.get("id", "")):
                    streamed.setdefault(attributes["id"], element)
            stack.extend(child for child in element.children if isinstance(child, Element))
        self._controlled, self._streamed = named, streamed


def deferred_parts(hidden: Sequence[HiddenPart], shown: int) -> frozenset[Element]:
    """What a page that shows only `shown` characters of content hides until its scripts have run: its large parts."""
    large = [part for part in hidden if part.length >= DEFERRED]
    if shown >= BARE or sum(part.length for part in large) < MIN_RATIO * shown:
        return frozenset()
    return frozenset(part.element for part in large)


def _follows_text(element: Element) -> bool:
    """Whether something shown with text comes before an element among its siblings: the header that opens it."""
    if element.parent is None:
        return False
    for sibling in element.parent.children[:MAX_SIBLINGS]:
        if sibling is element:
            return False
        if isinstance(sibling, Element) and sight_of(sibling) is Sight.SHOWN and has_text(sibling):
            return True
    return False
