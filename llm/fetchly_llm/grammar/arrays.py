"""One alternative of an array goes in; a finite array node comes out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fetchly_llm.grammar import findings as codes
from fetchly_llm.grammar.bounds import LARGEST_COUNT, MAX_ITEMS, count
from fetchly_llm.grammar.branches import Branch, Reason
from fetchly_llm.grammar.containers import keyword_pointer, read_array
from fetchly_llm.grammar.scalars import owner, too_long

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
    if facts.most is None:
        most = max(MAX_ITEMS, facts.fewest)
        message = f"arrays are written with at most {most} items."
        desugarer.notice(codes.BOUND_APPLIED, place, message, "Set maxItems for another bound.")
    else:
        most = min(facts.most, LARGEST_COUNT)
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
    _leave_residual(desugarer, branch, most)
    return node


def _leave_residual(desugarer: Desugarer, branch: Branch, most: int) -> None:
    """Hand to the validator what says something about the items together."""
    for atom in branch.atoms:
        schema = atom.place.schema
        if schema.get("uniqueItems") is True and most > 1:
            desugarer.not_enforced(atom, "uniqueItems")
        if "contains" in schema:
            least = count(schema.get("minContains", 1))
            if least > 0 or ("maxContains" in schema and count(schema["maxContains"]) < most):
                desugarer.not_enforced(atom, "contains")
