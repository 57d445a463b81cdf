"""An img element in; the address of its picture out, however it is loaded, unless it is a spacer or a tracker."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

from fetchly.document.clean import collapse
from fetchly.document.dom import Element
from fetchly.document.links import MAX_URL

MIN_SIDE = 48  # pixels: smaller pictures are icons
MAX_NAME = 80

# Scripts put the address here until the picture comes into view.
_LAZY = (
    *("data-src", "data-lazy-src", "data-original", "data-lazy", "data-img-src", "data-image", "data-url"),
    *("data-hi-res-src", "data-large_image", "data-full-src", "data-zoom-image"),
)
# fmt: off
_LAZY_SETS = ("data-srcset", "data-lazy-srcset")
# A file all of whose words are among these holds no picture: `blank.gif`, `placeholder-300x200.png`.
_FILLERS = frozenset((
    "blank", "spacer", "transparent", "pixel", "placeholder", "lazyload", "lazy", "load", "loading", "loader", "clear",
    "dot", "shim", "empty", "default", "image", "img", "white", "grey", "gray", "x", "px", "trans", "preload",
))
_FILE = re.compile(r"\S+\.(?:jpe?g|png|gif|webp|avif|svg)", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]{3,}")
_HEXADECIMAL = re.compile(r"[a-f]+", re.IGNORECASE)
_PIECE = re.compile(r"[a-z]+|[0-9]+x?[0-9]*")
# fmt: on
_TRACKING = re.compile(
    r"facebook\.com/tr|/pixel(?:[/?.]|$)|doubleclick|google-analytics|scorecardresearch|/beacon|bat\.bing|/collect\?|"
    r"quantserve|pixel\.wp\.com|stats?\.wp\.com|omtrdc|/imp\?",
    re.IGNORECASE,
)
_ICON = re.compile(
    r"(?:^|[/_.\s-])(?:icons?|ico|sprite|favicon|emoji|smil(?:ey|ies)|flags?|badge|avatar|gravatar)(?:[/_.\s-]|$)",
    re.IGNORECASE,
)
_CANDIDATE = re.compile(r"\s*([^\s,]\S*[^\s,]|[^\s,])(?:\s+([0-9.]+)([wx]))?\s*(?:,|$)")


def picture_source(image: Element) -> str:
    """The address of a picture as the page writes it, the largest of several; "" for spacers, trackers, `data:`.

    `src`, unless a lazy-loading attribute (`data-src`) or a `srcset` (its own, or of the `<picture>` around it) has a
    better one.
    """
    if _side(image, "width") in (0, 1) or _side(image, "height") in (0, 1):
        return ""
    sets = [image.get(name) for name in ("srcset", *_LAZY_SETS)]
    if image.parent is not None and image.parent.tag == "picture":
        sources = [child for child in image.parent.children if isinstance(child, Element) and child.tag == "source"]
        sets += [source.get(name) for source in sources for name in ("srcset", *_LAZY_SETS)]
    lazy = [image.get(name) for name in _LAZY]
    for address in (*lazy, image.get("src"), *map(_largest, sets)):
        address = address.strip()
        if address and len(address) <= MAX_URL and not _is_filler(address) and not _TRACKING.search(address):
            return address
    return ""


def is_icon(image: Element, source: str) -> bool:
    """Whether a picture decorates: small, drawn, or called an icon."""
    sides = [side for side in (_side(image, "width"), _side(image, "height")) if side is not None]
    if sides and max(sides) < MIN_SIDE:
        return True
    path = source.split("?")[0].split("#")[0]
    return path.lower().endswith(".svg") or _ICON.search(f"{path} {image.get('class')}") is not None


def alternative(image: Element) -> str:
    """The words that stand for a picture, unless they are the name of its file."""
    text = collapse(image.get("alt"))
    return "" if _FILE.fullmatch(text) else text


def caption(source: str) -> str:
    """What stands for a picture without words: its file's name, which often says what it shows (`oak-trivet.jpg`); of
    a name without words (a checksum, a number) only the ending."""
    name = _file_name(source)
    stem, dot, ending = name.rpartition(".")
    if not dot or len(ending) > 5:
        stem, ending = name, "picture"
    worded = any(not _HEXADECIMAL.fullmatch(word) for word in _WORD.findall(stem))
    return name if worded and len(name) <= MAX_NAME else ending


def _file_name(source: str) -> str:
    try:
        path = urlsplit(source).path
    except ValueError:
        return ""
    return collapse(unquote(path.rstrip("/").rsplit("/", 1)[-1]))


def _is_filler(address: str) -> bool:
    if address[:5].lower() in ("data:", "blob:", "about"):
        return True
    stem = _file_name(address).lower().rsplit(".", 1)[0]
    words = [piece for piece in _PIECE.findall(stem) if piece.isalpha()]
    return bool(words) and all(word in _FILLERS for word in words)


def _largest(source_set: str) -> str:
    """The candidate of a srcset with the greatest width or density."""
    best, size = "", -1.0
    position = 0
    while match := _CANDIDATE.match(source_set, position):
        width = _float(match[2])
        if width > size:
            best, size = match[1], width
        position = match.end()
        if position >= len(source_set):
            break
    return best


def _float(written: str | None) -> float:
    try:
        return float(written) if written else 0.0
    except ValueError:
        return 0.0


def _side(image: Element, name: str) -> int | None:
    written = re.match(r"\s*(\d{1,5})(?:px|\.\d+)?\s*$", image.get(name))
    return int(written[1]) if written else None
