"""The user's schema in, the schema that the model decodes out: the same structure, leaves as spans of the page or null.

Derivation (research and reasons: the engine's contract, "what the model writes"):
- objects are closed, every declared property is written, in schema order; a missing one is null;
- an `x-verbatim` string, a date, a date-time, a time and a number (unless `x-computed: true`) is a span of the page;
  `values.py` turns the span into the user's type; so are e-mail addresses and durations;
- a URL (format uri and its kin, or `x-link: true`; not `x-computed`) is the id of a link or image that the page shows:
  all such leaves refer to one definition, which `bind_links` fills for each page;
- oneOf is decoded as anyOf, and keywords that a span cannot be held to (pattern, minimum, uniqueItems, if/then ...) are
  left out here: `validation.py` holds every record to the user's own schema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from fetchly.errors import SchemaError
from fetchly.extraction.shape import ANNOTATIONS, DEEPEST, DEFINITIONS, Node, SchemaTree, fingerprint

SPAN_LENGTH = {"number": 64, "date": 80, "email": 254}
VERBATIM_LENGTH = 1000
LINKS = "page_links"
"""The definition of the decoding schema that holds the ids of the page's links."""

LeafKind = Literal["verbatim", "integer", "number", "date", "date-time", "time", "duration", "email", "link", "plain"]
SPAN_KINDS = frozenset(("verbatim", "integer", "number", "date", "date-time", "time", "duration", "email"))

_FORMATS: dict[str, LeafKind] = {
    "date": "date",
    "date-time": "date-time",
    "time": "time",
    "duration": "duration",
    "email": "email",
    "idn-email": "email",
    "uri": "link",
    "uri-reference": "link",
    "iri": "link",
    "iri-reference": "link",
    "url": "link",
}
_TIMES = ("date", "date-time", "time", "duration")
_STRUCTURE = frozenset(("object", "array"))
_PLAIN_WORDS = {
    "string": ("minLength", "maxLength", "pattern", "format"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}


@dataclass(frozen=True, slots=True)
class DecodingPlan:
    """`schema` is what the model decodes, for a page of one link; `user` is the schema it was derived from, marks of
    `auto` included. `links`: some leaf is the id of a link, and `bind_links` makes the schema of a page."""

    schema: dict[str, Any]
    user: dict[str, Any]
    links: bool = False


def decoding_schema(user: Mapping[str, Any], *, verbatim: Literal["schema", "auto"] = "schema") -> DecodingPlan:
    """Derive the decoding schema. `verbatim="auto"` treats every plain string leaf as `x-verbatim`.

    Errors: SchemaError for references that lead nowhere, outside, or in a circle, and for a schema nested too deep.
    """
    try:
        marked = dict(mark_verbatim(user)) if verbatim == "auto" else dict(user)
        tree = SchemaTree(marked)
        tree.check_references()
        schema = _Derivation(tree).run()
        return DecodingPlan(schema, marked, LINKS in schema.get("$defs", {}))
    except RecursionError:
        raise SchemaError(
            f"the schema is nested more than {DEEPEST} levels deep",
            code="SCHEMA_TOO_DEEP",
            hint="flatten it, or split the extraction into two schemas",
        ) from None


def bind_links(plan: DecodingPlan, ids: Sequence[str]) -> dict[str, Any]:
    """The decoding schema of a page that shows these links. Without any, a URL is null and a list of URLs empty.

    A list that must not be empty is decoded as empty all the same: the user's schema then refuses the record.
    """
    if not plan.links:
        return plan.schema
    if ids:
        return {**plan.schema, "$defs": {**plan.schema["$defs"], LINKS: {"enum": list(ids)}}}
    emptied: dict[str, Any] = _without_links(plan.schema)
    emptied["$defs"][LINKS] = {"type": "null"}
    return emptied


def asks_for_links(user: Mapping[str, Any]) -> bool:
    """Whether a schema has a leaf that is a URL of the page. Errors: SchemaError, as decoding_schema."""
    return decoding_schema(user).links


def leaf_kind(tree: SchemaTree, schema: Any) -> LeafKind | None:
    """What a node without structure is decoded as; None for objects, arrays, alternatives and unconstrained nodes."""
    node = tree.node(schema)
    if "enum" in node or "const" in node:
        return "plain"
    if "anyOf" in node or "oneOf" in node:
        return None
    types = tree.types(node) - {"null"}
    if not types:
        return "plain" if tree.types(node) else None
    if types & _STRUCTURE:
        return None
    if node.get("x-computed") is True:
        return "plain"
    if types == {"string"}:
        return _string_kind(node)
    if types <= {"integer", "number"}:
        return "number" if "number" in types else "integer"
    return "plain"


def _string_kind(node: Node) -> LeafKind:
    form = node.get("format")
    kind = _FORMATS.get(form, "plain") if isinstance(form, str) else "plain"
    if node.get("x-verbatim") is True:
        return "verbatim"
    if node.get("x-link") is True:
        kind = "link"
    return "plain" if kind in ("link", "email") and "pattern" in node else kind


def written_branches(tree: SchemaTree, branches: Sequence[Any]) -> tuple[Any, ...]:
    """The alternatives that the model chooses among.

    A decimal as a number or as digits in a string (pydantic): the span of the number says it all.
    """
    kinds = [leaf_kind(tree, branch) for branch in branches]
    numeric = any(kind in ("integer", "number") for kind in kinds)
    return tuple(
        branch
        for branch, kind in zip(branches, kinds, strict=True)
        if not (numeric and kind == "plain" and "pattern" in tree.node(branch))
    )


def mark_verbatim(schema: Any, depth: int = 0) -> Any:
    """A copy in which every plain string leaf (no enum, pattern or format, not `x-computed`) is `x-verbatim`.

    Values of maps and places of tuples stay as they are: the grammar cannot hold them to the page.
    """
    if depth > DEEPEST:
        raise RecursionError
    if isinstance(schema, list):
        return [mark_verbatim(part, depth + 1) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    out: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("properties", *DEFINITIONS) and isinstance(value, Mapping):
            out[key] = {name: mark_verbatim(part, depth + 1) for name, part in value.items()}
        elif key in ("items", "anyOf", "oneOf", "allOf"):
            out[key] = mark_verbatim(value, depth + 1)
        else:
            out[key] = value
    types = out.get("type")
    named = {types} if isinstance(types, str) else set(types) if isinstance(types, list) else set()
    free = not any(word in out for word in ("enum", "const", "pattern", "format", "x-verbatim", "x-link"))
    if named - {"null"} == {"string"} and free and out.get("x-computed") is not True:
        out["x-verbatim"] = True
    return out


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a node stands. `optional`: a structure may be null here; `item`: a leaf may not unless the user lets it."""

    depth: int = 0
    optional: bool = False
    item: bool = False
    spans: bool = True
    open: frozenset[str] = frozenset()
    """The definitions that are being derived for this very value: to meet one again is a circle without a value."""

    def below(self, *, optional: bool = False, item: bool = False) -> _Place:
        return _Place(self.depth + 1, optional, item, self.spans)

    def branch(self) -> _Place:
        """The same value, one alternative of it."""
        return replace(self, depth=self.depth + 1, optional=False, item=True)

    def within(self, key: str) -> _Place:
        return replace(self, open=self.open | {key})

    def without_spans(self) -> _Place:
        return replace(self, spans=False)


class _Derivation:
    """One pass over one schema; definitions are derived once each, however often they are reached.

    `spans` False derives a part whose leaves the grammar cannot hold to the page: the values of a map (names that the
    schema does not know), the places of a tuple, a union with free text. There leaves keep the user's own types.
    """

    def __init__(self, tree: SchemaTree) -> None:
        self._tree = tree
        self._names: dict[str, str] = {LINKS: LINKS}
        self._definitions: dict[str, Any] = {}

    def run(self) -> dict[str, Any]:
        root = self._node(self._tree.root, _Place())
        if isinstance(root, bool):
            root = {} if root else {"not": {}}
        return {**root, "$defs": self._definitions} if self._definitions else root

    def _node(self, schema: Any, place: _Place) -> Any:
        if place.depth > DEEPEST:
            raise RecursionError
        if not isinstance(schema, Mapping):
            return schema is not False
        kind = leaf_kind(self._tree, schema)
        if kind is not None:
            leaf = self._leaf(self._tree.node(schema), kind if place.spans or kind == "link" else "plain")
            return leaf if place.item and not self._tree.accepts_null(schema) else _or_null(leaf)
        derived = self._shared(schema, place) if "$ref" in schema or "allOf" in schema else self._body(schema, place)
        if place.optional or self._all_leaves(schema, place) or self._tree.accepts_null(schema):
            return _or_null(derived)
        return derived

    def _all_leaves(self, schema: Any, place: _Place) -> bool:
        branches = self._tree.alternatives(schema)
        return not place.item and bool(branches) and all(leaf_kind(self._tree, b) is not None for b in branches)

    def _leaf(self, node: Node, kind: LeafKind) -> dict[str, Any]:
        if "const" in node:
            return {"const": node["const"]}
        if "enum" in node:
            return {"enum": list(node["enum"])}
        if kind == "link":  # a choice among ids needs no text of the page: it is held to them anywhere
            self._definitions[LINKS] = {"enum": ["L1"]}
            return {"$ref": f"#/$defs/{LINKS}"}
        if kind == "plain":
            types = sorted(self._tree.types(node) - {"null"}) or ["null"]
            words = [w for t in types for w in _PLAIN_WORDS.get("number" if t == "integer" else t, ())]
            return {"type": types[0] if len(types) == 1 else types, **{w: node[w] for w in words if w in node}}
        if kind == "verbatim":
            longest = node.get("maxLength")
            bounds = {"maxLength": min(longest, VERBATIM_LENGTH) if isinstance(longest, int) else VERBATIM_LENGTH}
            if isinstance(node.get("minLength"), int) and node["minLength"] > 1:
                bounds["minLength"] = node["minLength"]
        else:
            size = "email" if kind == "email" else "date" if kind in _TIMES else "number"
            bounds = {"maxLength": SPAN_LENGTH[size]}
        return {"type": "string", "x-verbatim": True, **bounds}

    def _shared(self, schema: Node, place: _Place) -> dict[str, Any]:
        """A node with a reference becomes a definition, derived once: so recursion ends."""
        kept = {k: v for k, v in schema.items() if k not in ANNOTATIONS and k not in DEFINITIONS}
        key = (kept["$ref"] if len(kept) == 1 and "$ref" in kept else fingerprint(kept)) + " plain" * (not place.spans)
        if key in place.open:
            raise SchemaError(
                f"the alternatives lead back to {kept.get('$ref', 'themselves')!r} without a value in between",
                code="SCHEMA_REFERENCE",
                hint="break the circle of references",
            )
        if key not in self._names:
            stem = "".join(c if c.isalnum() else "_" for c in str(kept.get("$ref", "")).rsplit("/", 1)[-1]).strip("_")
            name = stem or "node"
            while name in self._names.values():
                name += "_"
            self._names[key] = name
            self._definitions[name] = self._body(self._tree.node(schema), place.within(key))
        return {"$ref": f"#/$defs/{self._names[key]}"}

    def _body(self, schema: Node, place: _Place) -> dict[str, Any]:
        """A structured node without regard to null."""
        branches = self._tree.alternatives(schema)
        if branches:
            return self._alternatives(branches, place)
        types = self._tree.types(schema)
        named = sorted(types - {"null"})
        out: dict[str, Any] = {"type": named[0] if len(named) == 1 else named} if named else {}
        if len(named) > 1:  # an object or a list or something else
            place = place.without_spans()
        if "object" in types:
            self._object(schema, out, place)
        if "array" in types:
            self._array(schema, out, place)
        if types & {"string", "number", "integer"}:
            out.update({w: schema[w] for words in _PLAIN_WORDS.values() for w in words if w in schema})
        return out

    def _alternatives(self, branches: tuple[Any, ...], place: _Place) -> dict[str, Any]:
        kept = written_branches(self._tree, branches)
        inner = place.branch()
        if any(self._is_free_text(branch) for branch in kept):
            inner = inner.without_spans()
        derived: list[Any] = []
        for branch in kept:
            part = self._node(branch, inner)
            if part is True or part == {}:
                return {}
            if part is not False and part not in derived:
                derived.append(part)
        null = {"type": "null"}
        others = [part for part in derived if part != null]
        if not others:
            return null if derived else {"not": {}}
        joined = others[0] if len(others) == 1 else {"anyOf": others}
        return _or_null(joined) if null in derived else joined

    def _is_free_text(self, branch: Any) -> bool:
        """A leaf that may be a string and is no span: beside it a span could not be told from other text."""
        if leaf_kind(self._tree, branch) != "plain":
            return False
        node = self._tree.node(branch)
        options = [*node.get("enum", ()), node.get("const")]
        return any(isinstance(option, str) for option in options) or (
            "string" in self._tree.types(node) and "enum" not in node and "const" not in node
        )

    def _object(self, schema: Node, out: dict[str, Any], place: _Place) -> None:
        required = schema.get("required", ())
        properties = schema.get("properties")
        if isinstance(properties, Mapping) and properties:
            out["properties"] = {
                name: self._node(part, place.below(optional=name not in required))
                for name, part in properties.items()
                if part is not False
            }
            out["properties"].update({name: {} for name in required if name not in properties})
            out["required"] = list(out["properties"])
            out["additionalProperties"] = False
            return
        if required:
            out["required"] = list(required)
        free = place.below(optional=True).without_spans()
        patterns, extra = schema.get("patternProperties"), schema.get("additionalProperties", True)
        if isinstance(patterns, Mapping) and patterns:
            out["patternProperties"] = {pattern: self._node(part, free) for pattern, part in patterns.items()}
        if isinstance(extra, Mapping):
            out["additionalProperties"] = self._node(extra, free)
        elif extra is False or patterns:
            out["additionalProperties"] = False

    def _array(self, schema: Node, out: dict[str, Any], place: _Place) -> None:
        prefix, items = schema.get("prefixItems"), schema.get("items")
        if isinstance(items, list):  # a tuple, as drafts before 2020-12 write it
            prefix, items = items, schema.get("additionalItems", True)
        inner = place.below(item=True)
        if isinstance(prefix, list):
            inner = inner.without_spans()
            out["prefixItems"] = [self._node(part, inner) for part in prefix]
        if items is not None and items is not True:
            out["items"] = self._node(items, inner)
        out.update({word: schema[word] for word in ("minItems", "maxItems") if word in schema})
        if out.get("items") == {"$ref": f"#/$defs/{LINKS}"}:
            # No link twice, as small models loop; a page may show fewer than `minItems`, which the validator judges.
            out["uniqueItems"] = True
            out.pop("minItems", None)


def _without_links(node: Any) -> Any:
    """A copy in which lists of links are empty."""
    if isinstance(node, list):
        return [_without_links(part) for part in node]
    if not isinstance(node, dict):
        return node
    copy = {key: value if key == "enum" else _without_links(value) for key, value in node.items()}
    reference = {"$ref": f"#/$defs/{LINKS}"}
    items = node.get("items")
    if items == reference or (isinstance(items, dict) and reference in items.get("anyOf", ())):
        copy["maxItems"] = 0
        copy.pop("minItems", None)
    return copy


def _or_null(node: Any) -> Any:
    """The node, null allowed. A constant stays what it is."""
    if not isinstance(node, dict) or not node or "const" in node:
        return node
    if "enum" in node:
        return node if None in node["enum"] else {"enum": [*node["enum"], None]}
    if "anyOf" in node:
        nullable = any(
            isinstance(b, dict) and (b.get("type") == "null" or None in b.get("enum", ())) for b in node["anyOf"]
        )
        return node if nullable else {"anyOf": [*node["anyOf"], {"type": "null"}]}
    named = node.get("type")
    if named is None:
        return {"anyOf": [node, {"type": "null"}]}
    types = [named] if isinstance(named, str) else list(named)
    return node if "null" in types else {**node, "type": [*types, "null"]}
