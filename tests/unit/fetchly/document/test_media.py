"""What is a page and what is something else."""

from __future__ import annotations

import io
import json
import zipfile

import pytest

from fetchly.document.media import kind_of
from fetchly.errors import DocumentError
from fetchly.goods import Page


def page(body: bytes, media_type: str | None = None) -> Page:
    return Page("target", "http://h/x.pdf", 200, (), body, media_type=media_type)


def zipped() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a", "b")
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("body", "media_type", "words"),
    [
        (b"%PDF-1.7\n...", "text/html", "a PDF"),
        (b"\n  %PDF-1.4", None, "a PDF"),
        (b"\x89PNG\r\n\x1a\n\0\0", None, "a PNG image"),
        (b"\xff\xd8\xff\xe0\0", "image/jpeg", "a JPEG image"),
        (b"GIF89a\0\0", None, "a GIF image"),
        (zipped(), None, "a ZIP archive"),
        (b"\x1f\x8b\x08\0", None, "gzip data"),
        (json.dumps({"a": "<b>"}).encode(), "application/json", "JSON"),
        (b'{"a": 1}', None, "JSON"),
        (b'[{"a": 1}]', None, "JSON"),
        (b"{}", "application/ld+json; x", "JSON"),
        (b'<?xml version="1.0"?><rss version="2.0"><channel/></rss>', None, "an RSS feed"),
        (b'<feed xmlns="http://www.w3.org/2005/Atom">', "application/atom+xml", "an Atom feed"),
        (b"<?xml version='1.0'?><!-- x --><urlset>", "text/xml", "a sitemap"),
        (b"<?xml version='1.0'?><order/>", "application/xml", "XML"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'>", "image/svg+xml", "an SVG image"),
        (b"abc\0def", None, "binary data"),
        (b"a { color: red }", "text/css", "text/css"),
        (b"RIFF\0\0\0\0WEBP", None, "an image"),
        (b"\0\0\0 ftypmp42", None, "a video"),
    ],
)
def test_other_documents_are_named(body: bytes, media_type: str | None, words: str) -> None:
    with pytest.raises(DocumentError) as failed:
        kind_of(page(body, media_type and media_type.partition(";")[0]))
    assert failed.value.code == "DOCUMENT_NOT_HTML"
    assert words in failed.value.message
    assert failed.value.exit_code == 1


@pytest.mark.parametrize(
    ("body", "media_type", "kind"),
    [
        (b"<p>x", None, "html"),
        (b"x", "text/html", "html"),
        (b"\xef\xbb\xbf<!DOCTYPE HTML><p>", "application/pdf", "html"),
        (b"<!doctype html><p>", "text/plain", "html"),
        (b"<?xml version='1.0'?><html xmlns='http://www.w3.org/1999/xhtml'>", "application/xml", "html"),
        (b"<?xml version='1.0'?><!DOCTYPE html><html>", None, "html"),
        (b"<!-- a --><div>{}</div>", None, "html"),
        (b"plain words, 3 < 4", None, "text"),
        (b"see <b> here", "text/plain", "text"),
        ("<html>ä".encode("utf-16-le"), None, "html"),
        ("<html>ä".encode("utf-16"), None, "html"),
    ],
)
def test_pages_are_pages_whatever_they_are_called(body: bytes, media_type: str | None, kind: str) -> None:
    assert kind_of(page(body, media_type)) == kind


@pytest.mark.parametrize("body", [b"", b" \r\n\t "])
def test_nothing_is_an_empty_document(body: bytes) -> None:
    with pytest.raises(DocumentError) as failed:
        kind_of(page(body, "text/html"))
    assert failed.value.code == "DOCUMENT_EMPTY"
