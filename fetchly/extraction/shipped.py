"""A bare name in, the text of a shipped schema out."""

from __future__ import annotations

import difflib

from fetchly.errors import SchemaError
from fetchly.resources import library


def names() -> tuple[str, ...]:
    """The names of all shipped schemas, sorted."""
    entries = library("schemas").iterdir()
    return tuple(sorted(entry.name.removesuffix(".json") for entry in entries if entry.name.endswith(".json")))


def read(name: str) -> str:
    """The JSON text of the shipped schema `name`. Errors: SchemaError SCHEMA_UNKNOWN with the nearest name."""
    known = names()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        guess = f"did you mean {near[0]!r}? " if near else ""
        raise SchemaError(
            f"no shipped schema is called {name!r}",
            where=name,
            code="SCHEMA_UNKNOWN",
            hint=f"{guess}shipped: {', '.join(known)}; a file is named with its suffix or a separator, ./{name}.json",
        )
    return (library("schemas") / f"{name}.json").read_text(encoding="utf-8")
