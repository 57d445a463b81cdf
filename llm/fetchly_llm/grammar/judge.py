"""Values, names and schemas go in; jsonschema-rs's verdict on them, by the original document, comes out."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import jsonschema_rs

from fetchly_llm.grammar.keywords import METASCHEMAS, Dialect
from fetchly_llm.grammar.references import Document, Place

_URI = "https://fetchly.invalid/schema"  # never asked for: it names the document in its registry
_DRAFTS: dict[Dialect, int] = {
    "draft-04": jsonschema_rs.Draft4,
    "draft-06": jsonschema_rs.Draft6,
    "draft-07": jsonschema_rs.Draft7,
    "2019-09": jsonschema_rs.Draft201909,
    "2020-12": jsonschema_rs.Draft202012,
}
_VALIDATORS: dict[Dialect, Any] = {
    "draft-04": jsonschema_rs.Draft4Validator,
    "draft-06": jsonschema_rs.Draft6Validator,
    "draft-07": jsonschema_rs.Draft7Validator,
    "2019-09": jsonschema_rs.Draft201909Validator,
    "2020-12": jsonschema_rs.Draft202012Validator,
}
_MOST_PROOFS = 2_000  # per document, about a millisecond each
_LARGEST_PROOF = 50_000  # characters of a schema; beyond, disjointness counts as unproven


class Judge:
    """Asks the validator about places of one document. Undecidable is answered as the careful side would have it.

    Raises ValueError for a document whose identifiers or references the validator cannot read.
    """

    def __init__(self, document: Document) -> None:
        self._dialect: Dialect = document.dialect
        whole = document.schema
        if isinstance(whole, dict):
            whole = {**whole, "$schema": METASCHEMAS[document.dialect]}
        try:
            self._registry = jsonschema_rs.Registry([(_URI, whole)])
        except jsonschema_rs.ReferencingError as error:
            raise ValueError(str(error)) from error
        self._validators: dict[str, Any] = {}
        self._proofs = 0

    def accepts(self, place: Place, value: Any) -> bool:
        """Whether the subschema admits `value`, formats included; raises LookupError where it cannot tell."""
        key = place.pointer if not place.made else f"{place.base} {place.schema!r}"
        if key not in self._validators:
            try:
                self._validators[key] = _VALIDATORS[self._dialect](
                    self._wrapped(place), registry=self._registry, validate_formats=True, offline=True
                )
            except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
                raise LookupError(f"no validator for {place.pointer}") from error
        return bool(self._validators[key].is_valid(value))

    def disjoint(self, node: dict[str, Any], place: Place) -> bool:
        """Whether it is proven that no value of the prepared `node` satisfies the subschema at `place`."""
        self._proofs += 1
        if self._proofs > _MOST_PROOFS:
            return False
        try:
            both = {"allOf": [without_references(node), self._wrapped(place)]}
            if len(repr(both)) > _LARGEST_PROOF:
                return False
            form = jsonschema_rs.canonicalize(both, draft=self._draft(), registry=self._registry, offline=True)
            return form.satisfiability() == jsonschema_rs.canonical.Satisfiability.NO
        except (
            LookupError,
            ValueError,
            jsonschema_rs.ValidationError,
            jsonschema_rs.ReferencingError,
            jsonschema_rs.canonical.CanonicalizationError,
        ):
            return False

    def _draft(self) -> int:
        return _DRAFTS[self._dialect]

    def _wrapped(self, place: Place) -> Any:
        if not place.made:
            return {"$ref": f"{_URI}#{_fragment(place.pointer)}"}
        if "$ref" in repr(place.schema) or "Ref" in repr(place.schema):
            raise LookupError("a written schema with references has no address")
        return place.schema


def matches(pattern: str, name: str) -> bool:
    """Whether the validator finds `pattern` in `name`."""
    return bool(_searcher(pattern).is_valid(name))


@lru_cache(maxsize=1024)
def _searcher(pattern: str) -> Any:
    return jsonschema_rs.Draft202012Validator({"pattern": pattern})


def without_references(node: Any) -> Any:
    """The prepared node with every reference replaced by `true`: it admits at least as much."""
    if isinstance(node, list):
        return [without_references(child) for child in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return True
    literal = ("const", "enum")
    return {name: child if name in literal else without_references(child) for name, child in node.items()}


def _fragment(pointer: str) -> str:
    return "".join(
        character if (character.isalnum() and character.isascii()) or character in "/~-._$" else _percent(character)
        for character in pointer
    )


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode())
