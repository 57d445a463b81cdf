"""A schema graph in; what the repetition rule must know at each place of a document, out: choices of arrays, records.

A shape stands for the set of subschemas that may apply at a place: the document's keys and brackets alone decide the
next shape, whatever branch of an anyOf the writer has in mind.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fetchly_llm.errors import SchemaRefused
from fetchly_llm.grammar.items import Items, constants, is_span, kinds_of, leaves, sort_items
from fetchly_llm.grammar.schema_graph import SchemaGraph, is_definition, join, subschemas
from fetchly_llm.grammar.spans import SpanBounds, spelling

OPAQUE = 0


@dataclass(frozen=True, slots=True)
class Shape:
    """What may stand at a place.

    `properties` maps a key's JSON spelling (no quotes) to the shape of its value; `items` is the shape of an array's
    items. `spans` are the bounds of an array's verbatim items and `listed` the strings that an array of unique strings
    chooses from (at most one of the two is not empty); `is_unique` allows each item once; `has_other_items` says that
    an item can also be something else (null, an array, an object). `has_records` marks an array whose items hold spans
    deeper down; `least` is the greatest minItems that may apply. `is_span` says that a string here is a span.
    """

    properties: Mapping[bytes, int] = field(default_factory=dict)
    items: int = OPAQUE
    spans: tuple[SpanBounds, ...] = ()
    listed: tuple[str, ...] = ()
    is_unique: bool = False
    has_other_items: bool = False
    has_records: bool = False
    least: int = 0
    is_span: bool = False

    @property
    def has_choices(self) -> bool:
        """Whether this is an array that may run out of items."""
        return bool(self.spans or self.listed)


@dataclass(frozen=True, slots=True)
class Conflict:
    """An array (at `array`) that the text does not tell from another one, or that cannot be held to uniqueItems."""

    array: str
    keyword: str
    message: str
    hint: str

    def refusal(self) -> SchemaRefused:
        """As an error."""
        return SchemaRefused(
            self.message, pointer=join(self.array, self.keyword), code="SCHEMA_KEYWORD_NOT_ENFORCED", hint=self.hint
        )


class ShapeTable:
    """The shapes of a schema; index 0 is OPAQUE: nothing below it is watched. `root` is the document's own.

    `conflicts` says what the rule cannot see to: spans beside other strings in one array, two kinds of watched arrays
    as alternatives at one place, uniqueItems of anything but choices or where no key leads (in the values of a map).
    """

    def __init__(self, graph: SchemaGraph, productive: frozenset[str]) -> None:
        self._graph = graph
        self._productive = productive
        self._made: dict[str, Mapping[str, Any]] = {}
        self._known: dict[frozenset[str], int] = {}
        self._shapes: list[Shape] = [Shape()]
        self._unique: set[str] = set()
        self._conflicts: dict[str, Conflict] = {}
        self.root = self._shape(self._leaves(""))
        for pointer in sorted(graph.below(_hidden(graph))):
            if _is_unique(graph[pointer]):
                self._cannot_be_unique(pointer, "below a keyword that the generator does not see through")

    def __getitem__(self, index: int) -> Shape:
        return self._shapes[index]

    def __iter__(self) -> Iterator[Shape]:
        return iter(self._shapes)

    @property
    def has_arrays(self) -> bool:
        """Whether the rule has anything to watch."""
        return any(shape.has_choices or shape.has_records for shape in self._shapes)

    @property
    def conflicts(self) -> tuple[Conflict, ...]:
        """What the rule cannot see to, one for each array."""
        return tuple(self._conflicts.values())

    @property
    def unique(self) -> frozenset[str]:
        """The arrays whose uniqueItems the rule sees to."""
        return frozenset(self._unique - self._conflicts.keys())

    def _leaves(self, pointer: str) -> frozenset[str]:
        return frozenset(leaves(self._graph, pointer, self._productive.__contains__))

    def _shape(self, places: frozenset[str]) -> int:
        if not any(self._graph.is_watched(leaf) for leaf in places):
            return OPAQUE
        index = self._known.get(places)
        if index is None:
            index = self._known[places] = len(self._shapes)
            self._shapes.append(Shape())
            self._shapes[index] = self._describe(places)
        return index

    def _describe(self, places: frozenset[str]) -> Shape:
        nodes = {leaf: self._mapping(leaf) for leaf in sorted(places)}
        keys = dict.fromkeys(key for node in nodes.values() for key in node.get("properties", {}))
        below = {key: frozenset(leaf for at in nodes for leaf in self._value_leaves(at, key)) for key in keys}
        within = {leaf: inner for leaf in nodes if (inner := self._item_leaves(leaf))}
        found = {leaf: sort_items(self._graph, {at: self._node(at) for at in within[leaf]}) for leaf in within}
        self._unique.update(leaf for leaf, node in nodes.items() if leaf not in found and _is_unique(node))
        watched = self._watched(found)
        choices = Items() if watched is None else found[watched]
        inner = frozenset(leaf for each in within.values() for leaf in each)
        return Shape(
            properties={spelling(key): shape for key in keys if (shape := self._shape(below[key])) != OPAQUE},
            items=self._shape(inner),
            spans=tuple(sorted(choices.spans, key=lambda bounds: (bounds.minimum, bounds.maximum))),
            listed=tuple(sorted(choices.listed)),
            is_unique=watched is not None and _is_unique(self._mapping(watched)),
            has_other_items=choices.has_others,
            has_records=watched is None and any(self._graph.is_verbatim(leaf) for leaf in inner),
            least=max((nodes[leaf].get("minItems", 0) for leaf in found), default=0),
            is_span=any(is_span(node) for node in nodes.values()),
        )

    def _watched(self, found: Mapping[str, Items]) -> str | None:
        """The array, of those that may stand at one place, whose items the rule counts: all of them are alike."""
        unique = [leaf for leaf in found if _is_unique(self._mapping(leaf))]
        with_spans = [leaf for leaf in found if found[leaf].spans]
        watched = next(iter(unique or with_spans), None)
        if watched is None:
            return None
        self._unique.update(unique)
        kinds = {(items, leaf in unique) for leaf, items in found.items()}
        for leaf in unique:
            if not found[leaf].are_choices:
                self._cannot_be_unique(
                    leaf, "for the items of this array; it can for strings of an enum, and for spans"
                )
            elif len(kinds) > 1:
                self._cannot_be_unique(leaf, "beside another array that may stand in the same place")
        if with_spans and not found[with_spans[0]].are_spans:
            self._mixes_strings(with_spans[0])
        elif with_spans:
            other = next((leaf for leaf in found if found[leaf] != found[with_spans[0]]), None)
            if other is not None:
                self._differs(with_spans[0], other)
        return watched

    def _cannot_be_unique(self, array: str, why: str) -> None:
        message = f"uniqueItems = true cannot be enforced {why}"
        self._conflicts.setdefault(array, Conflict(array, "uniqueItems", message, "drop uniqueItems"))

    def _mixes_strings(self, array: str) -> None:
        message = (
            "the items of an array are either verbatim strings or other strings, not both: "
            "no span may be repeated more often than it stands on the page, and the two could not be told apart"
        )
        hint = "make every string of the array x-verbatim, or none"
        self._conflicts.setdefault(array, Conflict(array, "items", message, hint))

    def _differs(self, array: str, other: str) -> None:
        at = f"at #{other}" if other in self._graph else "any value or a constant"
        message = (
            f"two alternatives here are arrays of different items, one of them of verbatim strings; the other is {at}"
        )
        self._conflicts.setdefault(array, Conflict(array, "items", message, "give both arrays the same items"))

    def _node(self, leaf: str) -> Mapping[str, Any] | bool:
        return self._made[leaf] if leaf in self._made else self._graph[leaf]

    def _mapping(self, leaf: str) -> Mapping[str, Any]:
        node = self._node(leaf)
        return node if isinstance(node, Mapping) else {}

    def _make(self, node: Mapping[str, Any]) -> str:
        """A leaf that is not in the schema: one value of an enum, or (an empty schema) anything at all."""
        name = "=" + json.dumps(node)
        self._made[name] = node
        return name

    def _value_leaves(self, leaf: str, key: str) -> Iterable[str]:
        """What may stand under `key` in an object that `leaf` takes."""
        node = self._mapping(leaf)
        if (values := constants(node)) is not None:
            objects = [value for value in values if isinstance(value, dict)]
            return [self._make({"const": value[key]}) for value in objects if key in value]
        if "object" not in kinds_of(node):
            return []
        if key in node.get("properties", {}):
            return self._leaves(join(leaf, "properties", key))
        others = [join(leaf, "patternProperties", pattern) for pattern in node.get("patternProperties", {})]
        additional = node.get("additionalProperties", True)
        if isinstance(additional, Mapping):
            others.append(join(leaf, "additionalProperties"))
        found = [inner for other in others for inner in self._leaves(other)]
        return [*found, self._make({})] if additional is True else found

    def _item_leaves(self, leaf: str) -> frozenset[str]:
        """What may stand in an array that `leaf` takes; empty where it takes no array, or only the empty one."""
        node = self._mapping(leaf)
        if (values := constants(node)) is not None:
            lists = [value for value in values if isinstance(value, list)]
            return frozenset(self._make({"const": item}) for value in lists for item in value)
        if "array" not in kinds_of(node) or node.get("maxItems") == 0:
            return frozenset()
        places = [join(leaf, "prefixItems", index) for index in range(len(node.get("prefixItems", ())))]
        items = node.get("items", True)
        if isinstance(items, Mapping):
            places.append(join(leaf, "items"))
        found = frozenset(inner for place in places for inner in self._leaves(place))
        return found | {self._make({})} if items is True or isinstance(items, list) else found


def _is_unique(node: Mapping[str, Any] | bool) -> bool:
    return isinstance(node, Mapping) and node.get("uniqueItems") is True


def _hidden(graph: SchemaGraph) -> list[str]:
    """The subschemas that no shape shows: below other keywords than those that `leaves` and the shapes follow."""
    return [
        child
        for pointer in graph
        if isinstance(node := graph[pointer], Mapping)
        for child, _ in subschemas(pointer, node)
        if not is_definition(pointer, child) and child[len(pointer) :].split("/")[1] not in _followed(node)
    ]


def _followed(node: Mapping[str, Any]) -> tuple[str, ...]:
    if "$ref" in node:
        return ()
    if "anyOf" in node:
        return ("anyOf",)
    return ("allOf",) if len(node.get("allOf", ())) == 1 else ("properties", "items", "prefixItems")
