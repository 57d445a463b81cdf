"""A place of a schema graph in; the subschemas it stands for, and what sort of items they are in an array, out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fetchly_llm.grammar.lark import ANNOTATIONS, length_bounds, takes_null, types_of
from fetchly_llm.grammar.schema_graph import Schema, SchemaGraph, join
from fetchly_llm.grammar.spans import SpanBounds

_KINDS: Mapping[type, str] = {str: "string", dict: "object", list: "array", type(None): "null"}


@dataclass(frozen=True, slots=True)
class Items:
    """What the items of an array can be: spans within `spans`, strings out of `listed`, and the rest.

    `has_others` says that an item can be something else than a string, `has_free_strings` a string that is neither.
    """

    spans: frozenset[SpanBounds] = frozenset()
    listed: frozenset[str] = frozenset()
    has_others: bool = False
    has_free_strings: bool = False

    @property
    def are_spans(self) -> bool:
        """Whether every string is a span."""
        return bool(self.spans) and not self.listed and not self.has_free_strings

    @property
    def are_choices(self) -> bool:
        """Whether every item is a span, or every item a listed string: what can be held to occur once."""
        return bool(self.spans) != bool(self.listed) and not self.has_others and not self.has_free_strings


def leaves(graph: SchemaGraph, pointer: str, may_be: Callable[[str], bool] = lambda _: True) -> dict[str, None]:
    """The subschemas that `pointer` stands for, references and alternatives followed, as far as `may_be` lets."""
    found: dict[str, None] = {}
    seen: set[str] = set()
    waiting = [pointer]
    while waiting:
        at = waiting.pop()
        if at in seen or not may_be(at):
            continue
        seen.add(at)
        node = graph[at]
        if not isinstance(node, Mapping) or node.get("x-verbatim", False) is not False:
            found[at] = None
        elif "$ref" in node and graph.is_resolved(at):
            waiting.append(graph.target(at))
        elif "anyOf" in node:
            waiting.extend(join(at, "anyOf", index) for index in range(len(node["anyOf"])))
        elif len(node.get("allOf", ())) == 1:
            waiting.append(join(at, "allOf", 0))
        else:
            found[at] = None
    return found


def sort_items(graph: SchemaGraph, nodes: Mapping[str, Schema]) -> Items:
    """What items are that may be any of `nodes` (leaves by pointer)."""
    spans: set[SpanBounds] = set()
    listed: set[str] = set()
    kinds: set[str] = set()
    for pointer, node in nodes.items():
        if isinstance(node, Mapping) and is_span(node):
            spans.update(length_bounds(member) for member in _members(node) if "string" in types_of(member))
            kinds.update(["null"] if takes_null(graph, pointer) else [])
        elif (values := _listed(node)) is not None:
            listed.update(values)
        else:
            kinds.update(kinds_of(node))
    return Items(frozenset(spans), frozenset(listed), bool(kinds - {"string"}), "string" in kinds)


def _members(node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [member for member in (node, *node.get("anyOf", ())) if isinstance(member, Mapping)]


def is_span(node: Mapping[str, Any]) -> bool:
    """Whether a string here is a span of the source."""
    return node.get("x-verbatim", False) is not False


def constants(node: Schema) -> list[Any] | None:
    """The values that `enum` or `const` leave, or None where neither stands."""
    if not isinstance(node, Mapping) or ("enum" not in node and "const" not in node):
        return None
    return [*node.get("enum", ()), *([node["const"]] if "const" in node else [])]


def kinds_of(node: Schema) -> frozenset[str]:
    """The JSON types that `node` may take, numbers and booleans together as "other"."""
    if node is False:
        return frozenset()
    values = constants(node)
    if values is not None:
        return frozenset(_KINDS.get(type(value), "other") for value in values)
    types = types_of(node) if isinstance(node, Mapping) else ()
    types = types or ("string", "object", "array", "null", "other")
    return frozenset(kind if kind in _KINDS.values() else "other" for kind in types)


def can_be_listed(value: object) -> bool:
    r"""Whether `value` is a string with one spelling: llguidance 1.9.1 writes a tab as `\t` and as `\u0009`."""
    return isinstance(value, str) and not any(character < " " or character == "\x7f" for character in value)


def _listed(node: Schema) -> Iterable[str] | None:
    """The strings that `node` lists; None where it is anything but a list of strings."""
    values = constants(node)
    if values is None or not isinstance(node, Mapping) or not all(map(can_be_listed, values)):
        return None
    says = {keyword for keyword in node if keyword not in ANNOTATIONS and not keyword.startswith("x-")}
    is_plain = says in ({"enum"}, {"const"}) or (
        says in ({"enum", "type"}, {"const", "type"}) and "string" in types_of(node)
    )
    return values if is_plain else None
