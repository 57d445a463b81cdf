"""The goods that travel between rooms: Page, Document, Prompt, Evidence. Frozen, slotted, no behaviour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

BlockKind = Literal["title", "heading", "paragraph", "list_item", "table_row", "pair", "code", "image", "other"]


@dataclass(frozen=True, slots=True)
class Page:
    """What came over the wire, never decoded, never changed.

    `requested` is what the caller named (URL, path or "-"); `url` is the final URL after redirects, or a file: URL, or
    None for standard input. `redirects` are the URLs passed on the way. `media_type` is lower-case without parameters,
    `charset` is the transport's (HTTP header), both None where nothing was said. Header names are lower-case.
    """

    requested: str
    url: str | None
    status: int | None
    headers: tuple[tuple[str, str], ...]
    body: bytes
    media_type: str | None = None
    charset: str | None = None
    redirects: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Block:
    """A unit of content in reading order.

    `text` has collapsed white space and no line break; it stands in `Document.text` at [start, end). `line` is the form
    that the model is shown (heading mark, bullet, cells with their headers); `css_path` leads back to the element.
    """

    kind: BlockKind
    text: str
    line: str
    css_path: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Link:
    """A link of the page: its short id as shown to the model, its text, its absolute URL."""

    id: str
    text: str
    url: str


@dataclass(frozen=True, slots=True)
class Document:
    """A page as a reader sees it. `text` is the blocks' texts joined by line breaks."""

    url: str | None
    title: str | None
    lang: str | None
    text: str
    blocks: tuple[Block, ...]
    links: tuple[Link, ...] = ()
    encoding: str = "utf-8"
    hidden_characters: int = 0


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the model is asked. `system` and `task` (instruction and schema) are the same for every page of a schema;
    `page` is the shown document. `source` is the text that verbatim values are spans of, one block a line."""

    system: str
    task: str
    page: str
    source: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """Where a value stands on the page. `found` False means: not found on the page, and the rest is None.

    `start` and `end` are character offsets in `Document.text`; `text` is the block's text.
    """

    found: bool
    css_path: str | None = None
    text: str | None = None
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """A JSON value that validates against the user's schema, with evidence by JSON pointer of each string or span."""

    value: Any
    evidence: Mapping[str, Evidence]
    warnings: tuple[str, ...] = ()
