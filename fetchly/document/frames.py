"""Pages and what became of them in; length-prefixed JSON frames for a pipe out, and back.

A request holds a Page and its ReadOptions, an answer a Document or a DocumentError. Requests are our own and believed.
Answers come from a process that has parsed hostile bytes: JSON alone, each field checked, nothing unpickled.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from struct import Struct
from typing import Any, TypeVar, get_args

from fetchly.document.media import Family, NotHtml
from fetchly.document.reader import ReadOptions
from fetchly.errors import DocumentError
from fetchly.goods import Block, BlockKind, Document, Link, Page

REQUEST_HEAD = Struct(">IQ")  # bytes of JSON, bytes of the page's body
ANSWER_HEAD = Struct(">I")  # bytes of JSON
MAX_ANSWER = 512 * 1024 * 1024

_PAGE = tuple(field.name for field in fields(Page) if field.name != "body")
_DOCUMENT = tuple(field.name for field in fields(Document) if field.name not in ("blocks", "links"))
_ERROR = ("message", "where", "hint", "code", "retryable")
_TYPES: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "str | None": (str, type(None)),
    "int": (int,),
    "float": (float,),
    "bool": (bool,),
    "BlockKind": (str,),
}
_KINDS = frozenset(get_args(BlockKind))
_FAMILIES = frozenset(get_args(Family))
Row = TypeVar("Row", Block, Link)


class Garbled(Exception):
    """An answer that no honest reader gives."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a reading process is asked."""

    page: Page
    options: ReadOptions


@dataclass(frozen=True, slots=True)
class Failure:
    """The reading code itself failed: a bug of ours, in words."""

    reason: str


Answer = Document | DocumentError | Failure


def pack_request(request: Request) -> list[bytes]:
    """The frame in parts, so that the body is not copied."""
    said = _dumps(
        {
            "page": {name: getattr(request.page, name) for name in _PAGE},
            "options": {field.name: getattr(request.options, field.name) for field in fields(ReadOptions)},
        }
    )
    return [REQUEST_HEAD.pack(len(said), len(request.page.body)) + said, request.page.body]


def unpack_request(said: bytes, body: bytes) -> Request:
    """The inverse of `pack_request`, from the two parts that its head announces."""
    parts = json.loads(said)
    page = parts["page"]
    for field in fields(Page):
        if str(field.type).startswith("tuple"):
            page[field.name] = tuple(tuple(row) if isinstance(row, list) else row for row in page[field.name])
    page["warnings"] = tuple(page["warnings"])
    return Request(Page(body=body, **page), ReadOptions(**parts["options"]))


def pack_answer(answer: Answer) -> bytes:
    """The whole frame. Blocks and links go by column, which is smaller and faster than by row."""
    if isinstance(answer, Failure):
        said: dict[str, Any] = {"failure": answer.reason}
    elif isinstance(answer, DocumentError):
        said = {"error": {name: getattr(answer, name) for name in _ERROR}}
        if isinstance(answer, NotHtml):
            said["error"]["family"] = answer.family
    else:
        said = {"document": {name: getattr(answer, name) for name in _DOCUMENT}}
        said["blocks"] = {name: [getattr(row, name) for row in answer.blocks] for name in Block.__slots__}
        said["links"] = {name: [getattr(row, name) for row in answer.links] for name in Link.__slots__}
    data = _dumps(said)
    return ANSWER_HEAD.pack(len(data)) + data


def unpack_answer(data: bytes) -> Answer:
    """The inverse of `pack_answer`, without the head. Raises Garbled for anything that `pack_answer` does not write."""
    try:
        said = json.loads(data)
        if "failure" in said:
            return Failure(_checked(said["failure"], (str,)))
        if "error" in said:
            return _error(said["error"])
        return _document(said)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise Garbled(f"{type(error).__name__}: {error}") from error


def _error(said: dict[str, Any]) -> DocumentError:
    error = (NotHtml if "family" in said else DocumentError)(
        _checked(said["message"], (str,)),
        where=_checked(said["where"], (str, type(None))),
        hint=_checked(said["hint"], (str, type(None))),
        code=_checked(said["code"], (str,)),
        retryable=_checked(said["retryable"], (bool,)),
    )
    if isinstance(error, NotHtml):
        if said["family"] not in _FAMILIES:
            raise ValueError("no such family of documents")
        error.family = said["family"]
    return error


def _document(said: dict[str, Any]) -> Document:
    types = {field.name: _TYPES[str(field.type)] for field in fields(Document) if field.name in _DOCUMENT}
    values = {name: _checked(said["document"][name], types[name]) for name in _DOCUMENT}
    blocks = _rows(Block, said["blocks"])
    if not _KINDS.issuperset(block.kind for block in blocks):
        raise ValueError("an unknown kind of block")
    text: str = values["text"]
    position = 0
    for block in blocks:
        if block.start != position or not text.startswith(block.text, position):
            raise ValueError("offsets that do not lead to the block's text")
        position += len(block.text) + 1
        if block.end != position - 1:
            raise ValueError("a block that ends elsewhere than its text")
    if position != len(text) + bool(blocks):
        raise ValueError("text outside the blocks")
    return Document(**values, blocks=blocks, links=_rows(Link, said["links"]))


def _rows(kind: type[Row], columns: dict[str, list[Any]]) -> tuple[Row, ...]:
    ordered: list[Sequence[Any]] = []
    for field in fields(kind):
        column = columns[field.name]
        allowed = _TYPES[str(field.type)]
        if not isinstance(column, list) or not all(type(value) in allowed for value in column):
            raise TypeError(f"a wrong value among {field.name}")
        ordered.append(column)
    return tuple(kind(*values) for values in zip(*ordered, strict=True))


def _checked(value: Any, allowed: tuple[type, ...]) -> Any:
    """`type`, not isinstance: True is no number here."""
    if type(value) not in allowed:
        raise TypeError(f"a {type(value).__name__} where {allowed[0].__name__} belongs")
    return value


def _dumps(value: dict[str, Any]) -> bytes:
    """Lone surrogates, as an argument of the command line may hold them, pass as escapes."""
    return json.dumps(value, separators=(",", ":")).encode("ascii")
