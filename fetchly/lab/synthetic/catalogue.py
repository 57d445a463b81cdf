"""fields.toml and domains.toml in, the fields and the kinds of pages that the generator knows out."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, Literal

from fetchly.lab.synthetic.words import LANGUAGES

Kind = Literal[
    "text", "prose", "number", "integer", "money", "date", "date-time", "minutes",
    "choice", "flag", "list", "rows", "link", "image",
]  # fmt: skip
_KINDS: dict[str, Kind] = {
    "money": "money",
    "int": "integer",
    "year": "integer",
    "decimal": "number",
    "measure": "number",
    "date": "date",
    "datetime": "date-time",
    "minutes": "minutes",
    "choice": "choice",
    "flag": "flag",
    "list": "list",
    "people": "list",
    "rows": "rows",
    "link": "link",
    "image": "image",
    "paragraph": "prose",
    "sentence": "prose",
}


@dataclass(frozen=True, slots=True)
class Field:
    """Something that pages say. `make` are a maker's name and its arguments; `part_of` and `part` stand instead of it
    where the value is a part of another field's. `labels` by language; `foreign`: may be asked for where no page of the
    kind says it."""

    key: str
    make: tuple[str, ...]
    part_of: str
    part: str
    names: tuple[str, ...]
    about: tuple[str, ...]
    schema_org: str
    foreign: bool
    labels: Mapping[str, tuple[str, ...]]

    @property
    def kind(self) -> Kind:
        """What kind of value it has; a part is text."""
        return _KINDS.get(self.make[0], "text") if self.make else "text"


@dataclass(frozen=True, slots=True)
class Group:
    """Fields that a schema may put into an object of their own."""

    name: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Domain:
    """A kind of page, or of entry. `one`, `many`: pages of one and of many entries exist; `tabular`: as tables."""

    name: str
    heading: str
    titles: tuple[str, ...]
    about: tuple[str, ...]
    plural: tuple[str, ...]
    type: str
    theme: str
    site: str
    one: bool
    many: bool
    tabular: bool
    fields: tuple[str, ...]
    list_fields: tuple[str, ...]
    groups: tuple[Group, ...]


@lru_cache(maxsize=1)
def all_fields() -> Mapping[str, Field]:
    """Every field by its key."""
    return {key: _field(key, table) for key, table in _read("fields.toml").items()}


@lru_cache(maxsize=1)
def all_domains() -> Mapping[str, Domain]:
    """Every domain by its name."""
    return {name: _domain(name, table) for name, table in _read("domains.toml").items()}


@lru_cache(maxsize=1)
def page_kinds() -> tuple[tuple[str, bool], ...]:
    """(domain, whether a page of many entries) of every kind of page."""
    kinds = [(d.name, many) for d in all_domains().values() for many in (False, True) if (d.many if many else d.one)]
    return tuple(kinds)


def _field(key: str, table: Mapping[str, Any]) -> Field:
    part_of, _, part = table.get("part", "").partition(" ")
    make = table.get("make", "")
    # the alternatives of a code hold spaces of their own
    name, _, rest = make.partition(" ")
    return Field(
        key=key,
        make=((name, rest) if name == "code" else tuple(make.split())) if make else (),
        part_of=part_of,
        part=part,
        names=tuple(table["names"]),
        about=tuple(table["about"]),
        schema_org=table.get("so", ""),
        foreign=table.get("foreign", False),
        labels={lang: tuple(table[lang].split("|")) for lang in LANGUAGES if lang in table},
    )


def _domain(name: str, table: Mapping[str, Any]) -> Domain:
    groups = (group.partition(": ") for group in table.get("groups", ()))
    return Domain(
        name=name,
        heading=table["heading"],
        titles=tuple(table["titles"]),
        about=tuple(table["about"]),
        plural=tuple(table["plural"]),
        type=table["type"],
        theme=table["theme"],
        site=table.get("site", ""),
        one=table.get("one", False),
        many=table.get("many", False),
        tabular=table.get("tabular", False),
        fields=tuple(table["fields"]),
        list_fields=tuple(table.get("list_fields", ())),
        groups=tuple(Group(head, tuple(members.split())) for head, _, members in groups),
    )


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((files("fetchly.lab.synthetic") / name).read_text(encoding="utf-8"))
