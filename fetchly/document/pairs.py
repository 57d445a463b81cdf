"""Two pieces of a page side by side in; whether one labels the other out (`Brand` and `Acme`)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fetchly.document.dom import Element
from fetchly.document.drafts import Draft, joined_text, labelled, linked_in, mergeable

MAX_LABEL = 60
MAX_VALUE = 300
MAX_SIBLINGS = 50

_LABEL = re.compile(
    r"label|(?:^|[\s_-])(?:key|name|title|term|caption|heading)(?:[\s_-]|$)|attr|property|spec", re.IGNORECASE
)
_VALUE = re.compile(r"value|(?:^|[\s_-])(?:val|data)(?:[\s_-]|$)", re.IGNORECASE)
_COLONS = (":", "：")


def is_value(element: Element) -> bool:
    """Whether an element is a value by its class, right after a label by its class."""
    names = element.attributes.get("class")
    if not names or element.parent is None or not _VALUE.search(names):
        return False
    before: Element | None = None
    for sibling in element.parent.children[:MAX_SIBLINGS]:
        if sibling is element:
            return before is not None and _LABEL.search(before.get("class")) is not None
        if isinstance(sibling, Element):
            before = sibling
        elif not sibling.isspace():
            before = None
    return False


def merge_pair(element: Element, drafts: list[Draft], start: int) -> None:
    """Make one line of the two drafts of an element (`drafts[start:]`), where the first labels the second: it ends with
    a colon, or the classes of the two say so."""
    label, value = drafts[start:]
    if not _is_plain([label], MAX_LABEL) or not _is_plain([value], MAX_VALUE):
        return
    if not label.text.endswith(_COLONS):
        inner = [child for child in element.children if isinstance(child, Element)]
        if len(inner) != 2 or not is_value(inner[1]):
            return
    elif value.text.endswith(_COLONS):
        return
    merged = Draft("pair", element, joined_text([label, value]), labelled(label.shown, value.shown))
    merged.depth, merged.marker, merged.boilerplate = label.depth, label.marker, label.boilerplate
    merged.linked = linked_in((label, value))
    drafts[start:] = [merged]


def _is_plain(drafts: Sequence[Draft], characters: int) -> bool:
    return mergeable(drafts, characters=characters, count=1) and drafts[0].kind != "image"
