"""A schema graph in; what the repetition rule must know at each place of a document, out: arrays of spans, of records.

A shape stands for the set of subschemas that may apply at a place: the document's keys and brackets alone decide the
next shape, whatever branch of an anyOf the writer has in mind.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fetchly_llm.errors import SchemaRefused
from fetchly_llm.grammar.lark import span_bounds, takes_null, types_of
from fetchly_llm.grammar.schema_graph import SchemaGraph, join
from fetchly_llm.grammar.spans import SpanBounds, spelling

OPAQUE = 0

_KINDS: Mapping[type, str] = {str: "string", dict: "object", list: "array", type(None): "null"}


@dataclass(frozen=True, slots=True)
class Shape:
    """What may stand at a place.

    `properties` maps a key's JSON spelling (no quotes) to the shape of its value; `items` is the shape of an array's
    items. `spans` are the bounds of an array's verbatim items, empty where it has none; `has_other_items` says that an
    item can also be something else (null, an array, an object). `has_records` marks an array whose items hold spans
    deeper down; `least` is the greatest minItems that may apply. `is_span` says that a string here is a span.
    """

    properties: Mapping[bytes, int] = field(default_factory=dict)
    items: int = OPAQUE
    spans: tuple[SpanBounds, ...] = ()
    has_other_items: bool = False
    has_records: bool = False
    least: int = 0
    is_span: bool = False


@dataclass(frozen=True, slots=True)
class _Items:
    """What the items of one array schema can be."""

    spans: frozenset[SpanBounds]
    has_others: bool
    has_free_strings: bool


class ShapeTable:
    """The shapes of a schema; index 0 is OPAQUE: nothing below it is a span. `root` is the document's own.

    Raises SchemaRefused where an array's items cannot be told apart: spans beside other strings, or two kinds of arrays
    of spans as alternatives at one place.
    """

    def __init__(self, graph: SchemaGraph, productive: frozenset[str]) -> None:
        self._graph = graph
        self._productive = productive
        self._made: dict[str, Mapping[str, Any]] = {}
        self._known: dict[frozenset[str], int] = {}
        self._shapes: list[Shape] = [Shape()]
        self.root = self._shape(frozenset(self._leaves("")))

    def __getitem__(self, index: int) -> Shape:
        return self._shapes[index]

    @property
    def has_arrays(self) -> bool:
        """Whether the rule has anything to watch."""
        return any(shape.spans or shape.has_records for shape in self._shapes)

    def _leaves(self, pointer: str) -> dict[str, None]:
        """The subschemas that `pointer` stands for, references and alternatives followed."""
        leaves: dict[str, None] = {}
        seen: set[str] = set()
        waiting = [pointer]
        while waiting:
            at = waiting.pop()
            if at in seen or at not in self._productive:
                continue
            seen.add(at)
            node = self._graph[at]
            if not isinstance(node, Mapping) or node.get("x-verbatim", False) is not False:
                leaves[at] = None
            elif "$ref" in node and self._graph.is_resolved(at):
                waiting.append(self._graph.target(at))
            elif "anyOf" in node:
                waiting.extend(join(at, "anyOf", index) for index in range(len(node["anyOf"])))
            elif len(node.get("allOf", ())) == 1:
                waiting.append(join(at, "allOf", 0))
            else:
                leaves[at] = None
        return leaves

    def _shape(self, leaves: frozenset[str]) -> int:
        if not any(self._graph.is_verbatim(leaf) for leaf in leaves):
            return OPAQUE
        index = self._known.get(leaves)
        if index is None:
            index = self._known[leaves] = len(self._shapes)
            self._shapes.append(Shape())
            self._shapes[index] = self._describe(leaves)
        return index

    def _describe(self, leaves: frozenset[str]) -> Shape:
        nodes = {leaf: self._mapping(leaf) for leaf in sorted(leaves)}
        keys = dict.fromkeys(key for node in nodes.values() for key in node.get("properties", {}))
        below = {key: frozenset(leaf for at in nodes for leaf in self._value_leaves(at, key)) for key in keys}
        within = {leaf: inner for leaf in nodes if (inner := self._item_leaves(leaf))}
        found = {leaf: self._items(inner) for leaf, inner in within.items()}
        watched = next((leaf for leaf in found if found[leaf].spans), None)
        if watched is not None:
            self._refuse_ambiguous(watched, found)
        items = self._shape(frozenset(leaf for inner in within.values() for leaf in inner))
        return Shape(
            properties={spelling(key): shape for key in keys if (shape := self._shape(below[key])) != OPAQUE},
            items=items,
            spans=() if watched is None else tuple(sorted(found[watched].spans, key=lambda b: (b.minimum, b.maximum))),
            has_other_items=watched is not None and found[watched].has_others,
            has_records=watched is None and items != OPAQUE,
            least=max((nodes[leaf].get("minItems", 0) for leaf in found), default=0),
            is_span=any(_is_span(node) for node in nodes.values()),
        )

    def _mapping(self, leaf: str) -> Mapping[str, Any]:
        node = self._made[leaf] if leaf in self._made else self._graph[leaf]
        return node if isinstance(node, Mapping) else {}

    def _make(self, node: Mapping[str, Any]) -> str:
        """A leaf that is not in the schema: one value of an enum, or (an empty schema) anything at all."""
        name = "=" + json.dumps(node)
        self._made[name] = node
        return name

    def _value_leaves(self, leaf: str, key: str) -> Iterable[str]:
        """What may stand under `key` in an object that `leaf` takes."""
        node = self._mapping(leaf)
        if _constants(node) is not None:
            return [self._make({"const": value[key]}) for value in _constants(node) or () if key in _object(value)]
        if "object" not in _kinds(node):
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
        if _constants(node) is not None:
            lists = [value for value in _constants(node) or () if isinstance(value, list)]
            return frozenset(self._make({"const": item}) for value in lists for item in value)
        if "array" not in _kinds(node) or node.get("maxItems") == 0:
            return frozenset()
        places = [join(leaf, "prefixItems", index) for index in range(len(node.get("prefixItems", ())))]
        items = node.get("items", True)
        if isinstance(items, Mapping):
            places.append(join(leaf, "items"))
        found = frozenset(inner for place in places for inner in self._leaves(place))
        return found | {self._make({})} if items is True or isinstance(items, list) else found

    def _items(self, leaves: frozenset[str]) -> _Items:
        nodes = {leaf: self._mapping(leaf) for leaf in leaves}
        spans = [leaf for leaf, node in nodes.items() if _is_span(node)]
        kinds = frozenset(kind for leaf, node in nodes.items() if leaf not in spans for kind in _kinds(node))
        return _Items(
            spans=frozenset(bounds for leaf in spans for bounds in span_bounds(self._graph, leaf)),
            has_others=bool(kinds - {"string"}) or any(takes_null(self._graph, leaf) for leaf in spans),
            has_free_strings="string" in kinds,
        )

    def _refuse_ambiguous(self, watched: str, found: Mapping[str, _Items]) -> None:
        if found[watched].has_free_strings:
            raise SchemaRefused(
                "the items of an array are either verbatim strings or other strings, not both: "
                "no span may be repeated more often than it stands on the page, and the two could not be told apart",
                pointer=join(watched, "items"),
                code="SCHEMA_KEYWORD_NOT_ENFORCED",
                hint="make every string of the array x-verbatim, or none",
            )
        other = next((leaf for leaf, items in found.items() if items != found[watched]), None)
        if other is not None:
            raise SchemaRefused(
                "two alternatives here are arrays of different items, one of them of verbatim strings; the other is "
                + (f"at #{other}" if other in self._graph else "any value or a constant"),
                pointer=join(watched, "items"),
                code="SCHEMA_KEYWORD_NOT_ENFORCED",
                hint="give both arrays the same items",
            )


def _is_span(node: Mapping[str, Any]) -> bool:
    return node.get("x-verbatim", False) is not False


def _constants(node: Mapping[str, Any]) -> list[Any] | None:
    """The values that `enum` or `const` leave, or None where neither stands."""
    if "enum" not in node and "const" not in node:
        return None
    return [*node.get("enum", ()), *([node["const"]] if "const" in node else [])]


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _kinds(node: Mapping[str, Any]) -> frozenset[str]:
    """The JSON types that `node` may take, numbers and booleans together as "other"."""
    constants = _constants(node)
    if constants is not None:
        return frozenset(_KINDS.get(type(value), "other") for value in constants)
    types = types_of(node) or ("string", "object", "array", "null", "other")
    return frozenset(kind if kind in _KINDS.values() else "other" for kind in types)
