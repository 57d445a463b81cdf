"""A page in; what it says to machines (JSON-LD, microdata, RDFa) out, one self-contained line a value.

    Product name: Teapot            Recipe ingredient: 2 eggs         Event 2 start date: 2026-05-01
    Product offers price: 56.74     Recipe nutrition calories: 90     Breadcrumb: Home > Kitchen > Teapots

A line is the entity's type, the way to the value in plain words, and the value: words cost a language model fewer
tokens than `recipeIngredient`, and any line can be chosen alone. Words that only repeat the way so far are left out
(`Recipe recipeIngredient`), and so are steps that say nothing (`itemListElement`, the `text` of a step, the `name` of
an author). A number tells alike things apart where one of them has several lines.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from fetchly.document.dom import Dom, Element
from fetchly.document.entities import Entity, Found
from fetchly.document.json_ld import is_json_ld, read_json_ld
from fetchly.document.leaves import Leaf, Leaves, Step, text_of
from fetchly.document.microdata import read_microdata, read_rdfa
from fetchly.document.ranking import LEFT_OUT, NAME_ONLY, hoisted, rank

MAX_LINES = 400
MAX_SCOPES = 2000  # marked elements that are looked at


@dataclass(frozen=True, slots=True)
class Line:
    """One value: `label` and `value` make the line, `element` says it. `address`: the value is a URL."""

    label: str
    value: str
    element: Element
    address: bool


@dataclass(frozen=True, slots=True)
class StructuredData:
    """`lines`, the page's main things first; `left_out`: values that are not among them, and unreadable scripts.

    Left out are addresses and identifiers, what belongs to the site's machinery (ranking.LEFT_OUT and UNREAD), and
    what is over MAX_LINES or over leaves.MAX_LEAVES, MAX_DEPTH and MAX_VALUE. What is said twice, by another line or
    (where it is long) by the visible page, is not counted: it is not lost.
    """

    lines: tuple[Line, ...] = ()
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class _Known:
    """A thing that was told: its number among those of its type, and what was said of it."""

    number: int
    keys: set[tuple[str, str]]


def read_structured(dom: Dom, visible_text: str, title: str = "", *, addresses: bool = False) -> StructuredData:
    """Everything that the page says to machines, beside its visible text and its title. `addresses`: with the URLs of
    the subjects and of their pictures."""
    found = _found(dom)
    if not found.entities:
        return StructuredData((), found.broken)
    reader = Leaves(found.entities, visible_text, addresses=addresses)
    leaves: list[Leaf] = []
    known: dict[tuple[str, str], _Known] = {}  # by type and name
    said = {title.casefold()}
    numbers: Counter[str] = Counter()
    for entity in hoisted(found.entities):
        name = (text_of(entity, "name") or text_of(entity, "headline")).casefold()
        first = known.get((entity.type, name)) if name else None  # the same thing in another notation
        number = first.number if first else numbers[entity.type] + 1
        own = _leaves_of(entity, reader, number)
        if rank(entity):
            own = [leaf for leaf in own if leaf.value.casefold() not in said]
        if first:
            own = [leaf for leaf in own if leaf.key() not in first.keys]
        elif own:
            numbers[entity.type] = number
            first = known[entity.type, name] = _Known(number, set())
        if first:
            first.keys.update(leaf.key() for leaf in own)
        said.update(leaf.value.casefold() for leaf in own)
        leaves += own
    lines = _lines(leaves)
    return StructuredData(tuple(lines[:MAX_LINES]), found.broken + reader.left_out + max(0, len(lines) - MAX_LINES))


def _found(dom: Dom) -> Found:
    found = Found()
    ids: dict[str, Element] = {}
    items: list[Element] = []
    typed: list[Element] = []
    stack: list[Element] = [dom.root]
    while stack:
        element = stack.pop()
        attributes = element.attributes
        if attributes:
            if is_json_ld(element):
                entities = read_json_ld(element)
                found.broken += entities is None
                found.entities += entities or ()
            if "id" in attributes:
                ids.setdefault(attributes["id"], element)
            if "itemscope" in attributes:
                items.append(element)
            if "typeof" in attributes:
                typed.append(element)
        stack.extend(child for child in reversed(element.children) if isinstance(child, Element))
    found.broken += max(0, len(items) - MAX_SCOPES) + max(0, len(typed) - MAX_SCOPES)
    read_microdata(items[:MAX_SCOPES], ids, found)
    read_rdfa(typed[:MAX_SCOPES], found)
    return found


def _leaves_of(entity: Entity, reader: Leaves, number: int) -> list[Leaf]:
    if entity.type in LEFT_OUT:
        reader.leave_out(entity)
        return []
    if entity.type == "BreadcrumbList":
        trail = " > ".join(filter(None, reader.names(entity)))
        return [Leaf((Step(("Breadcrumb",)),), trail, entity.element)] if trail else []
    if entity.type in NAME_ONLY:
        entity = reader.only_name(entity)
    kind = entity.type or "Data"
    return reader.read(entity, Step((kind,), kind, number))


def _lines(leaves: list[Leaf]) -> list[Line]:
    """The leaves with their labels; a number is told where one of its group has several leaves."""
    counts: dict[object, Counter[int]] = {}
    for leaf in leaves:
        for step in leaf.way:
            if step.group is not None:
                counts.setdefault(step.group, Counter())[step.number] += 1
    numbered = {group for group, count in counts.items() if len(count) > 1 and max(count.values()) > 1}
    lines = [Line(leaf.label(numbered), leaf.value, leaf.element, leaf.address) for leaf in leaves]
    return list({(line.label, line.value): line for line in reversed(lines)}.values())[::-1]
