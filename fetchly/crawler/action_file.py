"""A YAML or JSON file in, the actions that it lists out; what is wrong in it is said with its line."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from fetchly.crawler.actions import Action, BadAction, checked_actions
from fetchly.errors import ConfigurationError

MAX_BYTES = 1_000_000


def actions_of(given: str | os.PathLike[str] | Sequence[Action | Mapping[str, Any]]) -> tuple[Action, ...]:
    """A list of actions, or the file that holds one. Raises ConfigurationError."""
    return load_actions(Path(given)) if isinstance(given, str | os.PathLike) else checked_actions(given)


def load_actions(file: Path) -> tuple[Action, ...]:
    """The actions of a file: a list, or a mapping whose `actions` is one. Raises ConfigurationError with file:line."""
    try:
        with file.open("rb") as opened:
            source = opened.read(MAX_BYTES + 1)
        if len(source) > MAX_BYTES:
            raise ConfigurationError(f"larger than {MAX_BYTES:,} bytes", where=str(file))
        text = source.decode("utf-8-sig")
        root = yaml.compose(text, yaml.SafeLoader)
        value = yaml.safe_load(text)
    except OSError as error:
        raise ConfigurationError(f"cannot be read: {error.strerror or error}", where=str(file)) from None
    except UnicodeDecodeError:
        raise ConfigurationError("is not UTF-8", where=str(file)) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"{file}:{mark.line + 1}:{mark.column + 1}" if mark is not None else str(file)
        raise ConfigurationError(f"is neither YAML nor JSON: {error.problem}", where=place) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        said = "nested too deeply" if isinstance(error, RecursionError) else " ".join(str(error).split())
        raise ConfigurationError(f"is neither YAML nor JSON: {said}", where=str(file)) from None
    inside = ["actions"] if isinstance(value, dict) and set(value) == {"actions"} else []
    try:
        return checked_actions(value["actions"] if inside else value, where=str(file))
    except BadAction as error:
        line = _line(root, [*inside, *error.path])
        raise BadAction(error.message, error.path, where=f"{file}:{line}", hint=error.hint) from None


def _line(node: Any, path: Sequence[int | str]) -> int:
    """Where a place of the value stands, as far as the file goes there: lines count from 1."""
    line = 1
    for step in [*path, None]:
        if node is None:
            break
        line = node.start_mark.line + 1
        if isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            node = node.value[step]
        elif isinstance(node, yaml.MappingNode):
            found = [(key, value) for key, value in node.value if key.value == step]
            if not found:
                break
            line, node = found[-1][0].start_mark.line + 1, found[-1][1]
        else:
            break
    return line
