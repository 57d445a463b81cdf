"""A Page in, the Document out: decoded, parsed, cleaned, in blocks whose offsets lead into its text."""

from __future__ import annotations

import html

from fetchly.document.blocks import Walker
from fetchly.document.clean import collapse
from fetchly.document.decode import decode
from fetchly.document.dom import Dom, parse
from fetchly.document.drafts import Draft, line_of
from fetchly.document.links import LinkTable, base_url
from fetchly.document.media import kind_of
from fetchly.document.metadata import Fact, facts_of, title_of
from fetchly.errors import DocumentError
from fetchly.goods import Block, BlockKind, Document, Page


def read_document(page: Page, *, link_marks: bool = False) -> Document:
    """Read a page as its reader sees it.

    Blocks: the title, the body in reading order, then what the head says about the page (kind `pair`: description,
    author, dates, site, address). Text of navigation, footers and consent banners has kind `other`. `link_marks`
    shows links as `text [L3]`, for schemas that ask for URLs; the ids are those of `Document.links`.

    Raises DocumentError: DOCUMENT_EMPTY (no bytes, or no text that a reader sees), DOCUMENT_NOT_HTML (a PDF, an
    image, JSON, ...), DOCUMENT_TOO_COMPLEX (mark-up made to exhaust a parser).
    """
    place = page.url or page.requested
    kind = kind_of(page)
    decoded = decode(page.body, page.charset)
    text = decoded.text if kind == "html" else f"<pre>\n{html.escape(decoded.text, quote=False)}</pre>"
    dom = parse(text, place=place)
    links = LinkTable(base_url(dom, page.url))
    walker = _walked(dom, links, link_marks=link_marks)
    if not walker.drafts:
        raise _empty(walker.hidden_characters, place)
    title = title_of(dom)
    facts = [fact for fact in facts_of(dom) if title is None or fact.value != title.value]
    blocks = _blocks(dom, title, walker.drafts, facts)
    return Document(
        url=page.url,
        title=title.value if title else None,
        lang=collapse(dom.root.get("lang") or dom.root.get("xml:lang")) or None,
        text="\n".join(block.text for block in blocks),
        blocks=blocks,
        links=links.links(),
        encoding=decoded.encoding,
        hidden_characters=walker.hidden_characters,
    )


def _walked(dom: Dom, links: LinkTable, *, link_marks: bool) -> Walker:
    """Walk the body; what noscript holds is read only where there is nothing else."""
    body = dom.child("body") or dom.root
    walker = Walker(links, link_marks=link_marks)
    walker.walk(body)
    if not walker.drafts:
        walker = Walker(links, link_marks=link_marks, fallbacks=True)
        walker.walk(body)
    return walker


def _blocks(dom: Dom, title: Fact | None, drafts: list[Draft], facts: list[Fact]) -> tuple[Block, ...]:
    blocks: list[Block] = []
    position = 0

    def add(kind: BlockKind, text: str, line: str, path: str) -> None:
        nonlocal position
        blocks.append(Block(kind, text, line, path, position, position + len(text)))
        position += len(text) + 1  # the line break between two blocks

    if title is not None:
        add("title", title.value, f"Title: {title.value}", dom.css_path(title.element))
    for draft in drafts:
        kind = "other" if draft.boilerplate else draft.kind
        add(kind, draft.text, line_of(draft), dom.css_path(draft.owner))
    for fact in facts:
        add("pair", fact.value, f"{fact.label}: {fact.value}", dom.css_path(fact.element))
    return tuple(blocks)


def _empty(hidden: int, place: str) -> DocumentError:
    return DocumentError(
        "the page has no text that a reader sees" + (f" ({hidden} hidden characters)" if hidden else ""),
        where=place,
        code="DOCUMENT_EMPTY",
        hint="the page may be built by scripts: save it from a browser and give the file",
    )
