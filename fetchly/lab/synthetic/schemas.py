"""Entries of a page in; a random schema that asks about them, the right answer and where the page says it out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from fetchly.lab.synthetic.catalogue import Domain, Field, all_domains, all_fields
from fetchly.lab.synthetic.entries import Entry
from fetchly.lab.synthetic.forms import Form, Style, answer, cased, form_of, free_name, nullable, random_style, source

_SAID_IN_PASSING = frozenset(("brand", "colour", "material"))
"""Fields that sentences mention without saying them of the entry: never asked for where they are missing."""


@dataclass(frozen=True, slots=True)
class Question:
    """A schema with its right answer.

    `sources`: JSON pointer of a value in `expected` -> the text that stands on the page for it (none for URLs).
    `concepts`: dotted name of a field (places in lists left out) -> the catalogue's key. `missing`: the dotted names
    that the page does not say; `usable`: the names that it does, as datasets write them (`items.title`).
    """

    schema: Mapping[str, Any]
    expected: Mapping[str, Any]
    sources: Mapping[str, str]
    concepts: Mapping[str, str]
    missing: tuple[str, ...]
    usable: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Plan:
    """An object of the schema: its name in the one around it, its members. `rows`: the field whose rows it lists."""

    name: str
    domain: Domain
    members: tuple[Form | _Plan, ...]
    description: str = ""
    rows: Field | None = None


@dataclass(slots=True)
class _Asker:
    """Draws one schema and reads one answer."""

    chance: Random
    lang: str
    style: Style
    sources: dict[str, str] = field(default_factory=dict)
    concepts: dict[str, str] = field(default_factory=dict)
    said: dict[str, bool] = field(default_factory=dict)
    definitions: dict[str, Any] = field(default_factory=dict)

    # ---- drawing

    def plan(self, name: str, domain: Domain, keys: Sequence[str]) -> _Plan:
        """An object that asks for the given fields of a domain, some of them in groups."""
        taken: set[str] = set()
        members: list[Form | _Plan] = []
        grouped: set[str] = set()
        for group in domain.groups:
            inside = [key for key in keys if key in group.members and key not in grouped]
            if len(inside) > 1 and self.chance.random() < 0.35:
                grouped.update(inside)
                part = self.plan(free_name([cased(group.name, self.style)], taken), _alone(domain), inside)
                members.append(part)
        members += [self._member(key, taken) for key in keys if key not in grouped]
        if self.chance.random() < 0.7:
            self.chance.shuffle(members)
        return _Plan(name, domain, tuple(members))

    def _member(self, key: str, taken: set[str]) -> Form | _Plan:
        known = all_fields()[key]
        if known.kind != "rows":
            return form_of(known, self.style, self.lang, taken, self.chance)
        domain = all_domains()[known.make[1]]
        names = [cased(name, self.style) for name in known.names]
        inner = self.plan(free_name(names, taken), domain, [domain.heading, *_some(domain.fields, 0.7, self.chance)])
        about = self.chance.choice(known.about) if self.chance.random() < max(self.style.described, 0.5) else ""
        return _Plan(inner.name, domain, inner.members, about, known)

    # ---- the schema

    def node(self, plan: _Plan) -> dict[str, Any]:
        """The JSON Schema of a plan."""
        properties = {m.name: self._part(m) if isinstance(m, _Plan) else m.node for m in plan.members}
        node: dict[str, Any] = {"type": "object", "properties": properties}
        if self.style.nulls != "optional" and self.chance.random() < 0.8:
            node["required"] = list(properties)
        if self.chance.random() < 0.6:
            node["additionalProperties"] = False
        return node

    def _part(self, plan: _Plan) -> dict[str, Any]:
        inner = self.node(plan)
        if self.chance.random() < 0.15:
            key = "".join(part.capitalize() for part in plan.name.replace("-", "_").split("_")) or "Part"
            while key in self.definitions:
                key += "_"
            self.definitions[key] = {"title": key, **inner}
            inner = {"$ref": f"#/$defs/{key}"}
        about = {"description": plan.description} if plan.description else {}
        if plan.rows is None:
            return {**inner, **about}
        return nullable({"type": "array", "items": inner, "maxItems": 60, **about}, self.style)

    # ---- the answer

    def record(self, plan: _Plan, entry: Entry, pointer: str, path: str) -> dict[str, Any]:
        """What a right record says, and the sources of its values."""
        out: dict[str, Any] = {}
        for member in plan.members:
            below, dotted = f"{pointer}/{member.name}", f"{path}{member.name}"
            if isinstance(member, _Plan):
                value = self._nested(member, entry, below, dotted)
            else:
                self.concepts[dotted] = member.field.key
                value = self._leaf(member, entry, below)
                self.said[dotted] = self.said.get(dotted, False) or value is not None
            if value is not None or self.style.nulls != "optional":
                out[member.name] = value
        return out

    def _nested(self, plan: _Plan, entry: Entry, pointer: str, dotted: str) -> Any:
        if plan.rows is None:
            return self.record(plan, entry, pointer, f"{dotted}.")
        self.concepts[dotted] = plan.rows.key
        known = entry.value(plan.rows)
        self.said[dotted] = known is not None
        if known is None:
            return None
        return [self.record(plan, row, f"{pointer}/{at}", f"{dotted}.") for at, row in enumerate(known.rows)]

    def _leaf(self, form: Form, entry: Entry, pointer: str) -> Any:
        value = entry.value(form.field)
        if value is not None and value.kind == "list":
            self.sources.update({f"{pointer}/{at}": item for at, item in enumerate(value.items)})
        elif value is not None and (text := source(form, value)):
            self.sources[pointer] = text
        return answer(form, value)


def ask_one(entry: Entry, lang: str, chance: Random) -> Question:
    """A schema about the one entry of a page."""
    domain = entry.domain
    keys = [domain.heading, *domain.fields] if chance.random() < 0.9 else list(domain.fields)
    present = [key for key in keys if _askable(entry, key)]
    chosen = _sample(present, chance.randint(2, min(10, max(2, len(present)))), chance)
    told = {key for value in entry.values.values() for row in value.rows for key in row.values}
    absent = [key for key in domain.fields if entry.value(all_fields()[key]) is None and _may_be_missing(key)]
    absent = [key for key in absent if key not in told]
    chosen += _sample(absent, chance.choice((0, 0, 1, 1, 2, 3)), chance)
    if chance.random() < 0.35:
        chosen += _sample([key for key in _strangers(domain) if key not in told], chance.randint(1, 2), chance)
    if chance.random() < 0.08:
        chosen += [key for key in chosen if all_fields()[key].kind in ("money", "number", "date")][:1]
    if not chosen:
        chosen = present[:1]
    asker = _Asker(chance, lang, random_style(chance))
    plan = asker.plan("", domain, _ordered(chosen, keys, chance))
    expected = asker.record(plan, entry, "", "")
    return _question(asker, plan, asker.node(plan), expected)


def ask_many(entries: Sequence[Entry], lang: str, chance: Random) -> Question:
    """A schema for a list of all entries of a page."""
    domain = entries[0].domain
    said = [key for key in domain.list_fields if any(_askable(entry, key) for entry in entries)]
    broken = [key for key in said if any((v := e.values.get(key)) and v.broken for e in entries)]
    present = [key for key in said if key not in broken]
    # Without their headings two entries could ask for the same words.
    chosen = [domain.heading, *_sample(present, chance.randint(1, max(1, len(present))), chance)]
    absent = [key for key in domain.list_fields if key not in said and _may_be_missing(key)]
    chosen += _sample(absent, chance.choice((0, 0, 1, 1)), chance)
    if chance.random() < 0.15:
        chosen += _sample(_strangers(domain), 1, chance)
    asker = _Asker(chance, lang, random_style(chance))
    name = "items" if chance.random() < 0.4 else cased(chance.choice(domain.plural), asker.style)
    inner = asker.plan(name, domain, _ordered(chosen, [domain.heading, *domain.list_fields], chance))
    records = [asker.record(inner, entry, f"/{name}/{at}", f"{name}.") for at, entry in enumerate(entries)]
    node = asker.node(inner)
    if chance.random() < 0.5:
        node = {"title": chance.choice(domain.titles), **node}
    if chance.random() < 0.15:
        asker.definitions["Entry"] = node
        node = {"$ref": "#/$defs/Entry"}
    listed = {"type": "array", "items": node, "maxItems": 100}
    if chance.random() < 0.6:
        listed["description"] = "Every entry of the list, in the page's order."
    root = {"type": "object", "properties": {name: listed}, "required": [name], "additionalProperties": False}
    return _question(asker, inner, root, {name: records}, many=True)


def _question(
    asker: _Asker, plan: _Plan, node: dict[str, Any], expected: dict[str, Any], *, many: bool = False
) -> Question:
    chance, domain = asker.chance, plan.domain
    head: dict[str, Any] = {}
    if chance.random() < 0.3:
        head["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    if chance.random() < 0.8:
        head["title"] = cased(chance.choice(domain.plural), asker.style) if many else chance.choice(domain.titles)
    if chance.random() < 0.7:
        about = chance.choice(domain.about)
        head["description"] = f"Every entry of the page. {about}" if many else about
    schema = {**head, **node}
    if asker.definitions:
        schema["$defs"] = asker.definitions
    return Question(
        schema=schema,
        expected=expected,
        sources=asker.sources,
        concepts=asker.concepts,
        missing=tuple(path for path, said in asker.said.items() if not said),
        usable=tuple(_usable(expected, asker.said)),
    )


def _usable(expected: Mapping[str, Any], said: Mapping[str, bool]) -> Iterator[str]:
    """Names of fields that have a value, as datasets write them: `items.x` for a list of that name."""
    for name, value in expected.items():
        if name == "items" and isinstance(value, list):
            yield from (path for path, known in said.items() if known and path.startswith("items."))
        elif value not in (None, [], {}) and not (isinstance(value, dict) and not any(_leaves(value))):
            yield name


def _leaves(value: Any) -> Iterator[bool]:
    if isinstance(value, dict):
        for part in value.values():
            yield from _leaves(part)
    else:
        yield value is not None


def _askable(entry: Entry, key: str) -> bool:
    value = entry.value(all_fields()[key])
    return value is not None and not value.broken


def _may_be_missing(key: str) -> bool:
    return all_fields()[key].kind not in ("prose", "image", "link") and key not in _SAID_IN_PASSING


def _strangers(domain: Domain) -> list[str]:
    """Fields that pages of this kind never say."""
    own = {domain.heading, *domain.fields, *domain.list_fields}
    names = {name for key in own for name in all_fields()[key].names}
    return [
        key
        for key, known in all_fields().items()
        if known.foreign and key not in own and not names.intersection(known.names)
    ]


def _alone(domain: Domain) -> Domain:
    """The domain without groups: an object within it has none of its own."""
    return replace(domain, groups=())


def _sample(keys: Sequence[str], wanted: int, chance: Random) -> list[str]:
    return chance.sample(list(keys), min(wanted, len(keys)))


def _some(keys: Sequence[str], share: float, chance: Random) -> list[str]:
    return [key for key in keys if chance.random() < share]


def _ordered(chosen: list[str], order: Sequence[str], chance: Random) -> list[str]:
    """The chosen fields in the catalogue's order, now and then in any."""
    if chance.random() < 0.3:
        chance.shuffle(chosen)
        return chosen
    places = {key: at for at, key in enumerate(order)}
    return sorted(chosen, key=lambda key: places.get(key, len(places)))
