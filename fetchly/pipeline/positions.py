"""What a document holds, each value with its place: the tree that the readers make and that every later error asks.

A place is written `books.yaml:3:9` for a file, and as a JSON pointer behind the word `pipeline` for a dict.
"""

from __future__ import annotations

import re
from collections.abc import Mapping as Map
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import Any

from fetchly.errors import ConfigurationError

DEEPEST = 100
MOST_VALUES = 100_000
_USER = re.compile(r"://[^/\s]*@")

Atom = str | int | float | bool | None


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where a key or a value stands; `order` is its turn in reading order."""

    order: int
    text: str = field(compare=False)


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value without parts. `other` is its second reading (the text of a number, the number in the text of a
    variable), for keys that ask for that; `variables` are the names that it came from, `written` is what stands in the
    file: the only spelling that may be shown where there are variables."""

    place: Place
    value: Atom
    other: Atom = None
    written: str = ""
    variables: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list."""

    place: Place
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """A value under a key; `place` is the key's."""

    place: Place
    node: Node


@dataclass(frozen=True, slots=True)
class Mapping:
    """Keys with their values."""

    place: Place
    entries: Map[str, Entry]


Node = Scalar | Sequence | Mapping


@dataclass(slots=True)
class Allowance:
    """How much may still be read, over all files of a pipeline; and the numbering of its places."""

    values: int = MOST_VALUES
    order: int = 0

    def place(self, text: str) -> Place:
        """The next place in reading order."""
        self.order += 1
        return Place(self.order, text)

    def take(self, values: int, depth: int, where: str) -> None:
        """Spend values. Errors: ConfigurationError once there are too many, or they are nested too deep."""
        self.values -= values
        if self.values < 0:
            raise ConfigurationError(
                f"there are more than {MOST_VALUES:,} values, aliases counted as often as they are used",
                where=where,
                hint="put long lists of URLs into a file: source.urls",
            )
        if depth > DEEPEST:
            raise ConfigurationError(f"nested deeper than {DEEPEST} levels", where=where)


def plain(node: Node) -> Any:
    """The JSON value of a tree."""
    if isinstance(node, Mapping):
        return {key: plain(entry.node) for key, entry in node.entries.items()}
    return [plain(item) for item in node.items] if isinstance(node, Sequence) else node.value


def step(node: Node | None, key: str | int) -> Node | None:
    """The member or item of a node; None where there is none."""
    if isinstance(node, Mapping) and isinstance(key, str) and key in node.entries:
        return node.entries[key].node
    if isinstance(node, Sequence) and isinstance(key, int) and 0 <= key < len(node.items):
        return node.items[key]
    return None


def descend(root: Node, path: Seq[str | int]) -> Node:
    """The deepest node on a path. What is no step of the tree is passed over: a validator's path names its branches,
    and list places of values that may stand alone."""
    node = root
    for key in path:
        node = step(node, key) or node
    return node


def key_place(root: Node, path: Seq[str | int]) -> Place:
    """Where the last key of a path stands; the place of the value where that is none of a mapping."""
    *parents, last = path
    holder = descend(root, parents)
    if isinstance(holder, Mapping) and isinstance(last, str) and last in holder.entries:
        return holder.entries[last].place
    return descend(holder, (last,)).place


def variables_in(node: Node) -> bool:
    """Whether anything of a value came from the environment."""
    if isinstance(node, Mapping):
        return any(variables_in(entry.node) for entry in node.entries.values())
    return any(map(variables_in, node.items)) if isinstance(node, Sequence) else bool(node.variables)


def shown(node: Node) -> str:
    """A value as a message may show it: nothing of the environment, no user of a URL, nothing long."""
    if isinstance(node, Mapping):
        return "a mapping"
    if isinstance(node, Sequence):
        return "a list"
    if node.variables:
        return short(node.written)
    if node.value is None:
        return "empty"
    return short(_USER.sub("://***@", repr(node.value) if isinstance(node.value, str) else node.written))


def short(text: str) -> str:
    """At most 60 characters of a text."""
    return text if len(text) <= 60 else f"{text[:40]} … {text[-15:]}"
