"""The goods that travel between rooms: Page, Document, Prompt, Evidence. Frozen, slotted, no behaviour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

BlockKind = Literal["title", "heading", "paragraph", "list_item", "table_row", "pair", "code", "image", "data", "other"]
"""`data`: what machine-readable marks of the page say (JSON-LD, microdata); `other`: navigation, footers, banners."""
CacheUse = Literal["no", "fresh", "revalidated"]
"""Whether an answer comes from the cache: unasked, as it is still fresh, or after its server said that it holds."""


@dataclass(frozen=True, slots=True)
class Page:
    """What came over the wire, never decoded, never changed.

    `requested` is what the caller named (URL, path or "-"); `url` is the final URL after redirects, or a file: URL, or
    None for standard input. `redirects` are the URLs passed on the way. `media_type` is lower-case without parameters,
    `charset` is the transport's (HTTP header), both None where nothing was said. Header names are lower-case.
    `rendered`: the body is what a browser made of the page, in UTF-8; `warnings` say where that is not the whole page.
    `from_cache` speaks of the last of the answers that led here.
    """

    requested: str
    url: str | None
    status: int | None
    headers: tuple[tuple[str, str], ...]
    body: bytes
    media_type: str | None = None
    charset: str | None = None
    redirects: tuple[str, ...] = ()
    rendered: bool = False
    warnings: tuple[str, ...] = ()
    from_cache: CacheUse = "no"


@dataclass(frozen=True, slots=True)
class Block:
    """A unit of content in reading order.

    `text` has collapsed white space and no line break; it stands in `Document.text` at [start, end). `line` is the form
    that the model is shown (heading mark, bullet, cells with their headers); `css_path` leads back to the element.
    `link_share` is the part of the text, from 0 to 1, that links hold.
    """

    kind: BlockKind
    text: str
    line: str
    css_path: str
    start: int
    end: int
    link_share: float = 0.0


@dataclass(frozen=True, slots=True)
class Link:
    """A link (`L1`) or an image (`I1`) of the page: its short id as shown to the model, its text, its absolute URL."""

    id: str
    text: str
    url: str
    css_path: str = ""


@dataclass(frozen=True, slots=True)
class Document:
    """A page as a reader sees it. `text` is the blocks' texts joined by line breaks.

    `hidden_characters`: the length of the text that the page hides, and of zero-width characters in what it shows.
    `left_out_data`: how many values of its structured data are in no block (addresses, the site's machinery, what is
    over a limit), and how many scripts of data could not be read.
    """

    url: str | None
    title: str | None
    lang: str | None
    text: str
    blocks: tuple[Block, ...]
    links: tuple[Link, ...] = ()
    encoding: str = "utf-8"
    hidden_characters: int = 0
    left_out_data: int = 0


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the model is asked. `system` and `task` (instruction and schema) are the same for every page of a schema;
    `page` is the shown document. `source` is the text that verbatim values are spans of, one block a line. `links` are
    the ids of the shown links and images, which URL fields are chosen from."""

    system: str
    task: str
    page: str
    source: str
    links: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """Where a value stands on the page. `found` False means: not found on the page, and the rest is None.

    `start` and `end` are character offsets in `Document.text`; `text` is the block's text, of a long block an excerpt
    around the value. Of a URL it is the link's element and text; no offsets where that text stands in no block.
    """

    found: bool
    css_path: str | None = None
    text: str | None = None
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """A JSON value that validates against the user's schema, with evidence by JSON pointer of each scalar but null."""

    value: Any
    evidence: Mapping[str, Evidence]
    warnings: tuple[str, ...] = ()
