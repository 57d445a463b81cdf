"""The head of a page in; what it says about the page out: title, description, author, dates, site, address."""

from __future__ import annotations

from dataclasses import dataclass

from fetchly.document.clean import collapse
from fetchly.document.dom import Dom, Element

# Label shown -> names (meta name, property or itemprop) that say it, the best first.
_FIELDS = {
    "Description": ("description", "og:description", "twitter:description", "dc.description"),
    "Author": ("author", "article:author", "dc.creator", "parsely-author", "sailthru.author", "byl"),
    "Published": (
        *("article:published_time", "datepublished", "og:published_time", "date", "dc.date", "dc.date.issued"),
        *("dcterms.created", "parsely-pub-date", "sailthru.date", "pubdate", "publishdate", "publish-date"),
    ),
    "Modified": ("article:modified_time", "datemodified", "og:updated_time", "last-modified", "dcterms.modified"),
    "Site": ("og:site_name", "application-name"),
    "Keywords": ("keywords", "news_keywords"),
    "Price": ("product:price:amount", "og:price:amount"),
    "Currency": ("product:price:currency", "og:price:currency"),
}
MAX_VALUE = 1000


@dataclass(frozen=True, slots=True)
class Fact:
    """A label, its value and the element that says it."""

    label: str
    value: str
    element: Element


def title_of(dom: Dom) -> Fact | None:
    """The document's title; None where it is missing or blank."""
    stack: list[Element] = [dom.root]
    while stack:
        element = stack.pop()
        if element.tag == "title":
            text = collapse("".join(child for child in element.children if isinstance(child, str)))
            if text:
                return Fact("Title", text, element)
        elif element.tag in ("html", "head", "body"):
            stack.extend(child for child in reversed(element.children) if isinstance(child, Element))
    return None


def facts_of(dom: Dom) -> list[Fact]:
    """What <meta> and <link rel=canonical> in the head say, one value a label, in the order of `_FIELDS`.

    A value over MAX_VALUE characters is no label's value and is left out; so is a URL given as an author.
    """
    said: dict[str, Fact] = {}
    canonical: Fact | None = None
    for element in _head_elements(dom):
        if element.tag == "meta":
            value = collapse(element.get("content"))
            if not value or len(value) > MAX_VALUE:
                continue
            for attribute in ("name", "property", "itemprop"):
                for name in element.get(attribute).lower().split():
                    said.setdefault(name, Fact("", value, element))
        elif element.tag == "link" and element.get("rel").lower() == "canonical":
            href = collapse(element.get("href"))
            if canonical is None and href.startswith(("http://", "https://")) and len(href) <= MAX_VALUE:
                canonical = Fact("URL", href, element)
    facts: list[Fact] = []
    for label, names in _FIELDS.items():
        for name in names:
            fact = said.get(name)
            if fact is None or (label == "Author" and fact.value.startswith(("http://", "https://"))):
                continue
            facts.append(Fact(label, fact.value, fact.element))
            break
    return facts if canonical is None else [*facts, canonical]


def _head_elements(dom: Dom) -> list[Element]:
    """Children of the head, and meta elements that a broken head pushed to the top of the body."""
    found: list[Element] = []
    for part in (dom.child("head"), dom.child("body")):
        if part is not None:
            found += [child for child in part.children if isinstance(child, Element) and child.tag in ("meta", "link")]
    return found
