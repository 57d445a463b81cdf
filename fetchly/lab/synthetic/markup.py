"""Values in, pieces of HTML that show them out: labels, inline elements, links, pictures, lists."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from fetchly.lab.synthetic.catalogue import Field
from fetchly.lab.synthetic.values import Value
from fetchly.lab.synthetic.writer import Writer

_WRAPPERS = ("span", "b", "em", "strong", "i")
_ICONS = ("icon", "ico", "symbol", "sprite")


@dataclass(frozen=True, slots=True)
class Fact:
    """A field on a page: its value, or None with the `unknown` words that the page writes instead."""

    field: Field
    value: Value | None
    unknown: str = ""


@dataclass(frozen=True, slots=True)
class Habits:
    """What one site does everywhere: microdata, no-break spaces between figure and unit, the sign after a label."""

    microdata: bool
    no_break: bool
    colon: str


def escape(text: str) -> str:
    """A text as HTML."""
    return html.escape(text, quote=False)


class Markup:
    """The pieces of one page. A field has one label on it, wherever it is named."""

    def __init__(self, writer: Writer, habits: Habits) -> None:
        self.writer = writer
        self.chance = writer.chance
        self.habits = habits
        self.labels: dict[str, str] = {}

    def label(self, known: Field) -> str:
        """The page's word for a field, as text."""
        if known.key not in self.labels:
            self.labels[known.key] = self.chance.choice(known.labels[self.writer.words.lang])
        return self.labels[known.key]

    def label_of(self, fact: Fact) -> str:
        """The label as text, with the unit where the value leaves it out."""
        unit = f" ({fact.value.unit})" if fact.value and fact.value.unit else ""
        return self.label(fact.field) + unit

    def labelled(self, fact: Fact) -> str:
        """`label_of` as HTML."""
        return escape(self.label_of(fact))

    def shown(self, fact: Fact, *, unit: bool = False) -> str:
        """A value as inline HTML. `unit` writes the unit that else stands in the label."""
        value = fact.value
        if value is None:
            return escape(fact.unknown)
        inner = self._inner(fact.field, value)
        if unit and value.unit:
            inner += f" {escape(value.unit)}"
        if self.habits.microdata and fact.field.schema_org and value.kind not in ("list", "rows"):
            *scopes, name = fact.field.schema_org.split(".")
            inner = f'<span itemprop="{name}">{inner}</span>'
            for scope in reversed(scopes):
                inner = f'<span itemprop="{scope}" itemscope>{inner}</span>'
        return inner

    def without_microdata(self) -> Markup:
        """The same page's pieces for entries that are not what the page is about."""
        other = Markup(self.writer, replace(self.habits, microdata=False))
        other.labels = self.labels
        return other

    def _inner(self, known: Field, value: Value) -> str:
        chance = self.chance
        if value.kind == "link":
            return f'<a href="{html.escape(value.json)}">{escape(value.json.split("/")[2])}</a>'
        if value.kind == "list":
            return self.inline_list(value.items)
        if value.broken:
            street = value.parts["street"]
            return f"{escape(street)}<br>{escape(value.text.removeprefix(street).lstrip(', '))}"
        text = self.text(value.text)
        if value.kind in ("date", "date-time") and chance.random() < 0.4:
            return f'<time datetime="{value.json.removesuffix("Z")}">{text}</time>'
        if value.kind == "money" and chance.random() < 0.4 and value.span in value.text:
            before, figure, after = (self.text(part) for part in value.text.partition(value.span))
            return f'{before}<span class="amount">{figure}</span>{after}'
        if known.key == "email":
            return f'<a href="mailto:{value.text}">{text}</a>'
        if known.key in ("phone", "fax") and chance.random() < 0.5:
            return f'<a href="tel:{re.sub("[^0-9+]", "", value.text)}">{text}</a>'
        if value.kind in ("text", "prose") and chance.random() < 0.15:
            return self._split(value.text)
        return text

    def text(self, text: str) -> str:
        """A text as HTML, with no-break spaces after figures where the site writes them."""
        escaped = escape(text)
        return re.sub(r"(?<=\d) (?=[^\s\d])", "&nbsp;", escaped) if self.habits.no_break else escaped

    def _split(self, text: str) -> str:
        """A text with an element in its middle, as editors leave it."""
        words = text.split(" ")
        if len(words) < 2:
            first, rest = text[:1], text[1:]
            return f'<span class="cap">{escape(first)}</span>{escape(rest)}'
        start = self.chance.randrange(len(words))
        end = min(len(words), start + self.chance.randint(1, 3))
        tag = self.chance.choice(_WRAPPERS)
        inner = f"<{tag}>{escape(' '.join(words[start:end]))}</{tag}>"
        return " ".join(
            part for part in (escape(" ".join(words[:start])), inner, escape(" ".join(words[end:]))) if part
        )

    def inline_list(self, items: Iterable[str]) -> str:
        """A list within a line: commas, links or separate elements."""
        style = self.chance.choice(("commas", "links", "chips"))
        if style == "commas":
            return escape(", ".join(items))
        if style == "links":
            return ", ".join(f'<a href="/{self.writer.slug(item)}">{escape(item)}</a>' for item in items)
        return " · ".join(f'<span class="chip">{escape(item)}</span>' for item in items)

    def list_block(self, items: Iterable[str]) -> str:
        """A list of its own: bullets, numbers, a box for each entry, or line breaks."""
        entries = [escape(item) for item in items]
        style = self.chance.choice(("ul", "ul", "ol", "div", "br", "check"))
        if style == "div":
            return "".join(f'<div class="entry"><span>{entry}</span></div>\n' for entry in entries)
        if style == "br":
            return f"<p>{'<br>'.join(entries)}</p>"
        if style == "check":
            return "".join(f"<label><input type=checkbox> {entry}</label><br>\n" for entry in entries)
        inside = "<p>{}</p>" if self.chance.random() < 0.2 else "{}"
        return f"<{style}>\n" + "".join(f"<li>{inside.format(entry)}</li>\n" for entry in entries) + f"</{style}>"

    def image(self, value: Value) -> str:
        """A picture with its alternative text."""
        picture = f'<img src="{html.escape(value.json)}" alt="{html.escape(value.text)}">'
        return f"<figure>{picture}</figure>" if self.chance.random() < 0.3 else picture

    def icon(self, text: str) -> str:
        """A small picture that stands for a word."""
        name, number = self.chance.choice(_ICONS), self.writer.code("##")
        return f'<img class="{name}" src="/i/{number}.svg" alt="{html.escape(text)}">'

    def link(self, address: str, text: str) -> str:
        """A link."""
        return f'<a href="{html.escape(address)}">{escape(text)}</a>'
