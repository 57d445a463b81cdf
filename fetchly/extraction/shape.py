"""A JSON Schema in, the meaning of its nodes out: references followed, allOf merged, what a node can hold.

This is no validator: jsonschema-rs decides about records (validation.py). It answers the questions that come up while
a schema is walked together with a value: which type, which branch, may it be null.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from fetchly.errors import SchemaError

Node = Mapping[str, Any]

ANNOTATIONS = frozenset(
    (
        "$schema",
        "$id",
        "$anchor",
        "$comment",
        "$vocabulary",
        "id",
        "title",
        "description",
        "default",
        "examples",
        "example",
        "deprecated",
        "readOnly",
        "writeOnly",
        "contentEncoding",
        "contentMediaType",
        "contentSchema",
    )
)
DEFINITIONS = frozenset(("$defs", "definitions"))
DEEPEST = 100

_KEYWORD_TYPES = {
    "string": ("x-verbatim", "pattern", "minLength", "maxLength", "format"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "object": ("properties", "required", "additionalProperties", "patternProperties"),
    "array": ("items", "prefixItems", "minItems", "maxItems"),
}
_MEMBERS = ("properties", "patternProperties", "$defs", "definitions")
_PARTS = ("additionalProperties", "items", "prefixItems", "additionalItems", "anyOf", "oneOf", "allOf")
_LOWER = frozenset(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"))
_UPPER = frozenset(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"))


class SchemaTree:
    """A schema with its local references. Errors: SchemaError for a reference that leads nowhere or in a circle."""

    def __init__(self, root: Node) -> None:
        self.root = root
        self._base = str(root.get("$id", root.get("id", ""))).rstrip("#") if isinstance(root, Mapping) else ""
        self._anchors: dict[str, Any] | None = None

    @property
    def dialect(self) -> str | None:
        """The `$schema` that the whole schema names."""
        named = self.root.get("$schema") if isinstance(self.root, Mapping) else None
        return named if isinstance(named, str) else None

    def target(self, reference: str) -> Any:
        """The node that a `$ref` names (RFC 6901 pointer or anchor within this schema)."""
        base, _, fragment = reference.partition("#")
        if base and base != self._base:
            raise SchemaError(
                f"the reference {reference!r} leads outside the schema",
                code="SCHEMA_REF_UNRESOLVED",
                hint="copy the definition into $defs and refer to it as #/$defs/NAME",
            )
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            return self._anchor(fragment, reference)
        node: Any = self.root
        for part in fragment.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(node, Mapping) and key in node:
                node = node[key]
            elif isinstance(node, list) and key.isascii() and key.isdigit() and int(key) < len(node):
                node = node[int(key)]
            else:
                raise SchemaError(
                    f"the reference {reference!r} names nothing in the schema",
                    code="SCHEMA_REF_UNRESOLVED",
                    hint="check the spelling of the definition's name",
                )
        return node

    def _anchor(self, name: str, reference: str) -> Any:
        if self._anchors is None:
            self._anchors = {}
            for node in every_node(self.root):
                for key in ("$anchor", "$dynamicAnchor"):
                    if isinstance(node.get(key), str):
                        self._anchors.setdefault(node[key], node)
        if name not in self._anchors:
            raise SchemaError(
                f"the reference {reference!r} names no anchor of the schema", code="SCHEMA_REF_UNRESOLVED"
            )
        return self._anchors[name]

    def node(self, schema: Any) -> Node:
        """The node, its `$ref` followed and its `allOf` merged, one level deep; true is {}, false is {"not": {}}."""
        return self._flat(schema, ())

    def _flat(self, schema: Any, seen: tuple[str, ...]) -> Node:
        if not isinstance(schema, Mapping):
            return {"not": {}} if schema is False else {}
        reference = schema.get("$ref")
        branches = schema.get("allOf")
        if not isinstance(reference, str) and not isinstance(branches, list):
            return schema
        rest = {k: v for k, v in schema.items() if k not in ("$ref", "allOf") and k not in DEFINITIONS}
        parts: list[Node] = []
        if isinstance(reference, str):
            if reference in seen:
                raise SchemaError(
                    f"the reference {reference!r} leads back to itself without a value in between",
                    code="SCHEMA_REFERENCE",
                    hint="break the circle of references",
                )
            parts.append(self._flat(self.target(reference), (*seen, reference)))
        for branch in branches if isinstance(branches, list) else ():
            parts.append(self._flat(branch, seen))
        merged = parts[0] if parts else {}
        for part in parts[1:]:
            merged = merge(merged, part)
        return merge(merged, rest)

    def check_references(self) -> None:
        """Follow every reference once, also where no value leads. Errors: SchemaError as `target` and `node` say."""
        waiting: list[Any] = [self.root]
        while waiting:
            schema = waiting.pop()
            if not isinstance(schema, Mapping):
                continue
            self.node(schema)
            for word in _MEMBERS:
                waiting.extend(schema[word].values() if isinstance(schema.get(word), Mapping) else ())
            for word in _PARTS:
                part = schema.get(word)
                waiting.extend(part if isinstance(part, list) else (part,))

    def types(self, schema: Any) -> frozenset[str]:
        """The JSON types that a node names, or that its keywords speak of; empty where it says nothing."""
        node = self.node(schema)
        named = node.get("type")
        if isinstance(named, str):
            return frozenset((named,))
        if isinstance(named, list):
            return frozenset(map(str, named))
        return frozenset(t for t, words in _KEYWORD_TYPES.items() if any(word in node for word in words))

    def alternatives(self, schema: Any) -> tuple[Node, ...]:
        """The branches of anyOf or oneOf, each with what stands beside them; empty for a node without."""
        node = self.node(schema)
        for word in ("anyOf", "oneOf"):
            if isinstance(node.get(word), list) and node[word]:
                base = {k: v for k, v in node.items() if k != word and k not in DEFINITIONS}
                bare = all(k in ANNOTATIONS for k in base)
                return tuple(_described(b, base) if bare else {"allOf": [base, b]} for b in node[word])
        return ()

    def accepts_null(self, schema: Any) -> bool:
        """Whether null fits."""
        return self.fits(schema, None)

    def names_null(self, schema: Any) -> bool:
        """Whether a node, or an alternative of it, says that null is one of its types."""
        return self._names_null(schema, frozenset())

    def _names_null(self, schema: Any, seen: frozenset[str]) -> bool:
        branches = self.alternatives(schema)
        if branches:
            key = fingerprint(schema)
            return key not in seen and any(self._names_null(branch, seen | {key}) for branch in branches)
        node = self.node(schema)
        return "null" in self.types(node) or None in node.get("enum", ()) or node.get("const", 0) is None

    def fits(self, schema: Any, value: Any) -> bool:
        """Whether a value has the shape of a node: types, enums, properties, items; no bounds, patterns, formats."""
        return self._fits(schema, value, frozenset())

    def _fits(self, schema: Any, value: Any, seen: frozenset[str]) -> bool:
        """`seen` holds the alternatives already being tried on this very value: a circle of them fits nothing."""
        branches = self.alternatives(schema)
        if branches:
            key = fingerprint(schema)
            return key not in seen and any(self._fits(branch, value, seen | {key}) for branch in branches)
        node = self.node(schema)
        if node.get("not") == {}:
            return False
        if "const" in node and not same(node["const"], value):
            return False
        if isinstance(node.get("enum"), list) and not any(same(option, value) for option in node["enum"]):
            return False
        if "type" in node and json_type(value) not in _wider(self.types(node)):
            return False
        if isinstance(value, dict):
            return self._fits_object(node, value)
        items = node.get("items")
        if isinstance(value, list) and isinstance(items, Mapping):
            return all(self.fits(items, item) for item in value)
        return True

    def _fits_object(self, node: Node, value: dict[str, Any]) -> bool:
        if any(key not in value for key in node.get("required", ())):
            return False
        known = node.get("properties", {})
        if (
            node.get("additionalProperties") is False
            and "patternProperties" not in node
            and not known.keys() >= value.keys()
        ):
            return False
        return all(self.fits(known[key], item) for key, item in value.items() if key in known)


def _described(branch: Any, base: Node) -> Node:
    """A branch keeps the description that stands beside its anyOf (pydantic writes optional fields so)."""
    if not isinstance(branch, Mapping):
        return {"not": {}} if branch is False else {}
    words = {k: base[k] for k in ("title", "description") if k in base and k not in branch}
    return {**branch, **words} if words else branch


def _wider(types: frozenset[str]) -> frozenset[str]:
    return types | {"integer"} if "number" in types else types


def json_type(value: Any) -> str:
    """The JSON type of a parsed value; a whole float is an integer, as JSON Schema has it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def same(left: Any, right: Any) -> bool:
    """Equality of JSON values: 1 and 1.0 are one number, 1 and true are not."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(same(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[k], right[k]) for k in left)
    return bool(left == right)


def merge(left: Node, right: Node) -> dict[str, Any]:
    """One node that demands what both demand; what has no common form stays side by side under allOf."""
    out = dict(left)
    beside: list[Any] = list(out.pop("allOf", ()))
    for key, value in right.items():
        if key == "allOf":
            beside.extend(value)
        elif key not in out or key in ANNOTATIONS or same(out[key], value):
            out[key] = value
        else:
            joined = _join(key, out[key], value)
            if joined is None:
                beside.append({key: value})
            else:
                out[key] = joined
    _close(out, left, right)
    return {**out, "allOf": beside} if beside else out


def _join(key: str, a: Any, b: Any) -> Any:
    """Both demands of one keyword in one value, or None where there is none."""
    if key == "type":
        one, two = ({a} if isinstance(a, str) else set(a)), ({b} if isinstance(b, str) else set(b))
        both = sorted(_wider(frozenset(one)) & _wider(frozenset(two)))
        return both[0] if len(both) == 1 else (both or None)
    if key == "enum":
        return [option for option in a if any(same(option, other) for other in b)] or None
    if key == "required":
        return [*a, *(name for name in b if name not in a)]
    if key in ("properties", "patternProperties", *DEFINITIONS):
        return {k: _both(a[k], b[k]) if k in a and k in b and a[k] != b[k] else a.get(k, b.get(k)) for k in [*a, *b]}
    if key in _LOWER and _numbers(a, b):
        return max(a, b)
    if key in _UPPER and _numbers(a, b):
        return min(a, b)
    if key == "items" and isinstance(a, Mapping) and isinstance(b, Mapping):
        return _both(a, b)
    if key == "additionalProperties":
        return False if a is False or b is False else _both(a, b)
    if key == "uniqueItems":
        return True
    return None


def _both(a: Any, b: Any) -> Any:
    """One node for both demands. What is demanded twice stands once: else a recursive schema grows at every level."""
    parts: list[Any] = []
    for node in (a, b):
        whole = isinstance(node, Mapping) and node.keys() == {"allOf"}
        for part in node["allOf"] if whole else (node,):
            if not any(same(part, kept) for kept in parts):
                parts.append(part)
    return parts[0] if len(parts) == 1 else {"allOf": parts}


def _numbers(*values: Any) -> bool:
    return all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)


def _close(out: dict[str, Any], left: Node, right: Node) -> None:
    """A closed side refuses the properties that only the other side names."""
    for one, other in ((left, right), (right, left)):
        if one.get("additionalProperties") is False and "patternProperties" not in one and "properties" in out:
            own = one.get("properties", {})
            if other.get("properties", {}).keys() - own.keys():
                out["properties"] = {k: v for k, v in out["properties"].items() if k in own}


def every_node(schema: Any) -> Iterator[Node]:
    """Every mapping inside a schema, itself first."""
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Mapping):
            yield node
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)


def fingerprint(node: Any) -> str:
    """One string per distinct node."""
    return json.dumps(node, sort_keys=False, ensure_ascii=False)


def below(pointer: str, key: str | int) -> str:
    """The JSON pointer of a member or an item (RFC 6901)."""
    return f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}"
