"""A leaf of a schema and a value in its type in; why the leaf refuses the value, or nothing, out.

A span cannot be held to these rules while it is written: they speak of the value that is read from it.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import jsonschema_rs

from fetchly.extraction.shape import Node, fingerprint

LONGEST_REASON = 200


def refusal(node: Node, value: Any, dialect: str | None = None) -> str:
    """What of bounds, lengths, pattern, format and other keywords a value breaks; empty where it breaks none.

    `node` is the leaf with its references followed (SchemaTree.node), `dialect` the `$schema` of the whole schema. A
    leaf that refers elsewhere in its keywords (`not`, `if`) is left to the validator of the record.
    """
    rules = _rules(fingerprint(node), dialect)
    if rules is None or rules.is_valid(value):
        return ""
    message = " ".join(next(iter(rules.iter_errors(value))).message.split())
    return message if len(message) <= LONGEST_REASON else f"…{message[1 - LONGEST_REASON :]}"


@lru_cache(maxsize=512)
def _rules(node: str, dialect: str | None) -> jsonschema_rs.Validator | None:
    """The rules of a leaf, given as its fingerprint; None where they cannot be compiled by themselves."""
    schema = json.loads(node)
    if dialect is not None:
        schema["$schema"] = dialect
    try:
        return jsonschema_rs.validator_for(schema, validate_formats=True, offline=True)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError):
        return None
