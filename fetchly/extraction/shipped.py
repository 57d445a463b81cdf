"""A bare name in, the text of a shipped schema out."""

from __future__ import annotations

from fetchly.errors import SchemaError
from fetchly.resources import ShippedTexts

_SCHEMAS = ShippedTexts("schemas", ".json")


def names() -> tuple[str, ...]:
    """The names of all shipped schemas, sorted."""
    return _SCHEMAS.names()


def read(name: str) -> str:
    """The JSON text of the shipped schema `name`. Errors: SchemaError SCHEMA_UNKNOWN with the nearest name."""
    known = names()
    if name not in known:
        near = _SCHEMAS.nearest(name)
        guess = f"did you mean {near!r}? " if near else ""
        raise SchemaError(
            f"no shipped schema is called {name!r}",
            where=name,
            code="SCHEMA_UNKNOWN",
            hint=f"{guess}shipped: {', '.join(known)}; a file is named with its suffix or a separator, ./{name}.json",
        )
    return _SCHEMAS.read(name)
