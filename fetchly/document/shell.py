"""A Page and the Document read from it in; the reason to let its scripts run first out, or "" where it says enough.

An application shell is a page whose server sends a frame of mark-up, and whose scripts fetch what it shows. Little text
alone is no evidence: many honest pages are short. It takes a mark of a shell as well.

The mark-up is any stranger's and is looked at in the caller's process, so that every step here takes time that grows
with the length of the page and no faster: one pass over its tags, and expressions for single attributes alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

from fetchly.goods import Document, Page

FEW_CHARACTERS = 400
"""Text of a page's body below which a mark of a shell counts."""
VERY_FEW_CHARACTERS = 100
"""Below which scripts alone count: a word like "Loading" and a bundle."""
_SCRIPTS_WORTH = 1000  # bytes of inline script that could build a page; analytics snippets are shorter
_TAGS_READ = 20_000  # a shell has dozens
_ATTRIBUTES_READ = 4096  # bytes of one tag

# Where the usual libraries put their application: an element that the server leaves empty.
_ROOT_NAMES = frozenset(
    b"root app __next __nuxt ___gatsby app-root main-app react-root reactroot react-app vue-app q-app svelte "
    b"application app-container app-mount mount ember-app spa page-root container-root".split()
)
_ROOT_ELEMENTS = frozenset((b"div", b"main", b"section"))
_CUSTOM_ROOTS = (b"-root", b"-app", b"-shell")
_RAW = frozenset((b"script", b"noscript", b"style", b"textarea", b"title"))  # their content holds no tags
_NAME = re.compile(rb"/?[a-z][^\s/>]*")
_ATTRIBUTE = re.compile(rb"""([^\s"'<>/=]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]*)))?""")
_ASKS_FOR_SCRIPTS = re.compile(rb"java\s?script", re.IGNORECASE)
# What a browser runs (HTML, 4.12.1); an optimizer may put its own mark before the type. All else is data.
_SCRIPT_TYPES = (b"javascript", b"ecmascript", b"jscript", b"livescript", b"module")


@dataclass(frozen=True, slots=True)
class _Tag:
    """A start tag, or an end tag ("/div"); names in lower case. `content` is the source inside a raw element;
    `after_text`: something other than white space and comments stands between it and the tag before."""

    name: bytes
    attributes: bytes
    content: bytes
    after_text: bool


def needs_scripts(page: Page, document: Document | None) -> str:
    """Why this page should be rendered, in words; "" where it should not. `document` None means: it had no text.

    Titles, boilerplate and machine-readable data are no text here: a shell has all three.
    """
    if page.rendered or page.media_type == "text/plain":
        return ""
    if document is None:
        return "it has scripts and no text" if any(map(_runs, islice(_tags(page.body), _TAGS_READ))) else ""
    characters = _body_characters(document)
    if characters >= FEW_CHARACTERS:
        return ""
    tags = list(islice(_tags(page.body), _TAGS_READ))
    builds = any(map(_could_build_a_page, tags))
    root = _empty_root(tags)
    if root and builds:
        return f"its element {root!r} is empty until scripts fill it"
    if any(tag.name == b"noscript" and _ASKS_FOR_SCRIPTS.search(_text(tag.content)) for tag in tags):
        return "it has little text and asks for JavaScript"
    if characters < VERY_FEW_CHARACTERS and builds:
        return f"it has {characters} characters of text and scripts"
    return ""


def brought_more(before: Document | None, after: Document) -> bool:
    """Whether scripts have filled a page: it has at least twice the text of its answer. None: that had no text."""
    characters = _body_characters(before) if before is not None else 0
    return before is None or _body_characters(after) >= max(1, 2 * characters)


def _body_characters(document: Document) -> int:
    return sum(len(block.text) for block in document.blocks if _is_body_text(block.kind, block.css_path))


def _is_body_text(kind: str, css_path: str) -> bool:
    return kind not in ("title", "other", "data") and " head " not in f" {css_path.replace('>', ' ')} "


def _tags(html: bytes) -> Iterator[_Tag]:
    """The tags of a page in order, without those in comments and raw elements. One that has no end is none."""
    lower = html.lower()
    position = 0
    after_text = False
    while (start := lower.find(b"<", position)) >= 0:
        after_text = after_text or not _is_blank(lower[position:start])
        if lower.startswith(b"<!--", start):
            end = lower.find(b"-->", start + 2)  # <!--> is a whole comment
            if end < 0:
                return
            position = end + 3
            continue
        name = _NAME.match(lower, start + 1)
        if name is None:
            after_text = True
            position = start + 1
            continue
        end = lower.find(b">", name.end())
        if end < 0:
            return
        position = end + 1
        content = b""
        if name[0] in _RAW:
            closing = lower.find(b"</" + name[0], position)
            content = html[position : closing if closing >= 0 else None]
            position += len(content)
        yield _Tag(name[0], html[name.end() : min(end, name.end() + _ATTRIBUTES_READ)], content, after_text)
        after_text = False


def _is_blank(source: bytes) -> bool:
    return not source or source.isspace()


def _attributes(tag: _Tag) -> dict[bytes, bytes]:
    """Attributes by name in lower case; the first of a name counts, as in a browser."""
    found: dict[bytes, bytes] = {}
    for match in _ATTRIBUTE.finditer(tag.attributes):
        found.setdefault(match[1].lower(), match[2] or match[3] or match[4] or b"")
    return found


def _empty_root(tags: Sequence[_Tag]) -> str:
    """The name of an application's element with nothing inside but white space and comments; "" where there is none."""
    for tag, following in pairwise(tags):
        if following.name != b"/" + tag.name or following.after_text:
            continue
        if tag.name.endswith(_CUSTOM_ROOTS):
            return tag.name.decode("utf-8", "replace")
        if tag.name in _ROOT_ELEMENTS:
            name = _attributes(tag).get(b"id", b"")
            if name.lower() in _ROOT_NAMES:
                return name.decode("ascii")
    return ""


def _is_script(tag: _Tag) -> bool:
    """Whether a browser would run it: a script, and not data in the dress of one."""
    if tag.name != b"script":
        return False
    kind = _attributes(tag).get(b"type", b"").strip().lower()
    return not kind or kind.endswith(_SCRIPT_TYPES)


def _runs(tag: _Tag) -> bool:
    """Whether it is or carries a script of any size that the browser would run by itself."""
    if _is_script(tag):
        return not _is_blank(tag.content) or b"src" in _attributes(tag)
    return not tag.name.startswith(b"/") and not _attributes(tag).keys().isdisjoint((b"onload", b"onerror"))


def _could_build_a_page(tag: _Tag) -> bool:
    """Whether it is a script with a file of its own, or more than a snippet."""
    if not _is_script(tag):
        return False
    text = tag.content
    worth = len(text) >= _SCRIPTS_WORTH or b"createElement" in text or b"innerHTML" in text
    return worth or b"src" in _attributes(tag)


def _text(source: bytes) -> bytes:
    """Mark-up without its tags."""
    first, *rest = source.split(b"<")
    return b" ".join((first, *(part.partition(b">")[2] for part in rest)))
