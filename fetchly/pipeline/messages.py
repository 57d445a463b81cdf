"""What pydantic refuses, and the tree that it came from, in; the one error that a reader is shown out.

The first error in reading order is told, unknown keys before all others, as they are what others follow from. Nothing
that came from the environment is quoted.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from fetchly.errors import ConfigurationError
from fetchly.pipeline.fields import REFUSED
from fetchly.pipeline.positions import Node, Place, Scalar, descend, key_place, short, shown, step, variables_in
from fetchly.pipeline.spec import Spec
from fetchly.pipeline.yaml_text import read_word

_UNKNOWN = "extra_forbidden"
_WANTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "finite_number": "a number",
}
_BOUNDS = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "greater than"),
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "less than"),
}
_YES_AND_NO = frozenset(("yes", "no", "on", "off", "y", "n"))


def first_error(error: ValidationError, root: Node) -> ConfigurationError:
    """The error that is told."""
    details = error.errors(include_url=False, include_input=False)
    told = min(details, key=lambda detail: (detail["type"] != _UNKNOWN, _place(detail, root)))
    return _Wording(told, root).error()


def _place(detail: ErrorDetails, root: Node) -> Place:
    loc = detail["loc"]
    return key_place(root, loc) if detail["type"] == _UNKNOWN else descend(root, loc).place


class _Wording:
    """One error in words."""

    def __init__(self, detail: ErrorDetails, root: Node) -> None:
        self._detail = detail
        self._root = root
        self._loc = detail["loc"]
        self._node = descend(root, self._loc)
        self._label = label(root, self._loc)

    def error(self) -> ConfigurationError:
        kind = self._detail["type"]
        where = _place(self._detail, self._root).text
        holder = descend(self._root, self._loc[:-1])
        if kind == _UNKNOWN and isinstance(holder, Scalar):  # a word that stands for a key, as sinks may
            known = ", ".join(keys_at(self._loc[:-1]))
            return ConfigurationError(f"{self._label} is {shown(holder)}, not one of {known}", where=where)
        if kind == _UNKNOWN:
            return unknown_key(str(self._loc[-1]), where, keys_at(self._loc[:-1]), self._loc[:-1])
        if kind == "missing":
            return ConfigurationError(f"{self._label} needs {self._loc[-1]}", where=where)
        words, hint = self._words(kind)
        return ConfigurationError(words, where=where, hint=hint)

    def _words(self, kind: str) -> tuple[str, str | None]:
        context = self._detail.get("ctx", {})
        if kind in _WANTED:
            return f"{self._label} is {self._value}, not {_WANTED[kind]}", self._way_out(_WANTED[kind])
        if kind in _BOUNDS:
            key, words = _BOUNDS[kind]
            return f"{self._label} is {self._value}, {words} {context[key]} is needed", None
        if kind == "literal_error":
            return f"{self._label} is {self._value}, not {context['expected']}", self._nearest(context["expected"])
        if kind in ("too_short", "string_too_short"):
            return f"{self._label} is empty", None
        if kind == REFUSED:
            if "code" in context and variables_in(self._node):
                return f"{self._refused_subject} is refused ({context['code']})", None
            return f"{self._refused_subject} {context['words']}", context["hint"]
        message = self._detail["msg"].removeprefix("Value error, ")
        if kind == "value_error":  # of the models of sinks and actions, whose values may be passwords
            return f"{self._label}: {short_message(message)}", None
        if not variables_in(self._node):
            return f"{self._refused_subject}: {short_message(message)}", None
        return f"{self._refused_subject} is refused", None

    @property
    def _value(self) -> str:
        return shown(self._node)

    @property
    def _refused_subject(self) -> str:
        return f"{self._label} {self._value}" if isinstance(self._node, Scalar) else self._label

    def _nearest(self, expected: str) -> str | None:
        if not isinstance(self._node, Scalar) or self._node.variables:
            return None
        words = [word.strip("'") for word in expected.replace(" or ", ", ").split(", ")]
        near = difflib.get_close_matches(str(self._node.value), words, n=1)
        return f"did you mean {near[0]}?" if near else None

    def _way_out(self, wanted: str) -> str | None:
        node = self._node
        if not isinstance(node, Scalar) or node.variables:
            return None
        if wanted == "text" and node.value is not None:
            return f'quote it: "{short(node.written)}"'
        if wanted == "true or false" and str(node.value).lower() in _YES_AND_NO:
            return "yes, no, on and off are text here: write true or false"
        if wanted.endswith("number") and isinstance(node.value, str):
            is_quoted = node.written[:1] in ("'", '"')
            if is_quoted and isinstance(read_word(node.value), int | float):
                return "leave out the quotes"
            return "numbers are written as in JSON: 12, 0.5" if any(map(str.isdigit, node.value)) else None
        return None


def short_message(message: str) -> str:
    """One line of a library's."""
    return short(" ".join(message.split())) if len(message) > 200 else " ".join(message.split())


def label(root: Node, loc: Sequence[str | int]) -> str:
    """The last key on a path that stands in the file, with the list places behind it."""
    node, name = root, "the pipeline"
    for key in loc:
        below = step(node, key)
        if below is not None:
            name = f"{name}[{key}]" if isinstance(key, int) else key
            node = below
    return name


def unknown_key(key: str, where: str, known: Iterable[str], loc: Sequence[str | int] = ()) -> ConfigurationError:
    """The error for a key that is none, with the one that was meant, or the section that has it."""
    names = [name for name in known if name != key]
    near = difflib.get_close_matches(key, names, n=1)
    homes = [home for home, keys in _sections().items() if key in keys and list(loc) != [home]]
    if near and not homes:
        hint = f"did you mean {near[0]}?"
    elif homes:
        hint = f"it belongs into {homes[0]}" if homes[0] else "it belongs to the top of the file"
    else:
        hint = f"known: {', '.join(names)}" if names else "nothing may stand here"
    return ConfigurationError(f"unknown key {short(repr(key))}", where=where, hint=hint, code="UNKNOWN_KEY")


@cache
def _sections() -> dict[str, tuple[str, ...]]:
    places = {"": keys_at(()), **{section: keys_at((section,)) for section in ("source", "extract", "run")}}
    return places


def keys_at(loc: Sequence[str | int]) -> tuple[str, ...]:
    """The keys that a place of the file knows."""
    whole = _file_schema()
    nodes: list[Mapping[str, Any]] = _branches(whole, whole)
    for key in loc:
        below = [found for node in nodes for found in _below(node, key)]
        nodes = [branch for found in below for branch in _branches(found, whole)] or nodes
    return tuple(dict.fromkeys(name for node in nodes for name in node.get("properties", {})))


def _below(node: Mapping[str, Any], key: str | int) -> list[Any]:
    if isinstance(key, int):
        return [node["items"]] if isinstance(node.get("items"), Mapping) else []
    found = node.get("properties", {}).get(key)
    return [found] if found is not None else []


def _branches(node: Any, whole: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if not isinstance(node, Mapping):
        return []
    if "$ref" in node:
        return _branches(whole["$defs"][node["$ref"].rpartition("/")[2]], whole)
    parts = [part for word in ("anyOf", "oneOf", "allOf") for part in node.get(word, ())]
    return [branch for part in parts for branch in _branches(part, whole)] if parts else [node]


@cache
def _file_schema() -> dict[str, Any]:
    return Spec.model_json_schema(by_alias=True)
