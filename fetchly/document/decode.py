"""The bytes of a page and what the transport said about them in; text and the encoding's name out.

Order: byte order mark, transport charset, <meta> or XML declaration, valid UTF-8, a guess (WHATWG "encoding sniffing
algorithm"). One deviation: a single-byte label fits any bytes and so proves nothing; where the bytes are valid UTF-8
with non-ASCII in them, they are UTF-8 whatever such a label says (pages re-saved by tools keep their old label).
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

from fetchly.document.charsets import codec_of
from fetchly.document.guess import guess_codec

_MULTIBYTE = frozenset(("gb18030", "big5hkscs", "euc_jis_2004", "iso2022_jp", "cp932", "cp949"))
_WIDE = frozenset(("utf-16-le", "utf-16-be"))

_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_META = re.compile(rb"""<meta[^>]{1,400}?charset\s*=\s*["']?\s*([\w:.-]{1,40})""", re.IGNORECASE)
_XML = re.compile(rb"""^\s*<\?xml[^>]{1,200}?encoding\s*=\s*["']([\w:.-]{1,40})["']""", re.IGNORECASE)
# Browsers look into the first 1024 bytes; pages exist that declare later.
_DECLARED_WITHIN = 8192
_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
_ESCAPE = b"\x1b$"  # ISO-2022-JP is ASCII to the eye


@dataclass(frozen=True, slots=True)
class Decoded:
    """`text` without a byte order mark; `encoding` is the name of the Python codec that was used."""

    text: str
    encoding: str


def decode(body: bytes, transport: str | None = None) -> Decoded:
    """Decode a page. `transport` is the charset of the Content-Type header.

    Bytes that the encoding does not know become U+FFFD; it never raises.
    """
    for mark, codec in _BOMS:
        if body.startswith(mark):
            return Decoded(body[len(mark) :].decode(codec, "replace"), codec)
    is_utf8, fits_utf8 = _decodes(body, "utf-8"), _fits(body, "utf-8")
    for codec in filter(None, (codec_of(transport), _declared(body))):
        if codec == "utf-8":
            if fits_utf8:
                return Decoded(body.decode("utf-8", "replace"), "utf-8")
            continue  # the label is wrong: something else must decide
        if is_utf8 and not body.isascii() and codec not in _WIDE:
            return Decoded(body.decode("utf-8"), "utf-8")
        if codec not in _MULTIBYTE or _fits(body, codec):
            return Decoded(body.decode(codec, "replace"), codec)
    guess = _wide(body) or ("utf-8" if fits_utf8 and _ESCAPE not in body else guess_codec(body))
    return Decoded(body.decode(guess, "replace"), guess)


def _declared(body: bytes) -> str | None:
    head = body[:_DECLARED_WITHIN]
    found = _XML.search(head) or _META.search(_COMMENT.sub(b"", head))
    codec = codec_of(found[1].decode("ascii")) if found else None
    # A page whose declaration could be read as ASCII is not UTF-16.
    return "utf-8" if codec in _WIDE else codec


def _decodes(body: bytes, codec: str) -> bool:
    try:
        body.decode(codec)
    except UnicodeDecodeError:
        return False
    return True


def _fits(body: bytes, codec: str) -> bool:
    """Whether at most one foreign character in eight or so is broken: text cut in mid-character or one pasted word of
    another encoding do not make a page another encoding."""
    broken = 0 if _decodes(body, codec) else body.decode(codec, "replace").count("\ufffd")
    return broken * 8 <= len(body.translate(None, bytes(range(128))))


def _wide(body: bytes) -> str | None:
    """UTF-16 without a mark: its ASCII characters, of which mark-up is made, have a zero byte on the same side."""
    even, odd = body[0:1024:2].count(0), body[1:1024:2].count(0)
    if max(even, odd) > 8 * (1 + min(even, odd)):
        return "utf-16-be" if even > odd else "utf-16-le"
    return None
