"""What passes between a reader and its processes: everything, exactly, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

from fetchly.document.frames import (
    ANSWER_HEAD,
    REQUEST_HEAD,
    Answer,
    Failure,
    Garbled,
    Request,
    pack_answer,
    pack_request,
    unpack_answer,
    unpack_request,
)
from fetchly.document.media import NotHtml, kind_of
from fetchly.document.reader import ReadOptions
from fetchly.errors import DocumentError
from fetchly.goods import Block, Document, Link, Page

_ERROR = {"message": "x", "where": None, "hint": None, "code": "X", "retryable": False}
DOCUMENT = Document(
    url="https://h/ä",
    title="Preise €",
    lang="de",
    text="Preise €\nHonig \U0001f41d",
    blocks=(
        Block("title", "Preise €", "Title: Preise €", "head>title", 0, 8),
        Block("list_item", "Honig \U0001f41d", "- Honig \U0001f41d", "#a>li:nth-of-type(2)", 9, 16),
    ),
    links=(Link("L1", "mehr", "https://h/b", "a"),),
    encoding="cp1252",
    hidden_characters=3,
    left_out_data=2,
)


def sent(answer: Answer) -> Answer:
    frame = pack_answer(answer)
    (size,) = ANSWER_HEAD.unpack(frame[: ANSWER_HEAD.size])
    assert size == len(frame) - ANSWER_HEAD.size
    return unpack_answer(frame[ANSWER_HEAD.size :])


def test_every_field_of_a_request_arrives() -> None:
    page = Page(
        requested="a\udcff.html",  # a file name that is not UTF-8, as sys.argv holds it
        url="https://h/ä",
        status=203,
        headers=(("a", "b"), ("a", "ü")),
        body=b"\0\xff<p>",
        media_type="text/html",
        charset="x",
        redirects=("https://h/1", "https://h/2"),
        rendered=True,
        warnings=("ä",),
        from_cache="fresh",
    )
    plain = Page("", "", 0, (), b"")
    assert not [field.name for field in fields(Page) if getattr(page, field.name) == getattr(plain, field.name)]
    options = ReadOptions(**{field.name: not field.default for field in fields(ReadOptions)})
    head, body = pack_request(Request(page, options))
    assert REQUEST_HEAD.unpack(head[: REQUEST_HEAD.size]) == (len(head) - REQUEST_HEAD.size, len(body))
    assert unpack_request(head[REQUEST_HEAD.size :], body) == Request(page, options)


def test_every_field_of_a_document_arrives() -> None:
    plain = Document(url=None, title=None, lang=None, text="", blocks=())
    assert not [field.name for field in fields(Document) if getattr(DOCUMENT, field.name) == getattr(plain, field.name)]
    assert sent(DOCUMENT) == DOCUMENT
    assert sent(plain) == plain


def test_every_field_of_an_error_arrives() -> None:
    error = DocumentError("no ä", where="https://h/", hint="try", code="DOCUMENT_EMPTY", retryable=True)
    got = sent(error)
    assert isinstance(got, DocumentError)
    assert vars(got) == vars(error)
    assert got.args == error.args
    bare = sent(DocumentError("no"))
    assert isinstance(bare, DocumentError)
    assert (bare.where, bare.hint, bare.code, bare.retryable) == (None, None, "DOCUMENT_UNREADABLE", False)
    assert sent(Failure("KeyError: 'x'")) == Failure("KeyError: 'x'")


def test_the_family_of_what_is_no_page_arrives() -> None:
    with pytest.raises(NotHtml) as failed:
        kind_of(Page("-", None, None, (), b"<rss>"))
    got = sent(failed.value)
    assert isinstance(got, NotHtml)
    assert (got.family, got.code, got.line()) == ("feed", "DOCUMENT_NOT_HTML", failed.value.line())


@pytest.mark.parametrize(
    "spoil",
    [
        lambda said: said["document"].update(title=7),
        lambda said: said["document"].update(hidden_characters=True),
        lambda said: said["document"].update(text=said["document"]["text"] + "!"),
        lambda said: said["document"].pop("lang"),
        lambda said: said["blocks"]["start"].__setitem__(1, 8),
        lambda said: said["blocks"]["end"].__setitem__(1, 99),
        lambda said: said["blocks"]["text"].__setitem__(0, "Preise $"),
        lambda said: said["blocks"]["kind"].__setitem__(0, "script"),
        lambda said: said["blocks"]["line"].__setitem__(0, None),
        lambda said: said["blocks"]["line"].pop(),
        lambda said: said["links"].update(url="https://evil/"),
        lambda said: said.update(error={"message": "x"}),
        lambda said: said.update(error={**_ERROR, "family": "evil"}),
        lambda said: said.update(error={**_ERROR, "family": ["pdf"]}),
        lambda said: said.update(failure=[]),
        lambda said: said.clear(),
    ],
)
def test_an_answer_that_is_not_exactly_one_is_refused(spoil: Callable[[dict[str, Any]], Any]) -> None:
    said = json.loads(pack_answer(DOCUMENT)[ANSWER_HEAD.size :])
    spoil(said)
    with pytest.raises(Garbled):
        unpack_answer(json.dumps(said).encode())


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"7", b"\xff", b"[" * 100_000, b"{}"])
def test_noise_is_refused(data: bytes) -> None:
    with pytest.raises(Garbled):
        unpack_answer(data)
