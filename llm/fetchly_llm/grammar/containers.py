"""What several schemas say of one array or object goes in; the schemas that hold at each position or name come out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fetchly_llm.grammar.bounds import count
from fetchly_llm.grammar.branches import Atom, Branch
from fetchly_llm.grammar.findings import pointer_to
from fetchly_llm.grammar.judge import matches
from fetchly_llm.grammar.keywords import at_most
from fetchly_llm.grammar.references import Document, Place


@dataclass(frozen=True, slots=True)
class ArrayPart:
    """What one schema says of an array's items: leading ones, then the rest (None: anything)."""

    lead: tuple[Place, ...]
    rest: Place | None


@dataclass(slots=True)
class ArrayFacts:
    """What all schemas of a place say of an array."""

    fewest: int = 0
    most: int | None = None
    parts: list[ArrayPart] = field(default_factory=list)

    @property
    def lead(self) -> int:
        """How many positions have schemas of their own."""
        return max((len(part.lead) for part in self.parts), default=0)

    def at(self, position: int) -> tuple[Place, ...]:
        """The schemas that hold at a position; any position from `lead` on has the same ones."""
        found = [part.lead[position] if position < len(part.lead) else part.rest for part in self.parts]
        return tuple(place for place in found if place is not None)


@dataclass(frozen=True, slots=True)
class ObjectPart:
    """What one schema says of an object's names; `listed` when its names are all that may occur."""

    atom: Atom
    names: dict[str, Place]
    patterns: dict[str, Place]
    rest: Place | None
    listed: bool = False

    def at(self, name: str) -> list[Place]:
        """The schemas that this one sets for the value of `name`."""
        found = [self.names[name]] if name in self.names else []
        found += [place for pattern, place in self.patterns.items() if matches(pattern, name)]
        return found or ([self.rest] if self.rest is not None else [])

    def evaluates(self, name: str) -> bool:
        """Whether `name` counts as evaluated by it (JSON Schema 2020-12 core, 11.3)."""
        return name in self.names or self.rest is not None or any(matches(pattern, name) for pattern in self.patterns)


@dataclass(slots=True)
class ObjectFacts:
    """What all schemas of a place say of an object; `needed` maps a name to the `required` that asks for it."""

    parts: list[ObjectPart] = field(default_factory=list)
    needed: dict[str, str] = field(default_factory=dict)
    fewest: int = 0
    most: int | None = None
    fewest_pointer: str = ""

    @property
    def names(self) -> list[str]:
        """Every name that is spelt out, in the order in which a reader of the schema meets them."""
        spelt = dict.fromkeys(name for part in self.parts for name in part.names)
        return list(spelt | dict.fromkeys(self.needed))

    def at(self, name: str) -> tuple[Place, ...]:
        """The schemas that hold for the value of `name`."""
        return tuple(place for part in self.parts for place in part.at(name))


def read_array(branch: Branch, document: Document) -> ArrayFacts:
    """Gather the array keywords of a branch, `unevaluatedItems` included."""
    facts = ArrayFacts()
    older = at_most(document.dialect, "2019-09")
    for atom in branch.atoms:
        place, schema = atom.place, atom.place.schema
        facts.fewest = max(facts.fewest, count(schema.get("minItems", 0)))
        if "maxItems" in schema:
            most = count(schema["maxItems"])
            facts.most = most if facts.most is None else min(facts.most, most)
        keyword = "items" if older else "prefixItems"
        listed = schema.get(keyword)
        lead = [document.child(place, item, keyword, i) for i, item in enumerate(listed)] if _is_list(listed) else []
        rest_keyword = "additionalItems" if older and _is_list(listed) else "items"
        rest = schema.get(rest_keyword)
        rest_place = document.child(place, rest, rest_keyword) if isinstance(rest, dict | bool) else None
        if lead or rest_place is not None:
            facts.parts.append(ArrayPart(tuple(lead), rest_place))
    if not at_most(document.dialect, "draft-07"):
        for atom in branch.atoms:
            if "unevaluatedItems" in atom.place.schema:
                _read_unevaluated_items(atom, branch, document, facts)
    return facts


def _read_unevaluated_items(atom: Atom, branch: Branch, document: Document, facts: ArrayFacts) -> None:
    """Items that no schema under `atom` speaks of; `contains` is not counted, which only narrows."""
    older = at_most(document.dialect, "2019-09")
    covered = 0
    for other in branch.atoms:
        if other.place.made or not other.under(atom):
            continue
        schema = other.place.schema
        listed = schema.get("items" if older else "prefixItems")
        if _is_list(listed):
            covered = max(covered, len(listed))
            if older and "additionalItems" in schema:
                return
        if "items" in schema and not (older and _is_list(listed)):
            return
    anything = Place(True, atom.place.pointer, atom.place.base, made=True)
    rest = document.child(atom.place, atom.place.schema["unevaluatedItems"], "unevaluatedItems")
    facts.parts.append(ArrayPart((anything,) * covered, rest))


def read_object(branch: Branch, document: Document) -> ObjectFacts:
    """Gather the object keywords of a branch."""
    facts = ObjectFacts()
    for atom in branch.atoms:
        place, schema = atom.place, atom.place.schema
        required = schema.get("required", ())
        for name in required if _is_list(required) else ():
            facts.needed.setdefault(name, keyword_pointer(place, "required"))
        fewest = count(schema.get("minProperties", 0))
        if fewest > facts.fewest:
            facts.fewest, facts.fewest_pointer = fewest, keyword_pointer(place, "minProperties")
        if "maxProperties" in schema:
            most = count(schema["maxProperties"])
            facts.most = most if facts.most is None else min(facts.most, most)
        names = _children(place, "properties", document)
        patterns = _children(place, "patternProperties", document)
        rest: Any = schema.get("additionalProperties")
        rest_place = document.child(place, rest, "additionalProperties") if isinstance(rest, dict | bool) else None
        if names or patterns or rest_place is not None:
            facts.parts.append(ObjectPart(atom, names, patterns, rest_place))
    return facts


def keyword_pointer(place: Place, keyword: str) -> str:
    """Where a finding about `keyword` at `place` points; a schema that desugaring wrote has one pointer for all."""
    if place.made or not isinstance(place.schema, dict) or keyword not in place.schema:
        return place.pointer
    return pointer_to(place.pointer, keyword)


def _children(place: Place, keyword: str, document: Document) -> dict[str, Place]:
    children = place.schema.get(keyword, {})
    return {name: document.child(place, child, keyword, name) for name, child in children.items()}


def _is_list(value: Any) -> bool:
    return isinstance(value, list)
