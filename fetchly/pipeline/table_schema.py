"""The JSON Schemas of several kinds of rows in; that of the table that holds all of them out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_REFERENCE = "#/$defs/"
_DATA = frozenset(("enum", "const", "default", "examples", "example"))


def table_schema(rows: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """One schema as it is; several as branches of an anyOf, with their definitions beside each other. `rows` are by
    their names, and refer to nothing but their own `$defs`."""
    if len(rows) == 1:
        return next(iter(rows.values()))
    definitions: dict[str, Any] = {}
    branches = []
    for name, schema in rows.items():
        own = {key: part for key, part in schema.items() if key not in ("$defs", "$schema")}
        branches.append(_renamed(own, name))
        definitions.update({f"{name}.{key}": _renamed(part, name) for key, part in schema.get("$defs", {}).items()})
    dialect = next((schema["$schema"] for schema in rows.values() if "$schema" in schema), None)
    head = {"$schema": dialect} if dialect is not None else {}
    return {**head, "anyOf": branches, **({"$defs": definitions} if definitions else {})}


def _renamed(schema: Any, name: str) -> Any:
    if isinstance(schema, list):
        return [_renamed(part, name) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    out: dict[str, Any] = {}
    for key, part in schema.items():
        if key == "$ref" and isinstance(part, str) and part.startswith(_REFERENCE):
            out[key] = f"{_REFERENCE}{name}.{part.removeprefix(_REFERENCE)}"
        else:
            out[key] = part if key in _DATA else _renamed(part, name)
    return out
