"""HTML text in, a tree of plain Python elements out. The only importer of selectolax (its Lexbor parser).

The tree is copied out of the parser at once: what reads it needs no C object, no lock and no recursion. Lexbor takes
quadratic time on some hostile input: a linear scan refuses what is sure to cost minutes. It cannot see all of it (a tag
of a million attributes takes hours), and the parser may crash: worker.py bounds both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser, LexborNode, SelectolaxError

from fetchly.errors import DocumentError

MAX_NODES = 2_000_000  # 20 MB of ordinary mark-up are a million
# Steps of the parser, about 4 ns each, that a deep tree costs: every block start tag looks through the open elements.
MAX_DEPTH_COST = 500_000_000
# Elements that unclosed formatting (`<font>` and kin) makes the parser repeat in every later paragraph.
MAX_REPEATED = 3_000_000
# Selectors name at most so many levels: a path of 5,000 steps is of no use and makes their sum quadratic.
MAX_PATH_DEPTH = 256
MAX_PATH_CHARACTERS = 50_000_000

_TAG = re.compile(r"<(/?)([a-zA-Z][^\s/>]*)([^<>]{0,200})")
_FORMATTING = frozenset(("b", "big", "code", "em", "font", "i", "s", "small", "strike", "strong", "tt", "u"))
# Tags that never deepen the tree by themselves: empty ones, and those that a like one closes.
# fmt: off
_FLAT = frozenset((
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr",
    "p", "li", "dt", "dd", "option", "optgroup", "tr", "td", "th", "tbody", "thead", "tfoot", "colgroup", "caption",
    "html", "head", "body", "a", "nobr",
))
# The elements that may have a shadow tree, beside those with a hyphen in their name (DOM, "attachShadow").
_HOSTS = frozenset((
    "article", "aside", "blockquote", "body", "div", "footer", "h1", "h2", "h3", "h4", "h5", "h6", "header", "main",
    "nav", "p", "section", "span",
))
# fmt: on
_PLAIN_TAG = re.compile(r"[a-z][a-z0-9-]*\Z")
_PLAIN_ID = re.compile(r"[A-Za-z][A-Za-z0-9_-]*\Z")
_NO_ATTRIBUTES: dict[str, str] = {}


@dataclass(slots=True, eq=False)
class Element:
    """An element of the page. `tag` is lower-case for HTML; `nth` counts siblings of the same tag from 1, `position`
    all siblings. `shadow`: it stands in a shadow tree, which no selector leads into.

    `children` is what a browser shows in the element: of the host of a shadow tree, that tree, with the host's own
    children in its slots. Their `parent` stays the host.
    """

    tag: str
    attributes: dict[str, str]
    parent: Element | None
    nth: int
    position: int
    depth: int
    shadow: bool = False
    children: list[Element | str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)  # tag -> children of that tag

    def get(self, name: str) -> str:
        """An attribute's value, "" where there is none."""
        return self.attributes.get(name, "")


class Dom:
    """The tree of a page, and the selectors that lead into it."""

    def __init__(self, root: Element, ids: dict[str, int], place: str) -> None:
        self.root = root
        self._ids = ids
        self._place = place
        self._paths: dict[Element, str] = {}
        self._path_characters = 0

    def child(self, tag: str) -> Element | None:
        """`head` or `body`."""
        for element in self.root.children:
            if isinstance(element, Element) and element.tag == tag:
                return element
        return None

    def css_path(self, element: Element) -> str:
        """A selector that only this element matches: from the nearest unique id, else from the root, downwards.

        Of an element in a shadow tree it is the host's. Below MAX_PATH_DEPTH levels it leads to the ancestor at that
        level. Raises DocumentError (DOCUMENT_TOO_COMPLEX) when the selectors of a hostile page would fill the memory.
        """
        while (element.depth > MAX_PATH_DEPTH or element.shadow) and element.parent is not None:
            element = element.parent
        known = self._paths.get(element)
        if known is not None:
            return known
        steps: list[str] = []
        node: Element | None = element
        while node is not None:
            identifier = node.attributes.get("id")
            if identifier and self._ids[identifier.lower()] == 1 and _PLAIN_ID.match(identifier):
                steps.append(f"#{identifier}")
                break
            steps.append(_step(node))
            node = None if node.tag in ("head", "body") else node.parent
        path = ">".join(reversed(steps))
        self._path_characters += len(path)
        if self._path_characters > MAX_PATH_CHARACTERS:
            raise _too_complex("its elements are nested too deeply", self._place)
        self._paths[element] = path
        return path


def _step(element: Element) -> str:
    if element.parent is None or element.tag in ("head", "body"):
        return element.tag
    if not _PLAIN_TAG.match(element.tag):
        # A name that CSS would have to escape (`o:p`, `linearGradient`): count all the siblings instead.
        return f":nth-child({element.position})"
    if element.parent.counts[element.tag] == 1:
        return element.tag
    return f"{element.tag}:nth-of-type({element.nth})"


def parse(text: str, *, place: str) -> Dom:
    """Parse a page as browsers do (scripting off). `place` names it in errors.

    Raises DocumentError (DOCUMENT_TOO_COMPLEX) for mark-up made to exhaust a parser, MemoryError.
    """
    _judge(text, place)
    try:
        parser = LexborHTMLParser(text, options=LexborDocumentOptions.WO_EVENTS)
    except SelectolaxError as error:  # what it makes of an allocation that failed
        raise MemoryError(f"the parser gave up: {error}") from error
    top = parser.root
    if top is None:
        raise DocumentError("the page has no elements", where=place, code="DOCUMENT_EMPTY")
    return _copied(top, place)


@dataclass(frozen=True, slots=True)
class _Shadow:
    """A shadow tree: the element that it is shown in, and the content of its template under a root of its own. `slots`
    are the first of each name, "" for the default one."""

    host: Element
    root: Element
    slots: dict[str, Element] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Copying:
    """A node whose children are to be copied into `target`, and the shadow tree that it stands in."""

    source: LexborNode
    target: Element
    shadow: _Shadow | None = None


def _copied(top: LexborNode, place: str) -> Dom:
    root = Element("html", _attributes(top), None, 1, 1, 0)
    ids: dict[str, int] = {}
    shadows: dict[Element, _Shadow] = {}  # by host, each before those inside it
    stack = [_Copying(top, root)]
    nodes = 0
    while stack:
        item = stack.pop()
        target, shadow = item.target, item.shadow
        in_root = shadow is not None and target is shadow.root
        parent = shadow.host if shadow is not None and in_root else target
        position = 0
        node = item.source.first_child
        pending: list[_Copying] = []
        while node is not None:
            nodes += 1
            if node.is_text_node:
                target.children.append(node.text_content or "")
            elif node.is_element_node:
                tag = node.tag or ""
                nth = target.counts.get(tag, 0) + 1
                target.counts[tag] = nth
                position += 1
                element = Element(tag, _attributes(node), parent, nth, position, parent.depth + 1, shadow is not None)
                if shadow is None:
                    _count_id(element, ids)
                elif tag == "slot" and target.tag != "slot":
                    shadow.slots.setdefault(element.get("name"), element)
                content = _shadow_content(node, element)
                if content is not None and not in_root and _may_host(parent) and parent not in shadows:
                    begun = shadows[parent] = _Shadow(parent, Element("template", _NO_ATTRIBUTES, parent, 1, 1, 0))
                    pending.append(_Copying(content, begun.root, begun))
                else:
                    target.children.append(element)
                if node.first_child is not None:
                    pending.append(_Copying(node, element, shadow))
            node = node.next
        if nodes > MAX_NODES:
            raise _too_complex(f"it has more than {MAX_NODES:,} elements and texts", place)
        stack.extend(reversed(pending))
    for each in shadows.values():
        _compose(each)
    _count_id(root, ids)
    return Dom(root, ids, place)


def _shadow_content(node: LexborNode, element: Element) -> LexborNode | None:
    """The content of a template that declares a shadow tree (HTML, "declarative shadow roots"); else None."""
    if element.tag != "template" or element.get("shadowrootmode").lower() not in ("open", "closed"):
        return None
    fragments = node.template_fragments()
    return fragments[0] if fragments else None


def _may_host(element: Element) -> bool:
    return "-" in element.tag or element.tag in _HOSTS


def _compose(shadow: _Shadow) -> None:
    """Put a shadow tree into its host, and the host's children where the slots are; behind it those without a slot,
    which a browser does not show but the page says."""
    slotted: dict[str, list[Element | str]] = {}
    left: list[Element | str] = []
    for child in shadow.host.children:
        name = child.get("slot") if isinstance(child, Element) else ""
        (slotted.setdefault(name, []) if name in shadow.slots else left).append(child)
    for name, children in slotted.items():
        if any(not isinstance(child, str) or child.strip() for child in children):
            shadow.slots[name].children = children
    shadow.host.children = shadow.root.children + left


def _count_id(element: Element, ids: dict[str, int]) -> None:
    """Without regard to case: a browser in quirks mode matches ids so."""
    identifier = element.attributes.get("id")
    if identifier:
        ids[identifier.lower()] = ids.get(identifier.lower(), 0) + 1


def _attributes(node: LexborNode) -> dict[str, str]:
    found = node.attributes
    return {name: value or "" for name, value in found.items()} if found else _NO_ATTRIBUTES


def _judge(text: str, place: str) -> None:
    """Refuse mark-up that would cost minutes or gigabytes; all sums are upper bounds of what the parser does."""
    depth = depth_cost = repeated = active = 0
    opened: dict[str, list[str]] = {}
    copies: dict[str, int] = {}
    for match in _TAG.finditer(text):
        closing, name = match[1], match[2].lower()
        depth_cost += depth
        repeated += active
        if name in _FORMATTING:
            # The parser repeats at most three unclosed formatting elements that are alike ("Noah's Ark clause").
            stack = opened.setdefault(name, [])
            if closing:
                if stack:
                    last = stack.pop()
                    copies[last] -= 1
                    active -= copies[last] < 3
            else:
                likeness = name + match[3]
                stack.append(likeness)
                copies[likeness] = copies.get(likeness, 0) + 1
                active += copies[likeness] <= 3
        if name in _FLAT:
            continue
        if closing:
            depth -= depth > 0
        else:
            depth += 1
    if depth_cost > MAX_DEPTH_COST:
        raise _too_complex("its elements are nested too deeply", place)
    if repeated > MAX_REPEATED:
        raise _too_complex("too many formatting elements are left open", place)


def _too_complex(reason: str, place: str) -> DocumentError:
    return DocumentError(
        f"the page cannot be read: {reason}", where=place, code="DOCUMENT_TOO_COMPLEX", hint="cut the page down first"
    )
