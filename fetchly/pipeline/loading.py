"""A pipeline file or a dict in, the checked sections and the tree of their places out. Only files are read: nothing is
fetched, and nothing heavy is imported."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fetchly.errors import ConfigurationError
from fetchly.pipeline.fields import Resolution
from fetchly.pipeline.includes import Includer
from fetchly.pipeline.messages import first_error
from fetchly.pipeline.positions import Allowance, Node, Scalar, descend, plain
from fetchly.pipeline.positions import Mapping as MappingNode
from fetchly.pipeline.python_data import read_python
from fetchly.pipeline.spec import Spec
from fetchly.pipeline.variables import expanded
from fetchly.pipeline.yaml_text import MAX_BYTES, read_yaml

_ASKS_FOR_TEXT = frozenset(("string_type",))
_ASKS_FOR_MORE = frozenset(("int_type", "float_type", "bool_type"))


@dataclass(frozen=True, slots=True)
class Loaded:
    """The sections of a pipeline; `files` are the pipeline file and all that it includes."""

    spec: Spec
    tree: Node
    folder: Path
    files: tuple[Path, ...]


def load_file(path: str | os.PathLike[str], environment: Mapping[str, str]) -> Loaded:
    """Errors: ConfigurationError with file, line and column."""
    shown = os.fspath(path)
    file = Path(path).resolve()
    allowance = Allowance()
    files: list[Path] = []

    def read(found: Path) -> Node:
        name = shown if found == file else os.path.join(os.path.dirname(shown), os.path.relpath(found, file.parent))
        files.append(found)
        return expanded(read_yaml(_bytes(found, name), name, allowance), environment)

    tree = Includer(file.parent, read).resolve(read(file), file.parent, (file,))
    return Loaded(_validated(tree, file.parent), tree, file.parent, tuple(files))


def load_dict(data: Any, folder: Path, environment: Mapping[str, str]) -> Loaded:
    """Relative paths are relative to `folder`. Errors: ConfigurationError with a JSON pointer."""
    folder = folder.resolve()
    allowance = Allowance()
    files: list[Path] = []

    def read(found: Path) -> Node:
        files.append(found)
        name = os.path.relpath(found, folder)
        return expanded(read_yaml(_bytes(found, name), name, allowance), environment)

    tree = Includer(folder, read).resolve(expanded(read_python(data, allowance), environment), folder)
    return Loaded(_validated(tree, folder), tree, folder, tuple(files))


def _bytes(file: Path, name: str) -> bytes:
    try:
        with file.open("rb") as opened:
            return opened.read(MAX_BYTES + 1)
    except OSError as error:
        words = error.strerror or type(error).__name__
        hint = "check the path" if isinstance(error, FileNotFoundError) else None
        raise ConfigurationError(f"the file cannot be read: {words}", where=name, hint=hint) from None


def _validated(tree: Node, folder: Path) -> Spec:
    if not isinstance(tree, MappingNode):
        raise ConfigurationError(
            "a pipeline is a mapping", where=tree.place.text, hint="name: ..., source: ..., extract: ..."
        )
    data = plain(tree)
    try:
        return Spec.model_validate(data, context=Resolution(folder))
    except ValidationError as error:
        if not _read_again(error, tree, data):
            raise first_error(error, tree) from None
    try:
        return Spec.model_validate(data, context=Resolution(folder))
    except ValidationError as error:
        raise first_error(error, tree) from None


def _read_again(error: ValidationError, tree: Node, data: Any) -> bool:
    """Give a key the other reading of its value where it asks for that: text of a number as it is written, a number or
    a truth value of a variable's text. Whether anything was changed."""
    changed = False
    for detail in error.errors(include_url=False, include_input=False):
        node = descend(tree, detail["loc"])
        if not isinstance(node, Scalar) or node.other is None:
            continue
        is_text = isinstance(node.value, str)
        wanted = _ASKS_FOR_MORE if is_text else _ASKS_FOR_TEXT
        if detail["type"] in wanted and isinstance(node.other, str) != is_text:
            _put(data, detail["loc"], node.other)
            changed = True
    return changed


def _put(data: Any, loc: tuple[str | int, ...], value: Any) -> None:
    """Replace what a validator's path leads to."""
    place: tuple[Any, Any] | None = None
    for key in loc:
        is_there = isinstance(data, dict) and key in data
        if is_there or (isinstance(data, list) and isinstance(key, int) and key < len(data)):
            place = (data, key)
            data = data[key]
    if place is not None:
        holder, last = place
        holder[last] = value
