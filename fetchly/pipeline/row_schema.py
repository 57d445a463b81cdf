"""The JSON Schema of a record in, that of a row out: flat, so that a sink finds its columns in `properties`.

Every row of a valid record is valid under it (tests/property/test_pipeline_transform.py). It says less than the
record's schema does: what holds between several fields (if, dependentRequired, minProperties) is not carried over.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fetchly.errors import SchemaError
from fetchly.extraction.shape import DEFINITIONS, SchemaTree, below, json_type, same
from fetchly.pipeline.transform import Transform

_DEEPEST = 12
_MOST_BRANCHES = 64
_UNFOLLOWED = ("$dynamicRef", "$recursiveRef", "$id")
_DATA = frozenset(("enum", "const", "default", "examples", "example"))
_NAMED = frozenset(("properties", "patternProperties", "dependentSchemas", "$defs", "definitions"))
_HINT = "give fields of their own to the record: an object schema with properties"


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of an object. `rest` is what others may hold: False for none, None where nothing is said."""

    properties: Mapping[str, Any]
    required: tuple[str, ...]
    rest: Any = None


def record_fields(schema: Mapping[str, Any], rows: str | None) -> Fields:
    """The fields of a record; of an entry of its list `rows`, or of a record that is a list.

    Errors: SchemaError where a record is neither an object nor a list of objects, or `rows` is no list.
    """
    tree = SchemaTree(schema)
    return _fields(tree, _row_node(tree, rows), 0)


def row_schema(schema: Mapping[str, Any], rows: str | None, transform: Transform) -> dict[str, Any]:
    """The schema of a row. Errors: as `record_fields`, and SchemaError for references that cannot be carried over."""
    tree = SchemaTree(schema)
    node = _row_node(tree, rows)
    fields = transformed_fields(_fields(tree, node, 0), transform)
    words = {key: node[key] for key in ("title", "description") if isinstance(node.get(key), str)}
    dialect = {"$schema": tree.dialect} if tree.dialect else {}
    carried = _Carried(tree)
    out = {
        **dialect,
        **words,
        "type": "object",
        "properties": {name: carried.copy(part) for name, part in fields.properties.items()},
        "required": list(fields.required),
        **({"additionalProperties": carried.copy(fields.rest)} if fields.rest is not None else {}),
    }
    carried.follow()
    return {**out, "$defs": carried.definitions} if carried.definitions else out


def transformed_fields(fields: Fields, transform: Transform) -> Fields:
    """What the fields become; names that the schema lacks are checks.py's matter."""
    kept = transform.keep if transform.keep is not None else tuple(fields.properties)
    names = [name for name in kept if name in fields.properties and name not in transform.drop]
    properties = {transform.rename.get(name, name): fields.properties[name] for name in names}
    required = [transform.rename.get(name, name) for name in names if name in fields.required]
    for name, value in transform.defaults.items():
        if name in properties and value is not None:
            properties[name] = _without_null(properties[name])
        required.extend([name] if name in properties and name not in required else [])
    for name, value in transform.constants.items():
        # The type alone: a constant may be another one in the next run, and may be nobody's business.
        properties[name] = {"type": json_type(value) if not isinstance(value, float) else "number"}
        required.append(name)
    return Fields(properties, tuple(required), False if transform.keep is not None else fields.rest)


def _row_node(tree: SchemaTree, rows: str | None) -> Mapping[str, Any]:
    node = tree.node(tree.root)
    if rows is not None:
        part = _fields(tree, tree.root, 0).properties.get(rows)
        if part is None:
            raise SchemaError(f"the schema has no field {rows!r}", hint="rows names a list of the record")
        node = tree.node(part)
        if "array" not in tree.types(node):
            raise SchemaError(f"the field {rows!r} is no list", hint="rows names a list of the record")
    if tree.types(node) <= {"array", "null"} and "array" in tree.types(node):
        node = tree.node(node.get("items", {}))
    return node


def _fields(tree: SchemaTree, schema: Any, depth: int) -> Fields:
    node = tree.node(schema)
    branches = tree.alternatives(schema)
    if depth > _DEEPEST or len(branches) > _MOST_BRANCHES:
        raise SchemaError("the alternatives of a record are too many, or lead in a circle", hint=_HINT)
    if branches:
        return _any_of([_fields(tree, branch, depth + 1) for branch in branches])
    if tree.types(node) != {"object"}:
        raise SchemaError("a row is an object, and this schema describes something else", hint=_HINT)
    rest = node.get("additionalProperties")
    if node.get("patternProperties"):
        rest = True  # what a pattern says would have to hold for renamed fields, too
    return Fields(node.get("properties", {}), tuple(node.get("required", ())), rest)


def _any_of(parts: list[Fields]) -> Fields:
    names = list(dict.fromkeys(name for part in parts for name in part.properties))
    properties = {name: _either([part.properties.get(name, part.rest) for part in parts]) for name in names}
    required = tuple(name for name in parts[0].required if all(name in part.required for part in parts))
    rest = False if all(part.rest is False for part in parts) else None
    return Fields(properties, required, rest)


def _either(schemas: list[Any]) -> Any:
    """One schema for a field that several alternatives describe: False where it cannot be, None where it may be all."""
    told: list[Any] = []
    for schema in schemas:
        if schema is None or schema is True or schema == {}:
            return {}
        if schema is not False and not any(same(schema, other) for other in told):
            told.append(schema)
    return told[0] if len(told) == 1 else {"anyOf": told}


def _without_null(schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    out = dict(schema)
    if isinstance(out.get("type"), list):
        kinds = [kind for kind in out["type"] if kind != "null"]
        out["type"] = kinds[0] if len(kinds) == 1 else kinds
    if isinstance(out.get("enum"), list):
        out["enum"] = [value for value in out["enum"] if value is not None]
    return out


class _Carried:
    """Parts of a schema, taken out of it: what they refer to comes along as `$defs`."""

    def __init__(self, tree: SchemaTree) -> None:
        self._tree = tree
        self._names: dict[str, str] = {}
        self._waiting: list[str] = []
        self.definitions: dict[str, Any] = {}

    def follow(self) -> None:
        """Copy what the copies refer to, until nothing is missing."""
        while self._waiting:
            reference = self._waiting.pop()
            self.definitions[self._names[reference]] = self.copy(self._tree.target(reference))

    def copy(self, schema: Any) -> Any:
        """A part with its references turned to the definitions."""
        if not isinstance(schema, Mapping):
            return [self.copy(part) for part in schema] if isinstance(schema, list) else schema
        for word in _UNFOLLOWED:
            if isinstance(schema.get(word), str) and schema is not self._tree.root:
                raise SchemaError(f"a schema with {word} within it cannot be taken apart", hint="use $defs and $ref")
        out: dict[str, Any] = {}
        for key, value in schema.items():
            if key in DEFINITIONS or key in ("$id", "$schema", "$anchor", "$dynamicAnchor"):
                continue
            if key == "$ref" and isinstance(value, str):
                out[key] = self._renamed(value)
            elif key in _NAMED and isinstance(value, Mapping):
                out[key] = {name: self.copy(part) for name, part in value.items()}
            else:
                out[key] = value if key in _DATA else self.copy(value)
        return out

    def _renamed(self, reference: str) -> str:
        if reference not in self._names:
            last = re.sub(r"[^A-Za-z0-9_]", "_", reference.rpartition("/")[2].strip("#")) or "record"
            name, number = last, 2
            while name in self._names.values():
                name, number = f"{last}_{number}", number + 1
            self._names[reference] = name
            self._waiting.append(reference)
        return below("#/$defs", self._names[reference])
