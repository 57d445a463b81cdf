"""The sections of a pipeline in; JSON values out, whole or as they may be shown: without passwords, and with the names
of variables in place of what they hold."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, SecretStr

from fetchly.pipeline.positions import Mapping, Node, Scalar, Sequence, step
from fetchly.sinks.place import SECRET_NAME, without_secrets

HIDDEN = "***"
_USER = re.compile(r"(?<=://)([^/@\s:]*):(?!\$\{)[^/@\s]*(?=@)")
_SECRETIVE = ("sinks", "storage_options")
"""Keys below which more is hidden: tokens in addresses, and all that an option's name says is secret."""
_LEAST = 4  # characters of a value that is looked for within longer ones


def dumped(model: BaseModel) -> dict[str, Any]:
    """Every value of a model under the key that it has in the file, secrets as they are; absent ones left out."""
    return {
        field.alias or name: _dumped(getattr(model, name))
        for name, field in type(model).model_fields.items()
        if getattr(model, name) is not None
    }


def _dumped(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return dumped(value)
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, dict):
        return {key: _dumped(item) for key, item in value.items()}
    return [_dumped(item) for item in value] if isinstance(value, list | tuple) else value


def masked(values: Any, tree: Node) -> Any:
    """The same without what may not be shown."""
    return _Mask(tree).hide(values, tree)


class _Mask:
    def __init__(self, tree: Node) -> None:
        found = {str(node.value): node.written for node in _variable_values(tree) if len(str(node.value)) >= _LEAST}
        self._values = sorted(found.items(), key=lambda pair: -len(pair[0]))

    def hide(self, value: Any, node: Node | None, is_here: bool = True, *, within: str = "") -> Any:
        """`node` is what stands at this place of the file (`is_here`), or what stands for the whole around it; `within`
        is which of _SECRETIVE the place lies in."""
        if isinstance(value, dict):
            return {
                name: HIDDEN
                if isinstance(item, str)
                and (name == "api_key" or (within == "storage_options" and SECRET_NAME.search(name)))
                else self.hide(item, *_member(node, name), within=name if name in _SECRETIVE else within)
                for name, item in value.items()
            }
        if isinstance(value, list):
            return [self.hide(item, *_member(node, number), within=within) for number, item in enumerate(value)]
        if isinstance(node, Scalar) and node.variables and is_here and value == node.value:
            return _without_passwords(node.written, within)
        if isinstance(value, str):
            return _without_passwords(self._text(value, node), within)
        return node.written if isinstance(node, Scalar) and node.variables and is_here else value

    def _text(self, value: str, node: Node | None) -> str:
        if isinstance(node, Scalar):
            return value.replace(str(node.value), node.written) if node.variables else value
        for secret, written in self._values:
            value = value.replace(secret, written)
        return value


def _without_passwords(text: str, within: str) -> str:
    text = _USER.sub(rf"\1:{HIDDEN}", text)
    return without_secrets(text, HIDDEN) if within and "://" in text else text


def _member(node: Node | None, key: str | int) -> tuple[Node | None, bool]:
    """What stands there; a value that stands alone stands for its list, or for its mapping."""
    below = step(node, key)
    if below is None and isinstance(node, Scalar):
        return node, False
    return below, True


def _variable_values(node: Node) -> Iterator[Scalar]:
    if isinstance(node, Mapping):
        for entry in node.entries.values():
            yield from _variable_values(entry.node)
    elif isinstance(node, Sequence):
        for item in node.items:
            yield from _variable_values(item)
    elif node.variables:
        yield node
