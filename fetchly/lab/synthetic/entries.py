"""A kind of page in, an invented entry of it out: for each of its fields a value, or nothing."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from fetchly.lab.synthetic.catalogue import Domain, Field, all_domains, all_fields
from fetchly.lab.synthetic.values import Value, date, make, minutes, money
from fetchly.lab.synthetic.writer import Writer


@dataclass(frozen=True, slots=True)
class Entry:
    """A product, an event, a person ...: the values that the page says, by the key of the field; no parts."""

    domain: Domain
    values: Mapping[str, Value]

    @property
    def heading(self) -> str:
        """What the entry is called."""
        return self.values[self.domain.heading].text

    def value(self, known: Field) -> Value | None:
        """The value of a field or of a part of one; None where the page does not say it."""
        if not known.part_of:
            return self.values.get(known.key)
        whole = self.values.get(known.part_of)
        text = whole.parts.get(known.part) if whole else None
        return Value("text", text, text, text) if text else None


def make_entry(domain: Domain, keys: Iterable[str], writer: Writer, site: str) -> Entry:
    """An entry with the heading and with the given fields; parts come with their whole."""
    fields = all_fields()
    values: dict[str, Value] = {}
    for key in dict.fromkeys((domain.heading, *keys)):
        known = fields[key]
        if known.part_of:
            continue
        values[key] = _rows(known, writer, site) if known.kind == "rows" else make(known, writer, domain.theme, site)
    _agree(values, writer)
    if "image" in values and writer.chance.random() < 0.6:
        values["image"] = replace(values["image"], text=values[domain.heading].text)
    return Entry(domain, values)


def with_equal_units(entries: tuple[Entry, ...], key: str, *, in_label: bool) -> tuple[Entry, ...]:
    """The entries with the unit of a measure in its label, or with the figure, everywhere."""
    return tuple(
        replace(entry, values={**entry.values, key: _unit_moved(entry.values[key], in_label)})
        if key in entry.values
        else entry
        for entry in entries
    )


def _unit_moved(value: Value, in_label: bool) -> Value:
    if value.kind != "number":
        return value
    unit = value.unit or value.text.removeprefix(value.span).strip()
    if in_label or not unit:
        return replace(value, text=value.span, unit=unit)
    return replace(value, text=f"{value.span} {unit}", unit="")


def _rows(known: Field, writer: Writer, site: str) -> Value:
    _, name, low, high = known.make
    domain = all_domains()[name]
    wanted = writer.chance.randint(int(low), int(high))
    rows = {entry.heading: entry for entry in (make_entry(domain, domain.fields, writer, site) for _ in range(wanted))}
    return Value("rows", "", None, rows=tuple(rows.values()))


def _agree(values: dict[str, Value], writer: Writer) -> None:
    """Values that depend on each other are made to agree."""
    if {"price", "old_price"} <= values.keys():
        raised = round(values["price"].json * writer.chance.choice((1.2, 1.25, 1.5)) + 1)
        values["old_price"] = money(writer, raised, cents=True)
    if {"prep_time", "cook_time", "total_time"} <= values.keys():
        values["total_time"] = minutes(writer, values["prep_time"].json + values["cook_time"].json)
    if {"published", "updated"} <= values.keys():
        first = datetime.date.fromisoformat(values["published"].json)
        values["updated"] = date(writer, first + datetime.timedelta(days=writer.chance.randint(1, 90)))
    if "product_name" in values and "brand" in values:
        values["product_name"] = _with_brand(values["product_name"], values["brand"].text, writer)


def _with_brand(name: Value, brand: str, writer: Writer) -> Value:
    """A product's name that names its own brand or none."""
    parts = (writer.fill("{Goods}"), brand if writer.chance.random() < 0.6 else "", writer.code("?##"))
    text = " ".join(part for part in parts if part)
    return replace(name, text=text, json=text, span=text)
