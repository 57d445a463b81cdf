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
    for entity in entities:
        top += _subjects(entity, seen)
    return sorted(top, key=rank)


def _subjects(entity: Entity, seen: set[Entity]) -> Iterator[Entity]:
    stack = [entity]
    while stack:
        holder = stack.pop()
        if holder in seen:
            continue
        seen.add(holder)
        yield holder
        if rank(holder) != 2 and holder.type != "ListItem":
            continue
        inner = [value for value in holder.values if _holds_subject(value)]
        holder.values = [value for value in holder.values if value not in inner]
        stack.extend(value.content for value in reversed(inner) if isinstance(value.content, Entity))


def _holds_subject(value: Value) -> bool:
    """Whether a value of a list or a page is a subject, or a list item with a subject in it."""
    content = value.content
    if value.name not in SILENT or isinstance(content, str) or not content.values:
        return False
    return rank(content) == 0 or (content.type == "ListItem" and any(_holds_subject(item) for item in content.values))
