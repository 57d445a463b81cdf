"""A schema, what is known of a page and a random generator in; another schema that asks for the same values out.

Fields are left out, put in another order, called otherwise, written in camel case, given a type instead of a text, and
lose their descriptions: a model is to follow any schema, not those of the sets.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from fetchly.lab.runs import as_number, is_iso_date
from fetchly.lab.truth import Truth

_KEPT_SHARE = (0.4, 1.0)
_RENAMED = 0.35
_CAMEL = 0.25
_TYPED = 0.5
_BARE = 0.25
"""Shares of varied schemas: fewest and most fields kept; a field renamed, all in camel case, a date or number that
asks for its type; without descriptions."""

OTHER_NAMES: Mapping[str, tuple[str, ...]] = {
    "title": ("name", "headline", "heading"),
    "author": ("by", "written_by", "byline", "creator"),
    "site_name": ("website", "publisher", "source"),
    "description": ("summary", "intro", "teaser"),
    "category": ("course", "section", "kind"),
    "categories": ("sections", "filed_under"),
    "topics": ("tags", "keywords"),
    "cuisine": ("kitchen", "style_of_cooking"),
    "yields": ("servings", "makes", "portions"),
    "prep_time": ("preparation_time", "prep_minutes"),
    "cook_time": ("cooking_time", "cook_minutes"),
    "total_time": ("time_in_all", "total_minutes"),
    "ingredients": ("ingredient_list", "what_you_need"),
    "instructions": ("steps", "method", "directions"),
    "published_date": ("date", "published", "publication_date"),
    "publish_date": ("date", "published_on"),
    "publication_date": ("date", "published"),
    "date_posted": ("posted", "posting_date"),
    "first_paragraph": ("opening", "lead"),
    "price": ("cost", "current_price", "amount"),
    "currency": ("currency_sign", "money"),
    "brand": ("manufacturer", "maker"),
    "sku": ("article_number", "item_number"),
    "mpn": ("part_number", "manufacturer_number"),
    "gtin": ("ean", "barcode"),
    "availability": ("stock", "in_stock"),
    "organization": ("companies", "organisations"),
    "person": ("people", "names"),
    "job_title": ("positions", "roles"),
    "street": ("street_address", "streets"),
    "city": ("towns", "cities"),
    "state": ("regions", "states"),
    "zipcode": ("postal_code", "postcodes"),
    "phone": ("telephone", "phone_numbers"),
    "fax": ("fax_numbers", "telefax"),
    "email": ("mail", "email_addresses"),
    "opening_hours": ("hours", "open"),
    "case_names": ("parties", "case_name"),
    "case_dates": ("date", "decided"),
    "docket_numbers": ("docket", "case_number"),
    "citations": ("citation", "cited_as"),
    "items": ("entries", "results", "rows"),
    "location": ("place", "where", "venue"),
    "start": ("starts", "begins"),
    "company": ("employer", "organisation"),
    "model": ("model_name", "variant"),
    "engine": ("motor", "engine_type"),
    "director": ("directed_by", "directors"),
    "genre": ("genres", "kind"),
    "count_bedrooms": ("bedrooms", "beds"),
    "count_bathrooms": ("bathrooms", "baths"),
    "constructed_area": ("living_area", "floor_area"),
    "price_string": ("price_text", "asking_price"),
    "price_float": ("price_value", "price_number"),
    "reference": ("reference_number", "listing_id"),
}


_DATE = {"type": ["string", "null"], "format": "date"}
_NUMBER = {"type": ["number", "null"]}
TYPED: Mapping[str, Mapping[str, Any]] = {
    **dict.fromkeys(("published_date", "publish_date", "publication_date", "date_posted", "case_dates"), _DATE),
    "price": _NUMBER,
}
"""Fields that the sets give as texts and a user may ask for as dates and numbers."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A schema and the right answer in its names."""

    schema: dict[str, Any]
    truth: Truth


def varied(schema: Mapping[str, Any], truth: Truth, rng: random.Random) -> Variant:
    """A random variation of a schema of objects, lists and values without references.

    At least one field is kept at each level. The answer keeps the scorer's name of each field.
    """
    assert not truth.sources, "a synthetic page has a schema of its own, made for it"
    style = _Style(rng, truth.value, camel=rng.random() < _CAMEL, bare=rng.random() < _BARE)
    names: dict[str, str] = {}
    changed = _node(dict(schema), "", "", style, names)
    return Variant(changed, _renamed(truth, names))


@dataclass(frozen=True, slots=True)
class _Style:
    rng: random.Random
    value: Any
    camel: bool
    bare: bool


def _node(node: Mapping[str, Any], old: str, new: str, style: _Style, names: dict[str, str]) -> dict[str, Any]:
    """A varied copy of a node; `names` is filled with the new path of each old one."""
    out = dict(node)
    if style.bare:
        out.pop("description", None)
    if isinstance(node.get("items"), Mapping):
        out["items"] = _node(node["items"], old, new, style, names)
    properties = node.get("properties")
    if not isinstance(properties, Mapping):
        return out
    kept = _sample(list(properties), style.rng)
    changed: dict[str, Any] = {}
    for name in kept:
        called = _called(name, {*changed, *properties} - {name}, style)
        here, there = (f"{prefix}.{last}" if prefix else last for prefix, last in ((old, name), (new, called)))
        names[here] = there
        part = properties[name]
        if name in TYPED and style.rng.random() < _TYPED and _is_typed(style.value, here.split("."), TYPED[name]):
            part = {**TYPED[name], **{k: v for k, v in part.items() if k in ("title", "description")}}
        changed[called] = _node(part, here, there, style, names)
    out["properties"] = changed
    if "required" in node:
        out["required"] = [names[f"{old}.{name}" if old else name].rsplit(".", 1)[-1] for name in kept]
    return out


def _is_typed(value: Any, path: list[str], node: Mapping[str, Any]) -> bool:
    """Whether every value at a path is of the type: "June 2009" is no date."""
    if value is None:
        return True
    if isinstance(value, list):
        return all(_is_typed(item, path, node) for item in value)
    if path:
        return isinstance(value, Mapping) and _is_typed(value.get(path[0]), path[1:], node)
    return is_iso_date(value) and len(value) >= len("2000-01-31") if node is _DATE else as_number(value) is not None


def _sample(names: list[str], rng: random.Random) -> list[str]:
    """Some of the names in some order."""
    count = max(1, round(len(names) * rng.uniform(*_KEPT_SHARE)))
    return rng.sample(names, count)


def _called(name: str, taken: set[str], style: _Style) -> str:
    """What a field is called; never as another one is or was."""
    others = [other for other in OTHER_NAMES.get(name, ()) if other not in taken]
    called = style.rng.choice(others) if others and style.rng.random() < _RENAMED else name
    if style.camel:
        first, *rest = called.split("_")
        called = first + "".join(part.capitalize() for part in rest)
    return called if called not in taken else name


def _renamed(truth: Truth, names: Mapping[str, str]) -> Truth:
    return replace(
        truth,
        value=_renamed_value(truth.value, "", names),
        stated=frozenset(names[path] for path in truth.stated if path in names),
        absent=frozenset(names[path] for path in truth.absent if path in names),
        partial=frozenset(names[path] for path in truth.partial if path in names),
        scored_as={there: truth.scored_as.get(here, here) for here, there in names.items()},
    )


def _renamed_value(value: Any, path: str, names: Mapping[str, str]) -> Any:
    if isinstance(value, list):
        return [_renamed_value(item, path, names) for item in value]
    if not isinstance(value, Mapping):
        return value
    out: dict[str, Any] = {}
    for name, item in value.items():
        here = f"{path}.{name}" if path else name
        if here in names:
            out[names[here].rsplit(".", 1)[-1]] = _renamed_value(item, here, names)
    return out
