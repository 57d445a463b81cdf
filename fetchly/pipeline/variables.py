"""A tree of values and an environment in, the tree with `${NAME}` and `${NAME:-default}` replaced out.

The default stands in for a variable that is unset or empty, as in a shell. `$${` is a plain `${`. Keys are left alone.
What came from a variable is text; a key that asks for a number or for true or false reads it as one. Its value is in
no message: Scalar.written keeps what the file says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping as Map
from typing import Any

from fetchly.errors import ConfigurationError
from fetchly.pipeline.positions import Entry, Mapping, Node, Place, Scalar, Sequence, short
from fetchly.pipeline.yaml_text import read_word

_REFERENCE = re.compile(r"\$\$\{|\$\{([^{}]*)\}|\$\{")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def expanded(node: Node, environment: Map[str, str]) -> Node:
    """The tree with its variables. Errors: ConfigurationError naming place and variable, never a value."""
    if isinstance(node, Mapping):
        entries = {key: Entry(e.place, expanded(e.node, environment)) for key, e in node.entries.items()}
        return Mapping(node.place, entries)
    if isinstance(node, Sequence):
        return Sequence(node.place, tuple(expanded(item, environment) for item in node.items))
    if not isinstance(node.value, str) or "${" not in node.value:
        return node
    names: list[str] = []  # of those whose values stand in no file
    found_any = False

    def replaced(found: re.Match[str]) -> str:
        if found[0] == "$${":
            return "${"
        nonlocal found_any
        found_any = True
        name, default = _parts(found, node.place)
        if default is not None and not environment.get(name):
            return default
        names.append(name)
        return _value(name, environment, node.place)

    text = _REFERENCE.sub(replaced, node.value)
    written = node.value if names else repr(text)
    return Scalar(node.place, text, read_word(text) if found_any else None, written, tuple(names))


def escaped(value: Any) -> Any:
    """A JSON value whose texts say what they are once they are expanded."""
    if isinstance(value, str):
        return value.replace("${", "$${")
    if isinstance(value, dict):
        return {key: escaped(item) for key, item in value.items()}
    return [escaped(item) for item in value] if isinstance(value, list) else value


def _parts(found: re.Match[str], place: Place) -> tuple[str, str | None]:
    inside = found[1]
    if inside is None:
        raise ConfigurationError(
            "${ begins a variable that does not end", where=place.text, hint="write ${NAME}, or $${ for a plain ${"
        )
    name, mark, default = inside.partition(":-")
    if _NAME.fullmatch(name) is None:
        raise ConfigurationError(
            f"{short(name)!r} is no name of a variable",
            where=place.text,
            hint="write ${NAME} or ${NAME:-default}, or $${ for a plain ${",
        )
    return name, default if mark else None


def _value(name: str, environment: Map[str, str], place: Place) -> str:
    value = environment.get(name)
    if value is None:
        raise ConfigurationError(
            f"the variable {name} is not set",
            where=place.text,
            hint=f"set it in the environment, or give a default: ${{{name}:-...}}",
            code="VARIABLE_MISSING",
        )
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ConfigurationError(f"the variable {name} does not hold UTF-8 text", where=place.text) from None
    return value
