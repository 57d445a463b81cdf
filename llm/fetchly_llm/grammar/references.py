"""A schema document goes in; its places, and what each `$ref` in it names, come out. Nothing is ever fetched."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from fetchly_llm.grammar.findings import pointer_to
from fetchly_llm.grammar.keywords import Dialect, at_most, subschemas

_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")


@dataclass(frozen=True, slots=True)
class Place:
    """A subschema, the JSON pointer that findings about it carry, and the base URI of the references in it.

    `made` is True for a schema that desugaring wrote itself: `pointer` is then the keyword it stands for. `depth`
    counts the subschemas around it.
    """

    schema: Any
    pointer: str
    base: str
    made: bool = False
    depth: int = 0


class ReferenceUnresolved(Exception):
    """A reference that leads out of the document or nowhere; `remote` tells which."""

    def __init__(self, message: str, *, remote: bool) -> None:
        super().__init__(message)
        self.remote = remote


class Document:
    """A checked schema document of one dialect, with its resources and anchors indexed.

    Nested `$id`s open resources of their own (JSON Schema 2020-12 core, 8.2 and 9.2; draft-07 core, 8.2).
    """

    def __init__(self, schema: dict[str, Any] | bool, dialect: Dialect) -> None:
        self.schema = schema
        self.dialect: Dialect = dialect
        self._resources: dict[str, Place] = {}
        self._anchors: dict[str, Place] = {}
        self._bases: dict[str, str] = {}
        self.root = Place(schema, "", self._base_of(schema, ""))
        self._resources[""] = self.root
        self._index(self.root)

    def child(self, place: Place, schema: Any, *steps: str | int) -> Place:
        """The subschema `schema` at `steps` below `place`."""
        pointer = place.pointer if place.made else pointer_to(place.pointer, *steps)
        return Place(schema, pointer, self._base_of(schema, place.base), place.made, place.depth + 1)

    def walk(self) -> list[Place]:
        """Every place where a schema stands, definitions included, parents before children."""
        found = [self.root]
        for place in found:
            if isinstance(place.schema, dict):
                for steps, child in subschemas(place.schema, self.dialect):
                    found.append(self.child(place, child, *steps))
        return found

    def resolve(self, place: Place, reference: str) -> Place:
        """The place that `reference`, written at `place`, names; raises ReferenceUnresolved."""
        try:
            uri, fragment = urldefrag(self._join(place.base, reference))
        except ValueError as error:
            raise ReferenceUnresolved(f"`{reference}` is no URI reference", remote=False) from error
        if fragment and not fragment.startswith("/"):
            anchored = self._anchors.get(f"{uri}#{unquote(fragment)}")
            if anchored is not None:
                return anchored
        resource = self._resources.get(uri)
        if resource is None:
            raise ReferenceUnresolved(f"`{reference}` is outside this document", remote=True)
        if not fragment:
            return resource
        if not fragment.startswith("/"):
            raise ReferenceUnresolved(f"no subschema here has the anchor `{fragment}`", remote=False)
        return self._follow(resource, unquote(fragment), reference)

    def _follow(self, resource: Place, fragment: str, reference: str) -> Place:
        value: Any = resource.schema
        steps = [step.replace("~1", "/").replace("~0", "~") for step in fragment.split("/")[1:]]
        pointer, base = resource.pointer, resource.base
        for step in steps:
            if isinstance(value, dict) and step in value:
                value = value[step]
            elif isinstance(value, list) and _INDEX.fullmatch(step) and int(step) < len(value):
                value = value[int(step)]
            else:
                raise ReferenceUnresolved(f"`{reference}` names nothing in this document", remote=False)
            pointer = pointer_to(pointer, step)
            base = self._bases.get(pointer, base)
        if not isinstance(value, dict | bool):
            raise ReferenceUnresolved(f"`{reference}` names a {type(value).__name__}, not a schema", remote=False)
        return Place(value, pointer, base)

    def _index(self, root: Place) -> None:
        for place in self.walk():
            self._bases[place.pointer] = place.base
            if not isinstance(place.schema, dict) or self._ref_hides(place.schema):
                continue
            identity = place.schema.get("id" if self.dialect == "draft-04" else "$id")
            if isinstance(identity, str):
                uri, fragment = urldefrag(place.base)
                if not identity.startswith("#"):
                    self._resources.setdefault(uri, place)
                fragment = urldefrag(identity).fragment
                if fragment and at_most(self.dialect, "draft-07"):
                    self._anchors.setdefault(f"{uri}#{fragment}", place)
            if not at_most(self.dialect, "draft-07"):
                for keyword in ("$anchor", "$dynamicAnchor"):
                    if isinstance(place.schema.get(keyword), str):
                        self._anchors.setdefault(f"{place.base}#{place.schema[keyword]}", place)
        self._resources.setdefault(root.base, root)

    def _base_of(self, schema: Any, base: str) -> str:
        if not isinstance(schema, dict) or self._ref_hides(schema):
            return base
        identity = schema.get("id" if self.dialect == "draft-04" else "$id")
        if not isinstance(identity, str) or identity.startswith("#"):
            return base
        try:
            return urldefrag(self._join(base, identity)).url
        except ValueError:
            return base

    def _ref_hides(self, schema: dict[str, Any]) -> bool:
        """Up to draft-07 a `$ref` makes its siblings, `$id` among them, mean nothing."""
        return "$ref" in schema and at_most(self.dialect, "draft-07")

    @staticmethod
    def _join(base: str, reference: str) -> str:
        if not reference or reference.startswith("#"):
            return base + reference  # urljoin does not know urn: and other opaque bases
        return urljoin(base, reference)


_IN_PLACE = frozenset(("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"))


def endless(document: Document) -> Place | None:
    """A place whose `$ref` leads back to itself without stepping into a value; None when there is none."""
    finished: set[str] = set()
    for start in document.walk():
        path: dict[str, Place] = {}
        pending: list[tuple[Place, bool]] = [(start, False)]
        while pending:
            place, is_left = pending.pop()
            if is_left:
                path.pop(place.pointer)
                finished.add(place.pointer)
            elif place.pointer in path:
                return _referrer(path)
            elif place.pointer not in finished:
                path[place.pointer] = place
                pending.append((place, True))
                pending.extend((child, False) for child in _beside(document, place))
    return None


def _referrer(path: dict[str, Place]) -> Place:
    """The last place on the path with a `$ref`: it closes the circle."""
    return next(place for place in reversed(path.values()) if isinstance(place.schema, dict) and "$ref" in place.schema)


def _beside(document: Document, place: Place) -> list[Place]:
    """The subschemas that judge the same value as `place` does."""
    if not isinstance(place.schema, dict):
        return []
    found = [
        document.child(place, child, *steps)
        for steps, child in subschemas(place.schema, document.dialect)
        if steps[0] in _IN_PLACE
    ]
    if isinstance(place.schema.get("$ref"), str):
        try:
            found.append(document.resolve(place, place.schema["$ref"]))
        except ReferenceUnresolved:
            return found  # the inspection notes it
    return found
