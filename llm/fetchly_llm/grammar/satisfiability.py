"""A schema graph and a span index in; the subschemas that some finite value satisfies out, or where it fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fetchly_llm.errors import SchemaRefused
from fetchly_llm.grammar.items import leaves, sort_items
from fetchly_llm.grammar.lark import span_bounds, takes_null, types_of
from fetchly_llm.grammar.schema_graph import SchemaGraph, join
from fetchly_llm.grammar.spans import SpanIndex

Known = Callable[[str], bool]


def satisfiable(graph: SchemaGraph, spans: SpanIndex) -> frozenset[str]:
    """Pointers of the subschemas that have a finite value, as far as structure tells.

    Structure: required properties, minItems, alternatives, references, spans of the source and unique values (an array
    that repeats no span needs as many places as it has items). What llguidance can tell from a leaf alone (a minimum
    above a maximum) is left to it. Raises SchemaRefused for an `x-verbatim` node that takes no strings.
    """
    return graph.productive(lambda pointer, known: _holds(graph, spans, pointer, known))


def refuse_unsatisfiable(graph: SchemaGraph, found: frozenset[str], known: Mapping[str, str] | None = None) -> None:
    """Raise SchemaRefused with the innermost pointer that explains why the root has no value; return if it has one.

    `known` has the reason for pointers whose values were taken out before.
    """
    if "" in found:
        return
    pointer, seen = "", {""}
    while (cause := _cause(graph, pointer, found)) is not None and cause not in seen:
        pointer = cause
        seen.add(pointer)
    node = graph[pointer]
    if known and pointer in known:
        message, hint = known[pointer], "use other characters here, or take another model"
    elif isinstance(node, Mapping) and node.get("x-verbatim", False) is not False:
        message, hint = "the source holds no span that this string can be", "allow null here"
    elif isinstance(node, Mapping) and cause is None and "items" in node and graph.is_verbatim(pointer):
        message, hint = "the source holds fewer spans than minItems asks for", "lower minItems"
    elif isinstance(node, Mapping) and cause is None and node.get("uniqueItems") is True and "items" in node:
        message, hint = "the items have fewer values than minItems asks for", "lower minItems or drop uniqueItems"
    elif cause is not None:
        message, hint = "only an endless value would satisfy this schema", "make one step of the recursion optional"
    else:
        message, hint = "no value satisfies this schema", "relax the keyword that excludes everything"
    raise SchemaRefused(message, pointer=pointer, hint=hint, code="SCHEMA_UNSATISFIABLE")


def _holds(graph: SchemaGraph, spans: SpanIndex, pointer: str, known: Known) -> bool:
    node = graph[pointer]
    if isinstance(node, bool):
        return node
    if node.get("x-verbatim", False) is not False:
        return takes_null(graph, pointer) or spans.count(span_bounds(graph, pointer), 1) > 0
    if "$ref" in node and graph.is_resolved(pointer) and not known(graph.target(pointer)):
        return False
    if "enum" in node and not node["enum"]:
        return False
    for keyword in ("anyOf", "oneOf"):
        if keyword in node and not any(known(join(pointer, keyword, i)) for i in range(len(node[keyword]))):
            return False
    if not all(known(join(pointer, "allOf", i)) for i in range(len(node.get("allOf", ())))):
        return False
    types = types_of(node)
    if types == ("object",):
        return _object_holds(pointer, node, known)
    if types == ("array",):
        return _array_holds(graph, spans, pointer, node, known)
    return True


def _object_holds(pointer: str, node: Mapping[str, Any], known: Known) -> bool:
    properties = node.get("properties", {})
    closed = node.get("additionalProperties") is False and not node.get("patternProperties")
    for key in node.get("required", ()):
        if key in properties:
            if not known(join(pointer, "properties", key)):
                return False
        elif closed:
            return False
    return True


def _array_holds(graph: SchemaGraph, spans: SpanIndex, pointer: str, node: Mapping[str, Any], known: Known) -> bool:
    least = node.get("minItems", 0)
    if least > node.get("maxItems", least):
        return False
    prefix = len(node.get("prefixItems", ()))
    if not all(known(join(pointer, "prefixItems", index)) for index in range(min(prefix, least))):
        return False
    items = join(pointer, "items")
    if least <= prefix or not isinstance(node.get("items", True), Mapping | bool) or "items" not in node:
        return True
    if not known(items):
        return False
    return not graph.is_watched(pointer) or _has_enough(graph, spans, pointer, least)


def _has_enough(graph: SchemaGraph, spans: SpanIndex, pointer: str, least: int) -> bool:
    """Whether the array at `pointer` finds `least` items, as far as they can run out."""
    items = sort_items(graph, {leaf: graph[leaf] for leaf in leaves(graph, join(pointer, "items"))})
    is_unique = graph.mapping(pointer).get("uniqueItems") is True
    if not items.are_choices:
        return True
    if not items.spans:
        return not is_unique or len(items.listed) >= least
    count = spans.count_distinct if is_unique else spans.count
    return count(tuple(items.spans), least) >= least


def _cause(graph: SchemaGraph, pointer: str, found: frozenset[str]) -> str | None:
    """A part of the unsatisfiable subschema at `pointer` that is unsatisfiable itself and needed."""
    node = graph[pointer]
    if isinstance(node, bool):
        return None
    parts = [join(pointer, "properties", key) for key in node.get("required", ()) if key in node.get("properties", {})]
    parts += [
        join(pointer, keyword, i) for keyword in ("allOf", "anyOf", "oneOf") for i in range(len(node.get(keyword, ())))
    ]
    parts += [
        join(pointer, "prefixItems", i) for i in range(min(node.get("minItems", 0), len(node.get("prefixItems", ()))))
    ]
    if "$ref" in node and graph.is_resolved(pointer):
        parts.append(graph.target(pointer))
    if node.get("minItems", 0) > 0 and isinstance(node.get("items"), Mapping | bool):
        parts.append(join(pointer, "items"))
    return next((part for part in parts if part not in found), None)
