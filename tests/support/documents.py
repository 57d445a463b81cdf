"""Lines in, a Document with exact offsets out."""

from __future__ import annotations

from fetchly.goods import Block, BlockKind, Document


def make_document(
    *lines: str, lang: str | None = "en", url: str | None = "https://shop.test/1", kind: BlockKind = "paragraph"
) -> Document:
    """One block a line, joined as goods.Document says."""
    blocks: list[Block] = []
    at = 0
    for number, text in enumerate(lines, 1):
        blocks.append(Block(kind, text, text, f"body > p:nth-of-type({number})", at, at + len(text)))
        at += len(text) + 1
    return Document(url=url, title=None, lang=lang, text="\n".join(lines), blocks=tuple(blocks))
