"""The subschemas that hold at one place go in; alternatives, each a list of schemas without applicators, come out.

`allOf` and in-place `$ref` are flattened; `anyOf`, `oneOf`, `not`, `if`, and the dependent keywords become choices, and
choices are multiplied out. Every alternative admits only what the original admits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from fetchly_llm.grammar.complement import complement
from fetchly_llm.grammar.findings import Notebook, pointer_to
from fetchly_llm.grammar.keywords import at_most, is_annotation, is_known, subschemas
from fetchly_llm.grammar.references import Document, Place, ReferenceUnresolved

MAX_BRANCHES = 256
_DYNAMIC = ("$dynamicRef", "$recursiveRef")


@dataclass(frozen=True, slots=True)
class Atom:
    """A plain schema that holds in a branch; `parent` is the one whose applicator brought it in."""

    place: Place
    parent: Atom | None

    def under(self, ancestor: Atom) -> bool:
        """Whether `ancestor`, or an applicator of it, brought this atom in."""
        atom: Atom | None = self
        while atom is not None:
            if atom is ancestor:
                return True
            atom = atom.parent
        return False


@dataclass(frozen=True, slots=True)
class Option:
    """One way to satisfy a choice: all of `places` hold, and none of `excluded` (the other branches of a oneOf)."""

    places: tuple[Place, ...]
    excluded: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """A keyword that can be satisfied in several ways, or, with no `options` at all, in none that can be written."""

    pointer: str
    keyword: str
    value: Any
    options: tuple[Option, ...]
    parent: Atom


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A branch of the oneOf at `pointer` that must not hold."""

    pointer: str
    value: Any
    place: Place


@dataclass(frozen=True, slots=True)
class Reason:
    """Why nothing fits: the place to look at, and what is wrong there."""

    pointer: str
    message: str


@dataclass(slots=True)
class Branch:
    """One alternative: atoms that hold, choices still open, exclusions still owed, or the reason why it is empty."""

    atoms: list[Atom] = field(default_factory=list)
    choices: list[Choice] = field(default_factory=list)
    excluded: list[Exclusion] = field(default_factory=list)
    empty: Reason | None = None
    seen: set[str] = field(default_factory=set)  # pointers of the atoms

    def copy(self) -> Branch:
        """An independent copy."""
        return Branch(list(self.atoms), list(self.choices), list(self.excluded), self.empty, set(self.seen))

    def has(self, keyword: str) -> bool:
        """Whether some atom carries the keyword."""
        return any(keyword in atom.place.schema for atom in self.atoms)


class Brancher:
    """Flattens and multiplies out the schemas of one document."""

    def __init__(self, document: Document, notebook: Notebook) -> None:
        self.document = document
        self.notebook = notebook

    def start(self, places: tuple[Place, ...]) -> Branch:
        """The branch in which all of `places` hold, its choices still open."""
        branch = Branch()
        for place in places:
            self.add(branch, place, None)
        return branch

    def add(self, branch: Branch, place: Place, parent: Atom | None) -> None:
        """Let `place` and everything that it brings in without a choice hold in `branch`."""
        pending: list[tuple[Place, Atom | None]] = [(place, parent)]
        while pending:
            here, above = pending.pop()
            if here.schema is True:
                continue
            if here.schema is False:
                branch.empty = branch.empty or Reason(
                    here.pointer, "nothing is left to satisfy it" if here.made else "`false` admits no value"
                )
                continue
            if not here.made:
                if here.pointer in branch.seen:
                    continue
                branch.seen.add(here.pointer)
            if self._hides(here):
                here = replace(here, schema={"$ref": here.schema["$ref"]})
            atom = Atom(here, above)
            branch.atoms.append(atom)
            pending.extend((brought, atom) for brought in reversed(self._brought(here)))
            branch.choices.extend(self._choices(atom))

    def settle(self, branch: Branch) -> tuple[list[Branch], Reason | None]:
        """All alternatives of `branch` without open choices, and why the first of the empty ones is empty."""
        open_, settled, reason = [branch], list[Branch](), None
        while open_:
            current = open_.pop(0)
            if current.empty is not None:
                reason = reason or current.empty
            elif not current.choices:
                settled.append(current)
            else:
                choice = current.choices.pop(0)
                if not choice.options:
                    self.notebook.not_enforced(choice.pointer, choice.keyword, choice.value)
                    open_.insert(0, current)
                    continue
                if len(open_) + len(settled) + len(choice.options) > MAX_BRANCHES:
                    why = f"more than {MAX_BRANCHES} alternatives"
                    self.notebook.not_enforced(choice.pointer, choice.keyword, choice.value, why)
                    open_.insert(0, current)
                    continue
                open_[:0] = self._taken(current, choice)
        return settled, reason

    def exclude(self, branch: Branch, exclusion: Exclusion) -> bool:
        """Write the exclusion out as a schema that holds in `branch`; False where that cannot be done."""
        opposite = self._opposite(exclusion.place)
        if opposite is None:
            return False
        self.add(branch, Place(opposite, exclusion.pointer, exclusion.place.base, made=True), None)
        return True

    def _taken(self, branch: Branch, choice: Choice) -> list[Branch]:
        taken = []
        for option in choice.options:
            copy = branch.copy()
            for place in option.places:
                self.add(copy, place, choice.parent)
            copy.excluded += [Exclusion(choice.pointer, choice.value, place) for place in option.excluded]
            taken.append(copy)
        return taken

    def _hides(self, place: Place) -> bool:
        return "$ref" in place.schema and at_most(self.document.dialect, "draft-07")

    def _brought(self, place: Place) -> list[Place]:
        """What a schema says to hold as well: its $ref's target and the members of its allOf, in the order written."""
        brought: list[Place] = []
        for keyword, value in place.schema.items():
            if keyword == "$ref" and isinstance(value, str):
                try:
                    brought.append(self.document.resolve(place, value))
                except ReferenceUnresolved:
                    continue  # the inspection has noted it as an error
            elif keyword == "allOf":
                brought += [self.document.child(place, child, keyword, i) for i, child in enumerate(value)]
        return brought

    def _choices(self, atom: Atom) -> Iterator[Choice]:
        place, schema = atom.place, atom.place.schema
        for keyword, value in schema.items():
            pointer = place.pointer if place.made else pointer_to(place.pointer, keyword)
            if keyword in ("anyOf", "oneOf"):
                members = [self.document.child(place, child, keyword, i) for i, child in enumerate(value)]
                options = [
                    Option((member,), tuple(o for o in members if o is not member) if keyword == "oneOf" else ())
                    for member in members
                ]
                yield Choice(pointer, keyword, value, tuple(options), atom)
            elif keyword == "not":
                opposite = self._opposite(self.document.child(place, value, keyword))
                made = () if opposite is None else (Option((Place(opposite, pointer, place.base, made=True),)),)
                yield Choice(pointer, keyword, value, made, atom)
            elif keyword == "if" and not at_most(self.document.dialect, "draft-06"):
                yield from self._conditional(atom, pointer)
            elif keyword in self._dependent():
                for name, needed in value.items():
                    yield self._dependency(atom, pointer, keyword, name, needed)
            elif keyword in _DYNAMIC and self._knows(keyword):
                yield Choice(pointer, keyword, value, (), atom)

    def _knows(self, keyword: str) -> bool:
        return self.document.dialect == ("2020-12" if keyword == "$dynamicRef" else "2019-09")

    def _dependent(self) -> tuple[str, ...]:
        older = at_most(self.document.dialect, "draft-07")
        return ("dependencies",) if older else ("dependentRequired", "dependentSchemas")

    def _dependency(self, atom: Atom, pointer: str, keyword: str, name: str, needed: Any) -> Choice:
        place = atom.place
        absent = Place({"properties": {name: False}}, pointer, place.base, made=True)
        names = needed if isinstance(needed, list) else []
        present = [Place({"required": [name, *names]}, pointer, place.base, made=True)]
        if not isinstance(needed, list):
            present.append(self.document.child(place, needed, keyword, name))
        return Choice(pointer, keyword, needed, (Option((absent,)), Option(tuple(present))), atom)

    def _conditional(self, atom: Atom, pointer: str) -> Iterator[Choice]:
        place, schema = atom.place, atom.place.schema
        if "then" not in schema and "else" not in schema:
            return
        condition = self.document.child(place, schema["if"], "if")
        opposite = self._opposite(condition)
        if opposite is None:
            yield Choice(pointer, "if", schema["if"], (), atom)
            return
        then, otherwise = [condition], [Place(opposite, pointer, place.base, made=True)]
        if "then" in schema:
            then.append(self.document.child(place, schema["then"], "then"))
        if "else" in schema:
            otherwise.append(self.document.child(place, schema["else"], "else"))
        yield Choice(pointer, "if", schema["if"], (Option(tuple(then)), Option(tuple(otherwise))), atom)

    def _opposite(self, place: Place) -> Any | None:
        def target(reference: str) -> Any | None:
            try:
                found = self.document.resolve(place, reference)
            except ReferenceUnresolved:
                return None
            return found.schema if found.base == place.base and self._is_plain(found.schema) else None

        return complement(place.schema, target) if self._is_plain(place.schema) else None

    def _is_plain(self, schema: Any) -> bool:
        """Whether every keyword in it counts, so that the complement may read every keyword."""
        pending = [schema]
        while pending:
            here = pending.pop()
            if not isinstance(here, dict):
                continue
            if "$ref" in here and len(here) > 1 and at_most(self.document.dialect, "draft-07"):
                return False
            if "$id" in here or not all(is_known(name, self.document.dialect) or is_annotation(name) for name in here):
                return False
            pending.extend(child for _, child in subschemas(here, self.document.dialect))
        return True
