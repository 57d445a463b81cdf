"""What is a page and what is something else."""

from __future__ import annotations

import contextlib
import io
import json
import time
import zipfile

import pytest

from fetchly.document.media import NotHtml, kind_of
from fetchly.errors import DocumentError
from fetchly.goods import Page


def page(body: bytes, media_type: str | None = None) -> Page:
    return Page("target", "http://h/x.pdf", 200, (), body, media_type=media_type)


def zipped(name: str = "a", content: str = "b") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


SAVED = b"From: <Saved by Blink>\r\nSnapshot-Content-Location: http://h/\r\nMIME-Version: 1.0\r\n"
XHTML = b"<?xml version='1.0' encoding='utf-8'?>\n<!-- a -->\n<html xmlns='http://www.w3.org/1999/xhtml'>"


@pytest.mark.parametrize(
    ("body", "media_type", "words"),
    [
        (b"%PDF-1.7\n...", "text/html", "a PDF"),
        (b"\n  %PDF-1.4", None, "a PDF"),
        (b"\x89PNG\r\n\x1a\n\0\0", None, "a PNG image"),
        (b"\xff\xd8\xff\xe0\0", "image/jpeg", "a JPEG image"),
        (b"GIF89a\0\0", None, "a GIF image"),
        (zipped(), None, "a ZIP archive"),
        (zipped("[Content_Types].xml"), "application/octet-stream", "an office document"),
        (zipped("mimetype", "application/epub+zip"), None, "an EPUB book"),
        (zipped("mimetype", "application/vnd.oasis.opendocument.text"), "text/html", "an office document"),
        (b"{\\rtf1\\ansi Honey}", "text/html", "an RTF document"),
        (SAVED + b"Content-Type: multipart/related;\r\n\ttype=x", None, "an MHTML archive"),
        (b"II*\0....", None, "a TIFF image"),
        (b"no magic", "application/pdf", "a PDF"),
        (b"no magic", "image/webp", "an image (image/webp)"),
        (b"no magic", "video/mp4", "a video (video/mp4)"),
        (json.dumps({"html": "<!DOCTYPE html><html><body>"}).encode(), "application/json", "JSON"),
        (json.dumps({"html": "<!DOCTYPE html><html><body>"}).encode(), "text/html", "JSON"),
        (json.dumps([{"html": "<p>"}]).encode("utf-16"), "application/json", "JSON"),
        (b'  ["a", "<b>"]\n', "text/html", "JSON"),
        (b'{"a": 1}\n{"a": 2}\n', None, "JSON lines"),
        (b"{broken", "application/json", "JSON"),
        (b"alert('<html>')", "text/javascript", "text/javascript"),
        (b"a,b\n1,2", "text/csv", "text/csv"),
        (b"<?xml version='1.0'?><rss version='2.0'>", "text/html", "an RSS feed"),
        (b"<rss version='2.0'><channel>", "text/html", "an RSS feed"),
        (b"<feed xmlns='http://www.w3.org/2005/Atom'>", None, "an Atom feed"),
        (b"<?xml version='1.0'?><rdf:RDF>", "application/rdf+xml", "an RSS feed"),
        (b"<?xml version='1.0'?><!-- <html> --><rss>", "application/rss+xml", "an RSS feed"),
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
    assert failed.value.hint


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
        (XHTML, "application/xhtml+xml", "html"),
        (XHTML, "text/xml", "html"),
        (XHTML, None, "html"),
        (b"<!-- " + b"long " * 2000 + b"--><p>x", None, "html"),
        (b"<p " + b"a " * 5000 + b">x", None, "html"),
        (b"<!doctype html><p>", "application/json", "html"),
        (b"<!doctype html><p>", "application/octet-stream", "html"),
        (b"<!doctype html><p>", "application/x-httpd-php", "html"),
        (b"<p>x", "*/*", "html"),
        (b"<p>x", "unknown/unknown", "html"),
        (b"<svg/><p>x", "text/html", "html"),
        (b"{{ title }} <p>x", "text/html", "html"),
        (b"[1] a footnote", "text/html", "html"),
        (b'{"a": 1}', "text/plain", "text"),
        (b"{\\it word}", None, "text"),
        (b"How to write <html> and <body>", "text/plain", "text"),
        (b"# Title", "text/markdown", "text"),
        (b"RIFFs and chords", None, "text"),
        (b"MIME: x\n\ny", None, "text"),
        (b"plain words, 3 < 4", None, "text"),
        (b"see <b> here", "text/plain", "text"),
        ("<html>ä".encode("utf-16-le"), None, "html"),
        ("<html>ä".encode("utf-16"), None, "html"),
    ],
)
def test_pages_are_pages_whatever_they_are_called(body: bytes, media_type: str | None, kind: str) -> None:
    assert kind_of(page(body, media_type)) == kind


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [(b"", 200, "answered 200 with an empty body"), (b" \r\n\t ", 200, "white space"), (b"", None, "no bytes")],
)
def test_nothing_is_an_empty_document(body: bytes, status: int | None, words: str) -> None:
    with pytest.raises(DocumentError) as failed:
        kind_of(Page("target", "http://h/", status, (), body, media_type="text/html"))
    assert failed.value.code == "DOCUMENT_EMPTY"
    assert words in failed.value.message


@pytest.mark.parametrize("part", [b"[", b"{", b'{"a":', b"<!--", b"<!-- - ", b"a:\n ", b"<?xml ", b"<", b"\n", b"%"])
def test_hostile_bytes_are_judged_quickly(part: bytes) -> None:
    start = time.process_time()
    with contextlib.suppress(DocumentError):
        kind_of(page(part * (3_000_000 // len(part))))
    assert time.process_time() - start < 2  # minutes, if a scan were quadratic


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("space", ["", " ", "\n\n  "])
def test_utf16_without_a_mark_is_a_page_behind_white_space(codec: str, space: str) -> None:
    assert kind_of(page(f"{space}<p>Grüße".encode(codec))) == "html"
    with pytest.raises(DocumentError, match="binary data"):
        kind_of(page(f"{space}\0\0<p>".encode(codec)))


@pytest.mark.parametrize(
    ("body", "media_type", "family"),
    [
        (b"<rss>", None, "feed"),
        (b"<feed xmlns='http://www.w3.org/2005/Atom'>", "text/html", "feed"),
        (b"<urlset>", "text/xml", "sitemap"),
        (b"%PDF-1.7", "text/html", "pdf"),
        (b"no magic", "application/pdf", "pdf"),
        (zipped("[Content_Types].xml"), None, "office"),
        (zipped("mimetype", "application/epub+zip"), None, "book"),
        (b"GIF89a\0\0", "text/html", "image"),
        (b"no magic", "image/webp", "image"),
        (b"no magic", "video/mp4", "media"),
        (b"ID3\3", None, "media"),
        (b"wOF2", None, "font"),
        (b'{"a": 1}', None, "data"),
        (b"a,b", "text/csv", "data"),
        (b"<?xml version='1.0'?><order/>", None, "data"),
        (zipped(), None, "archive"),
        (b"abc\0def", None, "other"),
        (b"no magic", "application/x-thing", "other"),
    ],
)
def test_other_documents_are_told_apart_by_family(body: bytes, media_type: str | None, family: str) -> None:
    with pytest.raises(NotHtml) as failed:
        kind_of(page(body, media_type))
    assert failed.value.family == family
    assert failed.value.code == "DOCUMENT_NOT_HTML"
