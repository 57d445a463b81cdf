"""An enforced JSON Schema in; its subschemas by JSON pointer, resolved, with what reaches a word of ours, out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias
from urllib.parse import unquote

from fetchly_llm.errors import SchemaRefused

Schema: TypeAlias = Mapping[str, Any] | bool

MAX_DEPTH = 100
MAX_SUBSCHEMAS = 50_000

MAP_KEYWORDS = frozenset({"$defs", "definitions", "properties", "patternProperties", "dependentSchemas"})
LIST_KEYWORDS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
SCHEMA_KEYWORDS = frozenset(
    {
        "items",
        "additionalItems",
        "additionalProperties",
        "contains",
        "else",
        "if",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
_DEFINITIONS = frozenset({"$defs", "definitions"})


def join(pointer: str, *tokens: str | int) -> str:
    """`pointer` extended by reference tokens (RFC 6901)."""
    return pointer + "".join("/" + str(token).replace("~", "~0").replace("/", "~1") for token in tokens)


class SchemaGraph:
    """Subschemas by pointer. Raises SchemaRefused for local references that lead nowhere or round in a circle.

    References that are not JSON pointers (anchors, URIs), and all of them where an inner `$id` moves their base, stay
    unresolved: llguidance resolves those within the document.
    """

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._nodes: dict[str, Schema] = {}
        self._children: dict[str, tuple[str, ...]] = {}
        self._targets: dict[str, str] = {}
        self._walk("", root)
        if not any(pointer and isinstance(node, Mapping) and "$id" in node for pointer, node in self._nodes.items()):
            self._follow_references()
        for pointer in self._targets:
            self._refuse_circle(pointer)
        self._verbatim = self._reaching(lambda node: node.get("x-verbatim", False) is not False)
        self._watched = self._verbatim | self._reaching(lambda node: node.get("uniqueItems") is True)

    def __getitem__(self, pointer: str) -> Schema:
        return self._nodes[pointer]

    def __contains__(self, pointer: str) -> bool:
        return pointer in self._nodes

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def mapping(self, pointer: str) -> Mapping[str, Any]:
        """The subschema at `pointer`, which is not a boolean."""
        node = self._nodes[pointer]
        assert isinstance(node, Mapping), f"{pointer} is a boolean schema"
        return node

    def target(self, pointer: str) -> str:
        """Where the `$ref` of the subschema at `pointer` leads. Raises SchemaRefused where that is unresolved."""
        if pointer not in self._targets:
            raise SchemaRefused(
                f"$ref {self.mapping(pointer)['$ref']!r} cannot be resolved in a schema with x-verbatim or uniqueItems",
                pointer=join(pointer, "$ref"),
                hint="copy the referenced schema into $defs and drop $id",
                code="SCHEMA_REFERENCE",
            )
        return self._targets[pointer]

    def is_resolved(self, pointer: str) -> bool:
        """Whether the `$ref` of the subschema at `pointer` has a known target."""
        return pointer in self._targets

    def is_verbatim(self, pointer: str) -> bool:
        """Whether an `x-verbatim` node can be reached from here, references followed."""
        return pointer in self._verbatim

    def is_watched(self, pointer: str) -> bool:
        """Whether an `x-verbatim` node or an array of unique items can be reached from here, references followed."""
        return pointer in self._watched

    def below(self, pointers: Iterable[str]) -> frozenset[str]:
        """`pointers` and what they hold or refer to, definitions apart."""
        found: set[str] = set()
        waiting = list(pointers)
        while waiting:
            pointer = waiting.pop()
            if pointer not in found:
                found.add(pointer)
                waiting.extend(child for child in self._children[pointer] if not is_definition(pointer, child))
                waiting.extend([self._targets[pointer]] if pointer in self._targets else [])
        return frozenset(found)

    def find(self, keyword: str, value: object = None) -> str | None:
        """Pointer of the first `keyword` (with `value`, where given) in a subschema, or None."""
        for pointer, node in self._nodes.items():
            if isinstance(node, Mapping) and keyword in node and (value is None or node[keyword] == value):
                return join(pointer, keyword)
        return None

    def productive(self, holds: Callable[[str, Callable[[str], bool]], bool]) -> frozenset[str]:
        """Pointers of the subschemas that some finite value satisfies: the least fixed point of `holds`.

        `holds(pointer, known)` says whether the subschema can be satisfied by use of those that `known` to be so.
        """
        found: set[str] = set()
        parents = self._parents()
        waiting = list(reversed(self._nodes))
        while waiting:
            pointer = waiting.pop()
            if pointer not in found and holds(pointer, found.__contains__):
                found.add(pointer)
                waiting.extend(parents[pointer])
        return frozenset(found)

    def _walk(self, start: str, schema: object) -> None:
        waiting: list[tuple[str, object]] = [(start, schema)]
        while waiting:
            pointer, node = waiting.pop()
            if pointer in self._nodes:
                continue
            if not isinstance(node, Mapping | bool):
                raise SchemaRefused(f"a schema must be an object or a boolean, not {node!r}", pointer=pointer)
            if pointer.count("/") > 2 * MAX_DEPTH or len(self._nodes) >= MAX_SUBSCHEMAS:
                raise SchemaRefused(
                    f"the schema is nested deeper than {MAX_DEPTH} or has more than {MAX_SUBSCHEMAS} subschemas",
                    pointer=pointer,
                    code="SCHEMA_TOO_LARGE",
                )
            self._nodes[pointer] = node
            children = list(subschemas(pointer, node)) if isinstance(node, Mapping) else []
            waiting.extend(reversed(children))
            self._children[pointer] = tuple(child for child, _ in children)

    def _follow_references(self) -> None:
        waiting = list(self._nodes)
        while waiting:
            pointer = waiting.pop()
            node = self._nodes[pointer]
            reference = node.get("$ref") if isinstance(node, Mapping) else None
            if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
                continue
            target = self._targets[pointer] = unquote(reference[1:])
            if target not in self._nodes:
                known = len(self._nodes)
                self._walk(target, self._lookup(pointer, target))
                waiting.extend(list(self._nodes)[known:])

    def _lookup(self, pointer: str, target: str) -> object:
        node: object = self._root
        for token in target.split("/")[1:]:
            token = token.replace("~1", "/").replace("~0", "~")
            if isinstance(node, Mapping) and token in node:
                node = node[token]
            elif isinstance(node, list) and token.isdecimal() and int(token) < len(node):
                node = node[int(token)]
            else:
                raise SchemaRefused(
                    f"$ref #{target} leads nowhere", pointer=join(pointer, "$ref"), code="SCHEMA_REFERENCE"
                )
        return node

    def _refuse_circle(self, pointer: str) -> None:
        seen = [pointer]
        while (following := self._targets.get(seen[-1])) is not None:
            if following in seen:
                circle = " -> ".join(f"#{place}" for place in [*seen, following])
                raise SchemaRefused(
                    f"$ref leads round in a circle: {circle}", pointer=join(pointer, "$ref"), code="SCHEMA_REFERENCE"
                )
            seen.append(following)

    def _parents(self) -> dict[str, list[str]]:
        """For each subschema, those that depend on it: by referring to it or by holding it, definitions apart."""
        parents: dict[str, list[str]] = {pointer: [] for pointer in self._nodes}
        for pointer, children in self._children.items():
            for child in children:
                if not is_definition(pointer, child):
                    parents[child].append(pointer)
        for pointer, target in self._targets.items():
            parents[target].append(pointer)
        return parents

    def _reaching(self, wanted: Callable[[Mapping[str, Any]], bool]) -> frozenset[str]:
        parents = self._parents()
        waiting = [pointer for pointer, node in self._nodes.items() if isinstance(node, Mapping) and wanted(node)]
        found = set(waiting)
        while waiting:
            pointer = waiting.pop()
            for parent in parents[pointer]:
                if parent not in found:
                    found.add(parent)
                    waiting.append(parent)
        return frozenset(found)


def is_definition(pointer: str, child: str) -> bool:
    """Whether `child`, directly within `pointer`, stands there only to be referred to."""
    return child[len(pointer) :].split("/")[1] in _DEFINITIONS


def subschemas(pointer: str, node: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Pointers and values of the direct subschemas of `node`, in the order of its keywords."""
    for keyword, value in node.items():
        if keyword in MAP_KEYWORDS and isinstance(value, Mapping):
            for name, child in value.items():
                yield join(pointer, keyword, name), child
        elif (keyword in LIST_KEYWORDS or keyword == "items") and isinstance(value, list):
            for index, child in enumerate(value):
                yield join(pointer, keyword, index), child
        elif keyword in SCHEMA_KEYWORDS:
            yield join(pointer, keyword), value
