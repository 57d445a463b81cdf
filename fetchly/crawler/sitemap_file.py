"""A Page that should be a sitemap or a feed in; its entries out as they are written, in a stream of bounded memory."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from xml.parsers import expat

from fetchly.crawler.inflate import BrokenEncoding, inflated
from fetchly.goods import Page

_PIECE = 64 * 1024
_MAX_WRAPPINGS = 2  # a file that is called .gz may be packed once more for its way
_MAX_DEPTH = 32  # elements within elements
_MAX_TEXT = 8 * 1024  # characters of one address
_MAX_TAG = 1024 * 1024  # characters of one tag: the parser starts over with every piece of it
_MAX_BAD_LINES = 100
_GZIP = b"\x1f\x8b"

# What XML knows by itself. Any other `&` is meant as one, or names an entity that nobody shall define.
_BARE_AMPERSAND = re.compile(r"&(?!(?:amp|lt|gt|quot|apos|#[0-9]{1,7}|#x[0-9a-fA-F]{1,6});)")
_LONGEST_REFERENCE = 10
_NO_XML = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_DECLARATION = re.compile(rb"\s*<\?xml[^>]{0,100}encoding\s*=\s*[\"']([a-zA-Z0-9._-]{1,40})")
_HTML = re.compile(r"<(?:!doctype\s+html|html[\s>])", re.IGNORECASE)
_ROOTS = frozenset(("urlset", "sitemapindex", "rss", "rdf", "feed"))
# The element of an entry -> those of its address and of its date. By local name: prefixes and namespaces vary.
_ENTRIES = {"url": "loc", "sitemap": "loc", "item": "link", "entry": "link"}
_DATES = frozenset(("lastmod", "pubdate", "date", "updated"))


class SitemapBroken(Exception):
    """The rest of a file cannot be read. `code` is that of a note; `message` says why."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class Listed:
    """An entry as the file writes it, white space around it gone. `is_sitemap`: it names another file; `is_address`
    False: a line of a text that is none, or the beginning of one without measure."""

    location: str
    lastmod: str = ""
    is_sitemap: bool = False
    is_address: bool = True


def listed_in(page: Page, max_bytes: int) -> Iterator[Listed]:
    """The entries of a file, up to `max_bytes` of it unpacked. Raises SitemapBroken after those that could be read:
    SITEMAP_NOT_ONE, SITEMAP_BROKEN or SITEMAP_TOO_LARGE."""
    pieces = _unpacked(page.body, max_bytes)
    head = b""
    broken: SitemapBroken | None = None
    try:
        for piece in pieces:
            head += piece
            if len(head) >= 512:
                break
    except SitemapBroken as error:
        broken = error
    codec = _codec(head, page.charset)
    decoder = codecs.getincrementaldecoder(codec)("replace")
    opening = decoder.decode(head).lstrip("\ufeff \t\r\n\f")
    if _HTML.match(opening):
        raise SitemapBroken("SITEMAP_NOT_ONE", "it is an HTML page")
    reader = _XmlReader() if opening.startswith("<") else _TextReader()
    yield from reader.read(opening)
    if broken is not None:
        raise broken
    for piece in pieces:
        yield from reader.read(decoder.decode(piece))
    if page.warnings:  # it was cut: that it breaks off is no news
        raise SitemapBroken("SITEMAP_TOO_LARGE", "; ".join(page.warnings))
    yield from reader.read(decoder.decode(b"", True), is_last=True)


def _unpacked(body: bytes, max_bytes: int) -> Iterator[bytes]:
    """The bytes of a file, whatever it is called and however often it is packed, in pieces."""
    pieces: Iterator[bytes] = (body[start : start + _PIECE] for start in range(0, len(body), _PIECE))
    seen = 0
    try:
        for _ in range(_MAX_WRAPPINGS):
            first = next(pieces, b"")
            while 0 < len(first) < len(_GZIP):
                more = next(pieces, b"")
                if not more:
                    break
                first += more
            pieces = _again(first, pieces)
            if not first.startswith(_GZIP):
                break
            pieces = inflated(pieces, ["gzip"])
        for piece in pieces:
            seen += len(piece)
            if seen > max_bytes:
                yield piece[: len(piece) - (seen - max_bytes)]
                raise SitemapBroken("SITEMAP_TOO_LARGE", f"more than {max_bytes:,} bytes; the rest is not read")
            yield piece
    except BrokenEncoding as error:
        raise SitemapBroken("SITEMAP_BROKEN", str(error)) from error


def _again(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _codec(head: bytes, charset: str | None) -> str:
    """The name of a codec that exists: byte order mark, header, XML declaration, UTF-8."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    if head.startswith((b"<\0", b"\0<")):
        return "utf-16-le" if head.startswith(b"<") else "utf-16-be"
    declared = _DECLARATION.match(head.removeprefix(b"\xef\xbb\xbf"))
    for name in (None if head.startswith(b"\xef\xbb\xbf") else charset, declared and declared[1].decode("ascii")):
        if name is not None and _is_text_codec(name):
            return name
    return "utf-8"


def _is_text_codec(name: str) -> bool:
    try:
        return b"<".decode(name, "replace") == "<"  # UTF-16 has shown itself by now
    except (LookupError, UnicodeError, ValueError):  # no codec, or one from bytes to bytes
        return False


class _TextReader:
    """One address a line. A file whose first hundred lines hold none is something else."""

    def __init__(self) -> None:
        self._rest = ""
        self._found = False
        self._bad = 0

    def read(self, text: str, *, is_last: bool = False) -> Iterator[Listed]:
        lines = re.split(r"\r\n|\r|\n", self._rest + text)
        self._rest = "" if is_last else lines.pop()
        if len(self._rest) > _MAX_TEXT:
            raise SitemapBroken("SITEMAP_BROKEN", f"a line is longer than {_MAX_TEXT:,} characters")
        for line in filter(None, map(str.strip, lines)):
            is_address = line[:8].lower().startswith(("http://", "https://"))
            self._found = self._found or is_address
            self._bad += not is_address
            if not self._found and self._bad >= _MAX_BAD_LINES:
                break
            yield Listed(line, is_address=is_address)
        if not self._found and (is_last or self._bad >= _MAX_BAD_LINES):
            raise SitemapBroken("SITEMAP_NOT_ONE", "neither XML nor a list of addresses")


class _XmlReader:
    """Reads XML as far as it goes. Refused: entities, anything nested or written without measure."""

    def __init__(self) -> None:
        self._parser = expat.ParserCreate("utf-8")
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._opens
        self._parser.EndElementHandler = self._closes
        self._parser.CharacterDataHandler = self._says
        self._parser.StartCdataSectionHandler = self._opens_cdata
        self._parser.EntityDeclHandler = self._has_entities
        self._rest = ""
        self._fed = 0
        self._path: list[str] = []
        self._ready: list[Listed] = []
        self._entry = ""  # the name of the entry that is open
        self._location = ""
        self._lastmod = ""
        self._is_address = True
        self._text: list[str] | None = None  # of the element that is being read
        self._length = 0
        self._has_cdata = False

    def read(self, text: str, *, is_last: bool = False) -> Iterator[Listed]:
        text = self._rest + text
        end = len(text)
        tail = text.rfind("&", max(0, end - _LONGEST_REFERENCE))
        if not is_last and tail >= 0:
            end = tail  # a reference may go on in the next piece
        self._rest = text[end:]
        problem: SitemapBroken | None = None
        try:
            self._feed(_NO_XML.sub("", _BARE_AMPERSAND.sub("&amp;", text[:end])), is_last)
        except expat.ExpatError as error:
            problem = SitemapBroken("SITEMAP_BROKEN", f"not well-formed: {error}; the rest is not read")
        except SitemapBroken as error:
            problem = error
        yield from self._ready
        self._ready = []
        if problem is not None:
            raise problem

    def _feed(self, text: str, is_last: bool) -> None:
        data = text.encode("utf-8")
        for start in range(0, max(len(data), 1), _PIECE):
            piece = data[start : start + _PIECE]
            self._fed += len(piece)
            self._parser.Parse(piece, is_last and start + _PIECE >= len(data))
            if self._fed - self._parser.CurrentByteIndex > _MAX_TAG:
                raise SitemapBroken("SITEMAP_BROKEN", f"a tag is longer than {_MAX_TAG:,} bytes")

    def _has_entities(self, *arguments: Any) -> None:
        raise SitemapBroken("SITEMAP_BROKEN", "it declares entities; not read")

    def _opens(self, tag: str, attributes: dict[str, str]) -> None:
        name = _local(tag)
        if not self._path and name not in _ROOTS:
            raise SitemapBroken("SITEMAP_NOT_ONE", f"its first element is <{tag[:40]}>: no sitemap and no feed")
        if len(self._path) >= _MAX_DEPTH:
            raise SitemapBroken("SITEMAP_BROKEN", f"more than {_MAX_DEPTH} elements within each other")
        self._path.append(name)
        if not self._entry:
            if name in _ENTRIES:
                self._entry, self._location, self._lastmod, self._is_address = name, "", "", True
            return
        if self._path[-2] != self._entry:  # as in <image:image><image:loc>
            return
        is_address = name == _ENTRIES[self._entry]
        if is_address and self._entry == "entry":
            self._take_atom_link({_local(key): value for key, value in attributes.items()})
        elif is_address or name in _DATES:
            self._text, self._length, self._has_cdata = [], 0, False

    def _take_atom_link(self, attributes: dict[str, str]) -> None:
        if not self._location and attributes.get("rel", "alternate") == "alternate":
            self._location = attributes.get("href", "").strip()

    def _opens_cdata(self) -> None:
        self._has_cdata = True

    def _says(self, text: str) -> None:
        if self._text is not None and self._length <= _MAX_TEXT:
            self._text.append(text)
            self._length += len(text)

    def _closes(self, tag: str) -> None:
        name = self._path.pop()
        if self._text is not None and self._path and self._path[-1] == self._entry:
            said = "".join(self._text).strip()[:_MAX_TEXT]
            if self._has_cdata:  # no place for references: the `&` in it was mended, or its writer took it for one
                said = said.replace("&amp;", "&")
            if name == _ENTRIES[self._entry]:
                self._location = self._location or said
                self._is_address = self._is_address and self._length <= _MAX_TEXT
            else:
                self._lastmod = self._lastmod or said
            self._text = None
        elif name == self._entry:
            self._ready.append(Listed(self._location, self._lastmod, name == "sitemap", self._is_address))
            self._entry = ""


def _local(tag: str) -> str:
    return tag.rpartition(":")[2].lower()
