"""Entries in, the content of a page about them out, with the names of the layouts that were used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fetchly.lab.synthetic.catalogue import Field, all_fields
from fetchly.lab.synthetic.entries import Entry
from fetchly.lab.synthetic.layouts import LAYOUTS, heading
from fetchly.lab.synthetic.listings import LISTINGS, Listing
from fetchly.lab.synthetic.markup import Fact, Markup, escape

_SPELL_THEMSELVES_OUT = frozenset((
    "price", "home_price", "car_price", "ticket", "night_price", "availability", "published", "authors", "start",
    "venue", "employer", "workplace", "brand", "cook", "address", "email", "result",
))  # fmt: skip
"""Fields that pages show under the heading without a label."""
LISTED = frozenset(("features", "ingredients", "steps", "tasks", "amenities"))
"""Lists that stand in blocks of their own."""
_SIGNS_GET_LOST = frozenset(("icons", "stacked"))
"""Layouts with the value in a block of its own: a reader of text takes a lone mark there for decoration."""


@dataclass(slots=True)
class Body:
    """The parts of a page's content, in order, and what the page is called."""

    title: str
    parts: list[str] = field(default_factory=list)
    layouts: list[str] = field(default_factory=list)


def body_of_one(entry: Entry, unknown: Sequence[Field], markup: Markup) -> Body:
    """A page about one entry. The `unknown` fields are named, with words that say that nothing is known."""
    chance, writer = markup.chance, markup.writer
    body = Body(entry.heading)
    fields = all_fields()
    facts = [Fact(fields[key], value) for key, value in entry.values.items() if key != entry.domain.heading]
    facts += [Fact(known, None, writer.pick("unknown")) for known in unknown]
    hero = [f for f in facts if f.value and f.field.key in _SPELL_THEMSELVES_OUT and chance.random() < 0.4]
    short = [f for f in facts if f not in hero and not _has_block(f)]
    title = markup.shown(Fact(fields[entry.domain.heading], entry.values[entry.domain.heading]))
    body.parts.append(f"<h1>{title}</h1>")
    body.parts += [f"<p>{markup.shown(f)}</p>" for f in facts if f.field.key == "teaser"]
    _hero(hero, markup, body)
    body.parts += [markup.image(f.value) for f in facts if f.value and f.value.kind == "image"]
    body.parts += [
        f"<p>{markup.shown(f)}</p>"
        for f in facts
        if f.field.kind == "prose" and f.field.key in ("description", "body") and f.value
    ]
    if "body" in entry.values:
        body.parts += [f"<p>{escape(writer.paragraph(entry.domain.theme))}</p>" for _ in range(chance.randint(1, 5))]
    blocks = _short_blocks(short, markup, body) + [_long_block(f, markup, body) for f in facts if _has_long_block(f)]
    if chance.random() < 0.3:
        chance.shuffle(blocks)
    body.parts += blocks
    if chance.random() < 0.12:
        body.layouts.append("long_text")
        body.parts += [_chapter(entry.domain.theme, markup) for _ in range(chance.randint(2, 8))]
    return body


def _chapter(theme: str, markup: Markup) -> str:
    """A heading with paragraphs that answer no question."""
    writer = markup.writer
    paragraphs = (f"<p>{escape(writer.paragraph(theme))}</p>" for _ in range(markup.chance.randint(1, 6)))
    return f"<h2>{escape(writer.fill('{Np}'))}</h2>\n" + "\n".join(paragraphs)


def _has_long_block(fact: Fact) -> bool:
    return fact.value is not None and (fact.value.kind == "rows" or fact.field.key in LISTED)


def _has_block(fact: Fact) -> bool:
    return fact.value is not None and (fact.value.kind in ("prose", "rows", "image") or fact.field.key in LISTED)


def _hero(facts: Sequence[Fact], markup: Markup, body: Body) -> None:
    """What stands under the heading without labels: the price, the day, the author."""
    if not facts:
        return
    body.layouts.append("hero")
    shown = []
    for fact in facts:
        value = markup.shown(fact)
        if fact.field.key == "price" and markup.chance.random() < 0.4:
            assert fact.value is not None, "a hero fact has a value"
            before = markup.writer.money(round(fact.value.json * 1.3 + 1), cents=True)
            value = f"<del>{escape(before)}</del> <ins>{value}</ins>"
        shown.append(value)
    if markup.chance.random() < 0.5:
        body.parts += [f'<div class="hero">{value}</div>' for value in shown]
    else:
        body.parts.append(
            f"<div>{' | '.join(shown)}</div>" if not any("<br>" in s for s in shown) else "<br>".join(shown)
        )


def _short_blocks(facts: list[Fact], markup: Markup, body: Body) -> list[str]:
    """One to three blocks of different layouts that share the facts."""
    if not facts:
        return []
    chance = markup.chance
    if chance.random() < 0.5:
        chance.shuffle(facts)
    wanted = min(chance.choice((1, 1, 2, 2, 3)), max(1, len(facts) // 2))
    blocks = []
    for at in range(wanted):
        part = facts[at::wanted]
        name = chance.choice([name for name in LAYOUTS if name not in _SIGNS_GET_LOST or not _any_sign(part)])
        body.layouts.append(name)
        title = ""
        if chance.random() < 0.5:
            title = f"<h2>{escape(chance.choice(markup.writer.words.ui['details']))}</h2>\n"
        blocks.append(title + LAYOUTS[name](markup, part))
    return blocks


def _any_sign(facts: Sequence[Fact]) -> bool:
    """Whether a value is a mark such as ✓, without a letter or a digit."""
    return any(fact.value and not any(char.isalnum() for char in fact.value.text) for fact in facts)


def _long_block(fact: Fact, markup: Markup, body: Body) -> str:
    value = fact.value
    assert value is not None, "only values have blocks"
    title = heading(markup, fact.field, 2)
    if value.kind == "list":
        body.layouts.append("list_block")
        return f"{title}\n{markup.list_block(value.items)}"
    name = markup.chance.choice(("records_table", "records_table", "cards", "bullet_lines", "nested_list", "sections"))
    body.layouts.append(name)
    columns = tuple(key for key in value.rows[0].domain.fields if not all_fields()[key].part_of)
    listing = Listing(value.rows, columns, "", "", level=4)
    return f"{title}\n{LISTINGS[name](markup.without_microdata(), listing)}"


def body_of_many(entries: tuple[Entry, ...], columns: tuple[str, ...], shared: str, markup: Markup) -> Body:
    """A page that lists entries. `shared`: a column with runs of equal values, or nothing."""
    chance, writer = markup.chance, markup.writer
    body = Body(writer.pick_ui("listing"))
    body.parts.append(f"<h1>{escape(body.title)}</h1>")
    if chance.random() < 0.4:
        body.parts.append(f"<p>{escape(writer.paragraph(entries[0].domain.theme))}</p>")
    if chance.random() < 0.4:
        body.parts.append(f"<p>{escape(writer.pick_ui('results'))}</p>")
    names = ("records_table",) if entries[0].domain.tabular or shared else tuple(LISTINGS)
    name = chance.choice(names)
    body.layouts.append(name)
    unknown = writer.pick("unknown") if chance.random() < 0.6 else ""
    listing = Listing(entries, columns, shared, unknown, level=chance.choice((2, 3)))
    body.parts.append(LISTINGS[name](markup.without_microdata(), listing))
    if chance.random() < 0.4:
        pages = "".join(f'<a href="?page={number}">{number}</a> ' for number in range(2, chance.randint(4, 9)))
        body.parts.append(f'<div class="pages"><b>1</b> {pages}<a href="?page=2">»</a></div>')
    return body
