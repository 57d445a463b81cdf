"""A Page in, the Document out: decoded, parsed, cleaned, in blocks whose offsets lead into its text."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fetchly.document.blocks import Manner, Walker
from fetchly.document.clean import collapse
from fetchly.document.decode import decode
from fetchly.document.disclosure import Disclosure, deferred_parts
from fetchly.document.dom import Dom, Element, parse
from fetchly.document.drafts import Draft, line_of, tidied
from fetchly.document.links import LinkTable, base_url
from fetchly.document.media import kind_of
from fetchly.document.metadata import Fact, facts_of, title_of
from fetchly.document.structured import StructuredData, read_structured
from fetchly.errors import DocumentError
from fetchly.goods import Block, BlockKind, Document, Page


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How a page is read.

    `link_marks` shows links as `text [L3]` and images as `alt [I2]`, for schemas that ask for URLs; the ids are those
    of `Document.links`. `keep_hidden` reads what the page hides from its reader. `structured` False leaves out what
    the page says to machines (JSON-LD, microdata, meta tags) and shows the visible page alone.
    """

    link_marks: bool = False
    keep_hidden: bool = False
    structured: bool = True


def read_document(page: Page, options: ReadOptions = ReadOptions()) -> Document:
    """Read a page as its reader sees it.

    Blocks: the title; the content in reading order; what the page says to machines (kind `data`: first its head, then
    JSON-LD, microdata and RDFa); last, of kind `other`, navigation, footers and consent banners.

    Raises DocumentError: DOCUMENT_EMPTY (no bytes, or nothing to read, visible or structured), DOCUMENT_NOT_HTML (a
    PDF, an image, JSON, ...), DOCUMENT_TOO_COMPLEX (mark-up made to exhaust a parser).
    """
    place = page.url or page.requested
    kind = kind_of(page)
    decoded = decode(page.body, page.charset)
    text = decoded.text if kind == "html" else f"<pre>\n{html.escape(decoded.text, quote=False)}</pre>"
    dom = parse(text, place=place)
    reading = _read_body(dom, base_url(dom, page.url), options)
    title = title_of(dom)
    data = StructuredData()
    if options.structured and kind == "html":
        seen = "\n".join(draft.text for draft in reading.drafts)
        data = read_structured(dom, seen, title.value if title else "", addresses=options.link_marks)
    if not reading.drafts and not data.lines:
        raise _empty(reading.hidden_characters, place, page.rendered)
    layout = _Layout(dom, reading.links if options.link_marks else None)
    if title is not None:
        layout.add("title", title.value, f"Title: {title.value}", title.element)
    layout.add_drafts(draft for draft in reading.drafts if not draft.boilerplate)
    if options.structured:
        layout.add_data(facts_of(dom), data)
    layout.add_drafts(draft for draft in reading.drafts if draft.boilerplate)
    return Document(
        url=page.url,
        title=title.value if title else None,
        lang=collapse(dom.root.get("lang") or dom.root.get("xml:lang")) or None,
        text="\n".join(block.text for block in layout.blocks),
        blocks=tuple(layout.blocks),
        links=reading.links.links(dom),
        encoding=decoded.encoding,
        hidden_characters=reading.hidden_characters,
        left_out_data=data.left_out,
    )


@dataclass(frozen=True, slots=True)
class _Reading:
    """What came of the body."""

    drafts: list[Draft]
    links: LinkTable
    hidden_characters: int


def _read_body(dom: Dom, base: str | None, options: ReadOptions) -> _Reading:
    """Walk the body; again, where it shows next to nothing, with what it defers and with what noscript holds."""
    body = dom.child("body") or dom.root

    def walked(deferred: frozenset[Element] = frozenset(), *, fallbacks: bool = False) -> tuple[Walker, LinkTable]:
        links = LinkTable(base)
        manner = Manner(fallbacks=fallbacks, link_marks=options.link_marks, keep_hidden=options.keep_hidden)
        walker = Walker(links, Disclosure(dom, deferred), manner)
        walker.walk(body)
        return walker, links

    walker, links = walked()
    shown = sum(len(draft.text) for draft in walker.drafts if not draft.boilerplate)
    deferred = frozenset() if options.keep_hidden else deferred_parts(walker.hidden, shown)
    if deferred:
        walker, links = walked(deferred)
    if not walker.drafts:
        walker, links = walked(fallbacks=True)
    return _Reading(tidied(walker.drafts), links, walker.hidden_characters)


class _Layout:
    """Blocks with their offsets in the making. `links`: with ids behind addresses."""

    def __init__(self, dom: Dom, links: LinkTable | None) -> None:
        self.blocks: list[Block] = []
        self._dom = dom
        self._links = links
        self._position = 0

    def add(self, kind: BlockKind, text: str, line: str, element: Element, linked: int = 0) -> None:
        start, end = self._position, self._position + len(text)
        share = min(1.0, linked / len(text))
        self.blocks.append(Block(kind, text, line, self._dom.css_path(element), start, end, share))
        self._position += len(text) + 1  # the line break between two blocks

    def add_drafts(self, drafts: Iterable[Draft]) -> None:
        for draft in drafts:
            kind = "other" if draft.boilerplate else draft.kind
            self.add(kind, draft.text, line_of(draft), draft.owner, draft.linked)

    def add_data(self, facts: Sequence[Fact], data: StructuredData) -> None:
        """Facts of the head that nothing better says, then the lines of the structured data."""
        said = {block.text.casefold() for block in self.blocks if block.kind in ("title", "heading", "pair")}
        told = said | {line.value.casefold() for line in data.lines}
        for fact in facts:
            if fact.value.casefold() not in told and not (fact.label == "Type" and data.lines):
                self._add_value(fact.label, fact.value, fact.element, address=fact.address)
        trails = {_letters(block.text) for block in self.blocks if block.line.startswith("Breadcrumb: ")}
        for line in data.lines:
            if line.label != "Breadcrumb" or _letters(line.value) not in trails:
                self._add_value(line.label, line.value, line.element, address=line.address)

    def _add_value(self, label: str, value: str, element: Element, *, address: bool) -> None:
        if not address:
            self.add("data", value, f"{label}: {value}", element)
            return
        if self._links is None:
            return
        add = self._links.add_image if "image" in label.lower() or "thumbnail" in label.lower() else self._links.add
        identifier = add(value, "", element)
        if identifier is not None:
            self.add("data", value, f"{label}: [{identifier}]", element)


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text)).casefold()


def _empty(hidden: int, place: str, rendered: bool) -> DocumentError:
    unseen = (
        "--keep-hidden (keep_hidden: true in a pipeline) reads what it hides"
        if hidden
        else "save it from a browser and give the file"
    )
    return DocumentError(
        "the page has no text that a reader sees" + (f" ({hidden} hidden characters)" if hidden else ""),
        where=place,
        code="DOCUMENT_EMPTY",
        hint=unseen
        if hidden or rendered
        else "its scripts may bring it: --render always (render: always in a pipeline) runs them",
    )
