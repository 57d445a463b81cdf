"""Hypothesis strategies: enforced schemas with `x-verbatim` leaves and sources; valid documents by another hand."""

from __future__ import annotations

import random
import re
from typing import Any, NamedTuple

from hypothesis import strategies as st

Schema = dict[str, Any]

WORDS = [
    "foo",
    "Bar",
    "été",
    "x1",
    "-",
    '"',
    "\\",
    "\t",
    ".",
    "$",
    "19",
    ":",
    "北",
    "京",
    "がる",
    "a" * 9,
    "\x07",
    "é",
    "👩‍👧",
]

sources = st.lists(
    st.lists(st.sampled_from(WORDS), max_size=6).flatmap(
        lambda words: st.sampled_from([" ", "", "  "]).map(lambda gap: gap.join(words))
    ),
    max_size=4,
).map("\n".join)

spans = st.builds(
    lambda nullable, least, most: {
        "type": ["string", "null"] if nullable else "string",
        "x-verbatim": True,
        **({} if least is None else {"minLength": least}),
        **({} if most is None else {"maxLength": most}),
    },
    st.booleans(),
    st.sampled_from([None, None, 0, 2]),
    st.sampled_from([None, None, 4, 9, 40]),
)

plain = st.sampled_from(
    [
        {"type": "integer", "minimum": -9, "maximum": 120},
        {"type": ["boolean", "null"]},
        {"enum": ["foo", "foo bar", '"', None, 7]},
        {"const": {"foo": ["Bar"]}},
        {"type": "string", "maxLength": 4},
        {"type": "string", "pattern": "^[a-c]{2,5}$"},
        {"$ref": "#/$defs/plain"},
        {
            "type": "object",
            "properties": {"foo": {"type": "string", "maxLength": 3}, "n": {"type": "null"}},
            "additionalProperties": False,
        },
    ]
)

KEYS = ["foo", "fo", "é", 'k"', "a b", "x\\y", "北"]


def _objects(values: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    def build(properties: dict[str, Schema], required: int) -> Schema:
        names = [key for index, key in enumerate(properties) if required >> index & 1]
        return {"type": "object", "properties": properties, "required": names, "additionalProperties": False}

    return st.builds(build, st.dictionaries(st.sampled_from(KEYS), values, max_size=4), st.integers(0, 15))


choices = st.sampled_from(
    [
        {"type": "string", "x-verbatim": True},
        {"anyOf": [{"type": "string", "x-verbatim": True, "maxLength": 4}, {"$ref": "#/$defs/span"}]},
        {"enum": ["L1", "L12", "L2", '"', "é", "été"]},
        {"anyOf": [{"const": ""}, {"enum": ["a", "a b", "北"]}]},
    ]
)


def _arrays(items: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    def build(item: Schema, least: int, more: int, extra: Schema) -> Schema:
        return {"type": "array", "items": item, "minItems": least, "maxItems": least + more, **extra}

    counts = (st.sampled_from([0, 0, 1, 2]), st.integers(0, 4))
    return st.one_of(
        st.builds(build, items, *counts, st.just({})),
        st.builds(build, choices, *counts, st.just({"uniqueItems": True})),
    )


def _extend(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    return st.one_of(
        _objects(st.one_of(inner, spans, plain)),
        _arrays(st.one_of(spans, inner)),
        st.lists(st.one_of(inner, spans, plain), min_size=1, max_size=3).map(lambda members: {"anyOf": members}),
        inner.map(lambda schema: {"allOf": [schema]}),
        st.just({"$ref": "#/$defs/tree"}),
        st.just({"$ref": "#/$defs/span"}),
    )


schemas = st.recursive(st.one_of(spans, _objects(st.one_of(spans, plain)), _arrays(spans)), _extend, max_leaves=8).map(
    lambda schema: {
        **schema,
        "$defs": {
            "plain": {"type": "integer", "minimum": 0, "maximum": 3},
            "span": {"type": "string", "x-verbatim": True},
            "tree": {
                "type": "object",
                "properties": {
                    "label": {"$ref": "#/$defs/span"},
                    "kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 2},
                },
                "required": ["label"],
                "additionalProperties": False,
            },
        },
    }
)


def line_substrings(source: str) -> set[str]:
    """Every substring of a line of the source, boundaries aside."""
    return {
        line[start:end]
        for line in source.splitlines()
        for start in range(len(line))
        for end in range(start + 1, len(line) + 1)
    }


_DATE = r"\d\d?\.\d\d?\.(?:\d{4}|\d\d)(?!\.?\d)|\d{4}\.\d\d?\.\d\d?(?!\.?\d)"
_DOTTED = rf"(?!{_DATE})\d+(?:\.\d+)+(?!\.?\d)"
_NUMBER = rf"(?<!\d)(?<!\d\.){_DOTTED}|(?:^|(?<=[\s$-]))\.(?:{_DOTTED}|\d+(?!\.?\d))"
_CHUNK = re.compile(rf"{_NUMBER}|(?:(?!{_NUMBER})[a-zA-Z0-9é])+|.\u200d?")


def span_places(source: str) -> list[str]:
    """Every place of the source that a span can take, as its text: by hand for the WORDS above."""
    return [place.text for place in _located(source)]


class _Place(NamedTuple):
    """A place, its start and end counted in chunks over all lines."""

    start: int
    end: int
    text: str


def _located(source: str) -> list[_Place]:
    places: list[_Place] = []
    before = 0
    for line in source.splitlines():
        chunks = [match[0] for match in _CHUNK.finditer(line)]
        for start in range(len(chunks)):
            for end in range(start + 1, len(chunks) + 1):
                if not chunks[start].isspace() and not chunks[end - 1].isspace():
                    places.append(_Place(before + start, before + end, "".join(chunks[start:end])))
        before += len(chunks)
    return places


class DocumentWriter:
    """Draws valid documents for a schema of the above kind: the grammar must take each of them."""

    def __init__(self, schema: Schema, source: str, rng: random.Random) -> None:
        self._root = schema
        self._places = span_places(source)
        self._located = _located(source)
        self._rng = rng

    def draw(self, schema: Schema | None = None, depth: int = 0) -> Any:
        """A value of `schema` (the root's where None). Raises LookupError where it finds none."""
        schema = self._root if schema is None else schema
        rng = self._rng
        if "$ref" in schema:
            return self.draw(self._root["$defs"][schema["$ref"].split("/")[-1]], depth)
        if "allOf" in schema:
            return self.draw(schema["allOf"][0], depth)
        if "anyOf" in schema:
            for member in rng.sample(schema["anyOf"], len(schema["anyOf"])):
                try:
                    return self.draw(member, depth)
                except LookupError:
                    continue
            raise LookupError
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return rng.choice(schema["enum"])
        if "pattern" in schema:
            return "".join(rng.choice("abc") for _ in range(rng.randint(2, 5)))
        return self._typed(schema, depth)

    def _typed(self, schema: Schema, depth: int) -> Any:
        rng = self._rng
        kind = schema["type"]
        if schema.get("x-verbatim"):
            values = [place for place in self._places if _fits(schema, place)]
            if kind != "string" and (not values or rng.random() < 0.3):
                return None
            if not values:
                raise LookupError
            return rng.choice(values)
        if kind == "integer":
            return rng.randint(schema["minimum"], schema["maximum"])
        if kind == "string":
            return "".join(rng.choice('aé" \\北') for _ in range(rng.randint(0, schema["maxLength"])))
        if kind == "object":
            return self._object(schema, depth)
        if kind == "array":
            return self._array(schema, depth)
        return rng.choice([None, True]) if kind != "null" else None

    def _object(self, schema: Schema, depth: int) -> Any:
        value = {}
        for key, child in schema["properties"].items():
            if key in schema.get("required", ()) or (depth < 4 and self._rng.random() < 0.6):
                try:
                    value[key] = self.draw(child, depth + 1)
                except LookupError:
                    if key in schema.get("required", ()):
                        raise
        return value

    def _array(self, schema: Schema, depth: int) -> Any:
        least, most = schema.get("minItems", 0), schema["maxItems"]
        left = list(self._places)
        end = 0
        items: list[Any] = []
        for _ in range(least if depth > 3 else self._rng.randint(least, most)):
            try:
                item = self.draw(schema["items"], depth + 1)
            except LookupError:
                break
            if item in items and ("uniqueItems" in schema or not isinstance(item, str)):
                continue
            if isinstance(item, str) and "uniqueItems" not in schema:
                if item not in left:
                    continue
                left.remove(item)
            if isinstance(item, str) and schema["items"].get("x-verbatim") and least <= 1:  # one behind the other
                behind = [place.end for place in self._located if place.text == item and place.start >= end]
                if not behind:
                    continue
                end = min(behind)
            items.append(item)
        if len(items) < least:
            raise LookupError
        return items


def _fits(schema: Schema, place: str) -> bool:
    return bool(max(1, schema.get("minLength", 1)) <= len(place) <= schema.get("maxLength", 300))
