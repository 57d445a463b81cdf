"""The tree of a page in; its drafts in reading order out. One walk with an explicit stack, however deep the tree."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fetchly.document.boilerplate import Surroundings, is_breadcrumb
from fetchly.document.clean import LINE_BREAK, beginning, collapse, has_text, invisible_characters, text_length, visible
from fetchly.document.definitions import Definitions
from fetchly.document.disclosure import Disclosure, HiddenPart
from fetchly.document.dom import Element
from fetchly.document.drafts import Draft, merge_trail
from fetchly.document.images import alternative, caption, is_icon, picture_source
from fetchly.document.links import LinkTable
from fetchly.document.names import name_of, unwritten_date
from fetchly.document.pairs import is_value, merge_pair
from fetchly.document.runs import Run
from fetchly.document.sight import Sight, display_of, sight_of
from fetchly.document.tables import Cell, Row, Table, looks_like_header, span
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
MAX_DATE = 40  # characters
MAX_AHEAD = 3  # nodes
_PREFORMATTED = frozenset(("pre", "listing", "xmp", "plaintext"))


@dataclass(frozen=True, slots=True)
class Manner:
    """How a page is walked. `fallbacks` reads noscript too; `link_marks` puts `[L3]` behind a link's shown text and
    shows pictures with their ids; `keep_hidden` reads hidden text in its place."""

    fallbacks: bool = False
    link_marks: bool = False
    keep_hidden: bool = False


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
    trail: bool = False  # breadcrumbs


@dataclass(frozen=True, slots=True)
class _Leave:
    """The end of an element on the walk's stack. `start` is the number of drafts before it; `piece` the number of
    pieces before it in the run of number `run`."""

    element: Element
    start: int
    block: bool
    run: int = 0
    piece: int = 0


_HIDDEN_ENDS = object()  # on the walk's stack: a hidden element that is read ends


class Walker:
    """Reads a tree once. `hidden` are the hidden parts that were passed by, `hidden_characters` the length of all
    hidden text, read or not, and of invisible characters in what is shown."""

    def __init__(self, links: LinkTable, disclosure: Disclosure, manner: Manner = Manner()) -> None:
        self.drafts: list[Draft] = []
        self.hidden: list[HiddenPart] = []
        self.hidden_characters = 0
        self._links = links
        self._disclosure = disclosure
        self._manner = manner
        self._run = Run()
        self._contexts: list[_Context] = []
        self._tables: list[Table] = []
        self._rows: list[Row] = []
        self._definitions: list[Definitions] = []
        self._pictures: set[str] = set()
        self._within_hidden = 0  # hidden elements around the current one, of which the outermost is counted
        self._stack: list[Element | str | _Leave | object] = []

    def walk(self, body: Element) -> None:
        """Append the drafts of a subtree to `drafts`."""
        self._surroundings = Surroundings(body)
        self._contexts = [_Context(body)]
        stack = self._stack = [body]
        while stack:
            node = stack.pop()
            if isinstance(node, str):
                self._text(node)
            elif isinstance(node, Element):
                self._enter(node)
            elif not isinstance(node, _Leave):
                self._within_hidden -= 1
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
            self._run.space()
        if sight is Sight.HIDDEN and not self._reads_hidden(element):
            return
        if tag == "template" and element.attributes:
            segment = self._disclosure.streamed(element)
            self._stack.extend(reversed(segment.children) if segment else ())
        elif tag == "br" or tag == "hr":
            self._flush()
        elif tag == "img":
            self._image(element)
        elif sight is Sight.DROPPED or (sight is Sight.FALLBACK and not self._manner.fallbacks):
            name = element.get("aria-label") if element.get("role") == "img" else ""
            if name:
                self._run.add(f" {name} ")
            if tag == "map":
                self._links.add_areas(element)
        elif tag == "math" and element.get("alttext"):
            self._run.add(element.get("alttext"))
        else:
            self._enter_shown(element)

    def _reads_hidden(self, element: Element) -> bool:
        if self._disclosure.awaits(element):
            return False  # it was read where it belongs
        if not self._contexts[-1].boilerplate and self._disclosure.opens(element):
            return True
        if not self._within_hidden:
            length = text_length(element)
            self.hidden_characters += length
            self.hidden.append(HiddenPart(element, length))
        if self._manner.keep_hidden:
            self._within_hidden += 1
            self._stack.append(_HIDDEN_ENDS)
        return self._manner.keep_hidden

    def _enter_shown(self, element: Element) -> None:
        tag = element.tag
        display = display_of(element)
        if tag in _BLOCKS if display is None else (display != "inline" or tag in ("td", "th", "tr", "li")):
            self._enter_block(element)
        elif tag == "a":
            self._run.begin_link()
            self._stack.append(_Leave(element, len(self.drafts), block=False))
        elif tag in ("button", "label", "time", "abbr"):
            run = self._run
            self._stack.append(_Leave(element, len(self.drafts), block=False, run=run.taken, piece=len(run.pieces)))
        elif element.attributes:
            if tag == "span" and "class" in element.attributes:
                self._run.begin_span()
                self._stack.append(_Leave(element, 0, block=False))
            if is_value(element):
                self._run.label_ends()
            if element.get("role") == "img" and element.get("aria-label") and not has_text(element):
                self._run.add(f" {element.get('aria-label')} ")
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
                level=_heading_level(element) or outer.level,
                depth=depth,
                item=item,
                numbering=numbering,
                preformatted=outer.preformatted or tag in _PREFORMATTED,
                boilerplate=outer.boilerplate or self._surroundings.begin_at(element),
                trail=outer.trail or is_breadcrumb(element),
            )
        )
        self._stack.append(_Leave(element, len(self.drafts), block=True))

    def _leave_block(self, leave: _Leave) -> None:
        self._flush()
        element, tag = leave.element, leave.element.tag
        context = self._contexts.pop()
        if tag in ("td", "th") and self._rows:
            spans = span(element, "colspan"), span(element, "rowspan")
            cell = Cell(leave.start, len(self.drafts), tag == "th", looks_like_header(element), *spans)
            self._rows[-1].cells.append(cell)
        elif tag == "tr":
            row = self._rows.pop()
            if self._tables:
                self._tables[-1].finish(row, self.drafts, boilerplate=context.boilerplate)
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
        elif len(self.drafts) == leave.start + 2 and not context.preformatted:
            merge_pair(element, self.drafts, leave.start)
        if context.trail and not self._contexts[-1].trail:
            merge_trail(element, self.drafts, leave.start)

    # ---- inline

    def _leave_inline(self, leave: _Leave) -> None:
        element = leave.element
        if element.tag == "span":
            self._run.end_span()
        elif element.tag in ("time", "abbr"):
            text = self._text_since(leave)
            date = unwritten_date(element, text)
            if date and (text or unwritten_date(element, self._text_moved())):
                self._run.add(f" {date}")
        elif element.tag != "a":
            self._run.space()
        else:
            self._leave_link(leave)

    def _text_since(self, leave: _Leave) -> str:
        """What has been read since an inline element began, in blocks of its own or not."""
        if self._run.taken == leave.run:
            return collapse("".join(self._run.pieces[leave.piece :]))
        drafts = [draft.text for draft in self.drafts[leave.start :]]
        return collapse(" ".join([*drafts, "".join(self._run.pieces)]))

    def _text_moved(self) -> str:
        """The text of the block that comes next, if that is a date at most: of `<p><time><div>2 May 2026` the parser
        leaves the time empty, and the div behind the p."""
        ahead = next((node for node in reversed(self._stack[-MAX_AHEAD:]) if not isinstance(node, _Leave)), None)
        moved = isinstance(self._stack[-1], _Leave) and self._stack[-1].block
        text = beginning(ahead, MAX_DATE + 1) if moved and isinstance(ahead, Element) else ""
        return text if len(text) <= MAX_DATE else ""

    def _leave_link(self, leave: _Leave) -> None:
        element = leave.element
        text = self._run.end_link()
        href = element.get("href")
        identifier = self._links.add(href, text or name_of(element), element) if href else None
        if identifier is None or not self._manner.link_marks:
            return
        nothing = self._run.blank and len(self.drafts) == leave.start
        if not text and name_of(element) and nothing:
            self._run.add(name_of(element))
        if not self._run.blank:
            self._run.mark(f"[{identifier}]")
        elif len(self.drafts) > leave.start:
            self.drafts[-1].shown += f" [{identifier}]"

    def _text(self, text: str) -> None:
        if self._contexts[-1].preformatted:
            for position, line in enumerate(LINE_BREAK.split(text)):
                if position:
                    self._flush()
                if line:
                    self._run.add(line)
        else:
            self._run.add(text)

    def _image(self, element: Element) -> None:
        """A picture is its words (once), and with marks its id; without words its file's name where it is content."""
        text = alternative(element)
        source = picture_source(element)
        if not text and is_icon(element, source):
            return
        identifier = self._links.add_image(source, text, element) if source else None
        if self._run.link is not None:
            self._run.alternatives.append(text)
        mark = f" [{identifier}]" if self._manner.link_marks and identifier else ""
        if not text and mark:
            text = caption(source)
        key = identifier if mark and identifier else text.casefold()
        if not text or key in self._pictures:
            return  # decoration, or the same picture again
        self._pictures.add(key)
        draft = Draft("image", element, text, f"{text}{mark}", boilerplate=self._contexts[-1].boilerplate)
        draft.linked = len(text) if self._run.link is not None else 0
        (self.drafts if self._run.blank else self._run.images).append(draft)

    # ---- drafts

    def _flush(self) -> None:
        """End the current run of text: a block boundary or a line break."""
        linked = self._run.linked
        run = self._run.take()
        if run is not None:
            text = collapse(run[0])
            self.hidden_characters += invisible_characters(run[0])
            if text:
                self._add(text, run[1], linked)
        if self._run.images:
            last = self.drafts[-1].text.casefold() if self.drafts else ""
            self.drafts += [
                image for image in self._run.images if self._manner.link_marks or image.text.casefold() != last
            ]
            self._run.images = []

    def _add(self, text: str, raw_shown: str, linked: int) -> None:
        context = self._contexts[-1]
        kind: BlockKind = "paragraph"
        marker = ""
        shown = collapse(raw_shown)
        if context.preformatted:
            kind = "code"
            shown = LINE_BREAK.sub(" ", visible(raw_shown)).rstrip().expandtabs(4)
        elif context.level:
            kind = "heading"
        elif context.item is not None and context.item.marker:
            kind, marker, context.item.marker = "list_item", context.item.marker, ""
        self.drafts.append(
            Draft(kind, context.owner, text, shown, context.level, context.depth, marker, context.boilerplate, linked)
        )


def _heading_level(element: Element) -> int:
    """1 to 6, 0 for what is no heading."""
    if element.tag in _HEADINGS:
        return _HEADINGS[element.tag]
    if element.get("role") != "heading":
        return 0
    return max(1, min(6, _number(element.get("aria-level"), 2)))


def _number(written: str, otherwise: int) -> int:
    written = written.strip()
    return int(written) if re.fullmatch(r"-?[0-9]{1,6}", written) else otherwise


def _marker(element: Element, numbering: _Numbering | None) -> str:
    if numbering is None or numbering.next is None:
        return "- "
    number = _number(element.get("value"), numbering.next)
    numbering.next = number + 1
    return f"{number}. "
