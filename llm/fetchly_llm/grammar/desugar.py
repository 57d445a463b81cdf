"""A schema document goes in; a schema that llguidance enforces exactly, closed and finite, comes out.

Every place is flattened into alternatives (branches.py), and every alternative is written as one node per type:
`type` with its own keywords, `enum`, `anyOf`, or a lone `$ref` into the root's `$defs`. Nothing else occurs.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from fetchly_llm.grammar import findings as codes
from fetchly_llm.grammar.arrays import write_array
from fetchly_llm.grammar.bounds import MAX_ITEMS, NumberFacts
from fetchly_llm.grammar.branches import Atom, Branch, Brancher, Exclusion, Reason
from fetchly_llm.grammar.findings import Notebook, pointer_to
from fetchly_llm.grammar.judge import Judge
from fetchly_llm.grammar.keywords import IMPLIES, OUR_ANNOTATIONS, TYPES
from fetchly_llm.grammar.objects import apart, write_object
from fetchly_llm.grammar.references import Document, Place, ReferenceUnresolved
from fetchly_llm.grammar.scalars import write_enumeration, write_number, write_text

Node = dict[str, Any]
Written = Node | Reason  # a node, or why no value fits

MAX_NODES = 20_000
_MAX_NESTING = 25  # deeper parts become definitions
_ANY_DEPTH = 4
_SILENT = frozenset(
    [
        "title",
        "description",
        "default",
        "examples",
        "$comment",
        "deprecated",
        "readOnly",
        "writeOnly",
        "$defs",
        "definitions",
    ]
)
_SCALARS = ("null", "boolean", "integer", "number", "string")


class TooManyNodes(Exception):
    """The prepared schema outgrows MAX_NODES."""


@dataclass(frozen=True, slots=True)
class _Implied:
    """Types that are implied, and the place that implies the first."""

    kinds: list[str]
    place: Place


class Desugarer:
    """Writes the places of one document as nodes; shared and recursive places become definitions."""

    def __init__(self, document: Document, notebook: Notebook, *, implies_types: bool = True) -> None:
        self._implies_types = implies_types
        self.document = document
        self.notebook = notebook
        self.brancher = Brancher(document, notebook)
        self.judge = Judge(document)
        self.definitions: dict[str, Written] = {}
        self.asks_for_unique = False  # whether some array node asks for unique items (uniqueness.py)
        self.origins: dict[str, str] = {}  # name of a definition -> pointer of what it defines
        self._names: dict[frozenset[str], str] = {}
        self._waiting: list[tuple[str, tuple[Place, ...]]] = []
        self._values: dict[frozenset[str], Written] = {}
        self._stems: Counter[str] = Counter()
        self._nodes = 0
        self._nesting = 0

    def run(self) -> Written:
        """The root's node; `definitions` then holds whatever it refers to. Raises TooManyNodes."""
        root = self.write((self.document.root,))
        while self._waiting:
            name, places = self._waiting.pop()
            self.definitions[name] = self.write(places)
        return root

    def value(self, places: tuple[Place, ...]) -> Written:
        """What is written for a property, an item or a member at which all of `places` hold."""
        places = self._distinct(places)
        if not places:
            return self.anything(0)
        key = frozenset(_address(place) for place in places)
        lone = places[0] if len(places) == 1 else None
        if key in self._names or self._nesting >= _MAX_NESTING or (lone is not None and self._is_reference(lone)):
            return self._definition(key, places)
        if key not in self._values:
            self._nesting += 1
            try:
                self._values[key] = self.write(places)
            finally:
                self._nesting -= 1
        return self._values[key]

    def write(self, places: tuple[Place, ...]) -> Written:
        """All alternatives of a place as one node."""
        branch = self.brancher.start(places)
        if branch.empty is None and (branch.has("enum") or branch.has("const")):
            return write_enumeration(self, branch, places)
        branches, reason = self.brancher.settle(branch)
        nodes: list[Node] = []
        for settled in branches:
            written = self._branch(settled, places)
            if isinstance(written, Reason):
                reason = reason or written
            else:
                nodes += written
        return union(nodes) or reason or Reason(places[0].pointer, "no value satisfies it")

    def scalars(self, places: tuple[Place, ...]) -> Written | None:
        """What `write` gives for listed values and texts; None for others, from which it could come back to here."""
        places = self._distinct(places)
        if not places:
            return None
        branch = self.brancher.start(places)
        branches = [branch] if branch.has("enum") or branch.has("const") else self.brancher.settle(branch)[0]
        for settled in branches:
            if not (settled.has("enum") or settled.has("const")) and self._types(settled) != ["string"]:
                return None
        return self.write(places)

    def not_enforced(self, atom: Atom, keyword: str, why: str = "") -> None:
        """Leave a keyword of `atom` to the validator, or refuse it."""
        pointer = atom.place.pointer if atom.place.made else pointer_to(atom.place.pointer, keyword)
        self.notebook.not_enforced(pointer, keyword, atom.place.schema[keyword], why)

    def notice(self, code: str, place: Place, message: str, hint: str) -> None:
        """A remark on what preparing did at `place`."""
        self.notebook.note(code, place.pointer, message, severity="notice", hint=hint)

    def _branch(self, branch: Branch, places: tuple[Place, ...]) -> list[Node] | Reason:
        """One alternative's nodes; exclusions of a oneOf that are not proven void are written out."""
        if branch.has("enum") or branch.has("const"):
            written = write_enumeration(self, branch, places)
            return written if isinstance(written, Reason) else [written]
        nodes = self._typed(branch)
        if isinstance(nodes, Reason) or not branch.excluded:
            return nodes
        doubtful = [exclusion for exclusion in branch.excluded if not self._is_void(exclusion, nodes)]
        return self._narrowed(branch, doubtful, places) if doubtful else nodes

    def _is_void(self, exclusion: Exclusion, nodes: list[Node]) -> bool:
        """Whether none of the nodes' values satisfies what is excluded anyway."""
        rival = self.brancher.start((exclusion.place,))
        return all(apart(node, rival, self) or self.judge.disjoint(node, exclusion.place) for node in nodes)

    def _narrowed(self, branch: Branch, doubtful: list[Exclusion], places: tuple[Place, ...]) -> list[Node] | Reason:
        """The branch with each doubtful exclusion written out as schemas, or left to the validator."""
        narrowed = branch.copy()
        narrowed.excluded = [exclusion for exclusion in doubtful if not self.brancher.exclude(narrowed, exclusion)]
        if len(narrowed.excluded) == len(doubtful):  # else what was written out may prove the rest void
            for exclusion in doubtful:
                why = "its branches are not provably exclusive"
                self.notebook.not_enforced(exclusion.pointer, "oneOf", exclusion.value, why)
            narrowed.excluded = []
        branches, reason = self.brancher.settle(narrowed)
        found: list[Node] = []
        for settled in branches:
            written = self._branch(settled, places)
            if isinstance(written, Reason):
                reason = reason or written
            else:
                found += written
        return found or reason or Reason(doubtful[0].pointer, "no value satisfies exactly one branch")

    def _typed(self, branch: Branch) -> list[Node] | Reason:
        kinds = self._types(branch)
        if isinstance(kinds, Reason):
            return kinds
        implied = self._implied(branch, kinds) if self._implies_types else None
        if implied is not None:
            nodes = self._nodes_of(implied.kinds, branch)
            if not isinstance(nodes, Reason):
                self._say_implied(implied)
                return nodes
            kinds = [kind for kind in kinds if kind not in implied.kinds]
        if len(kinds) == 6 and not any(name in IMPLIES for atom in branch.atoms for name in atom.place.schema):
            return [self.anything(0)]
        return self._nodes_of(kinds, branch)

    def _nodes_of(self, kinds: list[str], branch: Branch) -> list[Node] | Reason:
        marks = {
            name: atom.place.schema[name]
            for atom in branch.atoms
            for name in OUR_ANNOTATIONS
            if name in atom.place.schema
        }
        nodes: list[Node] = []
        reason: Reason | None = None
        for kind in kinds:
            self._nodes += 1
            if self._nodes > MAX_NODES:
                raise TooManyNodes
            written = self._of_type(kind, branch)
            if isinstance(written, Reason):
                reason = reason or written
            else:
                nodes += [{**node, **marks} if node.get("type") == "string" else node for node in written]
        return nodes or reason or Reason("", "no value satisfies it")

    def _of_type(self, kind: str, branch: Branch) -> list[Node] | Reason:
        if kind in ("null", "boolean"):
            return [{"type": kind}]
        if kind in ("integer", "number"):
            return write_number(self, branch, integer=kind == "integer")
        if kind == "string":
            return write_text(self, branch)
        written = write_array(self, branch) if kind == "array" else write_object(self, branch)
        return written if isinstance(written, Reason | list) else [written]

    def _types(self, branch: Branch) -> list[str] | Reason:
        """The types that fit, at most one of integer and number."""
        allowed = [name for name in TYPES if name != "integer"]
        for atom in branch.atoms:
            wanted = atom.place.schema.get("type")
            if wanted is None:
                continue
            wanted = [wanted] if isinstance(wanted, str) else wanted
            met = [_common(mine, other) for other in wanted for mine in allowed]
            allowed = list(dict.fromkeys(kind for kind in met if kind))
            if "number" in allowed and "integer" in allowed:
                allowed.remove("integer")
            if not allowed:
                pointer = atom.place.pointer if atom.place.made else pointer_to(atom.place.pointer, "type")
                return Reason(pointer, "no type satisfies all the schemas that hold here")
        return allowed

    def _implied(self, branch: Branch, allowed: list[str]) -> _Implied | None:
        """The types that the keywords speak of, where no schema of the user's names any."""
        own = [atom.place for atom in branch.atoms if not atom.place.made]
        if any("type" in place.schema for place in own):
            return None
        implied = {IMPLIES[name]: place for place in reversed(own) for name in place.schema if name in IMPLIES}
        kinds = [kind for kind in allowed if ("number" if kind == "integer" else kind) in implied]
        if not kinds or kinds == allowed:
            return None
        return _Implied(kinds, implied["number" if kinds[0] == "integer" else kinds[0]])

    def _say_implied(self, implied: _Implied) -> None:
        message = f"no type is given; values are written as {' or '.join(implied.kinds)}, which the keywords speak of."
        self.notice(codes.TYPE_IMPLIED, implied.place, message, "Add type to say which values you want.")

    def anything(self, depth: int) -> Node:
        """Any JSON value of bounded breadth and depth, as a definition."""
        name = f"any_{depth}" if depth else "any"
        if name not in self.definitions:
            scalars: list[Node] = [{"type": "null"}, {"type": "boolean"}, *NumberFacts().nodes()]
            scalars.append({"type": "string", "maxLength": 2000})
            self.definitions[name] = {"anyOf": scalars}
            if depth < _ANY_DEPTH:
                below = self.anything(depth + 1)
                scalars.append({"type": "array", "items": below, "maxItems": MAX_ITEMS})
                scalars.append(
                    {"type": "object", "properties": {}, "additionalProperties": below, "maxProperties": MAX_ITEMS}
                )
        return {"$ref": f"#/$defs/{name}"}

    def _distinct(self, places: tuple[Place, ...]) -> tuple[Place, ...]:
        kept = {_address(place): place for place in places if not _says_nothing(place.schema)}
        return tuple(kept.values())

    def _is_reference(self, place: Place) -> bool:
        """Whether nothing but a `$ref` (and remarks for readers) stands at the place."""
        return isinstance(place.schema, dict) and set(place.schema) - _SILENT == {"$ref"}

    def _definition(self, key: frozenset[str], places: tuple[Place, ...]) -> Node:
        if len(places) == 1 and self._is_reference(places[0]):
            places = (self._target(places[0]),)
            key = frozenset(_address(place) for place in places)
        if key not in self._names:
            name = self._new_name(places[0].pointer)
            self._names[key] = name
            self.origins[name] = places[0].pointer
            self._waiting.append((name, places))
        return {"$ref": f"#/$defs/{self._names[key]}"}

    def _new_name(self, pointer: str) -> str:
        """A name that no definition has: the pointer's last step, numbered where it comes again."""
        stem = re.sub(r"[^A-Za-z0-9]+", "_", pointer.rpartition("/")[2]).strip("_") or "root"
        stem = f"part_{stem}" if stem.startswith("any") or stem[0].isdigit() else stem
        self._stems[stem] += 1
        name = stem if self._stems[stem] == 1 else f"{stem}_{self._stems[stem]}"
        return name if name not in self.origins else self._new_name(f"{pointer}_x")

    def _target(self, place: Place) -> Place:
        try:
            return replace(self.document.resolve(place, place.schema["$ref"]), depth=0)
        except ReferenceUnresolved:
            return place


def union(nodes: list[Node]) -> Node | None:
    """One node for any of `nodes`, nested unions opened and doubles dropped; None for none."""
    flat: dict[str, Node] = {}
    for node in nodes:
        for member in node["anyOf"] if set(node) == {"anyOf"} else [node]:
            flat.setdefault(json.dumps(member), member)
    if not flat:
        return None
    return next(iter(flat.values())) if len(flat) == 1 else {"anyOf": list(flat.values())}


def _common(one: str, other: str) -> str | None:
    if one == other:
        return one
    return "integer" if {one, other} == {"integer", "number"} else None


def _says_nothing(schema: Any) -> bool:
    return schema is True or (isinstance(schema, dict) and not set(schema) - _SILENT)


def _address(place: Place) -> str:
    return f"{place.base} {json.dumps(place.schema)}" if place.made else place.pointer
