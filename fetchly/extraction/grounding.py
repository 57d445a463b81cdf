"""A document and a record in, the place of each value on the page out (Evidence), or the word that it is not there.

Offsets are exact: `document.text[start:end]` is what the page writes, also where case, white space or quotes differ.
Where a value stands in several places, the places of one record are chosen together (placement.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fetchly.extraction.placement import Group, Leaf, place
from fetchly.extraction.shape import below
from fetchly.extraction.text_search import Place, TextSearch
from fetchly.goods import Document, Evidence, Link

NOT_FOUND = Evidence(found=False)
LONGEST_EXCERPT = 300
"""Characters of a block that evidence shows; a longer block is cut at words around the value."""
ELLIPSIS = "…"


class Grounder:
    """Finds values in one document."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._search = TextSearch(document)
        self._links = {link.id: link for link in document.links}

    def evidence(
        self, value: Any, spans: Mapping[str, str] | None = None, links: Mapping[str, str] | None = None
    ) -> dict[str, Evidence]:
        """Evidence by JSON pointer for every scalar of a record that is not null.

        `spans` are the texts that values were read from, `links` the ids of the links whose URLs were taken, both by
        pointer. Strings are looked for as they are. A boolean, and a number that was not read from a span, was computed
        or chosen and stands nowhere: not found.
        """
        reading = _Reading(self._search, spans or {}, {k: self._links[v] for k, v in (links or {}).items()})
        root = reading.group(value, "", "")
        placed = place(root, self._document.blocks)
        return {leaf.pointer: self._evidence(leaf, placed.get(leaf.pointer)) for leaf in reading.leaves}

    def _evidence(self, leaf: Leaf, found: Place | None) -> Evidence:
        if leaf.link is not None:
            start, end = (found.start, found.end) if found else (None, None)
            return Evidence(True, leaf.link.css_path or None, leaf.link.text[:LONGEST_EXCERPT], start, end)
        if found is None:
            return NOT_FOUND
        block = self._document.blocks[found.block]
        shown = excerpt(block.text, found.start - block.start, found.end - block.start)
        return Evidence(True, block.css_path, shown, found.start, found.end)


class _Reading:
    """A record as groups of leaves, `leaves` in the record's order."""

    def __init__(self, search: TextSearch, spans: Mapping[str, str], links: Mapping[str, Link]) -> None:
        self._search = search
        self._spans = spans
        self._links = links
        self.leaves: list[Leaf] = []

    def group(self, value: Any, pointer: str, name: str) -> Group:
        """One group for an object or a list; a scalar is a group of one leaf."""
        if isinstance(value, dict):
            parts = [(below(pointer, key), key, item) for key, item in value.items()]
        elif isinstance(value, list):
            parts = [(below(pointer, index), name, item) for index, item in enumerate(value)]
        else:
            parts = [(pointer, name, value)]
        group = Group(is_list=isinstance(value, list))
        for place_of, key, item in parts:
            if isinstance(item, dict | list):
                group.groups.append(self.group(item, place_of, key))
            elif item is not None:
                leaf = self._leaf(item, place_of, key)
                self.leaves.append(leaf)
                group.leaves.append(leaf)
        return group

    def _leaf(self, value: Any, pointer: str, name: str) -> Leaf:
        link = self._links.get(pointer)
        text = link.text if link else self._spans.get(pointer, value)
        places = self._search.places(text) if isinstance(text, str) else ()
        return Leaf(pointer, name, places, link)


def excerpt(text: str, start: int, end: int) -> str:
    """A block's text, or a part of at most LONGEST_EXCERPT characters that shows [start, end), cut at words.

    Of a value that is longer itself, the beginning.
    """
    if len(text) <= LONGEST_EXCERPT:
        return text
    room = LONGEST_EXCERPT - 2 * len(ELLIPSIS)
    margin = max(0, room - (end - start)) // 2
    left = max(0, min(start - margin, len(text) - room))
    right = min(len(text), left + room)
    if left:
        space = text.find(" ", left, start)
        left = space + 1 if space >= 0 else start if end - start < room and start - left < margin else left
    if right < len(text):
        space = text.rfind(" ", max(end, left), right)
        right = space if space > left else right
    return f"{ELLIPSIS * (left > 0)}{text[left:right]}{ELLIPSIS * (right < len(text))}"
