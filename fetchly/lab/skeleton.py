"""A schema and what is known of a page in; the shape of its answer out: every leaf with the spans that it may be.

The shape follows the decoding schema: every property in schema order, lists with their entries, null where the schema
lets the model write it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from fetchly.extraction.decoding import SPAN_KINDS, leaf_kind
from fetchly.extraction.shape import Node, SchemaTree, below, same
from fetchly.lab.candidates import Candidate
from fetchly.lab.truth import Truth

Status = Literal["found", "literal", "null", "cut", "lost"]
"""found: there are spans. literal: written as it is (an enum, a boolean). null: the page does not say it. cut: the page
says it in a part that is not shown, so null is right. lost: no honest answer is known, `reason` says why."""


@dataclass(slots=True, eq=False)
class Leaf:
    """One value to write: `chosen` of the `candidates` where it is found, else `value`. `gold` is the right answer."""

    path: str
    pointer: str
    status: Status
    value: Any = None
    reason: str = ""
    gold: Any = None
    candidates: tuple[Candidate, ...] = ()
    chosen: Candidate | None = None
    is_right: Callable[[Any], bool] | None = None
    """Whether a value that was read from a span is right; None where no span is read."""


@dataclass(slots=True, eq=False)
class Entries:
    """A list. `nullable`: null is written where no entry is shown. `cut` entries are not shown, and left out."""

    path: str
    entries: list[Shape]
    nullable: bool = False
    cut: int = 0


@dataclass(slots=True, eq=False)
class Members:
    """An object. `nullable`: null is written where nothing of it is shown."""

    path: str
    members: dict[str, Shape] = field(default_factory=dict)
    nullable: bool = False


Shape = Leaf | Entries | Members

FindLeaf = Callable[["LeafPlace", Any], Leaf]
"""Looks up a value that is not null at one leaf of the schema."""


@dataclass(frozen=True, slots=True)
class LeafPlace:
    """Where a value stands: its node of the schema, its name, its path and its pointer into the right answer."""

    node: Node
    name: str
    path: str
    pointer: str
    in_list: bool = False


class SkeletonBuilder:
    """Walks schema and right answer together. `find` is asked for each leaf that has a value."""

    def __init__(self, schema: Node, truth: Truth, find: FindLeaf) -> None:
        self._tree = SchemaTree(schema)
        self._truth = truth
        self._find = find

    def build(self) -> Shape:
        """The shape of the whole answer."""
        return self._shape(self._tree.root, self._truth.value, "", "", "", nullable=False)

    def _shape(self, schema: Any, value: Any, path: str, pointer: str, name: str, *, nullable: bool) -> Shape:
        """`nullable`: the model may write null here although the schema's node does not say so."""
        if leaf_kind(self._tree, schema) is not None:
            return self._leaf(value, LeafPlace(self._tree.node(schema), name, path, pointer))
        nullable = nullable or self._tree.accepts_null(schema)
        if value is None:
            return self._nothing(schema, path, pointer, nullable)
        branches = [b for b in self._tree.alternatives(schema) if self._tree.types(b) != {"null"}]
        if branches:
            branch = next((b for b in branches if self._tree.fits(b, value)), None) or self._leaf_branch(branches)
            if branch is None:
                return Leaf(path, pointer, "lost", reason="fits no alternative")
            return self._shape(branch, value, path, pointer, name, nullable=nullable)
        node = self._tree.node(schema)
        types = self._tree.types(schema)
        if "object" in types and isinstance(value, Mapping):
            return self._members(node, value, path, pointer, nullable)
        if "array" in types and not isinstance(value, Mapping):
            return self._entries(
                node, value if isinstance(value, list) else [value], LeafPlace(node, name, path, pointer), nullable
            )
        return Leaf(path, pointer, "lost", reason="has another type")

    def _leaf(self, value: Any, place: LeafPlace) -> Leaf:
        if "const" in place.node:
            return Leaf(place.path, place.pointer, "literal", place.node["const"])
        if value is None:
            return self._null(place.path, place.pointer)
        return self._find(place, value)

    def _null(self, path: str, pointer: str) -> Leaf:
        if self._truth.trust(path, None) == "absent":
            return Leaf(path, pointer, "null")
        return Leaf(path, pointer, "lost", reason="unknown")

    def _nothing(self, schema: Any, path: str, pointer: str, nullable: bool) -> Shape:
        """Null, or what stands for it where the schema refuses null: an empty list, an object of nulls."""
        null = self._null(path, pointer)
        if nullable or null.status == "lost":
            return null
        node, types = self._tree.node(schema), self._tree.types(schema)
        if "array" in types:
            return Entries(path, [])
        if "object" in types:
            return self._members(node, {}, path, pointer, False)
        return Leaf(path, pointer, "lost", reason="cannot be null")

    def _members(self, node: Node, value: Mapping[str, Any], path: str, pointer: str, nullable: bool) -> Shape:
        properties = node.get("properties")
        if not isinstance(properties, Mapping) or not properties:
            return Leaf(path, pointer, "lost", reason="names of its own")
        required = node.get("required", ())
        out = Members(path, nullable=nullable)
        for name, schema in properties.items():
            if schema is False:
                continue
            out.members[name] = self._shape(
                schema,
                value.get(name),
                f"{path}.{name}" if path else name,
                below(pointer, name),
                name,
                nullable=name not in required,
            )
        return out

    def _entries(self, node: Node, value: list[Any], place: LeafPlace, nullable: bool) -> Shape:
        items = node.get("items")
        if "prefixItems" in node or not isinstance(items, Mapping):
            return Leaf(place.path, place.pointer, "lost", reason="a list of fixed places")
        if place.path in self._truth.partial:
            return Leaf(place.path, place.pointer, "lost", reason="the right list is not complete")
        entries: list[Shape] = []
        for index, item in enumerate(value):
            repeated = not self._truth.complete and any(same(item, earlier) for earlier in value[:index])
            if item is None or repeated:  # rule-made lists repeat what the page says once
                continue
            pointer = below(place.pointer, index)
            if leaf_kind(self._tree, items) is not None:
                leaf = LeafPlace(self._tree.node(items), place.name, place.path, pointer, in_list=True)
                entries.append(self._find(leaf, item))
            else:
                entries.append(self._shape(items, item, place.path, pointer, place.name, nullable=False))
        return Entries(place.path, entries, nullable and bool(value))

    def _leaf_branch(self, branches: list[Node]) -> Node | None:
        """An alternative that is read from a span: the right answer may be written in another type."""
        return next((branch for branch in branches if leaf_kind(self._tree, branch) in SPAN_KINDS), None)


def leaves(shape: Shape) -> Iterator[Leaf]:
    """Every leaf, in schema order."""
    if isinstance(shape, Leaf):
        yield shape
    else:
        for part in shape.members.values() if isinstance(shape, Members) else shape.entries:
            yield from leaves(part)


def lists(shape: Shape) -> Iterator[Entries]:
    """Every list, outer ones first."""
    if isinstance(shape, Entries):
        yield shape
    if not isinstance(shape, Leaf):
        for part in shape.members.values() if isinstance(shape, Members) else shape.entries:
            yield from lists(part)
