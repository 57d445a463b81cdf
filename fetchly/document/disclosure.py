"""The tree of a page in; which of its hidden elements a reader can open out."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from fetchly.document.clean import collapse, has_text
from fetchly.document.dom import Dom, Element
from fetchly.document.sight import Sight, sight_of

DEFERRED = 1000
"""Characters: an element hidden until a script has run holds at least so many."""
BARE = 500
"""Characters: a page that shows fewer outside its navigation has not been revealed yet."""
MIN_RATIO = 10
MAX_SIBLINGS = 100
MAX_LABELS = 10  # of a tab panel
MAX_LOOK = 100  # nodes of a control
NOWHERE = 1 << 62  # a position behind every element

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
_NAMES = ("aria-label", "title", "alt")
_QUOTED = re.compile(r"['\"(]#?([A-Za-z][\w:.-]{0,100})['\")]")


@dataclass(frozen=True, slots=True)
class HiddenPart:
    """A hidden element that the walk passed by, and the length of its text."""

    element: Element
    length: int


@dataclass(frozen=True, slots=True)
class _Placed:
    """An element, and the innermost hidden one that it is or stands in."""

    element: Element
    veil: Element | None


@dataclass(frozen=True, slots=True)
class _Scan:
    """What one look at the page finds: elements by their ids; of the controls that name an id, and of all tabs, the
    hidden elements around them (None: one of them is shown); what a server streamed."""

    ids: dict[str, _Placed] = field(default_factory=dict)
    controls: dict[str, set[Element | None]] = field(default_factory=dict)
    tabs: set[Element | None] = field(default_factory=set)
    streamed: dict[str, Element] = field(default_factory=dict)


class Disclosure:
    """Tells hidden content that a reader reaches from hidden text that nobody is meant to see.

    Read in its place is a hidden element

    - that a control of the page opens: its id is named by `aria-controls`, `data-target`, a link `#id` or an `onclick`;
    - that is a tab panel (`role=tabpanel`) on a page that shows tabs, or the element that labels it;
    - that is the body of an accordion by its class, after its shown header;
    - that a streaming server sent after its place (React: `<div hidden id="S:1">` for `<template id="B:1">`);

    unless it is a menu, a dialog, a form, a message or the like. A control counts where a reader meets it: in the body,
    with words or a name of its own, outside all that is hidden and not opened, so never in what it opens. `deferred`
    adds what a page hides until its scripts have run, where the page shows next to nothing without it. Anything else
    stays hidden: a page whose visible text is complete cannot slip a reader's model text that the reader does not get.
    """

    def __init__(self, dom: Dom, deferred: frozenset[Element] = frozenset()) -> None:
        self._body = dom.child("body") or dom.root
        self._deferred = deferred
        self._opened: set[Element] = set()
        self._headers: dict[Element, int] = {}  # by parent: the position of its first shown child with text
        self._scanned: _Scan | None = None

    def opens(self, element: Element) -> bool:
        """Whether a hidden element is content of the page. Asked in the order of the page: what is opened may hold
        the control of what comes later."""
        opens = element in self._deferred or self._is_opened(element)
        if opens:
            self._opened.add(element)
        return opens

    def _is_opened(self, element: Element) -> bool:
        names = f"{element.get('id')} {element.get('class')}"
        role = element.get("role").lower()
        if element.tag in ("dialog", "form", "nav", "menu") or role in _ASIDE_ROLES or _ASIDE.search(names):
            return False
        if role == "tabpanel" and self._has_tab(element):
            return True
        around = element.parent.get("class") if element.parent else ""
        if _PANEL.search(f"{names} {around}") and self._follows_text(element):
            return True
        return self._reaches(self._scan().controls.get(element.get("id"), ()))

    def _has_tab(self, panel: Element) -> bool:
        scan = self._scan()
        if self._reaches(scan.tabs):
            return True
        labels = [scan.ids[name] for name in panel.get("aria-labelledby").split()[:MAX_LABELS] if name in scan.ids]
        return any(self._reaches((label.veil,)) and _speaks(label.element) for label in labels)

    def _reaches(self, veils: Collection[Element | None]) -> bool:
        """Whether a reader meets one of some elements; what is given of each is the hidden element around it."""
        return None in veils or not self._opened.isdisjoint(veils)

    def _follows_text(self, element: Element) -> bool:
        """Whether something shown with text comes before an element among its siblings: the header that opens it."""
        parent = element.parent
        if parent is None:
            return False
        if parent not in self._headers:
            siblings = [child for child in parent.children[:MAX_SIBLINGS] if isinstance(child, Element)]
            shown = (each.position for each in siblings if sight_of(each) is Sight.SHOWN and has_text(each))
            self._headers[parent] = next(shown, NOWHERE)
        return self._headers[parent] < element.position

    def streamed(self, place: Element) -> Element | None:
        """What was sent later for a `template` that keeps its place; each is given once."""
        found = _PLACE.match(place.get("id"))
        return self._segments().pop(f"S:{found[1]}", None) if found else None

    def awaits(self, element: Element) -> bool:
        """Whether an element was sent for a place that has been read already."""
        return bool(_STREAMED.match(element.get("id"))) and element.get("id") not in self._segments()

    def _segments(self) -> dict[str, Element]:
        return self._scan().streamed

    def _scan(self) -> _Scan:
        if self._scanned is None:
            self._scanned = _scanned(self._body)
        return self._scanned


def _scanned(body: Element) -> _Scan:
    scan = _Scan()
    stack = [_Placed(body, None)]
    while stack:
        item = stack.pop()
        element, veil = item.element, item.veil
        sight = sight_of(element)
        if sight is Sight.DROPPED:
            continue
        if sight is not Sight.SHOWN:
            veil = element
        attributes = element.attributes
        if attributes:
            identifier = attributes.get("id", "")
            if identifier:
                scan.ids.setdefault(identifier, _Placed(element, veil))
            if "hidden" in attributes and _STREAMED.match(identifier):
                scan.streamed.setdefault(identifier, element)
            opened = _named_by(attributes)
            is_tab = attributes.get("role", "").lower() == "tab"
            if (opened or is_tab) and _speaks(element):
                for name in opened:
                    scan.controls.setdefault(name, set()).add(veil)
                if is_tab:
                    scan.tabs.add(veil)
        stack.extend(_Placed(child, veil) for child in element.children if isinstance(child, Element))
    return scan


def _named_by(attributes: dict[str, str]) -> list[str]:
    """The ids of what a control opens."""
    named = [part.lstrip("#") for name in _NAMING if name in attributes for part in attributes[name].split()]
    href = attributes.get("href", "")
    if href.startswith("#") and len(href) > 1:
        named.append(href[1:])
    if "onclick" in attributes:
        named += _QUOTED.findall(attributes["onclick"])
    return named


def _speaks(control: Element) -> bool:
    """Whether a reader can tell what an element is for: it has words of its own, or a name. MAX_LOOK nodes of it are
    looked at."""
    stack: list[Iterator[Element | str]] = [iter((control,))]
    for _ in range(MAX_LOOK):
        if not stack:
            break
        node = next(stack[-1], None)
        if node is None:
            stack.pop()
        elif isinstance(node, str):
            if collapse(node):
                return True
        elif any(collapse(node.get(name)) for name in _NAMES):
            return True
        elif sight_of(node) is Sight.SHOWN or node.tag in ("svg", "title"):
            stack.append(iter(node.children))
    return False


def deferred_parts(hidden: Sequence[HiddenPart], shown: int) -> frozenset[Element]:
    """What a page that shows only `shown` characters of content hides until its scripts have run: its large parts."""
    large = [part for part in hidden if part.length >= DEFERRED]
    if shown >= BARE or sum(part.length for part in large) < MIN_RATIO * shown:
        return frozenset()
    return frozenset(part.element for part in large)
