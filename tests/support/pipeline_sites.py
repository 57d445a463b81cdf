"""The sites that the shipped pipelines are run on: their pages say `field: value`, a line each; and a model that reads
such lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from fetchly.extraction.generator import GenerationTask
from tests.support.crawl_site import CrawlSite, Reply

Facts = Mapping[str, str]
_LINE = re.compile(r"(\w+): (.*?)(?: \[([LI]\d+)\])?")


def read(task: GenerationTask) -> str:
    """The record of a page: what it says of each field, null where it says nothing. Several values are separated by
    semicolons."""
    lines = [found for found in map(_LINE.fullmatch, task.prompt.page.splitlines()) if found is not None]
    said = {line[1]: line for line in lines}
    properties = task.schema["properties"]
    return json.dumps({name: _value(part, said[name]) if name in said else None for name, part in properties.items()})


def _value(part: Mapping[str, Any], line: re.Match[str]) -> Any:
    if "array" in part.get("type", ()):
        return line[2].split("; ")
    is_link = any("$ref" in branch for branch in part.get("anyOf", ()))
    return line[3] if is_link else line[2]


def facts(values: Facts) -> str:
    """Paragraphs of `field: value`."""
    return "".join(f"<p>{name}: {value}</p>" for name, value in values.items())


def page(title: str, body: str, links: Iterable[str] = ()) -> Reply:
    """A page with a menu of links below its text."""
    menu = "".join(f'<li><a href="{link}">{link}</a></li>' for link in links)
    text = f"<html lang=en><title>{title}</title><body><h1>{title}</h1>{body}<ul>{menu}</ul></body></html>"
    return Reply(text.encode())


PRODUCTS: dict[str, Facts] = {
    "1": {"name": "Assam", "brand": "Leaf & Co", "price": "£4.50", "currency": "£", "availability": "InStock"},
    "2": {"name": "Sencha", "price": "£1,206.00", "currency": "£", "availability": "OutOfStock", "sku": "T-2"},
    "3": {"name": "Keemun", "price": "£7", "currency": "£", "rating": "4.5", "review_count": "12"},
    "4": {"name": "Brown pot", "price": "£22.00", "currency": "£", "description": "Holds a litre of tea."},
}


def shop() -> CrawlSite:
    """Two categories, one of them with a second page; a product stands in both. Whoever asks for /cart went astray."""
    categories = {
        "/category/tea": ["/product/1", "/product/2", "/category/tea?page=2"],
        "/category/tea?page=2": ["/product/3", "/category/tea"],
        "/category/pots": ["/product/2", "/product/4"],
    }
    fixed = {path: page("Shelf", "<p>What we sell.</p>", links) for path, links in categories.items()}
    fixed["/"] = page("Shop", "<p>Welcome.</p>", ["/category/tea", "/category/pots", "/cart", "/about"])
    for number, values in PRODUCTS.items():
        fixed[f"/product/{number}"] = page(values["name"], facts(values), ["/", "/cart", "/product/1"])
    return CrawlSite(fixed=fixed)


ARTICLES: dict[str, Facts] = {
    "/2026/flood": {
        "title": "River rises", "author": "Jane Doe; Ali Can", "published_date": "3 May 2026",
        "description": "Cellars are under water.", "first_paragraph": "The river rose by a metre, and fell again.",
    },
    "/2026/fair": {"title": "=A1, the fair", "published_date": "1 March 2026", "first_paragraph": "It began at noon."},
    "/2025/match": {"title": "Ten all", "author": "Jo Roe", "published_date": "24 December 2025"},
}  # fmt: skip
_STORY = "<p>Much was said about it in the town, and on the day after it more was said about what had been said.</p>"


def newspaper() -> CrawlSite:
    """A sitemap of sitemaps, with a tag and the same article twice; articles link to what no sitemap lists."""
    fixed = {
        path: page(values["title"], facts(values) + _STORY.replace("it", values["title"]), ["/comments", "/"])
        for path, values in ARTICLES.items()
    }
    fixed["/2026/flood/print"] = fixed["/2026/flood"]
    fixed["/tag/water"] = page("Water", "<p>All about it.</p>")
    site = CrawlSite(fixed=fixed)

    def sitemaps(path: str) -> Reply | None:
        lists = {
            "/sitemap.xml": ("sitemapindex", "sitemap", ["/2026.xml", "/2025.xml"]),
            "/2026.xml": ("urlset", "url", ["/2026/flood", "/2026/flood/print", "/tag/water", "/2026/fair"]),
            "/2025.xml": ("urlset", "url", ["/2025/match"]),
        }
        if path not in lists:
            return None
        whole, part, paths = lists[path]
        entries = "".join(f"<{part}><loc>{site.url(each)}</loc></{part}>" for each in paths)
        text = f'<{whole} xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{entries}</{whole}>'
        return Reply(text.encode(), content_type="application/xml")

    site.answer = sitemaps
    return site


OFFERS: dict[str, Facts] = {
    "1": {"title": "Nurse", "company": "Mercy", "location": "Leeds", "employment_type": "Full-time"},
    "2": {"title": "Baker", "company": "Bread Ltd", "location": "York", "salary": "£12 an hour"},
    "3": {"title": "Nurse", "company": "Mercy", "location": "Hull", "date_posted": "2 May 2026"},
    "4": {"title": "Diver", "company": "Deep"},
    "5": {"title": "Diver", "company": "Deep"},  # no place is said: perhaps another one
    "6": {"title": "Baker", "company": "Bread Ltd", "location": "York", "salary": "£12 an hour"},  # the second, again
}


def job_board() -> CrawlSite:
    """Three pages of a list; the first offer, as sponsored, is on each. Whoever asks for /help went astray."""

    def listed(numbers: str, *links: str) -> Reply:
        return page("Jobs", "<p>Offers.</p>", [*(f"/jobs/{number}" for number in numbers), "/help", *links])

    fixed = {
        "/jobs": listed("12", "/jobs?page=2"),
        "/jobs?page=2": listed("134", "/jobs", "/jobs/page/3"),
        "/jobs/page/3": listed("156", "/jobs?page=2"),
    }
    for number, values in OFFERS.items():
        link = f'<p><a href="/apply/{number}">apply_url: here</a></p>'
        fixed[f"/jobs/{number}"] = page(values["title"], facts(values) + link, ["/jobs"])
    return CrawlSite(fixed=fixed)


EVENTS: dict[str, Facts] = {
    str(number): {"title": f"Evening {number}", "start": f"{number} June 2026, 19:30", "venue_name": "Town hall"}
    for number in range(1, 5)
} | {"5": {"title": "Fair", "start": "5 June 2026, 19:30", "price": "from £3", "status": "Cancelled"}}

_LIST = """<html lang=en><title>Events</title><div id=root></div><script>
let next = 1;
const add = () => { list.insertAdjacentHTML('beforeend',
  `<p style="height: 900px"><a href="/events/${next}">Event ${next++}</a>`) };
root.innerHTML = '<h1>Events</h1><div id=list></div><button class=load-more>More</button>';
const button = root.lastChild;
button.onclick = () => { add(); if (next > 3) button.remove() };
add();
addEventListener('scroll', () => {
  if (!button.isConnected && next < 6 && innerHeight + scrollY > document.documentElement.scrollHeight - 50) add() });
</script>"""
"""An event, then one more with each press of the button, which goes with the third; then one with each scrolling."""


def town() -> CrawlSite:
    """A list that only a browser sees, whole after two presses and some scrolling; pages of events made by scripts."""
    fixed = {"/events": Reply(_LIST.encode())}
    for number, values in EVENTS.items():
        script = f"root.innerHTML = {json.dumps(f'<h1>Event</h1>{facts(values)}')}"
        fixed[f"/events/{number}"] = Reply(f"<html lang=en><div id=root></div><script>{script}</script>".encode())
    return CrawlSite(fixed=fixed)


def web() -> CrawlSite:
    """Pages of no site in particular."""
    return CrawlSite(
        fixed={
            "/a": page("A", facts({"title": "First", "author": "Jane Doe", "published_date": "3 May 2026"}), ["/c"]),
            "/b": page("B", facts({"title": "Second", "description": "With a ' and a ;."})),
        }
    )
