"""What a page's structured data says, in one form for JSON-LD, microdata and RDFa: entities with named values."""

from __future__ import annotations

from dataclasses import dataclass, field

from fetchly.document.dom import Element


@dataclass(slots=True, eq=False)
class Entity:
    """A thing that the page describes. `type` is its first type without the vocabulary (`Product`), "" where none is
    given. An entity without values but with an `id` stands for the one of that id (a reference)."""

    type: str
    element: Element
    id: str = ""
    values: list[Value] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Value:
    """One value of a property. `content` is a text, with the line breaks of the page, or another entity; `element` is
    the script or the marked element that says it. `shown`: the text is the visible text of the element."""

    name: str
    content: str | Entity
    element: Element
    shown: bool = False


@dataclass(slots=True)
class Found:
    """The top entities in the order of the page; how many values of microdata were read, and how many elements were
    looked at for them; how many scripts, items and values could not be read."""

    entities: list[Entity] = field(default_factory=list)
    values: int = 0
    visited: int = 0
    broken: int = 0


def local_name(name: str) -> str:
    """A type or a property without its vocabulary: `https://schema.org/Product`, `schema:Product` and `Product`."""
    return name.strip().rstrip("/#").rsplit("/", 1)[-1].rsplit("#", 1)[-1].rsplit(":", 1)[-1]
