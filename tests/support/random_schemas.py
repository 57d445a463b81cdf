"""Random schemas and random texts of a grammar, both drawn from a seeded generator."""

from __future__ import annotations

import random
from typing import Any

from tests.support.schema_suite import ByteMatcher

NAMES = ("a", "b", "ab", "x1")
VALUES: tuple[Any, ...] = (None, True, False, 0, 1, 2, -1, 0.5, "", "a", "b", "ab", [], {}, [1], {"a": 1})
NUMBERS = (0, 1, 2, 3, -1, 0.5, 1.5, 10, -2.25, 0.1, 5)
_TYPES = ("string", "integer", "number", "object", "object", "array", "null", "boolean", ["string", "null"])
_LIKED = frozenset(b'"{}[],: ab01x.-25')


def draw_schema(rng: random.Random, depth: int = 3) -> dict[str, Any]:
    """A schema over few names and values, so that its keywords meet; with two definitions that it may refer to."""
    root = _schema(rng, depth)
    body = root if isinstance(root, dict) else {"allOf": [root]}
    return {**body, "$defs": {"p": _schema(rng, depth - 1), "q": _schema(rng, depth - 1)}}


def draw_value(rng: random.Random, depth: int = 2) -> Any:
    """A small JSON value over the same names and values."""
    choice = rng.random()
    if depth == 0 or choice < 0.4:
        return rng.choice(VALUES)
    if choice < 0.6:
        return [draw_value(rng, depth - 1) for _ in range(rng.randint(0, 3))]
    return {name: draw_value(rng, depth - 1) for name in rng.sample(NAMES, rng.randint(0, 4))}


def draw_text(rng: random.Random, matcher: ByteMatcher, limit: int = 400) -> bytes | None:
    """A random walk over the grammar's masks; None when `limit` bytes did not finish a text."""
    text = bytearray()
    while len(text) < limit:
        allowed = matcher.allowed_bytes()
        if not allowed or (matcher.is_complete() and rng.random() < 0.3):
            return bytes(text) if matcher.is_complete() else None
        liked = [byte for byte in allowed if byte in _LIKED]
        byte = rng.choice(liked if liked and rng.random() < 0.9 else allowed)
        if ord('"') in allowed and rng.random() < 0.3:
            byte = ord('"')
        matcher.write(byte)
        text.append(byte)
    return None


def _schema(rng: random.Random, depth: int) -> Any:
    if depth <= 0 or rng.random() < 0.05:
        plain: list[Any] = [True, {}, {"type": "string"}, {"type": "integer"}, {"type": "null"}]
        return rng.choice([*plain, {"const": rng.choice(VALUES)}, rng.random() > 0.2])
    schema: dict[str, Any] = {}
    for _ in range(rng.randint(1, 4)):
        keyword = rng.choice(_KEYWORDS)
        schema[keyword] = _value(rng, keyword, depth)
        if keyword == "uniqueItems" and rng.random() < 0.8:
            schema["items"] = rng.choice(_CHOICES)
        if keyword == "if":
            schema[rng.choice(("then", "else"))] = _schema(rng, depth - 1)
    return schema


_ONE = ("additionalProperties", "items", "not", "if", "propertyNames", "unevaluatedProperties", "unevaluatedItems")
_MANY = ("anyOf", "oneOf", "allOf", "prefixItems")
_LEAST = ("minLength", "minItems", "minProperties")
_MOST = ("maxLength", "maxItems", "maxProperties")
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_SPECIAL = ("patternProperties", "const", "enum", "pattern", "format", "multipleOf", "dependentRequired", "$ref")
_OFTEN = ("type", "type", "properties", "properties", "properties", "required", "required", "oneOf")
_KEYWORDS = (
    *_OFTEN,
    *_ONE,
    *_MANY,
    *_LEAST,
    *_MOST,
    *_BOUNDS,
    *_SPECIAL,
    "dependentSchemas",
    "contains",
    "uniqueItems",
)
_CHOICES: tuple[Any, ...] = (
    {"enum": ["a", "ab", "", "b"]},
    {"anyOf": [{"const": "ab"}, {"enum": ["x1", "a"]}]},
    {"$ref": "#/$defs/p"},
    {"enum": ["a", "b", 1]},
)


def _value(rng: random.Random, keyword: str, depth: int) -> Any:
    if keyword in _ONE or keyword == "contains":
        return _schema(rng, depth - 1)
    if keyword in _MANY:
        return [_schema(rng, depth - 1) for _ in range(rng.randint(1, 3))]
    if keyword in _LEAST or keyword in _MOST:
        return rng.randint(0, 4)
    if keyword == "properties":
        return {name: _schema(rng, depth - 1) for name in rng.sample(NAMES, rng.randint(1, 3))}
    if keyword == "patternProperties":
        return {pattern: _schema(rng, depth - 1) for pattern in rng.sample(("^a", "1$", "b", "^x"), 1)}
    if keyword == "dependentSchemas":
        return {rng.choice(NAMES): _schema(rng, depth - 1)}
    if keyword == "dependentRequired":
        return {rng.choice(NAMES): rng.sample(NAMES, rng.randint(0, 2))}
    choices: dict[str, Any] = {
        "type": _TYPES,
        "const": VALUES,
        "pattern": ("^a", "b$", "^[ab]+$", "[0-9]"),
        "format": ("date", "time", "date-time", "uuid", "foo", "ipv4"),
        "multipleOf": (2, 3, 0.5, 0.01, 1),
        "$ref": ("#", "#/$defs/p", "#/$defs/q"),
    }
    if keyword == "uniqueItems":
        return True
    if keyword == "required":
        return rng.sample(NAMES, rng.randint(0, 2))
    if keyword == "enum":
        return rng.sample(VALUES, rng.randint(1, 5))
    return rng.choice(choices.get(keyword, NUMBERS))
