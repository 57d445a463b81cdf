"""The tree of a page in; its drafts in reading order out. One walk with an explicit stack, however deep the tree."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from fetchly.document.clean import Sight, collapse, display_of, sight_of, text_length, visible
from fetchly.document.definitions import Definitions
from fetchly.document.dom import Element
from fetchly.document.drafts import Draft
from fetchly.document.links import LinkTable
from fetchly.document.tables import Cell, Row, Table, span
from fetchly.goods import BlockKind

# fmt: off
_BLOCKS = frozenset((
    "address", "article", "aside", "blockquote", "body", "center", "dd", "details", "dialog", "dir", "div", "dl", "dt",
    "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hgroup",
    "html", "legend", "li", "listing", "main", "menu", "nav", "noscript", "ol", "p", "plaintext", "pre", "search",
    "section", "summary", "table", "caption", "thead", "tbody", "tfoot", "tr", "td", "th", "ul", "xmp",
))
# Separate things on the screen even where the mark-up puts no space between them.
_APART = frozenset((
    "button", "label", "svg", "select", "input", "textarea", "img", "iframe", "video", "audio", "canvas",
))
# fmt: on
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_PREFORMATTED = frozenset(("pre", "listing", "xmp", "plaintext"))
_CONSENT = re.compile(r"(?:^|[\s_-])(?:cookie|consent|gdpr|onetrust)", re.IGNORECASE)


@dataclass(slots=True)
class _Numbering:
    """The next number of an ol; None for bullets."""

    next: int | None


@dataclass(slots=True)
class _Item:
    """A li: its mark is used by its first text only."""

    marker: str


@dataclass(frozen=True, slots=True)
class _Context:
    """What the innermost block element means for the text in it."""

    owner: Element
    level: int = 0  # heading
    depth: int = -1  # of list items
    item: _Item | None = None
    numbering: _Numbering | None = None
    preformatted: bool = False
    boilerplate: bool = False


@dataclass(frozen=True, slots=True)
class _Leave:
    """The end of an element on the walk's stack. `start` is the number of drafts before it."""

    element: Element
    start: int
    block: bool


class Walker:
    """Reads a tree once. `fallbacks` reads noscript too; `link_marks` puts `[L3]` behind a link's shown text."""

    def __init__(self, links: LinkTable, *, fallbacks: bool = False, link_marks: bool = False) -> None:
        self.drafts: list[Draft] = []
        self.hidden_characters = 0
        self._links = links
        self._fallbacks = fallbacks
        self._link_marks = link_marks
        self._pieces: list[str] = []
        self._shown: list[str] = []
        self._blank = True  # nothing but white space in the pieces
        self._contexts: list[_Context] = []
        self._tables: list[Table] = []
        self._rows: list[Row] = []
        self._definitions: list[Definitions] = []
        self._link_text: list[str] | None = None
        self._link_just_ended = False
        self._images: list[Draft] = []
        self._alternatives: set[str] = set()
        self._stack: list[Element | str | _Leave] = []

    def walk(self, body: Element) -> None:
        """Append the drafts of a subtree to `drafts`."""
        self._contexts = [_Context(body)]
        stack = self._stack = [body]
        while stack:
            node = stack.pop()
            if isinstance(node, str):
                self._text(node)
            elif isinstance(node, Element):
                self._enter(node)
            elif node.block:
                self._leave_block(node)
            else:
                self._leave_inline(node)
        self._flush()

    # ---- elements

    def _enter(self, element: Element) -> None:
        tag = element.tag
        sight = sight_of(element)
        if tag in _APART:
            self._space()
        if sight is Sight.HIDDEN:
            self.hidden_characters += text_length(element)
        elif tag == "br" or tag == "hr":
            self._flush()
        elif tag == "img":
            self._image(element)
        elif sight is Sight.SHOWN or (sight is Sight.FALLBACK and self._fallbacks):
            display = display_of(element)
            block = tag in _BLOCKS if display is None else (display != "inline" or tag in ("td", "th", "tr", "li"))
            if block:
                self._enter_block(element)
            elif tag == "a":
                self._enter_link(element)
            elif tag in ("button", "label"):
                self._stack.append(_Leave(element, len(self.drafts), block=False))
            self._stack.extend(reversed(element.children))

    def _enter_block(self, element: Element) -> None:
        self._flush()
        tag = element.tag
        outer = self._contexts[-1]
        depth, item, numbering = outer.depth, outer.item, outer.numbering
        if tag in ("ul", "ol", "menu", "dir"):
            numbering = _Numbering(_number(element.get("start"), 1) if tag == "ol" else None)
        elif tag == "li":
            depth, item = depth + 1, _Item(_marker(element, numbering))
        elif tag == "table":
            self._tables.append(Table(element))
        elif tag == "tr":
            parent = element.parent
            self._rows.append(Row(element, len(self.drafts), parent is not None and parent.tag == "thead"))
        elif tag == "dl":
            self._definitions.append(Definitions())
        self._contexts.append(
            _Context(
                owner=element,
                level=_HEADINGS.get(tag, outer.level),
                depth=depth,
                item=item,
                numbering=numbering,
                preformatted=outer.preformatted or tag in _PREFORMATTED,
                boilerplate=outer.boilerplate or _is_boilerplate(element),
            )
        )
        self._stack.append(_Leave(element, len(self.drafts), block=True))

    def _leave_block(self, leave: _Leave) -> None:
        self._flush()
        element, tag = leave.element, leave.element.tag
        boilerplate = self._contexts.pop().boilerplate
        if tag in ("td", "th") and self._rows:
            spans = span(element, "colspan"), span(element, "rowspan")
            self._rows[-1].cells.append(Cell(leave.start, len(self.drafts), tag == "th", *spans))
        elif tag == "tr":
            row = self._rows.pop()
            if self._tables:
                self._tables[-1].finish(row, self.drafts, boilerplate=boilerplate)
        elif tag in ("thead", "tbody", "tfoot"):
            if self._tables:
                self._tables[-1].end_section()
        elif tag == "table":
            self._tables.pop()
        elif tag == "dl":
            self._definitions.pop().end(self.drafts)
        elif self._definitions and tag == "dt":
            self._definitions[-1].end_term(self.drafts, leave.start)
        elif self._definitions and tag == "dd":
            self._definitions[-1].end_description(element, self.drafts, leave.start)

    # ---- inline

    def _enter_link(self, element: Element) -> None:
        if self._link_just_ended:
            self._space()  # two links side by side are two things
        self._link_text = []
        self._stack.append(_Leave(element, len(self.drafts), block=False))

    def _leave_inline(self, leave: _Leave) -> None:
        if leave.element.tag != "a":
            self._space()
            return
        text = collapse("".join(self._link_text or ()))
        self._link_text = None
        self._link_just_ended = True
        identifier = self._links.add(leave.element.get("href"), text) if leave.element.get("href") else None
        if identifier is None or not self._link_marks:
            return
        if not self._blank:
            self._shown.append(f" [{identifier}]")
        elif len(self.drafts) > leave.start:
            self.drafts[-1].shown += f" [{identifier}]"

    def _space(self) -> None:
        self._pieces.append(" ")
        self._shown.append(" ")
        if self._link_text is not None:
            self._link_text.append(" ")

    def _text(self, text: str) -> None:
        if self._contexts[-1].preformatted and ("\n" in text):
            for position, line in enumerate(text.split("\n")):
                if position:
                    self._flush()
                if line:
                    self._append(line)
        else:
            self._append(text)

    def _append(self, text: str) -> None:
        if not text.isspace():
            self._blank = False
        self._link_just_ended = False
        if self._pieces and self._pieces[-1].endswith(":") and _starts_value(self._pieces[-1], text):
            self._space()  # `<b>Label:</b><span>value</span>`: the space is in the style sheet
        self._pieces.append(text)
        self._shown.append(text)
        if self._link_text is not None:
            self._link_text.append(text)

    def _image(self, element: Element) -> None:
        text = collapse(element.get("alt"))
        key = text.casefold()
        if self._link_text is not None and text:
            self._link_text.append(f" {text} ")
        if not text or key in self._alternatives:
            return  # decoration, or the same picture again
        self._alternatives.add(key)
        context = self._contexts[-1]
        draft = Draft("image", element, text, text, boilerplate=context.boilerplate)
        # In the middle of a sentence a picture waits until the sentence is over.
        (self.drafts if self._blank else self._images).append(draft)

    # ---- drafts

    def _flush(self) -> None:
        """End the current run of text: a block boundary or a line break."""
        if self._pieces and not self._blank:
            raw, raw_shown = "".join(self._pieces), "".join(self._shown)
            text = collapse(raw)
            if text:
                self._add(text, raw_shown)
        self._pieces, self._shown, self._blank = [], [], True
        self._link_just_ended = False
        if self._link_text is not None:
            self._link_text.append(" ")
        if self._images:
            last = self.drafts[-1].text.casefold() if self.drafts else ""
            self.drafts += [image for image in self._images if image.text.casefold() != last]
            self._images = []

    def _add(self, text: str, raw_shown: str) -> None:
        context = self._contexts[-1]
        kind: BlockKind = "paragraph"
        marker = ""
        shown = collapse(raw_shown)
        if context.preformatted:
            kind = "code"
            shown = visible(raw_shown).rstrip().expandtabs(4)
        elif context.level:
            kind = "heading"
        elif context.item is not None and context.item.marker:
            kind, marker, context.item.marker = "list_item", context.item.marker, ""
        self.drafts.append(
            Draft(kind, context.owner, text, shown, context.level, context.depth, marker, context.boilerplate)
        )


def _starts_value(label: str, text: str) -> bool:
    """Whether `text` after a colon is a value: not the minutes of a time, not the rest of a URL."""
    first = text[:1]
    if first.isdigit():
        return len(label) > 1 and not label[-2].isdigit()
    return len(label) > 1 and (first.isalpha() or unicodedata.category(first or " ") == "Sc")


def _number(written: str, otherwise: int) -> int:
    written = written.strip()
    return int(written) if re.fullmatch(r"-?[0-9]{1,6}", written) else otherwise


def _marker(element: Element, numbering: _Numbering | None) -> str:
    if numbering is None or numbering.next is None:
        return "- "
    number = _number(element.get("value"), numbering.next)
    numbering.next = number + 1
    return f"{number}. "


def _is_boilerplate(element: Element) -> bool:
    """Navigation, the page's footer, a consent banner: kept, but of kind `other`, the first to go in a small budget."""
    tag = element.tag
    if tag == "nav" or element.get("role") in ("navigation", "contentinfo"):
        return True
    if tag == "footer":
        parent = element.parent
        while parent is not None:
            if parent.tag in ("article", "main", "section", "blockquote"):
                return False
            parent = parent.parent
        return True
    if tag in ("div", "section", "aside", "dialog", "form") and element.attributes:
        return _CONSENT.search(f"{element.get('id')} {element.get('class')}") is not None
    return False
