"""A field in, the way a random schema asks for it out: name, type, description; and the right answer to it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

from fetchly.lab.synthetic.catalogue import Field, Kind
from fetchly.lab.synthetic.values import Value
from fetchly.lab.synthetic.words import words_of

Case = Literal["snake", "camel", "pascal", "kebab", "page", "opaque"]
"""How names are written; `page`: the page's own words; `opaque`: numbered, only the description tells."""
Nulls = Literal["type list", "anyOf", "optional"]
"""How a schema lets a value be missing: null in the type, as pydantic writes it, or a property that may be left out."""
Shape = Literal["typed", "printed"]

_MINUTES = re.compile(r"minutes")
_SAFE = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class Style:
    """What is the same all over one schema. `described` is the share of fields with a description; `plain` the share
    of texts that are not marked verbatim."""

    case: Case
    nulls: Nulls
    described: float
    plain: float
    titled: bool
    annotated: bool
    codes: Literal["snake", "pascal", "upper", "words"]


@dataclass(frozen=True, slots=True)
class Form:
    """One field as a schema asks for it. `shape` printed: as the page writes it, whatever it means."""

    field: Field
    name: str
    node: Mapping[str, Any]
    shape: Shape
    codes: Mapping[str, str]


def random_style(chance: Random) -> Style:
    """The style of a schema."""
    case: Case = chance.choice(("snake",) * 6 + ("camel",) * 4 + ("pascal", "kebab", "kebab", "page", "page", "opaque"))
    return Style(
        case=case,
        nulls=chance.choice(("type list", "type list", "type list", "anyOf", "optional")),
        described=1.0 if case == "opaque" else chance.choice((0.0, 0.3, 1.0, 1.0, 1.0)),
        plain=chance.choice((0.0, 0.0, 0.3, 1.0)),
        titled=chance.random() < 0.2,
        annotated=chance.random() < 0.1,
        codes=chance.choice(("snake", "pascal", "upper", "words")),
    )


def form_of(known: Field, style: Style, lang: str, taken: set[str], chance: Random) -> Form:
    """Ask for a field that holds no rows, under a name that is not `taken`; the name is added there."""
    shape: Shape = "printed" if known.kind in _PRINTABLE and chance.random() < 0.15 else "typed"
    name = free_name(names_of(known, style, lang, chance), taken)
    codes = (
        {code: _code(code, style) for code in words_of(lang).choices[known.make[1]]} if known.kind == "choice" else {}
    )
    node = _node(known, codes, style, chance) if shape == "typed" else _text(style, chance)
    must = known.kind == "minutes" and shape == "typed" and not _MINUTES.search(name.lower())
    if must or chance.random() < style.described:
        node["description"] = _described(known, shape, codes, chance)
    if style.titled:
        node["title"] = name.replace("_", " ").replace("-", " ").title()
    if style.annotated and known.schema_org:
        node["x-schema-org"] = known.schema_org
    return Form(known, name, nullable(node, style), shape, codes)


_PRINTABLE = ("number", "integer", "money", "date", "date-time", "minutes", "choice")
_TYPES: Mapping[Kind, Mapping[str, Any]] = {
    "number": {"type": "number"},
    "money": {"type": "number"},
    "integer": {"type": "integer"},
    "minutes": {"type": "integer", "minimum": 0},
    "date": {"type": "string", "format": "date"},
    "date-time": {"type": "string", "format": "date-time"},
    "flag": {"type": "boolean"},
    "link": {"type": "string", "format": "uri"},
    "image": {"type": "string", "format": "uri"},
}


def _node(known: Field, codes: Mapping[str, str], style: Style, chance: Random) -> dict[str, Any]:
    """The type of a field; now and then a wider one that holds its values too."""
    if codes:
        return {"enum": list(codes.values())} | ({"type": "string"} if chance.random() < 0.5 else {})
    if known.kind == "list":
        return {"type": "array", "items": _text(style, chance), "maxItems": 40}
    if known.kind == "integer" and chance.random() < 0.2:
        return {"type": "number"}
    if known.kind == "date-time" and chance.random() < 0.4:
        return {"type": "string", "format": "date"}
    return dict(_TYPES[known.kind]) if known.kind in _TYPES else _text(style, chance)


def _text(style: Style, chance: Random) -> dict[str, Any]:
    plain = chance.random() < style.plain
    return {"type": "string"} if plain else {"type": "string", "x-verbatim": True}


def nullable(node: Mapping[str, Any], style: Style) -> dict[str, Any]:
    """The node, null allowed in the schema's own way."""
    if style.nulls == "optional":
        return dict(node)
    about = {key: node[key] for key in ("title", "description", "x-schema-org") if key in node}
    bare = {key: value for key, value in node.items() if key not in about}
    if style.nulls == "anyOf" or "$ref" in node:
        return {"anyOf": [bare, {"type": "null"}], **about}
    if "enum" in node:
        kinds = {"type": ["string", "null"]} if "type" in node else {}
        return {**kinds, "enum": [*node["enum"], None], **about}
    return {**bare, "type": [node["type"], "null"], **about}


def _described(known: Field, shape: Shape, codes: Mapping[str, str], chance: Random) -> str:
    text = chance.choice(known.about)
    if shape == "printed" and known.kind in ("number", "integer", "money", "minutes"):
        return f"{known.about[0].split(',')[0].removesuffix('.')}, as printed."
    if shape == "printed":
        return f"{text.removesuffix('.')}, as printed."
    if codes and chance.random() < 0.3:
        return f"{text.removesuffix('.')}: {', '.join(codes.values())}."
    return text


def answer(form: Form, value: Value | None) -> Any:
    """What a right record says for a field; None where the page does not say it."""
    if value is None:
        return None
    if form.shape == "printed":
        return value.text
    if form.codes:
        return form.codes[value.json]
    if value.kind == "date-time" and "date-time" not in str(form.node):
        return str(value.json)[:10]
    return value.json


def source(form: Form, value: Value) -> str:
    """The text of the page that the answer is read from; empty for links and pictures."""
    if value.kind in ("link", "image"):
        return ""
    return value.text if form.shape == "printed" else value.span


def names_of(known: Field, style: Style, lang: str, chance: Random) -> list[str]:
    """Names for a field in the schema's own style, the first choice first."""
    if style.case == "opaque":
        return [f"field_{chance.randint(1, 99)}", *(f"field_{number}" for number in range(100, 200))]
    names = list(known.names)
    chance.shuffle(names)
    if style.case == "page" and lang in known.labels:
        names = [*known.labels[lang], *names]
    return [cased(name, style) for name in names]


def cased(name: str, style: Style) -> str:
    """A name in the schema's own style."""
    parts: list[str] = [part.lower() for part in _SAFE.findall(name)]
    if style.case == "camel":
        return parts[0] + "".join(part.capitalize() for part in parts[1:])
    if style.case == "pascal":
        return "".join(part.capitalize() for part in parts)
    return ("-" if style.case == "kebab" else "_").join(parts)


def free_name(names: list[str], taken: set[str]) -> str:
    """The first name that is not taken, else the first with a number behind it; it is taken then."""
    name = next((name for name in names if name not in taken), "")
    number = 2
    while not name:
        name = "" if f"{names[0]}{number}" in taken else f"{names[0]}{number}"
        number += 1
    taken.add(name)
    return name


def _code(code: str, style: Style) -> str:
    if style.codes == "pascal":
        return "".join(part.capitalize() for part in code.split("_"))
    if style.codes == "upper":
        return code.upper()
    return code.replace("_", " ") if style.codes == "words" else code
