"""The facts of one entry in, a part of a page that tells them out: lists of terms, tables, boxes, prose, tabs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fetchly.lab.synthetic.catalogue import Field
from fetchly.lab.synthetic.markup import Fact, Markup, escape


def definition_list(markup: Markup, facts: Sequence[Fact]) -> str:
    """dt and dd, now and then in a div for each pair."""
    wrapped = markup.chance.random() < 0.3
    pairs = (f"<dt>{_label(markup, fact)}</dt><dd>{markup.shown(fact)}</dd>" for fact in facts)
    return "<dl>\n" + "\n".join(f"<div>{pair}</div>" if wrapped else pair for pair in pairs) + "\n</dl>"


def two_columns(markup: Markup, facts: Sequence[Fact]) -> str:
    """A table with a label and a value in each row, or two pairs in a row."""
    tag = markup.chance.choice(("th", "td"))
    cells = [f"<{tag}>{_label(markup, fact)}</{tag}><td>{markup.shown(fact)}</td>" for fact in facts]
    width = 2 if len(cells) > 3 and tag == "th" and markup.chance.random() < 0.15 else 1
    rows = ["".join(cells[at : at + width]) for at in range(0, len(cells), width)]
    return "<table>\n" + "\n".join(f"<tr>{row}</tr>" for row in rows) + "\n</table>"


def bullets(markup: Markup, facts: Sequence[Fact]) -> str:
    """A list with the label before each value."""
    tag = markup.chance.choice(("b", "strong", "span"))
    items = (f"<li><{tag}>{_sign_label(markup, fact)}</{tag}> {markup.shown(fact)}</li>" for fact in facts)
    return "<ul>\n" + "\n".join(items) + "\n</ul>"


def stacked(markup: Markup, facts: Sequence[Fact]) -> str:
    """Boxes with the label above the value."""
    inner = markup.chance.choice(("div", "p"))
    boxes = (
        f'<div class="fact"><{inner} class="label">{_label(markup, fact)}</{inner}>'
        f'<{inner} class="value">{markup.shown(fact)}</{inner}></div>'
        for fact in facts
    )
    return '<div class="facts">\n' + "\n".join(boxes) + "\n</div>"


def one_line(markup: Markup, facts: Sequence[Fact]) -> str:
    """All facts in one paragraph, with signs between."""
    sign = markup.chance.choice((" | ", " · ", " – ", "; "))
    return "<p>" + sign.join(f"{_sign_label(markup, fact)} {markup.shown(fact)}" for fact in facts) + "</p>"


def lines(markup: Markup, facts: Sequence[Fact]) -> str:
    """A paragraph with a line for each fact."""
    return "<p>" + "<br>\n".join(f"{_sign_label(markup, fact)} {markup.shown(fact)}" for fact in facts) + "</p>"


def icons(markup: Markup, facts: Sequence[Fact]) -> str:
    """Boxes with a picture in place of the label, which is its alternative text."""
    boxes = (f"<div>{markup.icon(markup.label_of(fact))}<span>{markup.shown(fact)}</span></div>" for fact in facts)
    return '<div class="icons">\n' + "\n".join(boxes) + "\n</div>"


def prose(markup: Markup, facts: Sequence[Fact]) -> str:
    """Sentences that hold the values, among others that say nothing of the kind."""
    writer = markup.writer
    sentences = []
    for fact in facts:
        say = writer.words.say.get(fact.field.key) if fact.value else None
        template = markup.chance.choice(say or writer.words.say["any"])
        label, value = markup.label(fact.field), markup.shown(fact, unit=True)
        before, after = (escape(part.replace("{label}", label)) for part in template.split("{value}"))
        sentences.append(before + value + after)
        if markup.chance.random() < 0.4:
            sentences.append(escape(writer.sentence(markup.chance.choice(tuple(writer.words.clauses)))))
    return "<p>" + " ".join(sentences) + "</p>"


def tabs(markup: Markup, facts: Sequence[Fact]) -> str:
    """The facts behind headings that open and close."""
    middle = max(1, len(facts) // 2)
    inner = markup.chance.choice((definition_list, two_columns, bullets))
    parts = []
    for part in (facts[:middle], facts[middle:]):
        if not part:
            continue
        title = escape(markup.chance.choice(markup.writer.words.ui["details"]))
        if markup.chance.random() < 0.5:
            parts.append(f"<details><summary>{title}</summary>{inner(markup, part)}</details>")
        else:
            parts.append(f'<div role="tabpanel"><h4>{title}</h4>{inner(markup, part)}</div>')
    return "\n".join(parts)


LAYOUTS: dict[str, Callable[[Markup, Sequence[Fact]], str]] = {
    "definition_list": definition_list,
    "two_columns": two_columns,
    "bullets": bullets,
    "stacked": stacked,
    "one_line": one_line,
    "lines": lines,
    "icons": icons,
    "prose": prose,
    "tabs": tabs,
}


def heading(markup: Markup, known: Field, level: int) -> str:
    """A field's label as a heading."""
    return f"<h{level}>{escape(markup.label(known))}</h{level}>"


def _label(markup: Markup, fact: Fact) -> str:
    """The label in a place of its own, with or without its sign."""
    return markup.labelled(fact) + (markup.habits.colon if markup.habits.colon and markup.chance.random() < 0.5 else "")


def _sign_label(markup: Markup, fact: Fact) -> str:
    """The label within a line, always with its sign."""
    return markup.labelled(fact) + (markup.habits.colon or ":")
