"""A schema and dotted names of fields in, the schema without these fields out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from fetchly.extraction.shape import SchemaTree

_Path = tuple[str, ...]


def without(schema: Mapping[str, Any], paths: Collection[str]) -> dict[str, Any] | None:
    """The schema without the fields at `paths` (`price`, `items.title`: places in lists are left out).

    An object goes with its last field. References on the way to a field are written out, as other uses of their
    definition keep it. None where nothing is left, and where a path leads nowhere or is empty (the whole record).
    """
    try:
        narrowed = _without(SchemaTree(schema), schema, [tuple(path.split(".")) for path in paths])
    except LookupError:
        return None
    if narrowed is None:
        return None
    kept = {key: value for key, value in schema.items() if key in ("$schema", "$defs", "definitions")}
    return {**kept, **narrowed}


def _without(tree: SchemaTree, schema: Any, paths: list[_Path]) -> dict[str, Any] | None:
    """The node without the fields, None where it has no other. Raises LookupError for a path that leads nowhere."""
    node = dict(tree.node(schema))
    if not paths:
        return node
    for word in ("anyOf", "oneOf"):
        if isinstance(node.get(word), list):
            return _in_branches(tree, node, word, paths)
    if isinstance(node.get("items"), Mapping):
        inner = _without(tree, node["items"], paths)
        return None if inner is None else {**node, "items": inner}
    properties = node.get("properties")
    lost = [path for path in paths if not isinstance(properties, Mapping) or path[0] not in properties]
    if lost or not isinstance(properties, Mapping):
        raise LookupError(".".join(lost[0]))
    kept: dict[str, Any] = {}
    for name, part in properties.items():
        below = [path[1:] for path in paths if path[0] == name]
        narrowed = None if () in below else _without(tree, part, below) if below else part
        if narrowed is not None:
            kept[name] = narrowed
    if not kept:
        return None
    out = {**node, "properties": kept}
    if "required" in node:
        out["required"] = [name for name in node["required"] if name in kept]
    return out


def _in_branches(tree: SchemaTree, node: dict[str, Any], word: str, paths: list[_Path]) -> dict[str, Any] | None:
    """Alternatives that have the fields lose them; the others stay."""
    branches: list[Any] = []
    met, left = False, False
    for branch in node[word]:
        try:
            narrowed = _without(tree, branch, paths)
        except LookupError:
            branches.append(branch)
            continue
        met = True
        if narrowed is not None:
            left = True
            branches.append(narrowed)
    if not met:
        raise LookupError(".".join(paths[0]))
    return {**node, word: branches} if left else None
