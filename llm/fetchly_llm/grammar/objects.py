"""One alternative of an object goes in; closed object nodes come out."""

from __future__ import annotations

import itertools
from math import comb
from typing import TYPE_CHECKING, Any

from fetchly_llm.grammar import findings as codes
from fetchly_llm.grammar import probe
from fetchly_llm.grammar.bounds import MAX_ITEMS
from fetchly_llm.grammar.branches import Branch, Reason
from fetchly_llm.grammar.containers import ObjectFacts, ObjectPart, keyword_pointer, read_object
from fetchly_llm.grammar.judge import matches
from fetchly_llm.grammar.keywords import at_most
from fetchly_llm.grammar.reach import reachable, referenced
from fetchly_llm.grammar.references import Place

if TYPE_CHECKING:
    from fetchly_llm.grammar.desugar import Desugarer

Node = dict[str, Any]
_MOST_SUBSETS = 64


def write_object(desugarer: Desugarer, branch: Branch) -> list[Node] | Reason:
    """The nodes of the branch's objects, or why there is none.

    Where no schema sets additionalProperties, only names that are spelt out (or match a pattern) are written, and any
    where none is. Several
    schemas with patterns and additionalProperties are narrowed to the spelt names: which pattern of one meets which of
    another is not decided here.
    """
    facts = read_object(branch, desugarer.document)
    _read_unevaluated(desugarer, branch, facts)
    _read_listed_names(desugarer, branch, facts)
    nodes: dict[str, Node] = {}
    barred: list[str] = []
    for name in facts.names:
        places = facts.at(name)
        named = name in {spelt for part in facts.parts for spelt in part.names}
        rest_only = not named and not places and any(part.rest is not None for part in facts.parts)
        assert not rest_only, "a rest schema speaks for every name"
        if not _name_fits(desugarer, branch, name):
            written: Node | Reason = Reason(branch.atoms[0].place.pointer, f"propertyNames refuses {name!r}")
        else:
            written = desugarer.value(places)
        if not isinstance(written, Reason):
            nodes[name] = written
        elif name in facts.needed:
            return Reason(facts.needed[name], f"{name!r} is required, and {written.message} ({written.pointer or '/'})")
        else:
            barred.append(name)
    open_part = _open_part(desugarer, branch, facts)
    if isinstance(open_part, Reason):
        open_part = {"additionalProperties": False}
    node: Node = {"type": "object", "properties": nodes}
    if facts.needed:
        node["required"] = [name for name in nodes if name in facts.needed]
    if open_part["additionalProperties"] is not False or "patternProperties" in open_part:
        nodes.update(dict.fromkeys(barred, False))  # type: ignore[arg-type]
    node.update(open_part)
    is_crossed = any(matches(pattern, name) for pattern in node.get("patternProperties", {}) for name in nodes)
    why = _crossing_refusal(desugarer, node) if is_crossed else None
    if why:  # llguidance intersects what a pattern and a name say, once more, and cannot always
        desugarer.not_enforced(next(part.atom for part in facts.parts if part.patterns), "patternProperties", why)
        node = {name: child for name, child in node.items() if name != "patternProperties"}
    return _counted(desugarer, branch, facts, node)


def _crossing_refusal(desugarer: Desugarer, node: Node) -> str | None:
    """Why llguidance cannot write an object in which a pattern finds a spelt name; None when it can."""
    known = {name: False if isinstance(part, Reason) else part for name, part in desugarer.definitions.items()}
    missing = set().union(*(referenced(part) for part in (node, *known.values()))) - set(known)
    needed = reachable(node, {**known, **dict.fromkeys(missing, True)})
    if missing & set(needed):
        return "a pattern finds a named property whose values are recursive"
    return probe.refusal({**node, "$defs": needed})


def _open_part(desugarer: Desugarer, branch: Branch, facts: ObjectFacts) -> Node:
    """What is written under names that are not spelt out."""
    rests = [part for part in facts.parts if part.rest is not None]
    patterned = [part for part in facts.parts if part.patterns]
    closed: Node = {"additionalProperties": False}
    if any(part.listed for part in facts.parts):
        return closed
    if not rests and not patterned:
        place = branch.atoms[0].place
        named = {name for part in facts.parts if not part.atom.place.made for name in part.names} | set(facts.needed)
        if not named or facts.fewest > len(facts.names):
            message = "fewer properties are named than are needed, so any are written: the model invents their names."
            message = message if named else "no property is named, so any are written: the model invents their names."
            desugarer.notice(codes.OBJECT_OPEN, place, message, "Name the properties, or set additionalProperties.")
            return _with_name_rules(desugarer, branch, {"additionalProperties": desugarer.value(())})
        message = "only the properties that the schema names are written."
        hint = "Set additionalProperties to a schema to allow more."
        desugarer.notice(codes.OBJECT_CLOSED, place, message, hint)
        return closed
    if any(part.rest is not None and part.rest.schema is False and not part.patterns for part in rests):
        return closed
    if patterned and len([part for part in facts.parts if part.rest is not None or part.patterns]) > 1:
        return closed
    opened = dict(closed)
    if patterned:
        patterns = {p: desugarer.value((place,)) for p, place in patterned[0].patterns.items()}
        written = {p: False if isinstance(node, Reason) else node for p, node in patterns.items()}
        if why := probe.refusal({**closed, "type": "object", "patternProperties": {p: True for p in written}}):
            desugarer.not_enforced(patterned[0].atom, "patternProperties", why)
            return closed
        opened["patternProperties"] = written
    if rests:
        rest = desugarer.value(tuple(part.rest for part in rests if part.rest is not None))
        opened["additionalProperties"] = False if isinstance(rest, Reason) else rest
    return _with_name_rules(desugarer, branch, opened)


def _with_name_rules(desugarer: Desugarer, branch: Branch, opened: Node) -> Node:
    """propertyNames of an open object: a lone pattern or length moves into patternProperties, the rest is residual."""
    for atom in branch.atoms:
        rule = atom.place.schema.get("propertyNames", True)
        if rule in (True, {}) or at_most(desugarer.document.dialect, "draft-04"):
            continue
        pattern = _name_pattern(rule)
        if rule is False:
            return {"additionalProperties": False}
        fits = pattern is not None and "patternProperties" not in opened and opened["additionalProperties"] is not False
        if fits and not probe.refusal({"type": "string", "pattern": pattern}):
            opened = {"patternProperties": {pattern: opened["additionalProperties"]}, "additionalProperties": False}
        else:
            desugarer.not_enforced(atom, "propertyNames")
    return opened


def _name_pattern(rule: Any) -> str | None:
    said = {name: value for name, value in rule.items() if name != "type"} if isinstance(rule, dict) else {}
    if isinstance(rule, dict) and rule.get("type", "string") != "string":
        return None
    if set(said) == {"pattern"}:
        return str(said["pattern"])
    if said and set(said) <= {"minLength", "maxLength"}:
        most = int(said["maxLength"]) if "maxLength" in said else ""
        return rf"^[\s\S]{{{int(said.get('minLength', 0))},{most}}}$"
    return None


def _name_fits(desugarer: Desugarer, branch: Branch, name: str) -> bool:
    for atom in branch.atoms:
        if "propertyNames" in atom.place.schema and not at_most(desugarer.document.dialect, "draft-04"):
            rule = desugarer.document.child(atom.place, atom.place.schema["propertyNames"], "propertyNames")
            try:
                if not desugarer.judge.accepts(rule, name):
                    return False
            except LookupError:
                desugarer.not_enforced(atom, "propertyNames")
    return True


def _read_unevaluated(desugarer: Desugarer, branch: Branch, facts: ObjectFacts) -> None:
    """`unevaluatedProperties` speaks for the spelt names that no schema under its own evaluates.

    Other alternatives that hold at the same time would evaluate more names: leaving them out only narrows.
    """
    if at_most(desugarer.document.dialect, "draft-07"):
        return
    for atom in branch.atoms:
        if "unevaluatedProperties" not in atom.place.schema:
            continue
        below = [part for part in facts.parts if part.atom.under(atom) and not part.atom.place.made]
        rest = desugarer.document.child(atom.place, atom.place.schema["unevaluatedProperties"], "unevaluatedProperties")
        if any(part.rest is not None for part in below):
            continue
        patterns = {pattern for part in below for pattern in part.patterns}
        anything = Place(True, rest.pointer, rest.base, made=True)
        names = {name: anything for name in facts.names if any(part.evaluates(name) for part in below)}
        facts.parts.append(ObjectPart(atom, names, dict.fromkeys(patterns, anything), rest))


def _read_listed_names(desugarer: Desugarer, branch: Branch, facts: ObjectFacts) -> None:
    """A propertyNames with const or enum spells out all names there can be."""
    for atom in branch.atoms:
        rule = atom.place.schema.get("propertyNames")
        if not isinstance(rule, dict) or not {"const", "enum"} & set(rule):
            continue
        anything = Place(True, atom.place.pointer, atom.place.base, made=True)
        listed = rule["enum"] if "enum" in rule else [rule["const"]]
        names = {name: anything for name in listed if isinstance(name, str)}
        facts.parts.append(ObjectPart(atom, names, {}, None, listed=True))


def _counted(desugarer: Desugarer, branch: Branch, facts: ObjectFacts, node: Node) -> list[Node] | Reason:
    """Apply minProperties and maxProperties: dropped where void, given to llguidance where it can, else spelt out."""
    names, needed = node["properties"], node.get("required", [])
    closed = node["additionalProperties"] is False and "patternProperties" not in node
    present = sum(child is not False for child in names.values())
    fewest, most = facts.fewest, facts.most
    if closed and fewest > present:
        why = f"{fewest} properties are asked for, and {present} can be written"
        hint = "" if any(part.rest is not None for part in facts.parts) else " (unnamed ones need additionalProperties)"
        return Reason(facts.fewest_pointer, why + hint)
    if most is not None and most < max(len(needed), fewest):
        place = next(atom.place for atom in branch.atoms if "maxProperties" in atom.place.schema)
        return Reason(keyword_pointer(place, "maxProperties"), "more properties must be there than may")
    bounds: Node = {}
    if fewest > len(needed):
        bounds["minProperties"] = fewest
    if most is not None and not (closed and most >= present):
        bounds["maxProperties"] = most
    if not bounds:
        return [node] if closed else [_finite(node)]
    if probe.refusal(_outline({**node, **bounds})) is None:
        return [{**node, **bounds}]
    optional = [name for name in names if name not in needed]
    spelt = _subsets(node, optional, max(0, fewest - len(needed)), most, len(needed)) if closed else None
    if spelt is not None:
        return spelt
    for atom in branch.atoms:
        for keyword in bounds:
            if keyword in atom.place.schema:
                desugarer.not_enforced(atom, keyword, "the object has optional properties")
    return [node]


def _outline(node: Node) -> Node:
    """The object's names and counts without its children, for a probe."""
    outline = {**node, "properties": {name: child is not False for name, child in node["properties"].items()}}
    outline["additionalProperties"] = bool(node["additionalProperties"])
    if "patternProperties" in node:
        outline["patternProperties"] = {pattern: bool(child) for pattern, child in node["patternProperties"].items()}
    return outline


def _finite(node: Node) -> Node:
    """An open object with at most MAX_ITEMS properties, where llguidance can count (no optional name spelt out)."""
    bounded = {**node, "maxProperties": max(MAX_ITEMS, len(node["properties"]))}
    return node if probe.refusal(_outline(bounded)) else bounded


def _subsets(node: Node, optional: list[str], fewest: int, most: int | None, needed: int) -> list[Node] | None:
    """The closed object as one node per choice of optional properties; None where these are too many."""
    room = len(optional) if most is None else most - needed
    size = fewest if most is None or room >= len(optional) else room
    if comb(len(optional), size) > _MOST_SUBSETS or (most is not None and 0 < fewest < room < len(optional)):
        return None
    spelt: list[Node] = []
    for chosen in itertools.combinations(optional, size):
        if most is None or room >= len(optional):
            spelt.append({**node, "required": [*node.get("required", []), *chosen]})
        else:
            kept = {name: child for name, child in node["properties"].items() if name in chosen or name not in optional}
            extra = [*node.get("required", []), *(chosen if fewest == room else ())]
            spelt.append({**node, "properties": kept, "required": extra})
    return spelt


def apart(node: Node, rival: Branch, desugarer: Desugarer) -> bool:
    """Whether a written node is plainly outside a rival branch of its oneOf: by type, required name or tag value.

    Cheap, and it sees through references that the validator's own algebra does not follow.
    """
    for atom in rival.atoms:
        schema = atom.place.schema
        if "type" in schema and "type" in node:
            kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
            if node["type"] not in kinds and not (
                node["type"] in ("integer", "number") and {"integer", "number"} & {*kinds}
            ):
                return True
        if node.get("type") != "object":
            continue
        closed = node["additionalProperties"] is False and "patternProperties" not in node
        if closed and any(name not in node["properties"] for name in schema.get("required", ())):
            return True
        for name, child in schema.get("properties", {}).items():
            tag = node["properties"].get(name) if name in node.get("required", ()) else None
            if isinstance(tag, dict) and "enum" in tag:
                place = desugarer.document.child(atom.place, child, "properties", name)
                if not any(_may_accept(desugarer, place, value) for value in tag["enum"]):
                    return True
    return False


def _may_accept(desugarer: Desugarer, place: Place, value: Any) -> bool:
    try:
        return desugarer.judge.accepts(place, value)
    except LookupError:
        return True
