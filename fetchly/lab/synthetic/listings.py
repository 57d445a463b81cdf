"""Many entries in, a list or a table of them out, as catalogues, calendars and search results show them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fetchly.lab.synthetic.catalogue import Field, all_fields
from fetchly.lab.synthetic.entries import Entry
from fetchly.lab.synthetic.markup import Fact, Markup, escape

_TELLING = ("money", "date", "date-time", "prose", "choice", "list")


@dataclass(frozen=True, slots=True)
class Listing:
    """Entries of one kind. `columns` are the fields shown beside the heading, no parts, no links, no pictures;
    `shared`: a column whose equal neighbours may be shown once. `unknown` stands where an entry lacks a value."""

    entries: tuple[Entry, ...]
    columns: tuple[str, ...]
    shared: str
    unknown: str
    level: int = 3


def table(markup: Markup, listing: Listing) -> str:
    """A row for each entry; equal neighbours of the shared column in one cell over rows, or in a row of its own."""
    shared_as = markup.chance.choice(("rowspan", "row")) if listing.shared else ""
    first = [listing.shared] if shared_as == "rowspan" else []
    own = [key for key in listing.columns if key != listing.shared or not shared_as]
    head = [*first, listing.entries[0].domain.heading, *own]
    fields = all_fields()
    units = {key: _unit(listing, key) for key in head}
    with_links = any("link" in entry.values for entry in listing.entries)
    last = markup.chance.choice(markup.writer.words.ui["more"]) if with_links and markup.chance.random() < 0.5 else ""
    names = [escape(markup.label(fields[key]) + units[key]) for key in head] + ([""] if last else [])
    header = "<tr>" + "".join(f"<th>{name}</th>" for name in names) + "</tr>"
    rows, before = [], ""
    for at, entry in enumerate(listing.entries):
        cells = []
        group = _group(listing, at)
        if group and shared_as == "rowspan":
            span = f' rowspan="{group}"' if group > 1 else ""
            cells.append(f"<td{span}>{_cell(markup, listing, entry, listing.shared)}</td>")
        if group and shared_as == "row":
            shown = _cell(markup, listing, entry, listing.shared)
            before = f'<tr><th colspan="{len(names)}">{shown}</th></tr>\n'
        cells.append(f"<td>{_picture(markup, entry)}{_title(markup, entry, linked=not last)}</td>")
        cells += [f"<td>{_cell(markup, listing, entry, key)}</td>" for key in own]
        if last:
            cells.append(f"<td>{_more(markup, entry, last)}</td>")
        rows.append(f"{before}<tr>{''.join(cells)}</tr>")
        before = ""
    if markup.chance.random() < 0.6:
        return f"<table>\n<thead>{header}</thead>\n<tbody>\n" + "\n".join(rows) + "\n</tbody>\n</table>"
    return f"<table>\n{header}\n" + "\n".join(rows) + "\n</table>"


def cards(markup: Markup, listing: Listing) -> str:
    """A box for each entry: picture, heading, values with or without their labels."""
    bare = _told_apart(listing.columns) if markup.chance.random() < 0.5 else frozenset()
    outer = markup.chance.choice(("div", "article", "section"))
    more = markup.chance.choice(markup.writer.words.ui["more"]) if markup.chance.random() < 0.5 else ""
    boxes = []
    for entry in listing.entries:
        parts = [_picture(markup, entry)]
        parts.append(f"<h{listing.level}>{_title(markup, entry, linked=not more)}</h{listing.level}>")
        for key in listing.columns:
            fact = _fact(listing, entry, key)
            plain = key in bare
            if fact.value is None and plain:
                continue
            label = "" if plain else f'<span class="label">{markup.labelled(fact)}:</span> '
            parts.append(f"<div>{label}{markup.shown(fact)}</div>")
        if more:
            parts.append(f"<p>{_more(markup, entry, more)}</p>")
        boxes.append(f'<{outer} class="card">\n' + "\n".join(part for part in parts if part) + f"\n</{outer}>")
    return '<div class="grid">\n' + "\n".join(boxes) + "\n</div>"


def bullet_lines(markup: Markup, listing: Listing) -> str:
    """A list item for each entry, its values behind one another."""
    sign = markup.chance.choice((", ", " – ", " | ", " · "))
    items = []
    for entry in listing.entries:
        facts = [_fact(listing, entry, key) for key in listing.columns]
        texts = [f"{markup.labelled(fact)}: {markup.shown(fact)}" for fact in facts if fact.value]
        items.append(f"<li>{_picture(markup, entry)}{sign.join([_title(markup, entry), *texts])}</li>")
    tag = markup.chance.choice(("ul", "ol"))
    return f"<{tag}>\n" + "\n".join(items) + f"\n</{tag}>"


def nested_list(markup: Markup, listing: Listing) -> str:
    """A list of entries with a list of values below each."""
    items = []
    for entry in listing.entries:
        facts = (_fact(listing, entry, key) for key in listing.columns)
        inner = "".join(f"<li>{markup.labelled(fact)}: {markup.shown(fact)}</li>" for fact in facts)
        title = _picture(markup, entry) + _title(markup, entry)
        items.append(f"<li>{title}<ul>{inner}</ul></li>" if inner else f"<li>{title}</li>")
    return "<ul>\n" + "\n".join(items) + "\n</ul>"


def sections(markup: Markup, listing: Listing) -> str:
    """A heading for each entry, the values below it as terms or lines; questions open and close."""
    opens = markup.chance.random() < 0.3
    terms = markup.chance.random() < 0.5
    parts = []
    for entry in listing.entries:
        facts = [_fact(listing, entry, key) for key in listing.columns]
        if terms and not any(fact.field.kind == "prose" for fact in facts):
            pairs = (f"<dt>{markup.labelled(fact)}</dt><dd>{markup.shown(fact)}</dd>" for fact in facts)
            body = f"<dl>{''.join(pairs)}</dl>" if facts else ""
        else:
            body = "".join(
                f"<p>{'' if fact.field.kind == 'prose' else markup.labelled(fact) + ': '}{markup.shown(fact)}</p>"
                for fact in facts
            )
        title = _title(markup, entry, linked=not opens)
        more = (
            f"<p>{_more(markup, entry, markup.writer.pick_ui('more'))}</p>" if opens and "link" in entry.values else ""
        )
        picture = _picture(markup, entry)
        if opens:
            parts.append(f"<details><summary>{title}</summary>{picture}{body}{more}</details>")
        else:
            parts.append(f"<h{listing.level}>{title}</h{listing.level}>{picture}{body}")
    return "\n".join(parts)


LISTINGS: dict[str, Callable[[Markup, Listing], str]] = {
    "records_table": table,
    "cards": cards,
    "bullet_lines": bullet_lines,
    "nested_list": nested_list,
    "sections": sections,
}


def _told_apart(columns: tuple[str, ...]) -> frozenset[str]:
    """The columns whose values say by themselves what they are: the only price, the only date."""
    kinds = {key: all_fields()[key].kind for key in columns}
    seen = list(kinds.values())
    return frozenset(key for key, kind in kinds.items() if kind in _TELLING and seen.count(kind) == 1)


def _fact(listing: Listing, entry: Entry, key: str) -> Fact:
    return Fact(all_fields()[key], entry.values.get(key), listing.unknown)


def _cell(markup: Markup, listing: Listing, entry: Entry, key: str) -> str:
    fact = _fact(listing, entry, key)
    return markup.shown(fact)


def _picture(markup: Markup, entry: Entry) -> str:
    return markup.image(entry.values["image"]) if "image" in entry.values else ""


def _title(markup: Markup, entry: Entry, *, linked: bool = True) -> str:
    """The heading, as a link where the entry has one."""
    known: Field = all_fields()[entry.domain.heading]
    link = entry.values.get("link")
    if link and linked:
        return markup.link(link.json, entry.heading)
    return markup.shown(Fact(known, entry.values[known.key]))


def _more(markup: Markup, entry: Entry, text: str) -> str:
    link = entry.values.get("link")
    return markup.link(link.json, text) if link else ""


def _unit(listing: Listing, key: str) -> str:
    """The unit of a column whose values leave it out."""
    units = {value.unit for entry in listing.entries if (value := entry.values.get(key))}
    return f" ({units.pop()})" if len(units) == 1 and units != {""} else ""


def _group(listing: Listing, at: int) -> int:
    """How many entries from `at` on share the value of the shared column; 0 within a run."""
    if not listing.shared:
        return 0
    texts = [value.text if (value := entry.values.get(listing.shared)) else None for entry in listing.entries]
    if at and texts[at] == texts[at - 1]:
        return 0
    run = 1
    while at + run < len(texts) and texts[at + run] == texts[at]:
        run += 1
    return run
