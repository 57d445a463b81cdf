"""The head of a page in; what it says about the page out: title, description, author, dates, site, price, ..."""

from __future__ import annotations

from dataclasses import dataclass

from fetchly.document.clean import collapse
from fetchly.document.dom import Dom, Element

# Label shown -> names (meta name, property or itemprop) that say it, the best first.
_FIELDS = {
    "Title": ("og:title", "twitter:title", "dc.title", "parsely-title", "sailthru.title"),
    "Description": ("description", "og:description", "twitter:description", "dc.description", "sailthru.description"),
    "Type": ("og:type", "dc.type", "parsely-type"),
    "Author": (
        *("author", "article:author", "og:article:author", "book:author", "dc.creator", "dcterms.creator"),
        *("parsely-author", "sailthru.author", "byl", "twitter:creator"),
    ),
    "Published": (
        *("article:published_time", "datepublished", "og:published_time", "og:article:published_time", "date"),
        *("dc.date", "dc.date.issued", "dcterms.created", "dcterms.date", "parsely-pub-date", "sailthru.date"),
        *("pubdate", "publishdate", "publish-date", "book:release_date", "citation_publication_date"),
    ),
    "Modified": ("article:modified_time", "datemodified", "og:updated_time", "last-modified", "dcterms.modified"),
    "Section": ("article:section", "og:article:section", "parsely-section"),
    "Tag": ("article:tag", "og:article:tag", "book:tag", "parsely-tags", "sailthru.tags"),
    "Keywords": ("keywords", "news_keywords"),
    "Site": ("og:site_name", "application-name", "dc.publisher"),
    "Price": ("product:price:amount", "og:price:amount", "product:sale_price:amount"),
    "Currency": ("product:price:currency", "og:price:currency", "product:sale_price:currency"),
    "Availability": ("product:availability", "og:availability"),
    "Condition": ("product:condition", "og:condition"),
    "Brand": ("product:brand", "og:brand"),
    "Item number": ("product:retailer_item_id", "product:sku", "product:mfr_part_no"),
    "ISBN": ("book:isbn", "citation_isbn"),
    "Place": ("geo.placename", "og:locality", "business:contact_data:locality"),
    "Street": ("og:street-address", "business:contact_data:street_address"),
    "Postal code": ("og:postal-code", "business:contact_data:postal_code"),
    "Region": ("og:region", "business:contact_data:region"),
    "Country": ("og:country-name", "business:contact_data:country_name"),
    "Phone": ("og:phone_number", "business:contact_data:phone_number"),
    "Email": ("og:email", "business:contact_data:email"),
    "Latitude": ("place:location:latitude", "og:latitude"),
    "Longitude": ("place:location:longitude", "og:longitude"),
}
_MANY = frozenset(("Author", "Tag"))  # each value in a line of its own
# What says nothing: values that stand on every page of their kind.
_EMPTY = {"Type": frozenset(("website", "webpage", "object", "text"))}
MAX_VALUE = 1000


@dataclass(frozen=True, slots=True)
class Fact:
    """A label, its value and the element that says it. `address`: the value is a URL."""

    label: str
    value: str
    element: Element
    address: bool = False


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
    """What <meta> and <link rel=canonical> in the head say, in the order of `_FIELDS`: the best value of a
    label, all tags and authors. Then the pairs that a page labels itself (`twitter:label1`), and the addresses of its
    picture and of itself (`address`).

    A value over MAX_VALUE characters is no label's value and is left out; so is a URL given as an author.
    """
    said: dict[str, list[Fact]] = {}
    canonical: Fact | None = None
    for element in _head_elements(dom):
        if element.tag == "meta":
            value = collapse(element.get("content"))
            if not value or len(value) > MAX_VALUE:
                continue
            for attribute in ("name", "property", "itemprop"):
                for name in element.get(attribute).lower().split():
                    said.setdefault(name, []).append(Fact("", value, element))
        elif element.tag == "link" and element.get("rel").lower() == "canonical":
            href = collapse(element.get("href"))
            if canonical is None and href and len(href) <= MAX_VALUE:
                canonical = Fact("URL", href, element, address=True)
    facts = [fact for label, names in _FIELDS.items() for fact in _told(label, names, said)]
    for number in range(1, 5):
        label, data = said.get(f"twitter:label{number}"), said.get(f"twitter:data{number}")
        if label and data:
            facts.append(Fact(label[0].value.rstrip(" :"), data[0].value, data[0].element))
    for name in ("og:image", "og:image:url", "twitter:image"):
        if name in said:
            facts.append(Fact("Image", said[name][0].value, said[name][0].element, address=True))
            break
    return [*facts, canonical] if canonical else facts


def _told(label: str, names: tuple[str, ...], said: dict[str, list[Fact]]) -> list[Fact]:
    for name in names:
        values: dict[str, Fact] = {}
        for fact in said.get(name, ()):
            if not fact.value.startswith(("http://", "https://")) and fact.value.lower() not in _EMPTY.get(label, ()):
                values.setdefault(fact.value, Fact(label, fact.value, fact.element))
        if values:
            return list(values.values())[: None if label in _MANY else 1]
    return []


def _head_elements(dom: Dom) -> list[Element]:
    """Children of the head, and meta elements that a broken head pushed to the top of the body."""
    found: list[Element] = []
    for part in (dom.child("head"), dom.child("body")):
        if part is not None:
            found += [child for child in part.children if isinstance(child, Element) and child.tag in ("meta", "link")]
    return found
