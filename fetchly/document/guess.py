"""The bytes of a page that says nothing of its encoding in; the codec that its words fit best out.

chardet judges the words, taken out of their mark-up (a page may open with 20 kB of ASCII). On pages of the usual
languages in their usual legacy encodings it is right where charset-normalizer took Western pages for Central European
ones. What it cannot know is decided here: twins that differ in few letters, and the language that the page declares.
"""

from __future__ import annotations

import re

_LATIN = ("cp1250", "cp1252", "cp1254", "cp1257", "cp1258")
_OTHER_ALPHABETS = ("cp1251", "cp1253", "cp1255", "cp1256", "cp866", "cp874", "iso8859-5", "koi8-r", "koi8-u")
_MULTIBYTE = ("gb18030", "big5hkscs", "cp932", "euc-jp", "cp949", "iso-2022-jp")
_LOOK = 1_000_000
_SAMPLE = 100_000

_FOREIGN = re.compile(rb"[\x80-\xff\x1b]")
_TAG = re.compile(rb"<[^<>]*>")
_PROGRAM = re.compile(rb"<(/?)(?:script|style)\b", re.IGNORECASE)

# ISO encodings have control characters where their Windows twins have letters and quotes, which no text of some length
# does without. For the ISO one speaks what would be a symbol of its twin in the middle of a word or beside a number.
_CONTROLS = re.compile(rb"[\x80-\x9f]")
_TWINS = {
    "cp1250": (
        "iso8859-2",
        re.compile(rb"[a-z\xb3\xb9-\xff][\xa1\xa6\xa9\xab\xac\xae\xb1\xb5\xb6\xbb][a-z\xb1-\xff]", re.I),
    ),
    "cp1252": ("iso8859-15", re.compile(rb"[A-Za-z]\xbd[a-z]|[0-9] ?\xa4|\xa4 ?[0-9]|[a-z]\xa8[a-z]")),
    "cp1253": ("iso8859-7", re.compile(rb"\xb6[\xe1-\xfe]")),
}
_CARONS = (b"\xb9", b"\xbe")  # the commonest letters of iso8859-2 that cp1250 has elsewhere; letters there, but rarer
_FEW = 5

# Small Russian letters are e0 to ff in cp1251 and d0 to ef in iso8859-5, which chardet gives out as cp1251.
_QUARTERS = (re.compile(rb"[\xd0-\xdf]"), re.compile(rb"[\xe0-\xef]"), re.compile(rb"[\xf0-\xff]"))

_RUN = re.compile(rb"[\x80-\xff]+")
_MIXED = re.compile(rb"[A-Za-z][\x80-\xff]|[\x80-\xff][A-Za-z]")

# Latin encodings are told apart by few letters: the declared language decides. English is what templates declare,
# whatever the page is written in.
_LANGUAGES = {
    "cp1250": "cs sk pl hu sl hr ro bs",
    "cp1252": "de fr es it pt nl sv da no nb nn fi is ca gl eu",
    "cp1254": "tr az",
    "cp1257": "lt lv et",
    "cp1258": "vi",
}
_CODEC_OF_LANGUAGE = {language: codec for codec, languages in _LANGUAGES.items() for language in languages.split()}
_LANG = re.compile(rb"""<html[^<>]{0,300}?\slang\s*=\s*["']?([a-z]{2,3})""", re.IGNORECASE)


def guess_codec(body: bytes) -> str:
    """A Python codec for bytes that are no UTF-8. It may leave some of them undecoded, never raises."""
    import chardet  # 60 ms, and most pages never need it

    words = _words(body)

    def best_of(codecs: tuple[str, ...]) -> str:
        said = chardet.detect(words, include_encodings=codecs, prefer_superset=True, compat_names=False)
        return said["encoding"] or "cp1252"

    codec = best_of(_LATIN + _OTHER_ALPHABETS + _MULTIBYTE)
    # Words of another alphabet are foreign from end to end; Latin words are foreign in a letter or two.
    if codec in _OTHER_ALPHABETS and 2 * len(_MIXED.findall(words)) > len(_RUN.findall(words)):
        codec = best_of(_LATIN)
    if codec == "cp1251":
        low, middle, high = (len(quarter.findall(words)) for quarter in _QUARTERS)
        codec = "iso8859-5" if 3 * high < middle < 2 * low else codec
    declared = _LANG.search(body, 0, 4096)
    language = declared[1].decode("ascii").lower() if declared else ""
    if codec in _LATIN:
        codec = _CODEC_OF_LANGUAGE.get(language, codec)
    if language == "en" and codec not in _MULTIBYTE and len(_FOREIGN.findall(words)) * 100 < len(words):
        codec = "cp1252"  # dashes and quotes: too little to tell anything else from
    if codec in _TWINS and not _CONTROLS.search(body):
        twin, sign = _TWINS[codec]
        if sign.search(body) or (twin == "iso8859-2" and sum(body.count(letter) for letter in _CARONS) >= _FEW):
            return twin
    return codec


def _words(body: bytes) -> bytes:
    """What stands between tags, outside scripts and styles, around the first foreign byte; the raw bytes where there is
    nothing foreign in that."""
    first = _FOREIGN.search(body)
    start = max(0, first.start() - 200) if first else 0
    raw = body[start : start + _LOOK]
    parts: list[bytes] = []
    position, inside = 0, False
    for match in _PROGRAM.finditer(raw):
        if not inside:
            parts.append(raw[position : match.start()])
        position, inside = match.start(), not match[1]
    if not inside:
        parts.append(raw[position:])
    text = _TAG.sub(b" ", b" ".join(parts))
    first = _FOREIGN.search(text)
    return text[max(0, first.start() - 200) :][:_SAMPLE] if first else raw[:_SAMPLE]
