"""A tree with `include: FILE` in stated places in, the tree with those files' contents out.

The places: the file itself, each of its sections, and an entry of `extract.schemas` or of `sinks`. The included file
holds what would stand there; keys beside `include` win over its keys, whole. It lies in the folder of the pipeline
file or below, links resolved, and is named relative to the file that includes it. Errors: ConfigurationError.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePath

from fetchly.errors import ConfigurationError
from fetchly.pipeline.positions import Entry, Mapping, Node, Place, Scalar, Sequence, short, shown

INCLUDE = "include"
_LONGEST_CHAIN = 16


@dataclass(frozen=True, slots=True)
class _Kind:
    """A stated place; `members` are those below it, `items` says that the items of a list are such places, too."""

    members: tuple[tuple[str, _Kind], ...] = ()
    items: bool = False


_ENTRY = _Kind()
_LIST = _Kind(items=True)
_EXTRACT = _Kind((("schemas", _LIST),), items=True)
PIPELINE = _Kind((("source", _ENTRY), ("extract", _EXTRACT), ("transform", _ENTRY), ("sinks", _LIST), ("run", _ENTRY)))


class Includer:
    """`folder` is the one that no include leaves; `read` makes a tree of a file, its variables replaced."""

    def __init__(self, folder: Path, read: Callable[[Path], Node]) -> None:
        self._folder = folder.resolve()
        self._read = read

    def resolve(self, node: Node, holder: Path, chain: tuple[Path, ...] = (), kind: _Kind = PIPELINE) -> Node:
        """The tree of a file in folder `holder`; `chain` are the files that led to it."""
        if isinstance(node, Sequence):
            if not kind.items:
                return node
            return Sequence(node.place, tuple(self.resolve(item, holder, chain, _ENTRY) for item in node.items))
        if not isinstance(node, Mapping):
            return node
        members = dict(kind.members)
        own = {
            key: Entry(entry.place, self.resolve(entry.node, holder, chain, members[key])) if key in members else entry
            for key, entry in node.entries.items()
        }
        asked = own.pop(INCLUDE, None)
        if asked is None:
            return Mapping(node.place, own)
        included = self._included(asked, holder, chain, kind)
        if isinstance(included, Mapping):
            return Mapping(node.place, {**included.entries, **own})
        if own:
            other = next(iter(own))
            raise ConfigurationError(
                f"{other!r} cannot stand beside the include of a list", where=own[other].place.text
            )
        return included

    def _included(self, asked: Entry, holder: Path, chain: tuple[Path, ...], kind: _Kind) -> Node:
        node = asked.node
        place = node.place
        if not isinstance(node, Scalar) or not isinstance(node.value, str) or not node.value.strip():
            raise ConfigurationError(f"include is {shown(node)}, not the name of a file", where=place.text)
        file = self._confined(node.value, shown(node), holder, place)
        if file in chain:
            raise ConfigurationError(
                f"the include of {shown(node)} leads back to itself", where=place.text, hint="break the circle"
            )
        if len(chain) >= _LONGEST_CHAIN:
            raise ConfigurationError(f"includes lead on through more than {_LONGEST_CHAIN} files", where=place.text)
        if not file.is_file():
            raise ConfigurationError(f"the included file {shown(node)} does not exist", where=place.text)
        return self.resolve(self._read(file), file.parent, (*chain, file), kind)

    def _confined(self, name: str, spelt: str, holder: Path, place: Place) -> Path:
        try:
            file = (holder / name).resolve()
        except (OSError, RuntimeError, ValueError):  # a loop of links; a name that the system refuses
            raise ConfigurationError(f"the include {short(spelt)} cannot be followed", where=place.text) from None
        if PurePath(name).is_absolute() or not file.is_relative_to(self._folder):
            raise ConfigurationError(
                f"the include {short(spelt)} leaves the folder of the pipeline",
                where=place.text,
                hint="copy the file into that folder",
            )
        return file
