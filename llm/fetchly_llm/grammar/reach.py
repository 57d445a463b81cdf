"""Prepared nodes with definitions go in; the same without parts that can never be finished or reached come out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Node = dict[str, Any]
_PREFIX = "#/$defs/"


def expanded_size(nodes: list[Any]) -> int:
    """How many schemas `nodes` are when written out: a node that stands in several places counts in each.

    Iterative, and one visit for each node, however often it is shared.
    """
    sizes: dict[int, int] = {}
    pending: list[tuple[Any, bool]] = [(node, False) for node in nodes]
    while pending:
        node, is_known = pending.pop()
        parts = _parts(node)
        if is_known:
            sizes[id(node)] = 1 + sum(sizes[id(part)] for part in parts)
        elif id(node) not in sizes:
            pending += [(node, True), *((part, False) for part in parts)]
    return sum(sizes[id(node)] for node in nodes)


def _parts(node: Any) -> list[Any]:
    if not isinstance(node, dict) or "enum" in node:
        return []
    parts = [*node.get("properties", {}).values(), *node.get("patternProperties", {}).values()]
    parts += [*node.get("anyOf", ()), *node.get("prefixItems", ())]
    return parts + [node[name] for name in ("items", "additionalProperties") if name in node]


def finishable(definitions: Mapping[str, Any]) -> set[str]:
    """The names of definitions that some finite value satisfies: the least fixed point over all definitions."""
    users: dict[str, list[str]] = {name: [] for name in definitions}
    for name, node in definitions.items():
        for used in referenced(node):
            users[used].append(name)
    known: set[str] = set()
    pending = list(definitions)
    while pending:
        name = pending.pop()
        if name not in known and can_finish(definitions[name], known):
            known.add(name)
            pending.extend(users[name])
    return known


def can_finish(node: Any, known: set[str]) -> bool:
    """Whether some finite value satisfies `node`, given the definitions `known` to be finishable."""
    if not isinstance(node, dict):
        return node is True
    if "$ref" in node:
        return node["$ref"].removeprefix(_PREFIX) in known
    if "anyOf" in node:
        return any(can_finish(member, known) for member in node["anyOf"])
    if node.get("type") == "object":
        properties, rest = node.get("properties", {}), node.get("additionalProperties", True)
        spelt = all(can_finish(properties.get(name, rest), known) for name in node.get("required", ()))
        return spelt and (node.get("minProperties", 0) <= len(node.get("required", ())) or _has_more(node, known))
    if node.get("type") == "array":
        lead, fewest = node.get("prefixItems", []), node.get("minItems", 0)
        if not all(can_finish(item, known) for item in lead[:fewest]):
            return False
        return fewest <= len(lead) or can_finish(node["items"], known)
    return True


def _has_more(node: Node, known: set[str]) -> bool:
    others = [child for name, child in node.get("properties", {}).items() if name not in node.get("required", ())]
    others += [*node.get("patternProperties", {}).values(), node.get("additionalProperties", True)]
    return any(can_finish(child, known) for child in others)


def prune(node: Any, known: set[str]) -> Any:
    """`node` without members, properties and items that cannot be finished; `node` itself must be finishable."""
    if not isinstance(node, dict) or "$ref" in node or "enum" in node:
        return node
    if "anyOf" in node:
        members = [prune(member, known) for member in node["anyOf"] if can_finish(member, known)]
        return members[0] if len(members) == 1 else {"anyOf": members}
    if node.get("type") == "array":
        return _prune_array(node, known)
    if node.get("type") != "object":
        return node
    closed = node.get("additionalProperties") is False and "patternProperties" not in node
    pruned = dict(node)
    pruned["properties"] = {
        name: prune(child, known) if can_finish(child, known) else False
        for name, child in node.get("properties", {}).items()
        if can_finish(child, known) or not closed
    }
    if not can_finish(node["additionalProperties"], known):
        pruned["additionalProperties"] = False
    else:
        pruned["additionalProperties"] = prune(node["additionalProperties"], known)
    if "patternProperties" in node:
        pruned["patternProperties"] = {
            pattern: prune(child, known) if can_finish(child, known) else False
            for pattern, child in node["patternProperties"].items()
        }
    return pruned


def _prune_array(node: Node, known: set[str]) -> Node:
    pruned, lead = dict(node), node.get("prefixItems", [])
    fit = next((i for i, item in enumerate(lead) if not can_finish(item, known)), None)
    if fit is not None:
        lead, pruned["maxItems"], pruned["items"] = lead[:fit], min(fit, node["maxItems"]), False
    elif not can_finish(node["items"], known):
        pruned["maxItems"], pruned["items"] = min(len(lead), node["maxItems"]), False
    else:
        pruned["items"] = prune(node["items"], known)
    if lead:
        pruned["prefixItems"] = [prune(item, known) for item in lead]
    else:
        pruned.pop("prefixItems", None)
    return pruned


def referenced(node: Any) -> set[str]:
    """The names of the definitions that `node` refers to."""
    found: set[str] = set()
    pending = [node]
    while pending:
        here = pending.pop()
        if isinstance(here, list):
            pending.extend(here)
        elif isinstance(here, dict) and "enum" not in here:
            if isinstance(here.get("$ref"), str):
                found.add(here["$ref"].removeprefix(_PREFIX))
            pending.extend(here.get("properties", {}).values())
            pending.extend(here.get("patternProperties", {}).values())
            pending.extend(here.get(name) for name in ("anyOf", "prefixItems", "items", "additionalProperties"))
    return found


def reachable(root: Any, definitions: Mapping[str, Any]) -> dict[str, Any]:
    """The definitions that `root` refers to, directly or not, in order of first mention in `definitions`."""
    seen: set[str] = set()
    pending = [root]
    while pending:
        for name in referenced(pending.pop()) - seen:
            seen.add(name)
            pending.append(definitions[name])
    return {name: node for name, node in definitions.items() if name in seen}
