"""A Page in; whether its bytes are HTML or plain text out, or a DocumentError that names what they are instead."""

from __future__ import annotations

import re
from typing import Literal

from fetchly.errors import DocumentError
from fetchly.goods import Page

_MAGIC = (
    (b"%PDF-", "a PDF"),
    (b"\x89PNG\r\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF87a", "a GIF image"),
    (b"GIF89a", "a GIF image"),
    (b"PK\x03\x04", "a ZIP archive or an office document"),
    (b"\x1f\x8b", "gzip data"),
    (b"\x28\xb5\x2f\xfd", "Zstandard data"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"\xd0\xcf\x11\xe0", "an office document"),
    (b"OggS", "an Ogg file"),
    (b"ID3", "an MP3 file"),
    (b"\x7fELF", "a program"),
    (b"wOFF", "a font"),
    (b"wOF2", "a font"),
)
_HTML_TYPES = frozenset(("text/html", "application/xhtml+xml"))
# Types that say little: what the bytes look like decides.
_VAGUE_TYPES = frozenset((None, "", "text/plain", "application/octet-stream", "binary/octet-stream", "text/xml"))
_HTML_MARK = re.compile(rb"<(?:!doctype\s+html|html[\s>]|head[\s>]|body[\s>])", re.IGNORECASE)
_ANY_TAG = re.compile(rb"</?[a-z][a-z0-9-]*[^<>]*>", re.IGNORECASE)
_XML_ROOT = re.compile(rb"<(?!\?|!)([a-z_][\w:.-]*)", re.IGNORECASE)
_FEEDS = {"rss": "an RSS feed", "feed": "an Atom feed", "rdf:rdf": "an RSS feed", "svg": "an SVG image"} | {
    name: "a sitemap" for name in ("urlset", "sitemapindex")
}
_LOOK = 4096


def kind_of(page: Page) -> Literal["html", "text"]:
    """What to read the page as. Raises DocumentError: DOCUMENT_EMPTY for no bytes, DOCUMENT_NOT_HTML for the rest.

    Magic bytes count before the declared type, the declared type before the looks, and a name ending never.
    """
    head = page.body[:_LOOK].lstrip(b"\xef\xbb\xbf \t\r\n\f")
    place = page.url or page.requested
    if not page.body.strip():
        raise DocumentError(
            "the page has no content", where=place, code="DOCUMENT_EMPTY", hint="the body of the answer is empty"
        )
    for magic, name in _MAGIC:
        if head.startswith(magic):
            raise _not_html(name, place)
    if head.startswith(b"RIFF") or head[4:8] == b"ftyp":
        raise _not_html("an image, a sound or a video", place)
    looks_html = _HTML_MARK.search(head) is not None
    declared = page.media_type
    if declared in _HTML_TYPES:
        return "html"
    if looks_html and not _xml_kind(head):
        return "html"
    named = _named(declared, head)
    if named is not None:
        raise _not_html(named, place)
    if b"\0" in head and not _utf16(head):
        raise _not_html("binary data", place)
    if declared == "text/plain":
        return "text"
    return "html" if _ANY_TAG.search(head) or _utf16(head) else "text"


def _named(declared: str | None, head: bytes) -> str | None:
    """A kind of document that is no page, by its declared type or its looks; None for what can be read."""
    if declared not in _VAGUE_TYPES:
        assert declared is not None
        if declared.endswith(("/json", "+json")):
            return "JSON"
        if declared.endswith(("/xml", "+xml")):
            return _xml_kind(head) or "XML"
        return None if declared.startswith("text/") and declared not in ("text/css", "text/csv") else declared
    if declared == "text/plain":
        return None
    if head.startswith((b"{", b"[{", b'["', b"[[")) and not _ANY_TAG.search(head[:200]):
        return "JSON"
    kind = _xml_kind(head)
    return kind if kind is not None or not head.startswith(b"<?xml") else "XML"


def _xml_kind(head: bytes) -> str | None:
    """The feed, map or drawing that XML holds, by its root element."""
    if not head.startswith((b"<?xml", b"<rss", b"<feed", b"<urlset", b"<sitemapindex", b"<svg", b"<rdf", b"<!")):
        return None
    root = _XML_ROOT.search(head)
    return _FEEDS.get(root[1].decode("ascii").lower()) if root else None


def _utf16(head: bytes) -> bool:
    return head.startswith((b"\xff\xfe", b"\xfe\xff", b"<\0", b"\0<"))


def _not_html(kind: str, place: str) -> DocumentError:
    return DocumentError(
        f"this is {kind}, not an HTML page", where=place, code="DOCUMENT_NOT_HTML", hint="name a web page instead"
    )
