"""One leaf of a schema and its right value in; what a model is to write there out: spans, a link's id, a literal, null.

Where the shown part of the page does not say the value, the whole page is asked, to tell what was cut away (null is
right) from what was never found (no honest answer).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fetchly.extraction.decoding import SPAN_KINDS, SPAN_LENGTH, VERBATIM_LENGTH, LeafKind, leaf_kind
from fetchly.extraction.page_context import PageContext
from fetchly.extraction.prompt import PagePrompt
from fetchly.extraction.shape import Node, SchemaTree, same
from fetchly.extraction.span_values import convert_span, time_unit
from fetchly.goods import Link
from fetchly.lab.candidates import Candidate, Candidates, Wanted, label_words
from fetchly.lab.folding import fold
from fetchly.lab.scoring import alternatives, field_kind, is_right
from fetchly.lab.skeleton import Leaf, LeafPlace
from fetchly.lab.truth import Truth


@dataclass(frozen=True, slots=True)
class SearchedPage:
    """What of a page is searched: the shown lines, and on demand all lines (line numbers are block numbers)."""

    shown: Candidates
    whole: Callable[[], Candidates]
    prompt: PagePrompt
    context: PageContext
    links: tuple[Link, ...]


class LeafSearch:
    """Looks up the leaves of one answer."""

    def __init__(self, schema: Node, truth: Truth, page: SearchedPage) -> None:
        self._tree = SchemaTree(schema)
        self._truth = truth
        self._page = page

    def leaf(self, place: LeafPlace, value: Any) -> Leaf:
        """Where the page says a value; if it does not, what that means."""
        kind = leaf_kind(self._tree, place.node)
        assert kind is not None, "structures are walked, not looked up"
        if kind == "link":
            return self._link(place, value)
        if kind not in SPAN_KINDS:
            return self._literal(place, value)
        wanted = self._wanted(place, kind, value)
        leaf = Leaf(place.path, place.pointer, "found", gold=value, candidates=self._page.shown.of(wanted))
        if leaf.candidates:
            leaf.is_right = self._scored(place, value)
            return leaf
        elsewhere = {candidate.place.line for candidate in self._elsewhere(wanted)}
        return self._missing(leaf, elsewhere)

    def _literal(self, place: LeafPlace, value: Any) -> Leaf:
        """A value that is written as it is, because the schema names the options or asks for it computed."""
        leaf = Leaf(place.path, place.pointer, "literal", gold=value)
        options = value if isinstance(value, list) else [value]
        leaf.value = next((option for option in options if self._tree.fits(place.node, option)), None)
        if leaf.value is None:
            leaf.status, leaf.reason = "lost", "has another type"
        elif self._truth.trust(place.path, value) != "stated":
            leaf.status, leaf.reason = "lost", "may not be on the page"
        elif (spelling := self._truth.sources.get(place.pointer)) is not None:
            wanted = Wanted("verbatim", "string", (), lambda _: True, VERBATIM_LENGTH, spelling=spelling)
            if not self._page.shown.of(wanted):
                leaf.value = None
                return self._missing(leaf, {candidate.place.line for candidate in self._elsewhere(wanted)})
        return leaf

    def _link(self, place: LeafPlace, value: Any) -> Leaf:
        """The ids of the shown links and images that lead where the answer says."""
        leaf = Leaf(place.path, place.pointer, "found", gold=value)
        right = self._scored(place, value)
        options = {_bare_url(option) for option in alternatives(value) if isinstance(option, str)}
        ids = [link.id for link in self._page.links if _bare_url(link.url) in options]
        dialect = self._tree.dialect
        ids = [n for n in ids if right(convert_span(place.node, "link", n, self._page.context, dialect=dialect))]
        places = [self._page.shown.places.link(number) for number in ids if number in self._page.prompt.prompt.links]
        leaf.candidates = tuple(Candidate(found, "exact", labelled=False) for found in places if found is not None)
        if leaf.candidates:
            leaf.is_right = right
            return leaf
        leaf.status, leaf.reason = ("cut", "") if ids else ("lost", "not found")
        return leaf

    def _elsewhere(self, wanted: Wanted) -> tuple[Candidate, ...]:
        return self._page.whole().of(wanted) if self._page.prompt.sections.left_out_blocks else ()

    def _missing(self, leaf: Leaf, elsewhere: set[int]) -> Leaf:
        """What it means that the shown part does not say a value; `elsewhere` are the blocks of the page that do."""
        if self._truth.trust(leaf.path, leaf.gold) != "stated":
            leaf.status, leaf.reason = "lost", "may not be on the page"
        elif elsewhere & {block.index for block in self._page.prompt.sections.shown}:
            leaf.status, leaf.reason = "lost", "shown in part"
        elif elsewhere:
            leaf.status = "cut"
        else:
            leaf.status, leaf.reason = "lost", "not found"
        return leaf

    def _wanted(self, place: LeafPlace, kind: LeafKind, value: Any) -> Wanted:
        verbatim = kind == "verbatim"
        declared = place.node.get("maxLength") if verbatim else None
        group = "number" if kind in ("integer", "number") else "email" if kind == "email" else "date"
        longest = VERBATIM_LENGTH if verbatim else SPAN_LENGTH[group]
        scored = self._scored(place, value)
        description = str(place.node.get("description", ""))
        return Wanted(
            kind=kind,
            field_kind=field_kind(self._truth.scorer_name(place.path), place.node, self._tree),
            options=tuple(alternatives(value)),
            judge=lambda span: scored(
                convert_span(place.node, kind, span, self._page.context, place.name, dialect=self._tree.dialect)
            ),
            longest=min(declared, longest) if isinstance(declared, int) else longest,
            shortest=place.node.get("minLength", 1) if verbatim else 1,
            unit=time_unit(place.name, description) if kind in ("integer", "number") else None,
            labels=label_words(f"{place.name} {place.node.get('title', '')}"),
            spelling=self._truth.sources.get(place.pointer),
        )

    def _scored(self, place: LeafPlace, value: Any) -> Callable[[Any], bool]:
        """Whether a converted value is right for this leaf."""
        if self._truth.complete:
            return lambda found: same(found, value) or (isinstance(value, str) and fold(value) == fold(found))
        name = self._truth.scorer_name(place.path)
        if place.in_list:
            entries = {"type": "array", "items": place.node}
            return lambda found: found is not None and is_right(name, entries, [value], [found])
        return lambda found: found is not None and is_right(name, place.node, value, found)


def _bare_url(url: str) -> str:
    """A URL without what may differ between two spellings of one page."""
    return re.sub(r"^https?://(?:www\.)?", "", url.strip(), flags=re.IGNORECASE).partition("#")[0].rstrip("/")
