"""A schema goes in; a schema of exactly the values it refuses, free of `not`, comes out where one can be written."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable
from typing import Any

from fetchly_llm.grammar.keywords import IMPLIES, TYPES, is_annotation

_ALL = tuple(name for name in TYPES if name != "integer")
_LIMIT = 64
_IGNORED = frozenset(
    [
        "title",
        "description",
        "default",
        "examples",
        "$comment",
        "deprecated",
        "readOnly",
        "writeOnly",
        "$defs",
        "definitions",
    ]
)
_MAX_DEPTH = 8

Resolver = Callable[[str], Any]


def complement(schema: Any, resolve: Resolver, depth: int = 0) -> Any | None:
    """The exact complement of `schema`, or None where no schema without `not` says it.

    `resolve` maps a `$ref` to the schema it names (None: leave it). Not-A∧B is written ¬A∨¬B, keyword by keyword; each
    keyword's complement holds only values of the keyword's own type, as it admits all others.
    """
    if isinstance(schema, bool):
        return not schema
    if depth > _MAX_DEPTH:
        return None
    options: list[Any] = []
    for keyword, value in schema.items():
        if keyword in _IGNORED or is_annotation(keyword):
            continue
        option = _refused_by(keyword, value, resolve, depth)
        if option is None:
            return None
        if option is not False:
            options.append(option)
    if not options:
        return False
    return options[0] if len(options) == 1 else {"anyOf": options}


def _refused_by(keyword: str, value: Any, resolve: Resolver, depth: int) -> Any | None:
    if keyword == "$ref":
        target = resolve(value)
        return None if target is None else complement(target, resolve, depth + 1)
    if keyword == "not":
        return value
    if keyword == "anyOf":
        return _every([complement(option, resolve, depth + 1) for option in value])
    if keyword == "allOf":
        return _some([complement(option, resolve, depth + 1) for option in value])
    if keyword == "type":
        return _other_types(value)
    if keyword in ("const", "enum"):
        return other_values([value] if keyword == "const" else value)
    if keyword == "required":
        names = [{"properties": {name: False}} for name in value]
        return {"type": "object", "anyOf": names} if names else False
    if keyword == "properties":
        options = [
            (name, complement(child, resolve, depth + 1)) for name, child in value.items() if child not in (True, {})
        ]
        if any(child is None for _, child in options):
            return None
        return _some([{"type": "object", "required": [name], "properties": {name: child}} for name, child in options])
    return _outside_bound(keyword, value)


def _outside_bound(keyword: str, value: Any) -> Any | None:
    """The complement of a bound; None for keywords that are no simple bound."""
    if isinstance(value, bool) or not isinstance(value, int | float) or keyword not in IMPLIES:
        return None
    flipped = {
        "minimum": "exclusiveMaximum",
        "maximum": "exclusiveMinimum",
        "exclusiveMinimum": "maximum",
        "exclusiveMaximum": "minimum",
    }
    kind = IMPLIES[keyword]
    if keyword in flipped:
        return {"type": kind, flipped[keyword]: value}
    if keyword in ("minLength", "minItems", "minProperties"):
        return {"type": kind, keyword.replace("min", "max"): int(value) - 1} if value >= 1 else False
    if keyword in ("maxLength", "maxItems", "maxProperties"):
        return {"type": kind, keyword.replace("max", "min"): int(value) + 1}
    return None


def _every(parts: list[Any | None]) -> Any | None:
    return None if any(part is None for part in parts) else {"allOf": parts}


def _some(parts: list[Any | None]) -> Any | None:
    if any(part is None for part in parts):
        return None
    kept = [part for part in parts if part is not False]
    return {"anyOf": kept} if kept else False


def _other_types(value: str | list[str]) -> Any | None:
    named = {value} if isinstance(value, str) else set(value)
    if "integer" in named and "number" not in named:
        return None  # "a number with a fraction" is no type
    rest = [name for name in _ALL if name not in named]
    return {"type": rest} if rest else False


def other_values(values: list[Any]) -> Any | None:
    """All JSON values except these; None when one of them is an array or object that is not empty."""
    if len(values) > _LIMIT:
        return None
    options: list[Any] = []
    for kind in _ALL:
        same = [value for value in values if _kind(value) == kind]
        option = {"type": kind} if not same else _others_of(kind, same)
        if option is None:
            return None
        if option is not False:
            options.append(option)
    return {"anyOf": options}


def _others_of(kind: str, values: list[Any]) -> Any | None:
    if kind == "null":
        return False
    if kind == "boolean":
        rest = [flag for flag in (False, True) if flag not in values]
        return {"enum": rest} if rest else False
    if kind == "string":
        return {"type": "string", "pattern": none_of(values)}
    if kind == "number":
        ordered = sorted(set(values))
        gaps: list[Any] = [{"type": "number", "exclusiveMaximum": ordered[0]}]
        gaps += [
            {"type": "number", "exclusiveMinimum": low, "exclusiveMaximum": high}
            for low, high in itertools.pairwise(ordered)
        ]
        return {"anyOf": [*gaps, {"type": "number", "exclusiveMinimum": ordered[-1]}]}
    if any(values):
        return None
    return {"type": kind, "minItems" if kind == "array" else "minProperties": 1}


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def none_of(texts: Iterable[str]) -> str:
    """A regular expression that finds every text except these (a walk of their trie)."""
    return f"^(?:{'|'.join(_departures(sorted(set(texts))))})$"


def _departures(texts: list[str]) -> list[str]:
    """The ways to be none of `texts`: stop early, or take another character, at each node of the trie."""
    ways: list[str] = []
    prefixes = {text[:length] for text in texts for length in range(len(text) + 1)}
    for prefix in sorted(prefixes):
        following = sorted({text[len(prefix)] for text in prefixes if text[:-1] == prefix and len(text) > len(prefix)})
        lead = "".join(map(_literal, prefix))
        if prefix not in texts:
            ways.append(lead)
        other = "[^" + "".join(map(_in_class, following)) + "]" if following else r"[\s\S]"
        ways.append(lead + other + r"[\s\S]*")
    return ways


def _literal(character: str) -> str:
    return "\\" + character if character in r"\^$.|?*+()[]{}/" else _plain(character)


def _in_class(character: str) -> str:
    return "\\" + character if character in r"\^]-[&~" else _plain(character)


def _plain(character: str) -> str:
    return re.sub(r"[\x00-\x1f\x7f]", lambda found: f"\\x{ord(found.group()):02x}", character)
