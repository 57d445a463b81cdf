"""The bytes of a page and what the transport said about them in; text and the encoding's name out.

Order: byte order mark, transport charset, <meta> or XML declaration, valid UTF-8, a guess (WHATWG "encoding sniffing
algorithm"). One deviation: a single-byte label fits any bytes and so proves nothing; where the bytes are valid UTF-8
with non-ASCII in them, they are UTF-8 whatever such a label says (pages re-saved by tools keep their old label).
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

# Python's codec for each WHATWG label (https://encoding.spec.whatwg.org/#names-and-labels). A closed list: Python also
# knows codecs such as `utf-7`, `hex` or `unicode_escape`, which a page must never choose.
_LABELS = {
    "utf-8": "utf-8 utf8 unicode-1-1-utf-8 unicode11utf8 unicode20utf8 x-unicode20utf8 utf-8-sig utf8mb4",
    "utf-16-le": "utf-16 utf-16le ucs-2 unicode csunicode iso-10646-ucs-2 unicodefeff",
    "utf-16-be": "utf-16be unicodefffe",
    "cp1252": "windows-1252 cp1252 x-cp1252 iso-8859-1 iso8859-1 iso_8859-1 iso88591 latin1 latin-1 l1 ascii us-ascii "
    "ansi_x3.4-1968 cp819 ibm819 iso-ir-100 csisolatin1",
    "cp1250": "windows-1250 cp1250 x-cp1250",
    "cp1251": "windows-1251 cp1251 x-cp1251 win-1251",
    "cp1253": "windows-1253 cp1253 x-cp1253",
    "cp1254": "windows-1254 cp1254 x-cp1254 iso-8859-9 iso8859-9 iso_8859-9 latin5 l5",
    "cp1255": "windows-1255 cp1255 x-cp1255",
    "cp1256": "windows-1256 cp1256 x-cp1256",
    "cp1257": "windows-1257 cp1257 x-cp1257",
    "cp1258": "windows-1258 cp1258 x-cp1258",
    "cp866": "ibm866 866 cp866 csibm866",
    "cp874": "windows-874 cp874 dos-874 tis-620 iso-8859-11 iso8859-11",
    "iso8859-2": "iso-8859-2 iso8859-2 iso_8859-2 latin2 l2 csisolatin2",
    "iso8859-3": "iso-8859-3 iso8859-3 iso_8859-3 latin3 l3",
    "iso8859-4": "iso-8859-4 iso8859-4 iso_8859-4 latin4 l4",
    "iso8859-5": "iso-8859-5 iso8859-5 iso_8859-5 cyrillic",
    "iso8859-6": "iso-8859-6 iso8859-6 iso_8859-6 arabic iso-8859-6-e iso-8859-6-i",
    "iso8859-7": "iso-8859-7 iso8859-7 iso_8859-7 greek greek8",
    "iso8859-8": "iso-8859-8 iso8859-8 iso_8859-8 hebrew visual iso-8859-8-e iso-8859-8-i logical",
    "iso8859-10": "iso-8859-10 iso8859-10 latin6 l6",
    "iso8859-13": "iso-8859-13 iso8859-13",
    "iso8859-14": "iso-8859-14 iso8859-14",
    "iso8859-15": "iso-8859-15 iso8859-15 iso_8859-15 latin9 l9 csisolatin9",
    "iso8859-16": "iso-8859-16 iso8859-16",
    "koi8-r": "koi8-r koi8 koi koi8_r cskoi8r",
    "koi8-u": "koi8-u koi8-ru",
    "mac-roman": "macintosh mac x-mac-roman csmacintosh",
    "mac-cyrillic": "x-mac-cyrillic x-mac-ukrainian",
    "gb18030": "gb18030 gbk gb2312 gb_2312 gb_2312-80 x-gbk chinese csgb2312 iso-ir-58 cp936 ms936 euc-cn",
    "big5hkscs": "big5 big5-hkscs cn-big5 csbig5 x-x-big5",
    "euc_jis_2004": "euc-jp x-euc-jp cseucpkdfmtjapanese",
    "iso2022_jp": "iso-2022-jp csiso2022jp",
    "cp932": "shift_jis shift-jis sjis x-sjis ms_kanji ms932 windows-31j csshiftjis",
    "cp949": "euc-kr ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601 korean windows-949 cseuckr csksc56011987 cp949",
}
_CODECS = {label: codec for codec, labels in _LABELS.items() for label in labels.split()}
_MULTIBYTE = frozenset(("gb18030", "big5hkscs", "euc_jis_2004", "iso2022_jp", "cp932", "cp949"))
_WIDE = frozenset(("utf-16-le", "utf-16-be"))

_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_META = re.compile(rb"""<meta[^>]{1,400}?charset\s*=\s*["']?\s*([\w:.-]{1,40})""", re.IGNORECASE)
_XML = re.compile(rb"""^\s*<\?xml[^>]{1,200}?encoding\s*=\s*["']([\w:.-]{1,40})["']""", re.IGNORECASE)
# Browsers look into the first 1024 bytes; pages exist that declare later.
_DECLARED_WITHIN = 8192
_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
# The words around non-ASCII bytes: a detector that is given a page from its start sees 20 kB of ASCII mark-up.
_FOREIGN_RUN = re.compile(rb"[^<>\x80-\xff]{0,40}[\x80-\xff][^<>]{0,200}")
_SAMPLE = 6000
# fmt: off
_GUESSES = [
    "cp1252", "cp1251", "koi8_r", "cp1250", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp874",
    "iso8859_2", "iso8859_5", "iso8859_7", "gb18030", "big5", "cp932", "euc_jp", "cp949",
]
# fmt: on
# Encodings that share most letters with cp1252: on short text the detector cannot tell them apart.
_LATIN = frozenset(("cp1250", "cp1254", "cp1257", "iso8859_2", "cp1256"))


@dataclass(frozen=True, slots=True)
class Decoded:
    """`text` without a byte order mark; `encoding` is the name of the Python codec that was used."""

    text: str
    encoding: str


def codec_of(label: str | None) -> str | None:
    """The Python codec for a charset label of a header or a page; None for no or an unknown label."""
    return None if label is None else _CODECS.get(label.strip().lower())


def decode(body: bytes, transport: str | None = None) -> Decoded:
    """Decode a page. `transport` is the charset of the Content-Type header.

    Bytes that the encoding does not know become U+FFFD; it never raises.
    """
    for mark, codec in _BOMS:
        if body.startswith(mark):
            return Decoded(body[len(mark) :].decode(codec, "replace"), codec)
    is_utf8 = _decodes(body, "utf-8")
    for codec in filter(None, (codec_of(transport), _declared(body))):
        if codec == "utf-8":
            if is_utf8 or _mostly_utf8(body):
                return Decoded(body.decode("utf-8", "replace"), "utf-8")
            continue  # the label is wrong: something else must decide
        if is_utf8 and not body.isascii() and codec not in _WIDE:
            return Decoded(body.decode("utf-8"), "utf-8")
        if codec not in _MULTIBYTE or _decodes(body, codec) or not is_utf8:
            return Decoded(body.decode(codec, "replace"), codec)
    guess = "utf-8" if is_utf8 and b"\0" not in body[:1024] else _guess(body)
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


def _mostly_utf8(body: bytes) -> bool:
    """A few broken bytes (text cut in mid-character, one pasted Latin-1 word) do not make a page another encoding."""
    text = body.decode("utf-8", "replace")
    broken = text.count("\ufffd")
    return broken * 4 <= len(body.translate(None, bytes(range(128)))) // 2


def _guess(body: bytes) -> str:
    if b"\0" in body[:1024]:
        even, odd = body[0:1024:2].count(0), body[1:1024:2].count(0)
        if max(even, odd) > 8 * (1 + min(even, odd)):
            return "utf-16-be" if even > odd else "utf-16-le"
    import charset_normalizer  # 140 ms, and most pages never need it

    sample = bytearray()
    for run in _FOREIGN_RUN.finditer(body):
        sample += run[0] + b"\n"
        if len(sample) > _SAMPLE:
            break
    best = charset_normalizer.from_bytes(bytes(sample), cp_isolation=_GUESSES).best()
    if best is None:
        return "cp1252"
    if best.encoding in _LATIN and ("cp1252" in best.could_be_from_charset or not best.coherence):
        return "cp1252"
    return _CODECS.get(best.encoding.replace("_", "-"), best.encoding)
