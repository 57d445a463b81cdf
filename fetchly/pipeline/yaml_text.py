"""The bytes of a YAML file in, a tree of values with their places out. Nothing in a file makes anything run.

What an unquoted word is follows YAML 1.2 and JSON, not YAML 1.1: only `true`, `false`, `null` and numbers as JSON
writes them are no text. `no`, `on`, `1:30`, `012` and `2024-05-01` are text. Tags, merge keys, a key that stands
twice and a second document are refused; what aliases unfold to is counted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from fetchly.errors import ConfigurationError
from fetchly.pipeline.positions import Allowance, Atom, Entry, Mapping, Node, Place, Scalar, Sequence, short

MAX_BYTES = 1024**2

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml where PyYAML was built with it
_UNREADABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")  # as YAML counts lines
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,299})(\.[0-9]{1,300})?([eE][+-]?[0-9]{1,4})?")
_WORDS: dict[str, Atom] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


def read_word(text: str) -> Atom:
    """What an unquoted word is."""
    if text in _WORDS:
        return _WORDS[text]
    number = _NUMBER.fullmatch(text)
    if number is None:
        return text
    if number[1] is None and number[2] is None:
        return int(text)
    return float(text) if math.isfinite(float(text)) else text


def read_yaml(data: bytes, name: str, allowance: Allowance) -> Node:
    """The one document of a file called `name`. Errors: ConfigurationError with file, line and column."""
    return _Composer(name, allowance).compose(_decoded(data, name))


@dataclass(slots=True)
class _Open:
    """A list or mapping that has not ended; `size` and `height` are those of what it holds so far."""

    place: Place
    anchor: str | None
    items: list[Node] | None = None
    entries: dict[str, Entry] = field(default_factory=dict)
    key: str | None = None
    key_place: Place | None = None
    size: int = 1
    height: int = 1


@dataclass(frozen=True, slots=True)
class _Anchored:
    node: Node | None
    size: int
    height: int


class _Composer:
    """Events to a tree, without recursion. PyYAML's own composer knows no bounds and keeps the last of two keys."""

    def __init__(self, name: str, allowance: Allowance) -> None:
        self._name = name
        self._allowance = allowance
        self._open: list[_Open] = []
        self._anchors: dict[str, _Anchored] = {}
        self._root: Node | None = None
        self._documents = 0
        self._lines = 1
        self._end = f"{name}:1:1"

    def compose(self, text: str) -> Node:
        self._lines = len(_BREAK.split(text))
        self._end = _place_at(text, self._name)
        try:
            for event in _events(text):
                self._take(event)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            words = error.problem or error.context or "it cannot be read"
            raise ConfigurationError(f"not YAML: {words}", where=self._at(mark), code="YAML_INVALID") from None
        except yaml.YAMLError as error:
            raise ConfigurationError(f"not YAML: {error}", where=f"{self._name}:1:1", code="YAML_INVALID") from None
        if self._root is None:
            raise ConfigurationError("the file is empty", where=f"{self._name}:1:1", hint="begin with name: ...")
        return self._root

    def _take(self, event: Any) -> None:
        where = self._at(event.start_mark)
        if isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                raise ConfigurationError("a second document begins", where=where, hint="one file holds one pipeline")
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            self._close(where)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event.anchor, where)
        elif isinstance(event, yaml.NodeEvent):
            self._begin(event, where)

    def _begin(self, event: Any, where: str) -> None:
        if event.tag is not None:
            tag = short(event.tag.replace("tag:yaml.org,2002:", "!!"))
            raise ConfigurationError(f"the tag {tag} is not read", where=where, hint="tags are not allowed: write text")
        self._allowance.take(1, len(self._open) + 1, where)
        place = self._allowance.place(where)
        anchor = event.anchor
        if not isinstance(event, yaml.ScalarEvent):
            self._no_key("a list or a mapping", where)
            if anchor is not None:
                self._anchors[anchor] = _Anchored(None, 0, 0)
            self._open.append(_Open(place, anchor, [] if isinstance(event, yaml.SequenceStartEvent) else None))
            return
        _check_characters(event.value, where)
        if self._awaits_key():
            self._set_key(event, place)
            return
        bare = not event.style
        value = read_word(event.value) if bare else event.value
        other = None if isinstance(value, str) else event.value
        node = Scalar(place, value, other if value is not None else None, event.value if bare else repr(event.value))
        if anchor is not None:
            self._anchors[anchor] = _Anchored(node, 1, 1)
        self._add(node, 1, 1)

    def _set_key(self, event: Any, place: Place) -> None:
        top = self._open[-1]
        key = event.value
        if key == "<<" and not event.style:
            raise ConfigurationError("merge keys are not read", where=place.text, hint="write the keys out, or include")
        if key in top.entries:
            first = top.entries[key].place.text
            raise ConfigurationError(
                f"the key {short(repr(key))} stands twice", where=place.text, hint=f"it stands at {first}, too"
            )
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(Scalar(place, key, None, repr(key)), 1, 1)
        top.key, top.key_place = key, place

    def _close(self, where: str) -> None:
        done = self._open.pop()
        node: Node = (
            Mapping(done.place, done.entries) if done.items is None else Sequence(done.place, tuple(done.items))
        )
        if done.anchor is not None:
            self._anchors[done.anchor] = _Anchored(node, done.size, done.height)
        self._add(node, done.size, done.height)

    def _alias(self, name: str | None, where: str) -> None:
        self._no_key("an alias", where)
        assert name is not None
        found = self._anchors.get(name)
        if found is None:
            raise ConfigurationError(f"the alias *{short(name)} names no anchor", where=where)
        if found.node is None:
            raise ConfigurationError(f"the alias *{short(name)} stands within its own anchor", where=where)
        self._allowance.take(found.size, len(self._open) + found.height, where)
        self._add(found.node, found.size, found.height)

    def _add(self, node: Node, size: int, height: int) -> None:
        if not self._open:
            self._root = node
            return
        top = self._open[-1]
        top.size += size
        top.height = max(top.height, height + 1)
        if top.items is not None:
            top.items.append(node)
        else:
            assert top.key is not None
            assert top.key_place is not None
            top.entries[top.key] = Entry(top.key_place, node)
            top.key = None

    def _awaits_key(self) -> bool:
        return bool(self._open) and self._open[-1].items is None and self._open[-1].key is None

    def _no_key(self, kind: str, where: str) -> None:
        if self._awaits_key():
            raise ConfigurationError(f"{kind} stands where a key is wanted", where=where, hint="a key is a word")

    def _at(self, mark: Any) -> str:
        if mark is None or mark.line >= self._lines:  # libyaml counts one more at an end without a line break
            return self._end
        return f"{self._name}:{mark.line + 1}:{mark.column + 1}"


def _events(text: str) -> Iterator[Any]:
    loader = _LOADER(text)
    try:
        while loader.check_event():
            yield loader.get_event()
    finally:
        loader.dispose()


def _decoded(data: bytes, name: str) -> str:
    if len(data) > MAX_BYTES:
        raise ConfigurationError(
            f"the file is larger than {MAX_BYTES:,} bytes", where=f"{name}:1:1", hint="long lists go into source.urls"
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8-sig", "replace")
        raise ConfigurationError("not UTF-8 text", where=_place_at(before, name), code="YAML_INVALID") from None
    odd = _UNREADABLE.search(text)
    if odd is not None:
        raise ConfigurationError(
            f"the character U+{ord(odd[0]):04X} is not allowed in YAML",
            where=_place_at(text[: odd.start()], name),
            code="YAML_INVALID",
        )
    return text


def _place_at(before: str, name: str) -> str:
    lines = _BREAK.split(before)
    return f"{name}:{len(lines)}:{len(lines[-1]) + 1}"


def _check_characters(text: str, where: str) -> None:
    """Escapes can spell what no file, path or database takes."""
    odd = next((character for character in text if character == "\0" or "\ud800" <= character <= "\udfff"), None)
    if odd is not None:
        raise ConfigurationError(f"the text holds U+{ord(odd):04X}, which is no character", where=where)
