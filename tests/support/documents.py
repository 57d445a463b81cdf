"""Lines in, a Document with exact offsets out."""

from __future__ import annotations

from dataclasses import replace

from fetchly.goods import Block, BlockKind, Document, Link


def make_document(
    *lines: str, lang: str | None = "en", url: str | None = "https://shop.test/1", kind: BlockKind = "paragraph"
) -> Document:
    """One block a line, joined as goods.Document says."""
    blocks: list[Block] = []
    at = 0
    for number, text in enumerate(lines, 1):
        blocks.append(Block(kind, text, text, f"body>p:nth-of-type({number})", at, at + len(text)))
        at += len(text) + 1
    return Document(url=url, title=None, lang=lang, text="\n".join(lines), blocks=tuple(blocks))


def with_links(document: Document, *links: Link) -> Document:
    """Links of a document, each marked behind the lines that hold its text, as a reader of pages marks them."""
    blocks = document.blocks
    for link in links:
        blocks = tuple(
            replace(block, line=f"{block.line} [{link.id}]") if link.text in block.text else block for block in blocks
        )
    return replace(document, blocks=blocks, links=links)
