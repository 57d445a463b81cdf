"""Entities of a page in; the order in which they are told out, and which are left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fetchly.document.entities import Entity, Value

# fmt: off
# What surrounds the page's subject. Every other type (there are 800) counts as a subject: Product, Recipe, Event, ...
_BACKGROUND = frozenset((
    "Organization", "Corporation", "NewsMediaOrganization", "OnlineStore", "OnlineBusiness", "Person", "Brand",
    "VideoObject", "AudioObject", "Review", "AggregateRating", "Rating", "Comment", "Offer", "PostalAddress",
    "ListItem",
))
_PAGE = frozenset((
    "WebPage", "CollectionPage", "ItemPage", "AboutPage", "ContactPage", "ProfilePage", "SearchResultsPage",
    "CheckoutPage", "MedicalWebPage", "WebPageElement", "ItemList", "OfferCatalog", "",
))
NAME_ONLY = frozenset(("WebSite", "Blog", "WebApplication", "DataFeed", "Periodical"))
# The site's machinery: nothing that a reader of the page would be told.
LEFT_OUT = frozenset((
    "ImageObject", "SiteNavigationElement", "WPHeader", "WPFooter", "WPSideBar", "WPAdBlock", "SearchAction",
    "ReadAction", "ViewAction", "EntryPoint", "SpeakableSpecification", "PropertyValueSpecification", "DataDownload",
    "CommentAction", "SubscribeAction", "BuyAction", "InteractionCounter", "ImageGallery",
))
# Properties that lead into the machinery.
UNREAD = frozenset((
    "potentialAction", "mainEntityOfPage", "primaryImageOfPage", "isPartOf", "breadcrumb", "speakable",
    "publishingPrinciples",
    "sameAs", "target", "additionalType", "position", "inLanguage", "isAccessibleForFree",
    "bestRating", "worstRating", "interactionStatistic", "width", "height", "encodingFormat", "copyrightNotice",
))
# Steps whose own name says nothing.
SILENT = frozenset(("itemListElement", "item", "mainEntity", "itemOffered", "hasPart", "subjectOf"))
# Told after everything else of an entity.
TRAILING = frozenset((
    "review", "reviews", "comment", "articleBody", "reviewBody", "relatedLink", "isRelatedTo", "isSimilarTo",
))
# fmt: on


def rank(entity: Entity) -> int:
    """0: a subject of the page; 1: what surrounds it; 2: the page itself; 3: the site; 4: the way to the page."""
    if entity.type == "BreadcrumbList":
        return 4
    if entity.type in NAME_ONLY:
        return 3
    if entity.type in _PAGE:
        return 2
    return 1 if entity.type in _BACKGROUND else 0


def hoisted(entities: Sequence[Entity]) -> list[Entity]:
    """The entities with the subjects inside lists and pages (`ItemList`, `mainEntity`) as entities of their own, in
    the order of their ranks."""
    top: list[Entity] = []
    seen: set[Entity] = set()
    leading: dict[Entity, bool] = {}
    for entity in entities:
        top += _subjects(entity, seen, leading)
    return sorted(top, key=rank)


def _subjects(entity: Entity, seen: set[Entity], leading: dict[Entity, bool]) -> Iterator[Entity]:
    stack = [entity]
    while stack:
        holder = stack.pop()
        if holder in seen:
            continue
        seen.add(holder)
        yield holder
        if rank(holder) != 2 and holder.type != "ListItem":
            continue
        inner: list[Entity] = []
        others: list[Value] = []
        for value in holder.values:
            content = _silent(value)
            if content is not None and (_is_subject(content) or _leads_to_subject(content, leading)):
                inner.append(content)
            else:
                others.append(value)
        holder.values = others
        stack.extend(reversed(inner))


def _silent(value: Value) -> Entity | None:
    """The entity that a list or a page holds as one of its things; None for any other value."""
    content = value.content
    return None if isinstance(content, str) or value.name not in SILENT or not content.values else content


def _is_subject(entity: Entity) -> bool:
    return rank(entity) == 0


def _leads_to_subject(entity: Entity, leading: dict[Entity, bool]) -> bool:
    """Whether a list item holds a subject, itself or in list items within it. `leading` keeps the answers: an item is
    looked at once, however deep it lies."""
    stack = [] if entity in leading else [entity]
    while stack:
        item = stack[-1]
        held = [content for content in map(_silent, item.values) if content is not None]
        if item in leading or item.type != "ListItem":
            stack.pop()
            leading[item] = item.type == "ListItem" and any(
                _is_subject(content) or leading.get(content, False) for content in held
            )
        else:
            leading[item] = False  # while those within are looked at: references may go in circles
            stack.extend(content for content in held if content not in leading)
    return leading[entity]
