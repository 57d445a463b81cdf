"""One alternative of an array goes in; a finite array node comes out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fetchly_llm.grammar import findings as codes
from fetchly_llm.grammar.bounds import LARGEST_COUNT, MAX_ITEMS, count
from fetchly_llm.grammar.branches import Atom, Branch, Reason
from fetchly_llm.grammar.containers import ArrayFacts, keyword_pointer, read_array
from fetchly_llm.grammar.items import can_be_listed
from fetchly_llm.grammar.scalars import owner, too_long
from fetchly_llm.grammar.uniqueness import ask_for_unique

if TYPE_CHECKING:
    from fetchly_llm.grammar.desugar import Desugarer

Node = dict[str, Any]
Written = Node | Reason


def write_array(desugarer: Desugarer, branch: Branch) -> Node | Reason:
    """A finite node for the branch's arrays, or why no array fits."""
    facts = read_array(branch, desugarer.document)
    place = branch.atoms[0].place
    atom, keyword = owner(branch, "minItems", ["maxItems", "items", "prefixItems", "type"])
    pointer = keyword_pointer(atom.place, keyword)
    if facts.fewest > LARGEST_COUNT:
        too_long(desugarer, pointer, "minItems", facts.fewest)
        return Reason(pointer, "the array would be too long")
    unique = [atom for atom in branch.atoms if atom.place.schema.get("uniqueItems") is True]
    choices = _count_choices(desugarer, facts) if unique else None
    bound = max(MAX_ITEMS, facts.fewest) if facts.most is None else min(facts.most, LARGEST_COUNT)
    most = bound if choices is None else min(bound, choices)
    if facts.fewest > most and choices == most:
        return Reason(pointer, f"uniqueItems leaves {choices} items, fewer than minItems asks for")
    if facts.most is None and most == bound:
        message = f"arrays are written with at most {most} items."
        desugarer.notice(codes.BOUND_APPLIED, place, message, "Set maxItems for another bound.")
    lead: list[Node] = []
    rest: Written | None = None if most <= facts.lead else desugarer.value(facts.at(facts.lead))
    for position in range(min(facts.lead, most)):
        item = desugarer.value(facts.at(position))
        if isinstance(item, Reason):
            most = position
            rest = item
            break
        lead.append(item)
    if isinstance(rest, Reason):
        most = min(most, len(lead))
    if facts.fewest > most:
        return Reason(rest.pointer if isinstance(rest, Reason) else pointer, "fewer items fit than minItems asks for")
    node: Node = {"type": "array"}
    if lead:
        node["prefixItems"] = lead
    node["items"] = rest if isinstance(rest, dict) and most > len(lead) else False
    if facts.fewest:
        node["minItems"] = facts.fewest
    node["maxItems"] = most
    if choices is not None and most > 1:
        desugarer.asks_for_unique = True
        ask_for_unique(node, [keyword_pointer(asking.place, "uniqueItems") for asking in unique])
    elif most > 1:
        for asking in unique:
            desugarer.not_enforced(asking, "uniqueItems")
    _leave_contains(desugarer, branch.atoms, most)
    return node


def _count_choices(desugarer: Desugarer, facts: ArrayFacts) -> int | None:
    """How many strings the items choose from (no limit for spans of a page); None where they are anything else."""
    items = None if facts.lead else desugarer.scalars(facts.at(0))
    if not isinstance(items, dict):
        return None
    members = items.get("anyOf", [items])
    if all(member.get("x-verbatim") is True and member.get("type") == "string" for member in members):
        return LARGEST_COUNT
    listed = [value for member in members for value in member.get("enum", [None])]
    return len(set(listed)) if all(map(can_be_listed, listed)) else None


def _leave_contains(desugarer: Desugarer, atoms: list[Atom], most: int) -> None:
    """Hand `contains` to the validator: it says something about the items together."""
    for atom in atoms:
        schema = atom.place.schema
        if "contains" in schema:
            least = count(schema.get("minContains", 1))
            if least > 0 or ("maxContains" in schema and count(schema["maxContains"]) < most):
                desugarer.not_enforced(atom, "contains")
