"""A prepared schema whose arrays ask for unique items goes in; one that asks only where it is heeded comes out."""

from __future__ import annotations

from typing import Any, Final

from fetchly_llm.grammar.findings import Notebook
from fetchly_llm.grammar.schema_graph import SchemaGraph
from fetchly_llm.grammar.shapes import ShapeTable

_ASKED_BY: Final = "x-unique"


def ask_for_unique(node: dict[str, Any], pointers: list[str]) -> None:
    """Let the array `node` ask for unique items, on behalf of the user's keywords at `pointers`."""
    node["uniqueItems"] = True
    node[_ASKED_BY] = pointers


def settle_unique(enforced: dict[str, Any], notebook: Notebook) -> None:
    """Leave uniqueItems in `enforced` (changed in place) where the repetition rule sees to it, else to the validator.

    The rule knows by keys and brackets alone in which array the text stands.
    """
    graph = SchemaGraph(enforced)
    nodes = ((pointer, graph[pointer]) for pointer in graph)
    asking = {pointer: node for pointer, node in nodes if isinstance(node, dict) and _ASKED_BY in node}
    everything = frozenset(graph)
    while unheeded := asking.keys() - ShapeTable(graph, everything).unique:
        for pointer in sorted(unheeded):
            node = asking.pop(pointer)
            del node["uniqueItems"]
            for keyword in node.pop(_ASKED_BY):
                notebook.not_enforced(keyword, "uniqueItems", True, "other arrays may stand in the same place")
    for node in asking.values():
        del node[_ASKED_BY]
