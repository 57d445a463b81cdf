"""A Page in; whether its bytes are HTML or plain text out, or a DocumentError that names what they are instead."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Literal

from fetchly.errors import DocumentError
from fetchly.goods import Page

Family = Literal["feed", "sitemap", "pdf", "office", "book", "image", "media", "font", "data", "archive", "other"]
"""What a document that is no page is, as a count of them has it. `media`: sound and video; `data`: JSON, XML, CSV."""
_NAME = "name a web page instead"


class NotHtml(DocumentError):
    """The bytes are a document, and no page. `family` says of what kind."""

    code = "DOCUMENT_NOT_HTML"
    family: Family = "other"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of document that is no page: its name with an article, what its owner can do, and its family."""

    name: str
    hint: str = _NAME
    family: Family = "other"


_PDF = Kind("a PDF", "take its text out first: pdftotext FILE - | fetchly extract - --schema SCHEMA", "pdf")
_JSON = Kind("JSON", "it is data already; name the web page that shows it", "data")
_OFFICE = Kind("an office document", "export it as HTML", "office")
_LIST = "name one of the pages that it lists"
_UNPACK = "unpack it first"
_MAGIC = (
    (b"%PDF-", _PDF),
    (b"{\\rtf", Kind("an RTF document", "export it as HTML", "office")),
    (b"\x89PNG\r\n", Kind("a PNG image", _NAME, "image")),
    (b"\xff\xd8\xff", Kind("a JPEG image", _NAME, "image")),
    (b"GIF87a", Kind("a GIF image", _NAME, "image")),
    (b"GIF89a", Kind("a GIF image", _NAME, "image")),
    (b"II*\0", Kind("a TIFF image", _NAME, "image")),
    (b"MM\0*", Kind("a TIFF image", _NAME, "image")),
    (b"\0\0\1\0", Kind("an icon", _NAME, "image")),
    (b"\x1f\x8b", Kind("gzip data", "unpack it first: gunzip -c FILE | fetchly extract - --schema SCHEMA", "archive")),
    (b"\x28\xb5\x2f\xfd", Kind("Zstandard data", _UNPACK, "archive")),
    (b"7z\xbc\xaf\x27\x1c", Kind("a 7z archive", _UNPACK, "archive")),
    (b"Rar!\x1a\x07", Kind("a RAR archive", _UNPACK, "archive")),
    (b"\xd0\xcf\x11\xe0", _OFFICE),
    (b"OggS", Kind("an Ogg file", _NAME, "media")),
    (b"ID3", Kind("an MP3 file", _NAME, "media")),
    (b"\x7fELF", Kind("a program")),
    (b"wOFF", Kind("a font", _NAME, "font")),
    (b"wOF2", Kind("a font", _NAME, "font")),
)
_ZIPPED = (
    (b"mimetypeapplication/epub+zip", Kind("an EPUB book", _NAME, "book")),
    (b"mimetypeapplication/vnd.oasis", _OFFICE),
    (b"[Content_Types].xml", _OFFICE),
)
_ROOTS = {
    "rss": Kind("an RSS feed", _LIST, "feed"),
    "rdf:rdf": Kind("an RSS feed", _LIST, "feed"),
    "feed": Kind("an Atom feed", _LIST, "feed"),
    "urlset": Kind("a sitemap", _LIST, "sitemap"),
    "sitemapindex": Kind("a sitemap", _LIST, "sitemap"),
    "svg": Kind("an SVG image", _NAME, "image"),
}
_HTML_TYPES = frozenset(("text/html", "application/xhtml+xml"))
_TEXT_TYPES = frozenset(("text/plain", "text/markdown", "text/x-markdown"))
# Types that say little: what the bytes look like decides.
_VAGUE_TYPES = frozenset(
    (
        *(None, "", "*/*", "text/xml", "application/xml", "unknown/unknown", "application/unknown"),
        *("application/octet-stream", "binary/octet-stream"),
    )
)
_UNREADABLE_TEXTS = frozenset(
    ("text/css", "text/csv", "text/javascript", "text/ecmascript", "text/calendar", "text/vcard", "text/event-stream")
)
_FAMILIES: dict[str, Family] = {"image": "image", "audio": "media", "video": "media", "font": "font"}
# What may stand before the first element, and the marks of a whole page.
_OPENING = rb"(?:\s|<!--(?:[^-]|-(?!->))*-->|<\?xml[^>]*>)*"
_HTML_OPENS = re.compile(_OPENING + rb"<(?:!doctype\s+html|(?:html|head|body|title|meta)[\s/>])", re.IGNORECASE)
_HTML_MARK = re.compile(rb"<(?:!doctype\s+html|(?:html|head|body)[\s>])", re.IGNORECASE)
_ANY_TAG = re.compile(rb"</?[a-z][a-z0-9-]*[^<>]*>", re.IGNORECASE)
_TAG_OPENS = re.compile(rb"<(?:!--|!doctype|\?xml|[a-z])", re.IGNORECASE)
_XML_ROOT = re.compile(rb"<([a-z_][\w:.-]*)", re.IGNORECASE)
_XML_OPENS = re.compile(rb"<(?:\?xml|(?:rss|feed|urlset|sitemapindex|rdf:rdf)[\s>])", re.IGNORECASE)
_MHTML = re.compile(rb"(?:[\w-]+:[^\n]*\n(?:[ \t][^\n]*\n)*){0,20}?content-type:\s*multipart/related", re.IGNORECASE)
_WIDE_SPACE = re.compile(rb"\A(?:(?:[ \t\r\n\f]\0)+|(?:\0[ \t\r\n\f])+)(?=<\0|\0<)")  # in UTF-16
_LOOK = 4096


def kind_of(page: Page) -> Literal["html", "text"]:
    """What to read the page as. Raises DocumentError: DOCUMENT_EMPTY for no bytes, NotHtml for the rest.

    Magic bytes count before the declared type, the declared type before the looks, and a name ending never.
    """
    place = page.url or page.requested
    if not page.body.strip():
        raise _empty(page, place)
    head = _WIDE_SPACE.sub(b"", page.body[:_LOOK]).lstrip(b"\xef\xbb\xbf \t\r\n\f")
    kind = _magic(head) or _other_markup(head, page.media_type) or _data(page.body, head, page.media_type)
    if kind is not None:
        raise _not_html(kind, place)
    declared = page.media_type
    if declared in _HTML_TYPES or _HTML_OPENS.match(head):
        return "html"
    if declared in _TEXT_TYPES:
        return "text"
    if declared is not None and declared not in _VAGUE_TYPES:
        readable = declared.startswith("text/") or _HTML_MARK.search(head) is not None
        if declared in _UNREADABLE_TEXTS or not readable:
            raise _not_html(_declared(declared), place)
    if _utf16(head):
        return "html"
    if b"\0" in head:
        raise _not_html(Kind("binary data"), place)
    return "html" if _TAG_OPENS.match(head) or _ANY_TAG.search(head) else "text"


def _magic(head: bytes) -> Kind | None:
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    if head.startswith(b"PK\x03\x04"):
        return next((kind for mark, kind in _ZIPPED if mark in head), Kind("a ZIP archive", _UNPACK, "archive"))
    if (head.startswith(b"RIFF") and b"\0" in head[:12]) or head[4:8] == b"ftyp":
        return Kind("an image, a sound or a video", _NAME, "media")
    if _MHTML.match(head):
        return Kind("an MHTML archive", "save the page as HTML, one file", "archive")
    return None


def _other_markup(head: bytes, declared: str | None) -> Kind | None:
    """A feed, a map or a drawing, by its root element, and XML of no known kind."""
    is_xml = declared is not None and declared.endswith(("/xml", "+xml")) and declared not in _HTML_TYPES
    if not _XML_OPENS.match(head) and not is_xml:
        return None
    root = _XML_ROOT.search(re.sub(rb"<!--.*?-->", b"", head, flags=re.DOTALL))
    name = root[1].decode("ascii", "replace").lower() if root else ""
    if name in _ROOTS:
        return _ROOTS[name]
    if name == "html" or _HTML_MARK.search(head) or declared in _HTML_TYPES:
        return None
    return Kind("XML", _NAME, "data") if is_xml or head.startswith(b"<?xml") else None


def _data(body: bytes, head: bytes, declared: str | None) -> Kind | None:
    """JSON, whatever it is called: the whole body can be read as an object or an array, or each of its lines can."""
    says_json = declared is not None and declared.endswith(("/json", "+json"))
    if declared in _TEXT_TYPES or not head.startswith((b"{", b"[")):
        return _JSON if says_json and not _HTML_OPENS.match(head) else None
    if says_json or _reads_as_json(body):
        return _JSON
    lines = body.split(b"\n", 2)[:2]
    return Kind("JSON lines", _JSON.hint, "data") if len(lines) == 2 and all(map(_reads_as_json, lines)) else None


def _reads_as_json(data: bytes) -> bool:
    try:
        return isinstance(json.loads(data), dict | list)
    except (ValueError, RecursionError):
        return False


def _declared(declared: str) -> Kind:
    """What a document is by its type alone."""
    for word, family in _FAMILIES.items():
        if declared.startswith(f"{word}/"):
            return Kind(f"{'an' if word[0] in 'aeiou' else 'a'} {word} ({declared})", _NAME, family)
    if declared == "application/pdf":
        return Kind("a PDF", _NAME, "pdf")
    return Kind(declared, _NAME, "data" if declared in _UNREADABLE_TEXTS else "other")


def _utf16(head: bytes) -> bool:
    return head.startswith((b"\xff\xfe", b"\xfe\xff", b"<\0", b"\0<"))


def _empty(page: Page, place: str) -> DocumentError:
    answer = f"the server answered {page.status} with " if page.status is not None else "it holds "
    what = "white space alone" if page.body else "an empty body" if page.status is not None else "no bytes"
    return DocumentError(
        f"the page has no content: {answer}{what}",
        where=place,
        code="DOCUMENT_EMPTY",
        hint="some sites answer programs so: open the page in a browser to compare" if page.url else None,
    )


def _not_html(kind: Kind, place: str) -> NotHtml:
    error = NotHtml(f"this is {kind.name}, not an HTML page", where=place, hint=kind.hint)
    error.family = kind.family
    return error
