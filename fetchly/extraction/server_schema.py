"""The decoding schema in, the plain JSON Schema that model servers hold an answer to out.

Servers differ in what they enforce, and refuse a whole schema for a keyword that they do not know. Left out is what one
of vLLM's and SGLang's grammar back-ends (xgrammar, llguidance, outlines) or llama.cpp refuses, where the structure
stays the same without it. All of it is checked when the answer is here: the extraction trusts no generator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fetchly.errors import SchemaError
from fetchly.extraction.shape import below

MOST_REPETITIONS = 1000
"""llama.cpp refuses a grammar that counts to 2,000; a bound above this is left to the check afterwards."""

_FORMATS = frozenset(("date", "time", "date-time", "email", "uuid"))
"""outlines and xgrammar refuse formats that they do not know; these every back-end knows, or passes over."""
_COUNTS = frozenset(("minLength", "maxLength", "minItems", "maxItems"))
_KEPT = frozenset(
    ("type", "enum", "const", "required", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "$ref")
)
_MAPS = frozenset(("properties", "$defs"))
_LISTS = frozenset(("anyOf", "prefixItems"))
_PARTS = frozenset(("items", "additionalProperties"))


@dataclass(frozen=True, slots=True)
class PlainSchema:
    """`schema` says nothing beyond JSON Schema; `loosened` are the keywords that it leaves to the check afterwards."""

    schema: dict[str, Any]
    loosened: frozenset[str]


def plain_schema(decoding: Mapping[str, Any]) -> PlainSchema:
    """Errors: SchemaError for a schema that no value satisfies: servers cannot say so."""
    loosened: set[str] = set()
    return PlainSchema(_node(decoding, "", loosened), frozenset(loosened))


def named_place(message: str, schema: Any) -> str | None:
    """The JSON pointer of the first place that has the keyword a server's refusal names; None where it names none."""
    words = {word.strip("'\"`.,:;()[]{}") for word in message.split()}
    named = (words & {*_KEPT, *_COUNTS, *_LISTS, *_PARTS, "pattern", "format"}) - {"type", "required", "items"}
    return _place(schema, named, "") if named else None


def _place(node: Any, named: set[str], pointer: str) -> str | None:
    if not isinstance(node, dict):
        return None
    for word, value in node.items():
        place = below(pointer, word)
        if word in named:
            return place
        if word in _MAPS:
            parts = value.items()
        elif word in _LISTS:
            parts = enumerate(value)
        elif word in _PARTS:
            parts = [("", value)]
        else:
            continue
        for key, part in parts:
            found = _place(part, named, place if word in _PARTS else below(place, key))
            if found is not None:
                return found
    return None


def _node(node: Any, pointer: str, loosened: set[str]) -> Any:
    if node is True:
        return {}
    if not isinstance(node, Mapping):
        return node
    if "not" in node:
        raise SchemaError(
            "no value satisfies the schema here", pointer=pointer, hint="fetchly schemas lint shows what contradicts"
        )
    out: dict[str, Any] = {}
    for word, value in node.items():
        place = below(pointer, word)
        if word in _MAPS:
            out[word] = {name: _node(part, below(place, name), loosened) for name, part in value.items()}
        elif word in _LISTS:
            out[word] = [_node(part, below(place, index), loosened) for index, part in enumerate(value)]
        elif word in _PARTS:
            out[word] = _node(value, place, loosened)
        elif _is_kept(word, value):
            out[word] = value
        else:
            loosened.add(word)
    _open_patterns(node, out, pointer, loosened)
    _end_list(out)
    if "pattern" in out or "format" in out:  # xgrammar refuses either beside a length
        dropped = {"minLength", "maxLength"} & out.keys()
        loosened |= dropped
        for word in dropped:
            del out[word]
    return out


def _is_kept(word: str, value: Any) -> bool:
    if word in _COUNTS:
        return bool(value <= MOST_REPETITIONS)
    if word == "format":
        return value in _FORMATS
    if word == "pattern":
        # llama.cpp takes no other; groups with a question mark look around, which no automaton can.
        return isinstance(value, str) and value.startswith("^") and value.endswith("$") and "(?" not in value
    return word in _KEPT


def _open_patterns(node: Mapping[str, Any], out: dict[str, Any], pointer: str, loosened: set[str]) -> None:
    """Names that must match a pattern are any names: their values keep their schemas."""
    patterns = node.get("patternProperties")
    if not patterns:
        return
    place = below(pointer, "patternProperties")
    values = [_node(part, below(place, name), loosened) for name, part in patterns.items()]
    if isinstance(out.get("additionalProperties"), dict):
        values.append(out["additionalProperties"])
    distinct = [value for index, value in enumerate(values) if value not in values[:index]]
    out["additionalProperties"] = distinct[0] if len(distinct) == 1 else {"anyOf": distinct}


def _end_list(out: dict[str, Any]) -> None:
    """A place of a list where nothing may stand is where the list ends: few back-ends know `false`."""
    places = [*out.get("prefixItems", ()), *([False] if out.get("items") is False else ())]
    if False not in places:
        return
    end = next(index for index, place in enumerate(places) if place is False)
    out.pop("items", None)
    out.pop("prefixItems", None)
    if end:
        out["prefixItems"] = places[:end]
    out["maxItems"] = min(end, out.get("maxItems", end))
