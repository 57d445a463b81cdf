"""Raw text in; text in one line, without characters that nobody sees, out. And the elements that hold no text."""

from __future__ import annotations

import re

from fetchly.document.dom import Element

# fmt: off
# No text for a reader: programs, styles, drawings, form controls, and fall-backs for what a browser shows instead.
# rp and rt are the reading aid of ruby text: in line they would tear the word that they explain.
DROPPED = frozenset((
    "script", "style", "template", "head", "svg", "canvas", "iframe", "frame", "frameset", "noframes", "noembed",
    "object", "embed", "applet", "video", "audio", "map", "select", "option", "optgroup", "datalist", "textarea",
    "input", "progress", "meter", "annotation", "annotation-xml", "rp", "rt", "link", "meta", "base", "title",
))
# fmt: on

# Characters without a width that no reader sees but a model and a comparison do: soft hyphen, zero-width space and
# marks, direction controls, tags, and control characters. The joiners U+200C and U+200D are part of spelling.
_REMOVED = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u034f\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
# Private use: the pictures of icon fonts, which mean nothing without the font.
_ICONS = re.compile("[\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd]")
# Not the pieces of a phone number, a date or a range.
_GROUPED = re.compile(r"(?<![\d.,/+()-])\d{1,3}(?:[\xa0\u202f\u2009]\d{3})+(?![\d/)-])")
_GROUPING = re.compile(r"[\xa0\u202f\u2009]")
_KEPT = "\ue000"  # an icon, so none is left: stands in for the no-break space while white space is folded


def visible(text: str) -> str:
    """The text without characters that have no width or no meaning; white space untouched."""
    if text.isascii() and text.isprintable():
        return text
    return _ICONS.sub(" ", _REMOVED.sub("", text))


def collapse(text: str) -> str:
    """One line: invisible characters out, every run of white space one space.

    The no-break space that groups the digits of a number (`1 299,00`) stays one: it says that the number goes on.
    """
    seen = visible(text)
    if "\xa0" in seen or "\u202f" in seen or "\u2009" in seen:
        kept = _GROUPED.sub(lambda number: _GROUPING.sub(_KEPT, number[0]), seen)
        return " ".join(kept.split()).replace(_KEPT, "\xa0")
    return " ".join(seen.split())


def invisible_characters(text: str) -> int:
    """How many characters without a width stand in a text, soft hyphens not counted: those help to set it."""
    if text.isascii() and text.isprintable():
        return 0
    return sum(map(len, _REMOVED.findall(text.replace("\xad", ""))))


# Where str.splitlines ends a line.
LINE_BREAK = re.compile("\r\n|[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
MAX_LOOK = 500  # nodes


def has_text(element: Element) -> bool:
    """Whether any text stands among the first MAX_LOOK nodes of a subtree."""
    return bool(beginning(element, 1))


def beginning(element: Element, characters: int) -> str:
    """The text at the beginning of a subtree, at least so many characters where there are as many among its first
    MAX_LOOK nodes."""
    texts: list[str] = []
    length = 0
    stack = [iter(element.children)]
    for _ in range(MAX_LOOK):
        if not stack or length >= characters:
            break
        node = next(stack[-1], None)
        if node is None:
            stack.pop()
        elif not isinstance(node, str):
            if node.tag not in DROPPED:
                stack.append(iter(node.children))
        elif text := collapse(node):
            texts.append(text)
            length += len(text)
    return " ".join(texts)


def text_length(element: Element) -> int:
    """How many characters of text stand in a subtree, white space collapsed, scripts and styles not counted."""
    total = 0
    stack: list[Element] = [element]
    while stack:
        for child in stack.pop().children:
            if isinstance(child, str):
                total += len(collapse(child))
            elif child.tag not in DROPPED:
                stack.append(child)
    return total
