"""A Page and the Document read from it in; the reason to let its scripts run first out, or "" where it says enough.

An application shell is a page whose server sends a frame of mark-up, and whose scripts fetch what it shows. Little text
alone is no evidence: many honest pages are short. It takes a mark of a shell as well.
"""

from __future__ import annotations

import re

from fetchly.goods import Document, Page

FEW_CHARACTERS = 400
"""Text of a page's body below which a mark of a shell counts."""
VERY_FEW_CHARACTERS = 100
"""Below which scripts alone count: a word like "Loading" and a bundle."""
_SCRIPTS_WORTH = 1000  # bytes of inline script that could build a page; analytics snippets are shorter

# Where the usual libraries put their application: an element that the server leaves empty.
_ROOT_NAMES = (
    rb"root|app|__next|__nuxt|___gatsby|app-root|main-app|react-root|reactroot|react-app|vue-app|q-app|svelte|"
    rb"application|app-container|app-mount|mount|ember-app|spa|page-root|container-root"
)
_EMPTY_ROOT = re.compile(
    rb"""<(?:div|main|section)\s[^>]{0,300}?\bid\s*=\s*["']?("""
    + _ROOT_NAMES
    + rb""")["'\s>][^>]{0,300}>?(?:\s|<!--.{0,200}?-->){0,20}</(?:div|main|section)>""",
    re.IGNORECASE | re.DOTALL,
)
_EMPTY_CUSTOM_ROOT = re.compile(rb"<([a-z]+-(?:root|app|shell))\b[^>]{0,300}>\s{0,100}</\1>", re.IGNORECASE)
_NOSCRIPT = re.compile(rb"<noscript\b[^>]{0,100}>(.{0,2000}?)</noscript>", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(rb"<[^>]{0,500}>")
_ASKS_FOR_SCRIPTS = re.compile(rb"java\s?script", re.IGNORECASE)
_SCRIPT = re.compile(rb"<script\b([^>]{0,1000})>", re.IGNORECASE)
_INLINE = re.compile(rb"<script\b([^>]{0,1000})>([^<].*?)</script>", re.IGNORECASE | re.DOTALL)
_DATA_TYPE = re.compile(rb"""type\s*=\s*["']?[a-z/]*(?:json|template|importmap)""", re.IGNORECASE)
_SOURCE = re.compile(rb"\bsrc\s*=", re.IGNORECASE)


def needs_scripts(page: Page, document: Document | None) -> str:
    """Why this page should be rendered, in words; "" where it should not. `document` None means: it had no text.

    Titles, boilerplate and machine-readable data are no text here: a shell has all three.
    """
    if page.rendered or page.media_type == "text/plain":
        return ""
    if document is None:
        return "it has scripts and no text" if _has_scripts(page.body) else ""
    characters = sum(len(block.text) for block in document.blocks if _is_body_text(block.kind, block.css_path))
    if characters >= FEW_CHARACTERS:
        return ""
    root = _EMPTY_ROOT.search(page.body) or _EMPTY_CUSTOM_ROOT.search(page.body)
    if root is not None and _has_scripts(page.body):
        return f"its element {root[1].decode('ascii')!r} is empty until scripts fill it"
    if any(_ASKS_FOR_SCRIPTS.search(_TAG.sub(b" ", text)) for text in _NOSCRIPT.findall(page.body)):
        return "it has little text and asks for JavaScript"
    if characters < VERY_FEW_CHARACTERS and _has_scripts(page.body):
        return f"it has {characters} characters of text and scripts"
    return ""


def _is_body_text(kind: str, css_path: str) -> bool:
    return kind not in ("title", "other", "data") and " head " not in f" {css_path.replace('>', ' ')} "


def _has_scripts(body: bytes) -> bool:
    """Whether scripts could build the page: files of their own, or more than a snippet."""
    if any(_SOURCE.search(attributes) and not _DATA_TYPE.search(attributes) for attributes in _SCRIPT.findall(body)):
        return True
    inline = [text for attributes, text in _INLINE.findall(body) if not _DATA_TYPE.search(attributes)]
    return any(len(text) >= _SCRIPTS_WORTH or b"createElement" in text or b"innerHTML" in text for text in inline)
