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
# fmt: on
_PLAIN_TAG = re.compile(r"[a-z][a-z0-9-]*\Z")
_PLAIN_ID = re.compile(r"[A-Za-z][A-Za-z0-9_-]*\Z")
_NO_ATTRIBUTES: dict[str, str] = {}


@dataclass(slots=True, eq=False)
class Element:
    """An element of the page. `tag` is lower-case for HTML; `nth` counts siblings of the same tag from 1."""

    tag: str
    attributes: dict[str, str]
    parent: Element | None
    nth: int
    depth: int
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

        Below MAX_PATH_DEPTH levels it leads to the ancestor at that level. Raises DocumentError (DOCUMENT_TOO_COMPLEX)
        when the selectors of a hostile page would fill the memory.
        """
        while element.depth > MAX_PATH_DEPTH and element.parent is not None:
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
        siblings = [child for child in element.parent.children if isinstance(child, Element)]
        return f":nth-child({siblings.index(element) + 1})"
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


def _copied(top: LexborNode, place: str) -> Dom:
    root = Element("html", _attributes(top), None, 1, 0)
    ids: dict[str, int] = {}
    stack: list[tuple[LexborNode, Element]] = [(top, root)]
    nodes = 0
    while stack:
        source, target = stack.pop()
        _count_id(target, ids)
        node = source.first_child
        pending: list[tuple[LexborNode, Element]] = []
        while node is not None:
            nodes += 1
            if node.is_text_node:
                target.children.append(node.text_content or "")
            elif node.is_element_node:
                tag = node.tag or ""
                nth = target.counts.get(tag, 0) + 1
                target.counts[tag] = nth
                element = Element(tag, _attributes(node), target, nth, target.depth + 1)
                target.children.append(element)
                if node.first_child is not None:
                    pending.append((node, element))
                else:
                    _count_id(element, ids)
            node = node.next
        if nodes > MAX_NODES:
            raise _too_complex(f"it has more than {MAX_NODES:,} elements and texts", place)
        stack.extend(reversed(pending))
    return Dom(root, ids, place)


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
