"""A schema graph and a span index in; a grammar in llguidance's Lark dialect out, in our one layout.

Layout: keys in schema order, separators `", "` and `": "`, no other white space, raw UTF-8. Every subschema that
reaches no `x-verbatim` goes in as `%json`; around those that do, objects, arrays, anyOf and references are written out
here. A verbatim string is one lexeme, quotes included, so that it can stand beside other strings in an anyOf: the lexer
follows all lexemes at once and takes the longest.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fetchly_llm.errors import SchemaRefused
from fetchly_llm.grammar.schema_graph import (
    LIST_KEYWORDS,
    MAP_KEYWORDS,
    SCHEMA_KEYWORDS,
    Schema,
    SchemaGraph,
    join,
)
from fetchly_llm.grammar.spans import DEFAULT_MAX_LENGTH, SpanBounds, SpanIndex, escape

if TYPE_CHECKING:
    from llguidance._lib import JsonCompileOptions

ITEM_SEPARATOR = ", "
KEY_SEPARATOR = ": "

# Keywords that say nothing about what is valid.
ANNOTATIONS = frozenset(
    {
        "$anchor",
        "$comment",
        "$defs",
        "$id",
        "$schema",
        "$vocabulary",
        "default",
        "definitions",
        "deprecated",
        "description",
        "example",
        "examples",
        "readOnly",
        "title",
        "writeOnly",
    }
)

_DEFINITIONS = frozenset({"$defs", "definitions"})
_STRING_KEYWORDS = frozenset({"type", "minLength", "maxLength", "x-verbatim"})
_UNICODE_SPACES = "".join(
    sorted({chr(c) for c in range(0x80, 0x3001) if chr(c).isspace() and unicodedata.category(chr(c))[0] == "Z"})
)


def layout(allowed_escapes: str | None = None) -> JsonCompileOptions:
    """llguidance's JSON options for our layout."""
    options: JsonCompileOptions = {
        "whitespace_flexible": False,
        "item_separator": ITEM_SEPARATOR,
        "key_separator": KEY_SEPARATOR,
        "lenient": False,
        "coerce_one_of": False,
    }
    if allowed_escapes is not None:
        options["json_allowed_escapes"] = allowed_escapes
    return options


def types_of(node: Mapping[str, Any]) -> tuple[str, ...]:
    """The `type` keyword as a tuple; empty where there is none."""
    declared = node.get("type", ())
    return (declared,) if isinstance(declared, str) else tuple(declared)


def span_bounds(graph: SchemaGraph, pointer: str) -> tuple[SpanBounds, ...]:
    """Bounds of the spans that the `x-verbatim` node at `pointer` takes; several where it spreads them over an `anyOf`.

    Raises SchemaRefused where it takes no strings.
    """
    node = graph.mapping(pointer)
    if node["x-verbatim"] is not True:
        raise SchemaRefused("x-verbatim must be true or false", pointer=join(pointer, "x-verbatim"))
    if "anyOf" in node:
        _refuse_others(node, pointer, frozenset({"anyOf", "x-verbatim"}))
        members = [join(pointer, "anyOf", index) for index in range(len(node["anyOf"]))]
        return tuple(bounds for member in members for bounds in _string_bounds(graph, member))
    bounds = _string_bounds(graph, pointer)
    if not bounds:
        raise SchemaRefused("an x-verbatim node must take strings", pointer=join(pointer, "type"))
    return bounds


def length_bounds(node: Mapping[str, Any]) -> SpanBounds:
    """The lengths that a verbatim string may have: no span is empty."""
    return SpanBounds(max(1, node.get("minLength", 1)), node.get("maxLength", DEFAULT_MAX_LENGTH))


def takes_null(graph: SchemaGraph, pointer: str) -> bool:
    """Whether the `x-verbatim` node at `pointer` takes null."""
    node = graph.mapping(pointer)
    return any("null" in types_of(member) for member in (node, *node.get("anyOf", ())) if isinstance(member, Mapping))


def _string_bounds(graph: SchemaGraph, pointer: str) -> tuple[SpanBounds, ...]:
    node = graph[pointer]
    if isinstance(node, Mapping) and "string" in types_of(node):
        _refuse_others(node, pointer, _STRING_KEYWORDS)
        if not set(types_of(node)) <= {"string", "null"}:
            raise _refused(pointer, "type", node["type"], "beside x-verbatim; only string and null can be")
        return (length_bounds(node),)
    if isinstance(node, Mapping) and types_of(node) == ("null",):
        return ()
    raise SchemaRefused(
        "an x-verbatim node must be of type string or null",
        pointer=pointer,
        code="SCHEMA_KEYWORD_NOT_ENFORCED",
        hint='use "type": "string" or "type": ["string", "null"]',
    )


def _refused(pointer: str, keyword: str, value: object, why: str) -> SchemaRefused:
    return SchemaRefused(
        f"{keyword} = {json.dumps(value, ensure_ascii=False)[:80]} cannot be enforced {why}",
        pointer=join(pointer, keyword),
        code="SCHEMA_KEYWORD_NOT_ENFORCED",
        hint=f"drop {keyword} or x-verbatim",
    )


def _refuse_others(node: Mapping[str, Any], pointer: str, known: frozenset[str]) -> None:
    """Raise for the first keyword of `node` that is neither `known` nor an annotation nor an extension (`x-...`)."""
    for keyword, value in node.items():
        if keyword not in known and keyword not in ANNOTATIONS and not keyword.startswith("x-"):
            raise _refused(pointer, keyword, value, "around x-verbatim")
    if "x-verbatim" not in known and node.get("x-verbatim", False) is not False:
        raise _refused(pointer, "x-verbatim", node["x-verbatim"], "on a node that is not a string")


def standalone(graph: SchemaGraph, pointer: str, unique: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The subschema at `pointer` as a schema of its own: what it refers to is copied into its `$defs`.

    The arrays `unique` lose their uniqueItems, which the repetition rule sees to.
    """
    names: dict[str, str] = {}
    definitions: dict[str, Any] = {}

    def copy(at: str, node: Schema) -> Schema:
        if isinstance(node, bool):
            return node
        made: dict[str, Any] = {}
        for keyword, value in node.items():
            if keyword == "$ref":
                made[keyword] = f"#/$defs/{name(graph.target(at))}"
            elif keyword in MAP_KEYWORDS:
                if keyword not in _DEFINITIONS:
                    made[keyword] = {key: copy(join(at, keyword, key), child) for key, child in value.items()}
            elif isinstance(value, list) and (keyword in LIST_KEYWORDS or keyword == "items"):
                made[keyword] = [copy(join(at, keyword, index), child) for index, child in enumerate(value)]
            elif keyword in SCHEMA_KEYWORDS:
                made[keyword] = copy(join(at, keyword), value)
            elif keyword not in ("$schema", "$id", "x-guidance") and not (keyword == "uniqueItems" and at in unique):
                made[keyword] = value
        return made

    def name(target: str) -> str:
        if target not in names:
            names[target] = f"d{len(names)}"
            definitions[names[target]] = copy(target, graph[target])
        return names[target]

    node = copy(pointer, graph[pointer])
    schema: dict[str, Any] = ({} if node else {"not": {}}) if isinstance(node, bool) else dict(node)
    if definitions:
        schema["$defs"] = definitions
    return schema


class LarkWriter:
    """Writes the grammar of one schema over one source. Use once: `LarkWriter(...).write()`.

    `unique` are the arrays whose uniqueItems the repetition rule sees to.
    """

    def __init__(
        self,
        graph: SchemaGraph,
        spans: SpanIndex,
        productive: frozenset[str],
        allowed_escapes: str | None = None,
        unique: frozenset[str] = frozenset(),
    ) -> None:
        self._graph = graph
        self._unique = unique
        self._spans = spans
        self._productive = productive
        self._options = layout(allowed_escapes)
        self._rules: list[str] = []
        self._names: dict[str, str] = {}
        self._terminals: dict[SpanBounds, str] = {}

    def write(self) -> str:
        """The Lark text. Raises SchemaRefused for what stands around `x-verbatim` and cannot be enforced."""
        lines = ["%llguidance {}", f"start: {self._rule('')}", *self._rules]
        for bounds, name in self._terminals.items():
            lines.append(f'{name}: "\\"" (SOURCE & /{span_pattern(bounds)}/) "\\""')
        if self._terminals:
            chunks = [chunk if chunk == "\n" else escape(chunk) for chunk in self._spans.chunks]
            lines.append("SOURCE: %regex " + json.dumps({"substring_chunks": chunks}, ensure_ascii=False))
        return "\n".join(lines) + "\n"

    def _rule(self, pointer: str) -> str:
        """Name of the rule for the subschema at `pointer`, written on first use: recursion comes for free."""
        name = self._names.get(pointer)
        if name is None:
            name = self._names[pointer] = f"n{len(self._names)}"
            self._rules.append(f"{name}: {self._body(pointer)}")
        return name

    def _body(self, pointer: str) -> str:
        assert pointer in self._productive, f"{pointer} has no finite value"
        if not self._graph.is_verbatim(pointer):
            schema = {**standalone(self._graph, pointer, self._unique), "x-guidance": self._options}
            return "%json " + json.dumps(schema, ensure_ascii=False)
        node = self._graph.mapping(pointer)
        if "$ref" in node:
            _refuse_others(node, pointer, frozenset({"$ref"}))
            return self._rule(self._graph.target(pointer))
        if node.get("x-verbatim", False) is not False:
            return self._verbatim(pointer)
        if "anyOf" in node:
            _refuse_others(node, pointer, frozenset({"anyOf"}))
            members = [join(pointer, "anyOf", index) for index in range(len(node["anyOf"]))]
            return " | ".join(self._rule(member) for member in members if member in self._productive)
        if "allOf" in node:
            _refuse_others(node, pointer, frozenset({"allOf"}))
            if len(node["allOf"]) != 1:
                raise _refused(pointer, "allOf", node["allOf"], "around x-verbatim unless it has one element")
            return self._rule(join(pointer, "allOf", 0))
        return self._typed(pointer, node)

    def _typed(self, pointer: str, node: Mapping[str, Any]) -> str:
        types = set(types_of(node))
        null = ' | "null"' if "null" in types else ""
        if types - {"null"} == {"object"}:
            return self._object(pointer, node) + null
        if types - {"null"} == {"array"}:
            return self._array(pointer, node) + null
        raise SchemaRefused(
            "a node above x-verbatim must be an object or an array (or null)",
            pointer=join(pointer, "type") if "type" in node else pointer,
            code="SCHEMA_KEYWORD_NOT_ENFORCED",
            hint='say "type": "object" or "type": "array"; use anyOf for alternatives',
        )

    def _verbatim(self, pointer: str) -> str:
        bounds = dict.fromkeys(span_bounds(self._graph, pointer))
        names = [self._terminal(each) for each in bounds if self._spans.count([each], 1)]
        return " | ".join([*names, *(['"null"'] if takes_null(self._graph, pointer) else [])])

    def _terminal(self, bounds: SpanBounds) -> str:
        return self._terminals.setdefault(bounds, f"SPAN_{bounds.minimum}_{bounds.maximum}")

    def _object(self, pointer: str, node: Mapping[str, Any]) -> str:
        _refuse_others(node, pointer, frozenset({"type", "properties", "required", "additionalProperties"}))
        if node.get("additionalProperties", True) is not False:
            raise SchemaRefused(
                "an object that holds x-verbatim must be closed",
                pointer=join(pointer, "additionalProperties") if "additionalProperties" in node else pointer,
                code="SCHEMA_KEYWORD_NOT_ENFORCED",
                hint='say "additionalProperties": false',
            )
        required = frozenset(node.get("required", ()))
        keys = [key for key in node["properties"] if join(pointer, "properties", key) in self._productive]
        leading = next((index for index, key in enumerate(keys) if key in required), len(keys))
        rest = first = ""  # what may follow once a pair is written; what may follow `{`
        for index in reversed(range(len(keys))):
            key = keys[index]
            child = join(pointer, "properties", key)
            pair = f"{_literal(json.dumps(key, ensure_ascii=False))} {_literal(KEY_SEPARATOR)} {self._rule(child)}"
            begin = f"{pair} {rest}".rstrip()
            if index == leading:
                first = self._helper(begin)
            elif index < leading:
                first = self._helper(f"{begin} | {first}" if first else f"({begin})?")
            if key in required:
                rest = self._helper(f"{_literal(ITEM_SEPARATOR)} {begin}")
            else:
                rest = self._helper(f"({_literal(ITEM_SEPARATOR)} {pair})? {rest}".rstrip())
        return f'"{{" {first} "}}"' if first else '"{" "}"'

    def _array(self, pointer: str, node: Mapping[str, Any]) -> str:
        ours = frozenset({"uniqueItems"} if pointer in self._unique else ())
        _refuse_others(node, pointer, frozenset({"type", "items", "minItems", "maxItems"}) | ours)
        if not isinstance(node["items"], Mapping):
            raise _refused(pointer, "items", node["items"], "around x-verbatim unless it is one schema")
        least, most = node.get("minItems", 0), node.get("maxItems")
        items = join(pointer, "items")
        if items not in self._productive or most == 0:
            return '"[" "]"'
        item = self._rule(items)
        more = f"({_literal(ITEM_SEPARATOR)} {item}){{{max(least - 1, 0)},{'' if most is None else most - 1}}}"
        body = item if most == 1 else f"{item} {more}"
        return f'"[" {body} "]"' if least else f'"[" ({body})? "]"'

    def _helper(self, body: str) -> str:
        name = f"h{len(self._rules)}"
        self._rules.append(f"{name}: {body}")
        return name


def _literal(text: str) -> str:
    """`text` as a Lark string; its lexer takes JSON's escapes, and no raw DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def span_pattern(bounds: SpanBounds) -> str:
    """Regex over the JSON spelling: so many characters, the first and the last of them not white space."""
    escapes = r'\\["\\bfnrt]|\\u[0-9a-f]{4}'
    character = rf'(?:{escapes}|[^"\\\x00-\x1F])'
    solid = rf'(?:\\["\\b]|\\u00(?:0[0-8e-f]|1[0-9ab])|[^"\\\x00-\x20{_UNICODE_SPACES}])'
    alternatives = []
    if bounds.minimum <= 1:
        alternatives.append(solid)
    if bounds.maximum >= 2:
        alternatives.append(f"{solid}{character}{{{max(bounds.minimum - 2, 0)},{bounds.maximum - 2}}}{solid}")
    return "|".join(alternatives)
