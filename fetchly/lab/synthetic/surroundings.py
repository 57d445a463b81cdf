"""The content of a page in, a whole page out: navigation, banners, other entries beside it, comments, footer."""

from __future__ import annotations

from collections.abc import Sequence

from fetchly.lab.synthetic.entries import Entry
from fetchly.lab.synthetic.markup import Markup, escape

_SEPARATORS = (" › ", " / ", " > ", " » ")


def head(markup: Markup, title: str, site: str, *, lang: bool, charset: str, scripts: str) -> str:
    """Everything before the body."""
    sign = markup.chance.choice((" | ", " – ", " · ", " - "))
    page_title = f"{title}{sign}{site}" if markup.chance.random() < 0.7 else title
    attribute = f' lang="{markup.writer.locale.language}-{markup.writer.region}"' if lang else ""
    style = "<style>.card{border:1px solid #ccc}.label{color:#666}</style>\n" if markup.chance.random() < 0.5 else ""
    return (
        f'<!DOCTYPE html>\n<html{attribute}>\n<head>\n<meta charset="{charset}">\n'
        f"<title>{escape(page_title)}</title>\n{style}{scripts}</head>\n<body>\n"
    )


def top(markup: Markup, site: str, crumbs: Sequence[str]) -> str:
    """The site's name, the menu and, where there are crumbs, the way to this page."""
    ui = markup.writer.words.ui
    entries = markup.chance.sample(ui["menu"], markup.chance.randint(4, 7))
    menu = "".join(f"<li>{markup.link('/' + markup.writer.slug(entry), entry)}</li>" for entry in entries)
    logo = (
        f'<a href="/"><img src="/logo.svg" alt="{escape(site)}"></a>' if markup.chance.random() < 0.5 else escape(site)
    )
    nav = f"<nav><ul>{menu}</ul></nav>"
    if markup.chance.random() < 0.3:
        nav = f'<div class="menu"><ul>{menu}</ul></div>'
    search = f'<form><input type="search" placeholder="{ui["search"][0]}"><button>{ui["search"][0]}</button></form>'
    parts = [f"<header><div>{logo}</div>{nav}{search if markup.chance.random() < 0.5 else ''}</header>"]
    if crumbs:
        sign = markup.chance.choice(_SEPARATORS)
        way = sign.join(
            [markup.link("/", ui["home"][0]), *(markup.link(f"/{markup.writer.slug(c)}", c) for c in crumbs)]
        )
        parts.append(f'<div class="breadcrumb">{way}</div>')
    return "\n".join(parts) + "\n"


def consent(markup: Markup) -> str:
    """A banner that asks for consent."""
    ui = markup.writer.words.ui
    text = markup.writer.pick_ui("cookies")
    buttons = "".join(f"<button>{label}</button>" for label in (markup.chance.choice(ui["accept"]), ui["legal"][1]))
    return f'<div class="cookie-banner" role="dialog"><p>{escape(text)}</p>{buttons}</div>\n'


def beside(markup: Markup, entries: Sequence[Entry]) -> str:
    """Other entries, of which a reader of this page is not asking: name and values without labels."""
    boxes = []
    for entry in entries:
        values = [v for key, v in entry.values.items() if key != entry.domain.heading and v.kind in _SHOWN_BESIDE]
        link = entry.values.get("link")
        name = markup.link(link.json if link else f"/{markup.writer.slug(entry.heading)}", entry.heading)
        boxes.append(f"<li>{name}{''.join(f' <span>{escape(value.text)}</span>' for value in values)}</li>")
    title = escape(markup.writer.pick_ui("related"))
    tag = markup.chance.choice(("aside", "section", "div"))
    return f'<{tag} class="related"><h3>{title}</h3><ul>\n' + "\n".join(boxes) + f"\n</ul></{tag}>\n"


_SHOWN_BESIDE = ("money", "date")


def comments(markup: Markup, count: int) -> str:
    """What visitors have written, each with a name and a date of their own."""
    writer = markup.writer
    boxes = (
        f'<div class="comment"><b>{escape(writer.person())}</b> <small>{writer.date(writer.day("past"))}</small>'
        f"<p>{escape(writer.sentence('opinion'))}</p></div>"
        for _ in range(count)
    )
    return f"<section><h3>{escape(writer.pick_ui('comments'))}</h3>\n" + "\n".join(boxes) + "\n</section>\n"


def hidden(markup: Markup, theme: str) -> str:
    """Text that no reader sees."""
    how = markup.chance.choice(('style="display:none"', "hidden", 'style="visibility: hidden"'))
    text = f"{markup.writer.number(markup.chance.randint(3, 900))} {markup.writer.sentence(theme)}"
    return f"<div {how}>{escape(text)}</div>\n"


def bottom(markup: Markup, site: str) -> str:
    """Newsletter, legal links and the end of the page."""
    ui = markup.writer.words.ui
    links = " ".join(markup.link(f"/{markup.writer.slug(name)}", name) for name in ui["legal"])
    letter = f"<p>{escape(markup.writer.pick_ui('newsletter'))}</p>" if markup.chance.random() < 0.5 else ""
    return f"<footer>{letter}<p>{links}</p><p>© 2026 {escape(site)}</p></footer>\n</body>\n</html>\n"
