"""A dict, as a program writes a pipeline, in; the tree of values with JSON pointers as their places out."""

from __future__ import annotations

import os
from collections.abc import Mapping as Map
from typing import Any

from fetchly.errors import ConfigurationError
from fetchly.extraction.shape import below
from fetchly.pipeline.positions import Allowance, Entry, Mapping, Node, Scalar, Sequence

NAME = "pipeline"


def read_python(value: Any, allowance: Allowance) -> Node:
    """JSON values, tuples and path objects. Errors: ConfigurationError with the JSON pointer."""
    return _read(value, "", 1, allowance)


def _read(value: Any, pointer: str, depth: int, allowance: Allowance) -> Node:
    where = f"{NAME} {pointer}".rstrip()
    allowance.take(1, depth, where)
    place = allowance.place(where)
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, Map):
        entries: dict[str, Entry] = {}
        for key, item in value.items():
            if not isinstance(key, str):
                raise ConfigurationError(f"the key {key!r} is not text", where=where)
            below_it = below(pointer, key)
            entries[key] = Entry(allowance.place(f"{NAME} {below_it}"), _read(item, below_it, depth + 1, allowance))
        return Mapping(place, entries)
    if isinstance(value, list | tuple):
        return Sequence(
            place, tuple(_read(item, below(pointer, n), depth + 1, allowance) for n, item in enumerate(value))
        )
    if value is None or isinstance(value, str | int | bool):
        if isinstance(value, str) and ("\0" in value or not _is_text(value)):
            raise ConfigurationError("the text holds what is no character", where=where)
        return Scalar(place, value, None, repr(value))
    if isinstance(value, float) and value == value and abs(value) != float("inf"):
        return Scalar(place, value, None, repr(value))
    raise ConfigurationError(f"a {type(value).__name__} is no JSON value", where=where)


def _is_text(value: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in value)
