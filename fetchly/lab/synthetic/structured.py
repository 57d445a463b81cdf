"""Entries in, what a page says about them to machines out: JSON-LD, right, partial or stale."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random
from typing import Any, Literal

from fetchly.lab.synthetic.catalogue import all_fields
from fetchly.lab.synthetic.entries import Entry
from fetchly.lab.synthetic.values import Value
from fetchly.lab.synthetic.writer import Writer

Faith = Literal["right", "partial", "stale"]
"""stale: an amount or a date is another one than the page shows."""


def json_ld(entries: Sequence[Entry], faith: Faith, address: str, writer: Writer) -> str:
    """A script element. `address` is the page's."""
    chance = writer.chance
    nodes = [_node(entry, faith, writer) for entry in entries]
    value: Any = {**nodes[0], "url": address}
    if len(nodes) > 1:
        items = [{"@type": "ListItem", "position": at, "item": node} for at, node in enumerate(nodes, 1)]
        value = {"@type": "ItemList", "itemListElement": items}
    if chance.random() < 0.3:
        value = {"@graph": [value, {"@type": "WebPage", "url": address}]}
    text = json.dumps({"@context": "https://schema.org", **value}, ensure_ascii=False, indent=chance.choice((None, 1)))
    guarded = text.replace("</", "<\\/")
    return f'<script type="application/ld+json">{guarded}</script>\n'


def _node(entry: Entry, faith: Faith, writer: Writer) -> dict[str, Any]:
    node: dict[str, Any] = {"@type": entry.domain.type}
    for key, value in entry.values.items():
        known = all_fields()[key]
        left_out = faith == "partial" and key != entry.domain.heading and writer.chance.random() < 0.5
        if not known.schema_org or value.kind == "rows" or left_out:
            continue
        _put(node, known.schema_org.split("."), _said(key, value, faith, writer.chance))
        if value.kind == "money" and known.schema_org.startswith("offers."):
            _put(node, ["offers", "priceCurrency"], writer.currency)
    return node


def _put(node: dict[str, Any], path: list[str], value: Any) -> None:
    for step in path[:-1]:
        inner = node.setdefault(step, {})
        if not isinstance(inner, dict):
            return
        node = inner
    node.setdefault(path[-1], value)


def _said(key: str, value: Value, faith: Faith, chance: Random) -> Any:
    if value.kind == "minutes":
        return f"PT{value.json}M"
    if value.kind == "choice" and key not in ("availability", "condition", "status"):
        return value.text
    if value.kind == "choice":
        return "https://schema.org/" + "".join(part.capitalize() for part in value.json.split("_"))
    if value.kind == "money":
        amount = value.json + chance.randint(1, 60) if faith == "stale" else value.json
        return f"{amount:.2f}" if chance.random() < 0.5 else amount
    if faith == "stale" and value.kind == "date":
        return f"{int(value.json[:4]) - 1}{value.json[4:]}" if not value.json.endswith("02-29") else value.json
    return value.json
