"""Any value goes in; a well-formed schema document, or the findings that say why it is none, come out."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final

import jsonschema_rs

from fetchly_llm.grammar import findings as codes
from fetchly_llm.grammar.findings import Notebook, pointer_to
from fetchly_llm.grammar.keywords import (
    METASCHEMAS,
    OUR_ANNOTATIONS,
    Dialect,
    advice,
    at_most,
    dialect_of,
    is_annotation,
    is_known,
)
from fetchly_llm.grammar.references import Document, Place, ReferenceUnresolved, endless

MAX_DEPTH: Final = 50  # subschemas within subschemas
MAX_JSON_DEPTH: Final = 150  # brackets within brackets; llguidance's own parser stops near 200
MAX_VALUES: Final = 100_000  # JSON values in the whole document
MAX_CHARACTERS: Final = 2_000_000  # keys and strings together

# What llguidance writes by a rule of its own, and what the validator can still check afterwards.
GRAMMAR_FORMATS: Final = frozenset(
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"]
)
VALIDATOR_FORMATS: Final = frozenset(
    [
        "idn-email",
        "idn-hostname",
        "iri",
        "iri-reference",
        "uri-reference",
        "uri-template",
        "json-pointer",
        "relative-json-pointer",
        "regex",
    ]
)
SURROGATE = re.compile("[\ud800-\udfff]")
RARE = re.compile("[\U00040000-\U000bffff]")
"""What byte-level vocabularies lack as a rule: the compiler leaves it out where the model's does, and a lint warns."""
_LONG_ESCAPE = re.compile(r"\\\\u\{([0-9a-fA-F]{5,6})\}")  # in a pattern, its backslash doubled as JSON has it


def inspect(schema: object, notebook: Notebook) -> Document | None:
    """Check form, size, dialect, metaschema, names and references; None when desugaring makes no sense.

    Never raises for any value: what is wrong is in the notebook.
    """
    if isinstance(schema, Mapping) and not isinstance(schema, dict):
        schema = dict(schema)
    if not isinstance(schema, dict | bool):
        notebook.note(
            codes.INVALID,
            "",
            f"a schema is a JSON object or a boolean, not {type(schema).__name__}.",
            hint="Hand over the schema itself.",
        )
        return None
    if not _is_json(schema, notebook):
        return None
    dialect = _dialect(schema, notebook)
    if dialect is None or not _meets_metaschema(schema, dialect, notebook):
        return None
    document = Document(schema, dialect)
    for place in document.walk():
        if place.depth > MAX_DEPTH:
            message = f"subschemas are nested more than {MAX_DEPTH} deep."
            notebook.note(codes.TOO_LARGE, place.pointer, message, hint=_SMALLER)
            return None
    for place in document.walk():
        _check_place(place, document, notebook)
    circle = endless(document)
    if circle is not None:
        notebook.note(
            codes.REFERENCE,
            pointer_to(circle.pointer, "$ref"),
            "the references lead back to where they started without describing a value.",
            keyword="$ref",
            value=circle.schema["$ref"],
            hint="Break the circle: go through a property or an item.",
        )
    return document


_SMALLER = "Split the schema, or share repeated parts through $defs and $ref."


def _is_json(schema: Any, notebook: Notebook) -> bool:
    """Whether the value is JSON of a size we take; iterative, as the nesting is the stranger's."""
    pending: list[tuple[Any, str, int]] = [(schema, "", 0)]
    values = characters = 0
    while pending:
        value, pointer, depth = pending.pop()
        values += 1
        if isinstance(value, str):
            characters += len(value)
        if depth > MAX_JSON_DEPTH or values > MAX_VALUES or characters > MAX_CHARACTERS:
            what = f"deeper than {MAX_JSON_DEPTH} brackets" if depth > MAX_JSON_DEPTH else "too large"
            notebook.note(codes.TOO_LARGE, "" if depth <= MAX_JSON_DEPTH else pointer, f"it is {what}.", hint=_SMALLER)
            return False
        problem = _strange(value)
        if problem:
            notebook.note(codes.INVALID, pointer, f"{problem} is not JSON.", hint="Write the schema as plain JSON.")
            return False
        if isinstance(value, dict):
            characters += sum(map(len, value))
            pending.extend((child, pointer_to(pointer, name), depth + 1) for name, child in value.items())
        elif isinstance(value, list):
            pending.extend((child, pointer_to(pointer, index), depth + 1) for index, child in enumerate(value))
    return True


def _strange(value: Any) -> str:
    if value is None or isinstance(value, bool | int):
        return ""
    if isinstance(value, float):
        return "" if math.isfinite(value) else "a number that is not finite"
    if isinstance(value, str):
        return "a text with half a surrogate pair" if SURROGATE.search(value) else ""
    if isinstance(value, dict):
        for name in value:
            if not isinstance(name, str):
                return f"a key of type {type(name).__name__}"
            if SURROGATE.search(name):
                return "a key with half a surrogate pair"
        return ""
    return "" if isinstance(value, list) else f"a {type(value).__name__}"


def _dialect(schema: dict[str, Any] | bool, notebook: Notebook) -> Dialect | None:
    if isinstance(schema, bool) or "$schema" not in schema:
        return "2020-12"
    named = schema["$schema"]
    dialect = dialect_of(named) if isinstance(named, str) else None
    if dialect is None:
        notebook.note(
            codes.INVALID,
            "/$schema",
            "this dialect is not known here; the schema is at fault only if it is a slip.",
            keyword="$schema",
            value=named,
            hint="Known: " + ", ".join(METASCHEMAS.values()) + "; or leave $schema out for 2020-12.",
        )
    return dialect


def _meets_metaschema(schema: dict[str, Any] | bool, dialect: Dialect, notebook: Notebook) -> bool:
    if isinstance(schema, bool):
        return True
    try:
        jsonschema_rs.meta.validate({**schema, "$schema": METASCHEMAS[dialect]})
    except jsonschema_rs.ValidationError as error:
        pointer = pointer_to("", *error.instance_path)
        keyword = str(error.instance_path[-1]) if error.instance_path else ""
        notebook.note(
            codes.INVALID,
            pointer,
            f"{_first_line(error.message)}: not a {dialect} schema.",
            keyword=keyword,
            value=error.instance,
            hint=_slip(keyword, error.instance, dialect),
        )
        return False
    except (jsonschema_rs.ReferencingError, ValueError) as error:
        notebook.note(codes.INVALID, "", f"{_first_line(str(error))}.", hint="Check $schema and $id.")
        return False
    return True


def _slip(keyword: str, value: Any, dialect: Dialect) -> str:
    if keyword == "required" and isinstance(value, bool):
        return "Draft-03 style: list the required names in the object's own `required` array."
    if keyword in ("exclusiveMinimum", "exclusiveMaximum") and isinstance(value, bool):
        return f'Draft-04 style: write the bound itself as the value, or set "$schema" to {METASCHEMAS["draft-04"]}.'
    if keyword == "items" and isinstance(value, list):
        return f"Up to 2019-09 items could be a list: write prefixItems, or name the older $schema (this is {dialect})."
    return "Correct the value."


def _takes_spans(schema: dict[str, Any]) -> bool:
    kinds = schema.get("type", "string")
    named = {kinds} if isinstance(kinds, str) else set(kinds) if _are_texts(kinds) else {"string"}
    plain = not any(word in schema for word in ("enum", "const")) and schema.get("x-computed") is not True
    return plain and "string" in named and named <= {"string", "null"}


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _first_line(text: str) -> str:
    line = text.splitlines()[0] if text else "invalid"
    return line if len(line) <= 200 else line[:199] + "…"


def _check_place(place: Place, document: Document, notebook: Notebook) -> None:
    schema = place.schema
    if not isinstance(schema, dict):
        return
    hidden = "$ref" in schema and at_most(document.dialect, "draft-07")
    for keyword, value in schema.items():
        pointer = pointer_to(place.pointer, keyword)
        if hidden and keyword in ("$ref", "definitions", "$defs"):
            pass
        elif hidden and is_known(keyword, document.dialect):
            _ignored_beside_ref(pointer, keyword, value, document.dialect, notebook)
        elif keyword == "x-guidance":
            notebook.note(
                codes.UNKNOWN_KEYWORD,
                pointer,
                "the layout of the record is fixed; a schema cannot set it.",
                keyword=keyword,
                value=value,
                hint="Drop x-guidance.",
            )
        elif keyword == "x-verbatim" and value is True and not _takes_spans(schema):
            notebook.note(
                codes.INVALID,
                pointer,
                "a span of the page is a free text: type string (or string and null), no enum, const or x-computed.",
                keyword=keyword,
                value=value,
                hint="Drop x-verbatim (numbers and dates are spans of the page without it) or the other keyword.",
            )
        elif keyword in OUR_ANNOTATIONS and not isinstance(value, bool):
            notebook.note(
                codes.INVALID, pointer, "it is true or false.", keyword=keyword, value=value, hint="Correct the value."
            )
        elif not is_known(keyword, document.dialect) and not is_annotation(keyword):
            notebook.note(
                codes.UNKNOWN_KEYWORD,
                pointer,
                f"{document.dialect} has no such keyword, so it would constrain nothing.",
                keyword=keyword,
                value=value,
                severity="error" if notebook.mode == "strict" else "warning",
                hint=advice(keyword, document.dialect),
            )
    _check_values(place, document, notebook, hidden)


def _ignored_beside_ref(pointer: str, keyword: str, value: Any, dialect: Dialect, notebook: Notebook) -> None:
    if keyword in ("title", "description", "default", "examples", "$comment", "$schema", "id", "$id"):
        return
    notebook.note(
        codes.UNKNOWN_KEYWORD,
        pointer,
        f"{dialect} ignores what stands beside $ref.",
        keyword=keyword,
        value=value,
        severity="warning",
        hint="Put both into an allOf, or move to 2020-12.",
    )


def _check_values(place: Place, document: Document, notebook: Notebook, hidden: bool) -> None:
    schema = place.schema
    if isinstance(schema.get("$ref"), str):
        _check_reference(place, document, notebook)
    if hidden:
        return
    patterns = [("pattern", schema["pattern"])] if isinstance(schema.get("pattern"), str) else []
    patterns += [("patternProperties", name) for name in schema.get("patternProperties", ())]
    for keyword, pattern in patterns:
        try:
            jsonschema_rs.Draft202012Validator({"pattern": pattern})
        except (jsonschema_rs.ValidationError, ValueError):
            notebook.note(
                codes.INVALID,
                pointer_to(place.pointer, keyword),
                "this is no regular expression (ECMA-262).",
                keyword=keyword,
                value=pattern,
                hint="Correct it; backslashes are doubled inside JSON.",
            )
    if isinstance(schema.get("format"), str):
        _check_format(place, schema["format"], notebook)
    for keyword in ("enum", "const", "pattern", "properties", "patternProperties"):
        named = list(schema[keyword]) if isinstance(schema.get(keyword), dict) and keyword != "const" else None
        _check_characters(place, keyword, schema.get(keyword) if named is None else named, notebook)


def _check_characters(place: Place, keyword: str, said: Any, notebook: Notebook) -> None:
    """Warn of characters that the grammar leaves out where the model's vocabulary has no bytes for them."""
    found = RARE.search(_LONG_ESCAPE.sub(_character, json.dumps(said, ensure_ascii=False)))
    if found is not None:
        notebook.note(
            codes.UNSPELLABLE,
            pointer_to(place.pointer, keyword),
            f"few models can spell U+{ord(found[0]):X} (planes 4 to 11 of Unicode). By others, a value or an optional"
            " name with it is never written; where there is no other choice, they refuse the schema.",
            keyword=keyword,
            value=said,
            severity="warning",
            hint="Use other characters.",
        )


def _character(escape: re.Match[str]) -> str:
    code = int(escape[1], 16)
    return chr(code) if code < 0x110000 else escape[0]


def _check_reference(place: Place, document: Document, notebook: Notebook) -> None:
    reference = place.schema["$ref"]
    try:
        document.resolve(place, reference)
    except ReferenceUnresolved as error:
        notebook.note(
            codes.REFERENCE,
            pointer_to(place.pointer, "$ref"),
            f"{error}{'; nothing is fetched' if error.remote else ''}.",
            keyword="$ref",
            value=reference,
            hint="Copy the definition into $defs and refer to it as #/$defs/name.",
        )


def _check_format(place: Place, name: str, notebook: Notebook) -> None:
    pointer = pointer_to(place.pointer, "format")
    if name == "hostname":
        notebook.leave_to_validator(pointer, "format")  # what may stand behind xn-- is beyond the grammar
    if name in GRAMMAR_FORMATS:
        return
    if name in VALIDATOR_FORMATS:
        message, hint = "written freely, and checked on the finished record.", "Expect redrawn records at times."
        notebook.leave_to_validator(pointer, "format")
    else:
        message = "nobody here knows this format; JSON Schema makes it an annotation, which constrains nothing."
        hint = "Use pattern to constrain the text. Known formats: " + ", ".join(sorted(GRAMMAR_FORMATS)) + "."
    notebook.note(
        codes.FORMAT_ANNOTATION, pointer, message, keyword="format", value=name, severity="warning", hint=hint
    )
