"""A seed in, an invented page with a random schema and its right answer out; the same seed gives the same bytes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from fetchly.lab.synthetic import surroundings
from fetchly.lab.synthetic.bodies import Body, body_of_many, body_of_one
from fetchly.lab.synthetic.catalogue import Domain, Field, all_domains, all_fields, page_kinds
from fetchly.lab.synthetic.entries import Entry, make_entry, with_equal_units
from fetchly.lab.synthetic.markup import Habits, Markup
from fetchly.lab.synthetic.schemas import ask_many, ask_one
from fetchly.lab.synthetic.structured import Faith, json_ld
from fetchly.lab.synthetic.words import words_of
from fetchly.lab.synthetic.writer import Writer

GENERATOR_VERSION = "1"
"""Part of every seed: pages change only with a new version."""

_LANGUAGES = ("en",) * 7 + ("de", "de", "de", "fr", "fr", "es", "es", "it", "it", "nl", "nl")
_OPTIONAL_END = re.compile(r"</(?:li|p|td|tr|dd|dt|th)>")
_NAMES = re.compile(r"(</?)(div|td|tr|th|table|li|ul|p|span)\b")


@dataclass(frozen=True, slots=True)
class SyntheticPage:
    """A page and what a reader of it answers.

    `lang` is the tag of its language; `domain` what it is about, one entry or `many`; `layouts` how it shows that;
    `html` its bytes, in the charset that they name. `schema` to `usable` are as in `schemas.Question`. `labels`: the
    words under which the page shows a field, by the catalogue's key. `jsonld_types`: what its JSON-LD describes, empty
    for none; `structured`: it has that or microdata.
    """

    seed: int
    url: str
    lang: str
    domain: str
    many: bool
    layouts: tuple[str, ...]
    html: bytes
    schema: Mapping[str, Any]
    expected: Mapping[str, Any]
    sources: Mapping[str, str]
    concepts: Mapping[str, str]
    missing: tuple[str, ...]
    usable: tuple[str, ...]
    labels: Mapping[str, str]
    jsonld_types: tuple[str, ...]
    structured: bool


def generate(seed: int) -> SyntheticPage:
    """The page of a seed."""
    chance = Random(f"fetchly synthetic page {GENERATOR_VERSION} {seed}")
    name, many = chance.choice(page_kinds())
    words = words_of(chance.choice(_LANGUAGES))
    writer = Writer(chance, words, chance.choice(words.locales))
    domain = all_domains()[name]
    colon = " :" if words.lang == "fr" else chance.choice((":", ":", ""))
    habits = Habits(microdata=chance.random() < 0.15, no_break=chance.random() < 0.15, colon=colon)
    markup = Markup(writer, habits)
    site = f"{writer.slug(writer.brand())}-{domain.site}.example"
    entries, body = _many(domain, markup, site) if many else _one(domain, markup, site)
    address = f"https://{site}/{writer.slug(entries[0].heading)[:60]}"
    html, types = _document(entries, body, markup, site, address, lang=writer.region != "US" or chance.random() < 0.8)
    question = ask_many(entries, words.lang, chance) if many else ask_one(entries[0], words.lang, chance)
    return SyntheticPage(
        seed=seed,
        url=address,
        lang=f"{words.lang}-{writer.region}",
        domain=name,
        many=many,
        layouts=tuple(body.layouts),
        html=html,
        schema=question.schema,
        expected=question.expected,
        sources=question.sources,
        concepts=question.concepts,
        missing=question.missing,
        usable=question.usable,
        labels=markup.labels,
        jsonld_types=types,
        structured=bool(types) or (habits.microdata and not many),
    )


def _one(domain: Domain, markup: Markup, site: str) -> tuple[tuple[Entry, ...], Body]:
    chance = markup.chance
    share = chance.choice((0.4, 0.6, 0.8, 0.95))
    wholes = [key for key in domain.fields if not all_fields()[key].part_of]
    said = [key for key in wholes if chance.random() < share] or wholes[:2]
    entry = make_entry(domain, said, markup.writer, site)
    rest: list[Field] = [all_fields()[key] for key in wholes if key not in said]
    unknown = [known for known in rest if _can_be_unknown(known) and chance.random() < 0.15]
    return (entry,), body_of_one(entry, unknown, markup)


def _can_be_unknown(known: Field) -> bool:
    return bool(known.labels) and known.kind not in ("prose", "rows", "list", "image", "link")


def _many(domain: Domain, markup: Markup, site: str) -> tuple[tuple[Entry, ...], Body]:
    chance, fields = markup.chance, all_fields()
    wholes = [key for key in domain.list_fields if not fields[key].part_of]
    keys = [key for key in wholes if chance.random() < 0.65] or wholes[:1]
    wanted = chance.randint(5, 18) if domain.tabular else chance.choice((2, 3, 4, 5, 6, 8, 10, 14))
    made = [make_entry(domain, keys, markup.writer, site) for _ in range(wanted)]
    entries = tuple({entry.heading: entry for entry in made}.values())
    columns = tuple(key for key in keys if fields[key].kind not in ("link", "image"))
    holes = chance.choice((0.0, 0.0, 0.1, 0.25))
    entries = tuple(_with_holes(entry, columns, holes, chance) for entry in entries)
    for key in columns:
        entries = with_equal_units(entries, key, in_label=chance.random() < 0.3)
    shared = ""
    candidates = [key for key in columns if fields[key].kind in ("text", "choice", "date") and key != "address"]
    if candidates and len(columns) > 1 and chance.random() < 0.35:
        shared = chance.choice(candidates)
        entries = _in_runs(entries, shared, chance)
    return entries, body_of_many(entries, columns, shared, markup)


def _with_holes(entry: Entry, columns: Sequence[str], share: float, chance: Random) -> Entry:
    """The entry without some of its values, and its address in one line."""
    kept = {key: value for key, value in entry.values.items() if key not in columns or chance.random() >= share}
    return replace(entry, values={key: replace(value, broken=False) for key, value in kept.items()})


def _in_runs(entries: tuple[Entry, ...], key: str, chance: Random) -> tuple[Entry, ...]:
    """The entries with the same value of a field in one to four neighbours."""
    out: list[Entry] = []
    left, value = 0, None
    for entry in entries:
        if left == 0 and key in entry.values:
            left, value = chance.randint(1, 4), entry.values[key]
        if value is not None:
            entry = replace(entry, values={**entry.values, key: value})
            left -= 1
        out.append(entry)
        value = value if left else None
    return tuple(out)


def _document(
    entries: Sequence[Entry], body: Body, markup: Markup, site: str, address: str, *, lang: bool
) -> tuple[bytes, tuple[str, ...]]:
    """The whole page in bytes, and the types of its JSON-LD."""
    chance, writer = markup.chance, markup.writer
    domain = entries[0].domain
    scripts = ""
    if chance.random() < 0.45:
        faith: Faith = chance.choice(("right", "right", "right", "partial", "partial", "stale"))
        scripts = json_ld(entries, faith, address, writer)
    crumbs = [writer.pick_ui("menu"), writer.pick("section")] if chance.random() < 0.5 else []
    parts = [surroundings.top(markup, site, crumbs)]
    if chance.random() < 0.3:
        parts.insert(chance.choice((0, 1)), surroundings.consent(markup))
    if chance.random() < 0.15:
        parts.append(surroundings.hidden(markup, domain.theme))
    scope = (
        f' itemscope itemtype="https://schema.org/{domain.type}"'
        if markup.habits.microdata and len(entries) == 1
        else ""
    )
    wrapper = chance.choice(("main", "div", "article"))
    content = "\n".join(body.parts)
    aside = _aside(domain, markup, site) if chance.random() < 0.45 else ""
    before = chance.random() < 0.2
    parts += [aside] if before else []
    parts.append(f"<{wrapper}{scope}>\n{content}\n</{wrapper}>\n")
    parts += [] if before else [aside]
    if chance.random() < 0.2:
        parts.append(surroundings.comments(markup, chance.randint(1, 25 if chance.random() < 0.15 else 4)))
    parts.append(surroundings.bottom(markup, site))
    charset = "windows-1252" if chance.random() < 0.06 else "utf-8"
    head = surroundings.head(markup, body.title, site, lang=lang, charset=charset, scripts=scripts)
    text = head + _worn("".join(parts), chance)
    # characters that the charset lacks become references
    return text.encode(charset, "xmlcharrefreplace"), (domain.type,) if scripts else ()


def _aside(domain: Domain, markup: Markup, site: str) -> str:
    keys = [key for key in (*domain.list_fields, *domain.fields) if all_fields()[key].kind in ("money", "date", "link")]
    others = [make_entry(domain, dict.fromkeys(keys), markup.writer, site) for _ in range(markup.chance.randint(2, 5))]
    return surroundings.beside(markup, others)


def _worn(text: str, chance: Random) -> str:
    """Mark-up as old pages have it: end tags left out that HTML lets one leave out, names in capitals."""
    if chance.random() < 0.1:
        text = _OPTIONAL_END.sub(lambda match: "" if chance.random() < 0.5 else match[0], text)
    if chance.random() < 0.06:
        text = _NAMES.sub(lambda match: match[1] + match[2].upper(), text)
    return text
