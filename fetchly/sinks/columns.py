"""The JSON Schema of a row in; the columns of a table, with their types, out.

The rules: a field of the record is a column, in the schema's order; a value that is no object is the column `value`.
A type beside null is that type; integer beside number is number; several kinds of text are text; a list has items of
one type; an object with the properties it names, and no others, is a struct. Everything else is JSON text: a union, an
open object, what holds itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from fetchly.errors import ConfigurationError
from fetchly.extraction.shape import Node, SchemaTree, fingerprint, json_type

Kind = Literal["string", "integer", "number", "boolean", "date", "timestamp", "list", "struct", "json"]

VALUE = "value"
"""The column of a record that is no object."""
_DEEPEST = 20
_OF_TYPE: dict[str, Kind] = {"string": "string", "integer": "integer", "number": "number", "boolean": "boolean"}
_OF_FORMAT: dict[str, Kind] = {"date": "date", "date-time": "timestamp"}


@dataclass(frozen=True, slots=True)
class Column:
    """A field and its type. A list has `item`, a struct `fields`. Any value may be null or missing, which is one."""

    name: str
    kind: Kind
    item: Column | None = None
    fields: tuple[Column, ...] = ()

    @property
    def type(self) -> str:
        """The type in one line: list<struct<name: string>>."""
        if self.item is not None:
            return f"list<{self.item.type}>"
        if self.fields:
            return f"struct<{', '.join(f'{field.name}: {field.type}' for field in self.fields)}>"
        return self.kind


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a table. `is_open`: the schema lets a record have fields that it does not name."""

    columns: tuple[Column, ...]
    is_open: bool = False

    @property
    def types(self) -> dict[str, str]:
        """The type of each column by its name."""
        return {column.name: column.type for column in self.columns}

    def with_json_for(self, *kinds: Kind) -> Layout:
        """The same with JSON text for columns of these kinds."""
        columns = (Column(column.name, "json") if column.kind in kinds else column for column in self.columns)
        return replace(self, columns=tuple(columns))

    def with_text_for(self, *kinds: Kind) -> Layout:
        """The same with text as it stands for columns of these kinds."""
        columns = (Column(column.name, "string") if column.kind in kinds else column for column in self.columns)
        return replace(self, columns=tuple(columns))

    def check_names(self, taken: Iterable[str]) -> None:
        """Errors: ConfigurationError SINK_COLUMN where a field has the name of a column that the sink adds."""
        for name in taken:
            if any(column.name == name for column in self.columns):
                raise ConfigurationError(
                    f"the schema has a field {name!r}, which is a column of the sink's own",
                    where=f"/{name}",
                    hint="rename the field",
                    code="SINK_COLUMN",
                )


def layout(schema: Mapping[str, Any]) -> Layout:
    """The columns of a record. Errors: SchemaError for a reference that leads nowhere or in a circle."""
    tree = SchemaTree(schema)
    named: dict[str, list[Any]] = {}
    is_open = False
    for node in _alternatives(tree, schema):
        types = tree.types(node)
        if types and "object" not in types:
            named.setdefault(VALUE, []).append(node)
            continue
        is_open = is_open or _takes_more(node) or not node.get("properties")
        for name, field in node.get("properties", {}).items():
            named.setdefault(name, []).append(field)
    return Layout(tuple(_column(tree, name, nodes, ()) for name, nodes in named.items()), is_open)


def change(before: Mapping[str, str], now: Mapping[str, str]) -> str | None:
    """The first difference of two tables' types, in words; None where there is none."""
    for name, kind in before.items():
        if name not in now:
            return f"the column {name!r} is no longer in the schema"
        if now[name] != kind:
            return f"the column {name!r} was {kind}, and is {now[name]} now"
    for name in now:
        if name not in before:
            return f"the column {name!r} is new in the schema"
    return None if list(before) == list(now) else "the columns come in another order"


def _alternatives(tree: SchemaTree, schema: Any, seen: frozenset[str] = frozenset()) -> Iterator[Node]:
    """The branches of a node, and of its branches, but those for null."""
    branches = tree.alternatives(schema)
    if not branches:
        node = tree.node(schema)
        if tree.types(node) != {"null"} and node.get("const", 0) is not None:
            yield node
        return
    key = fingerprint(schema)
    if key not in seen:
        for branch in branches:
            yield from _alternatives(tree, branch, seen | {key})


def _column(tree: SchemaTree, name: str, schemas: Iterable[Any], above: tuple[str, ...]) -> Column:
    """One column for a value that is described by any of `schemas`. `above` are the nodes that it lies within."""
    found = {_of_node(tree, name, node, above) for schema in schemas for node in _alternatives(tree, schema)}
    if len(found) == 1:
        return found.pop()
    kinds = {column.kind for column in found}
    if kinds and kinds <= {"string", "date", "timestamp"}:
        return Column(name, "string")
    return Column(name, "number" if kinds == {"integer", "number"} else "json")


def _of_node(tree: SchemaTree, name: str, node: Node, above: tuple[str, ...]) -> Column:
    types = _types(tree, node)
    if len(types) != 1:
        return Column(name, "number" if types == {"integer", "number"} else "json")
    (kind,) = types
    if kind == "string" and "enum" not in node and "const" not in node:
        return Column(name, _OF_FORMAT.get(str(node.get("format")), "string"))
    if kind in _OF_TYPE:
        return Column(name, _OF_TYPE[kind])
    key = fingerprint(node)
    if key in above or len(above) >= _DEEPEST:
        return Column(name, "json")
    within = (*above, key)
    if kind == "array" and isinstance(node.get("items"), Mapping) and "prefixItems" not in node:
        item = _column(tree, "item", [node["items"]], within)
        return Column(name, "json") if item.kind == "json" else Column(name, "list", item=item)
    if kind == "object" and node.get("properties") and not _takes_more(node):
        fields = tuple(_column(tree, key, [field], within) for key, field in node["properties"].items())
        return Column(name, "struct", fields=fields)
    return Column(name, "json")


def _types(tree: SchemaTree, node: Node) -> frozenset[str]:
    """The types of a node's values but null; those of an enum are the types of what it lists."""
    listed = [node["const"]] if "const" in node else node.get("enum")
    types = frozenset(map(json_type, listed)) if isinstance(listed, list) else tree.types(node)
    return types - {"null"}


def _takes_more(node: Node) -> bool:
    """Whether an object may have fields that it does not name: it says so. The generator adds none by itself."""
    return bool(node.get("patternProperties")) or node.get("additionalProperties", False) is not False
