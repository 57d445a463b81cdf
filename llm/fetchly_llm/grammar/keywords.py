"""A keyword and a dialect go in; what the keyword is (assertion, container, annotation, stranger) comes out."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

Dialect = Literal["draft-04", "draft-06", "draft-07", "2019-09", "2020-12"]

DIALECTS: Final[tuple[Dialect, ...]] = ("draft-04", "draft-06", "draft-07", "2019-09", "2020-12")
METASCHEMAS: Final[Mapping[Dialect, str]] = {
    "draft-04": "http://json-schema.org/draft-04/schema#",
    "draft-06": "http://json-schema.org/draft-06/schema#",
    "draft-07": "http://json-schema.org/draft-07/schema#",
    "2019-09": "https://json-schema.org/draft/2019-09/schema",
    "2020-12": "https://json-schema.org/draft/2020-12/schema",
}
_METASCHEMA = re.compile(r"https?://json-schema\.org/(?:draft/(2019-09|2020-12)|(draft-0[467]))/schema#?")

TYPES: Final = ("null", "boolean", "integer", "number", "string", "array", "object")

# When each keyword came and went, as indexes into DIALECTS: (first, last).
_SPAN: Final[Mapping[str, tuple[int, int]]] = {
    **dict.fromkeys(
        [
            "type",
            "enum",
            "multipleOf",
            "maximum",
            "exclusiveMaximum",
            "minimum",
            "exclusiveMinimum",
            "maxLength",
            "minLength",
            "pattern",
            "items",
            "maxItems",
            "minItems",
            "uniqueItems",
            "maxProperties",
            "minProperties",
            "required",
            "properties",
            "patternProperties",
            "additionalProperties",
            "allOf",
            "anyOf",
            "oneOf",
            "not",
            "format",
            "title",
            "description",
            "default",
            "$schema",
            "$ref",
            "definitions",
        ],
        (0, 4),
    ),
    **dict.fromkeys(["const", "contains", "propertyNames", "examples", "$id"], (1, 4)),
    **dict.fromkeys(
        ["if", "then", "else", "readOnly", "writeOnly", "$comment", "contentMediaType", "contentEncoding"], (2, 4)
    ),
    **dict.fromkeys(
        [
            "minContains",
            "maxContains",
            "unevaluatedItems",
            "unevaluatedProperties",
            "dependentRequired",
            "dependentSchemas",
            "contentSchema",
            "deprecated",
            "$anchor",
            "$vocabulary",
        ],
        (3, 4),
    ),
    **dict.fromkeys(["prefixItems", "$dynamicRef", "$dynamicAnchor"], (4, 4)),
    "$defs": (0, 4),  # a container only: harmless, and much used, before it was official
    "$recursiveRef": (3, 3),
    "$recursiveAnchor": (3, 3),
    "additionalItems": (0, 3),
    "dependencies": (0, 2),
    "id": (0, 0),
}
_MAPS: Final = frozenset(
    ["properties", "patternProperties", "definitions", "$defs", "dependentSchemas", "dependencies"]
)
_LISTS: Final = frozenset(["allOf", "anyOf", "oneOf", "prefixItems", "items"])
_SINGLES: Final = frozenset(
    [
        "additionalProperties",
        "additionalItems",
        "items",
        "not",
        "if",
        "then",
        "else",
        "contains",
        "propertyNames",
        "unevaluatedItems",
        "unevaluatedProperties",
        "contentSchema",
    ]
)

# Keywords that say something only about values of one type; their presence implies the type when none is given.
IMPLIES: Final[Mapping[str, str]] = {
    **dict.fromkeys(["minLength", "maxLength", "pattern", "format"], "string"),
    **dict.fromkeys(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"], "number"),
    **dict.fromkeys(
        [
            "items",
            "prefixItems",
            "additionalItems",
            "minItems",
            "maxItems",
            "uniqueItems",
            "contains",
            "minContains",
            "maxContains",
            "unevaluatedItems",
        ],
        "array",
    ),
    **dict.fromkeys(
        [
            "properties",
            "patternProperties",
            "additionalProperties",
            "required",
            "minProperties",
            "maxProperties",
            "propertyNames",
            "dependencies",
            "dependentRequired",
            "dependentSchemas",
            "unevaluatedProperties",
        ],
        "object",
    ),
}

OUR_ANNOTATIONS: Final = ("x-verbatim", "x-computed", "x-link")
_UNMISTAKABLE: Final = ("x-verbatim", "x-computed")  # close to no likely word of a user's own, as x-line is to x-link
_FOREIGN_ANNOTATIONS: Final = frozenset(["example", "externalDocs", "xml", "discriminator", "$comment"])

_HINTS: Final[Mapping[str, str]] = {
    "nullable": 'JSON Schema has no "nullable" (OpenAPI 3.0 has): write "type": ["string", "null"].',
    "divisibleBy": "draft-03 spelling: use multipleOf.",
    "disallow": "draft-03 spelling: use not.",
    "extends": "draft-03 spelling: use allOf.",
    "optional": "list the names that must be there in the object's required instead.",
    "id": "since draft-06 it is $id.",
    "dependencies": "since 2019-09 it is dependentRequired and dependentSchemas.",
    "additionalItems": "since 2020-12 it is items, beside prefixItems.",
    "$recursiveRef": "2019-09 only; since 2020-12 it is $dynamicRef.",
    "$recursiveAnchor": "2019-09 only; since 2020-12 it is $dynamicAnchor.",
    "components": "definitions belong under $defs.",
    "min": "did you mean `minimum`, `minLength` or `minItems`?",
    "max": "did you mean `maximum`, `maxLength` or `maxItems`?",
}


def dialect_of(uri: str) -> Dialect | None:
    """The dialect that a `$schema` names, None for one that we do not speak."""
    found = _METASCHEMA.fullmatch(uri)
    if found is None:
        return None
    name = found.group(1) or found.group(2)
    return next(dialect for dialect in DIALECTS if dialect == name)


def at_most(dialect: Dialect, last: Dialect) -> bool:
    """Whether `dialect` is `last` or older."""
    return DIALECTS.index(dialect) <= DIALECTS.index(last)


def is_known(keyword: str, dialect: Dialect) -> bool:
    """Whether the dialect gives the keyword a meaning."""
    span = _SPAN.get(keyword)
    return span is not None and span[0] <= DIALECTS.index(dialect) <= span[1]


def is_annotation(keyword: str) -> bool:
    """Whether a stranger is known, or by its spelling declared, to constrain nothing."""
    if keyword in OUR_ANNOTATIONS or keyword in _FOREIGN_ANNOTATIONS:
        return True
    return keyword.startswith("x-") and keyword != "x-guidance" and not _close(keyword, _UNMISTAKABLE)


def advice(keyword: str, dialect: Dialect) -> str:
    """What the author of an unknown keyword may have meant."""
    span = _SPAN.get(keyword)
    if span is not None and DIALECTS.index(dialect) < span[0]:
        return f'it came with {DIALECTS[span[0]]}; this schema is {dialect}: set "$schema", or drop it.'
    if keyword in _HINTS:
        return _HINTS[keyword]
    known = [name for name in _SPAN if is_known(name, dialect)] + list(OUR_ANNOTATIONS)
    close = _close(keyword, known)
    if close:
        return f"did you mean `{close}`?"
    return "if it is an annotation of yours, spell it with x- in front; else drop it."


def _close(keyword: str, known: list[str] | tuple[str, ...]) -> str | None:
    spellings = {name.lower(): name for name in known}
    found = difflib.get_close_matches(keyword.lower().replace("_", "-"), spellings, n=1, cutoff=0.78)
    found = found or difflib.get_close_matches(keyword.lower().replace("_", ""), spellings, n=1, cutoff=0.78)
    return spellings[found[0]] if found else None


def subschemas(schema: Mapping[str, Any], dialect: Dialect) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every direct subschema: the unescaped steps to it, and what stands there."""
    if "$ref" in schema and at_most(dialect, "draft-07"):
        containers = [name for name in schema if name in ("definitions", "$defs")]  # siblings of $ref mean nothing
    else:
        containers = [name for name in schema if is_known(name, dialect)]
    for keyword in containers:
        value = schema[keyword]
        if keyword in _MAPS and isinstance(value, dict):
            for name, child in value.items():
                if not (keyword == "dependencies" and isinstance(child, list)):
                    yield (keyword, name), child
        elif keyword in _LISTS and isinstance(value, list):
            for position, child in enumerate(value):
                yield (keyword, str(position)), child
        elif keyword in _SINGLES and not isinstance(value, list):
            yield (keyword,), value
