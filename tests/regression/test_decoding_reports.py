"""Public bug reports about decoding, and about parsers that bring their program down: what must hold here."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from fetchly.document.decode import decode
from fetchly.document.media import kind_of
from fetchly.document.reader import read_document
from fetchly.document.worker import DocumentReader
from fetchly.errors import DocumentError
from fetchly.goods import Page


def page(body: bytes, media_type: str | None = "text/html", url: str = "http://h/") -> Page:
    return Page(url, url, 200, (), body, media_type=media_type)


def test_the_declared_charset_counts_before_a_guess() -> None:
    # trafilatura#231
    body = '<html><head><meta charset="iso-8859-1"></head><body><p>mööse</body></html>'.encode("latin-1")
    assert read_document(page(body)).text == "mööse"


def test_a_chinese_page_is_found_behind_20_kb_of_ascii() -> None:
    # trafilatura#541
    head = b"<html><head>" + b"<script src='/static/lib.js'></script>\n" * 550
    assert len(head) > 20_000
    words = "杭州西湖的龙井茶，每斤二百元。朱镕基说：「好茶」"
    labelled = head + b"<meta charset=gb2312></head><p>" + words.encode("gb18030")
    bare = head + b"</head><p>" + words.encode("gb18030")
    for body in (labelled, bare):
        assert read_document(page(body)).text == words
        assert decode(body).encoding == "gb18030"


def test_thousands_of_options_read_in_threads_do_no_harm() -> None:
    # selectolax#217, #91, #135, #167
    options = "".join(f"<option value={i}>choice {i}" for i in range(10_000))
    body = f"<noscript><select size=4 multiple>{options}</select></noscript><template>{options}</template>"
    body += f"<form><select>{options}</select><svg><template><p>x</template></svg><p>fine</form>"
    with DocumentReader(workers=2) as reader, ThreadPoolExecutor(4) as threads:
        texts = list(threads.map(lambda _: reader.read(page(body.encode())).text, range(12)))
    assert texts == ["x\nfine"] * 12


@pytest.mark.parametrize(
    ("url", "body", "media_type", "words"),
    [
        ("http://h/report.html", b"%PDF-1.7\n%\xe2\xe3", "text/html", "a PDF"),
        ("http://h/report", b"%PDF-1.7\n%\xe2\xe3", "application/pdf", "a PDF"),
        ("http://h/page.html", b'{"a": [1, 2]}', "text/html", "JSON"),
        ("http://h/page", b"<?xml version='1.0'?><rss><channel>", "text/xml", "an RSS feed"),
        ("http://h/logo.html", b"\x89PNG\r\n\x1a\n\0", "text/html", "a PNG image"),
    ],
)
def test_other_documents_are_told_by_their_bytes(url: str, body: bytes, media_type: str, words: str) -> None:
    # firecrawl#342, groktocrawl#26, firecrawl-simple PR#42
    with pytest.raises(DocumentError, match=words) as failed:
        read_document(page(body, media_type, url))
    assert failed.value.code == "DOCUMENT_NOT_HTML"


def test_a_pdf_by_name_that_is_html_is_a_page() -> None:
    # firecrawl PR#2363
    body = b"<!DOCTYPE html><p>Report<embed src=report.pdf type=application/pdf>"
    for media_type in ("text/html", "application/pdf", None):
        assert kind_of(page(body, media_type, "http://h/report.pdf")) == "html"
    assert read_document(page(body, url="http://h/report.pdf")).text == "Report"


def test_an_empty_page_has_a_reason() -> None:
    # firecrawl#2316
    with pytest.raises(DocumentError) as failed:
        read_document(page(b""))
    assert failed.value.code == "DOCUMENT_EMPTY"
    assert "200" in failed.value.message
    assert "empty body" in failed.value.message
