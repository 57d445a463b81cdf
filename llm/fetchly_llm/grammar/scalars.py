"""One alternative of a number, a text or a list of values goes in; finite nodes that llguidance writes come out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fetchly_llm.grammar import findings as codes
from fetchly_llm.grammar import probe
from fetchly_llm.grammar.bounds import LARGEST_COUNT, NumberFacts, TextFacts, Unwritable
from fetchly_llm.grammar.branches import Atom, Branch, Reason
from fetchly_llm.grammar.containers import keyword_pointer
from fetchly_llm.grammar.inspection import GRAMMAR_FORMATS
from fetchly_llm.grammar.keywords import OUR_ANNOTATIONS
from fetchly_llm.grammar.references import Place

if TYPE_CHECKING:
    from fetchly_llm.grammar.desugar import Desugarer

Node = dict[str, Any]
Written = Node | Reason
_NUMERIC = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf")


def write_number(desugarer: Desugarer, branch: Branch, *, integer: bool) -> list[Node] | Reason:
    """Finite nodes for the branch's numbers, or why no number fits."""
    facts = NumberFacts(integer=integer)
    for atom in branch.atoms:
        facts.read(atom.place.schema)
    try:
        nodes = facts.nodes()
        for node in nodes:
            if why := probe.refusal(node):
                raise Unwritable("multipleOf" if branch.has("multipleOf") else "minimum", why)
    except Unwritable as error:
        atom, keyword = owner(branch, error.keyword, _NUMERIC)
        desugarer.not_enforced(atom, keyword, str(error))
        return [{"type": "integer" if integer else "number"}]
    if not nodes:
        atom, keyword = owner(branch, "minimum", _NUMERIC)
        return Reason(keyword_pointer(atom.place, keyword), "no number lies within the bounds")
    if facts.open_ends() and branch.atoms:
        desugarer.notice(
            codes.BOUND_APPLIED,
            branch.atoms[0].place,
            "numbers are written with at most 15 significant digits.",
            "Set minimum and maximum for other bounds.",
        )
    return nodes


def write_text(desugarer: Desugarer, branch: Branch) -> list[Node] | Reason:
    """A finite node for the branch's texts, or why no text fits."""
    facts = TextFacts()
    for atom in branch.atoms:
        facts.read(atom.place.schema, GRAMMAR_FORMATS)
        pattern = atom.place.schema.get("pattern")
        if pattern is not None and (why := probe.refusal({"type": "string", "pattern": pattern})):
            desugarer.not_enforced(atom, "pattern", why)
            facts.patterns.remove(pattern)
    node = facts.node()
    atom, keyword = owner(branch, "minLength", ["maxLength", "pattern", "format", "type"])
    pointer = keyword_pointer(atom.place, keyword)
    if facts.shortest > LARGEST_COUNT:
        too_long(desugarer, pointer, "minLength", facts.shortest)
        return Reason(pointer, "the text would be too long")
    if node is None:
        return Reason(pointer, "minLength is above maxLength")
    if facts.patterns or facts.formats:
        why = probe.refusal(node)
        if why and "nsatisfiable" in why:
            return Reason(pointer, "no text satisfies its pattern, format and length together")
        if why:
            atom, keyword = owner(branch, "pattern", ["format"])
            desugarer.not_enforced(atom, keyword, why)
            node = {name: node[name] for name in ("type", "minLength", "maxLength") if name in node}
    if facts.longest is None and "maxLength" in node:
        message = f"texts are written with at most {node['maxLength']} characters."
        desugarer.notice(codes.BOUND_APPLIED, branch.atoms[0].place, message, "Set maxLength for another bound.")
    return [node]


def write_enumeration(desugarer: Desugarer, branch: Branch, places: tuple[Place, ...]) -> Written:
    """The listed values that the validator accepts at every place: exact, whatever other keywords stand there."""
    atom = next(atom for atom in branch.atoms if "enum" in atom.place.schema or "const" in atom.place.schema)
    keyword = "enum" if "enum" in atom.place.schema else "const"
    listed = atom.place.schema[keyword] if keyword == "enum" else [atom.place.schema[keyword]]
    pointer = keyword_pointer(atom.place, keyword)
    try:
        kept = [value for value in listed if all(desugarer.judge.accepts(p, value) for p in (*places, atom.place))]
    except LookupError as error:
        desugarer.notebook.not_enforced(pointer, keyword, listed, str(error))
        return desugarer.anything(0)
    values = list({json.dumps(value, sort_keys=True): value for value in kept}.values())
    if not values:
        return Reason(pointer, "none of the listed values satisfies the rest of the schema")
    node: Node = {"enum": values}
    if why := probe.refusal(node):
        desugarer.notebook.not_enforced(pointer, keyword, listed, why)
        return desugarer.anything(0)
    marks = {name: a.place.schema[name] for a in branch.atoms for name in OUR_ANNOTATIONS if name in a.place.schema}
    return {**node, **marks}


def too_long(desugarer: Desugarer, pointer: str, keyword: str, asked: int) -> None:
    """Refuse a schema that asks for more characters or items than are ever written."""
    message = f"it asks for at least {asked}; no more than {LARGEST_COUNT} are ever written."
    desugarer.notebook.note(codes.TOO_LARGE, pointer, message, keyword=keyword, value=asked, hint="Lower it.")


def owner(branch: Branch, first: str, others: Sequence[str]) -> tuple[Atom, str]:
    """The atom that carries `first`, else the first of `others` that some atom carries."""
    for keyword in (first, *others):
        for atom in branch.atoms:
            if keyword in atom.place.schema:
                return atom, keyword
    atom = branch.atoms[0]
    return atom, next(iter(atom.place.schema), "type")
