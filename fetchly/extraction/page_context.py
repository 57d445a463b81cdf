"""A document in, what the conversion of its values needs to know out: language, links, habits of writing."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from urllib.parse import urlsplit

from babel import Locale, UnknownLocaleError

from fetchly.extraction.conventions import SILENT, Conventions, conventions_of
from fetchly.extraction.numeric_dates import day_order
from fetchly.goods import Document, Link

# Two-letter domains that are sold as words: their country says nothing about the page (IANA, root zone database).
_WORD_DOMAINS = frozenset((
    "ac", "ag", "ai", "am", "cc", "cd", "co", "dj", "fm", "gg", "im", "io", "la",
    "ly", "me", "ms", "nu", "sc", "sh", "so", "st", "to", "tv", "vc", "ws",
))  # fmt: skip
_TERRITORIES = {"uk": "GB"}


@dataclass(frozen=True, slots=True)
class PageContext:
    """Facts of one page, built once. `links` are by id and by URL; `lang` is a language tag or None; `charset` is the
    page's, which the queries of its URLs are written in."""

    lang: str | None = None
    conventions: Conventions = SILENT
    links: Mapping[str, Link] = field(default_factory=lambda: MappingProxyType({}))
    charset: str = "utf-8"


def page_context(document: Document, offered: Collection[str] | None = None) -> PageContext:
    """The context of a document. `offered` are the ids that a model could choose from, None for all: any other text
    that looks like an id is a text."""
    links = {link.url: link for link in reversed(document.links)}
    links |= {link.id: link for link in document.links if offered is None or link.id in offered}
    conventions = _with_domain(conventions_of(document), document)
    return PageContext(document.lang, conventions, MappingProxyType(links), document.encoding)


def _with_domain(conventions: Conventions, document: Document) -> Conventions:
    """English without a region writes dates as its country's domain does, where the page's own dates do not say.

    Dates alone: English pages of a German company write 1,234 as often as 1.234.
    """
    lang = document.lang
    silent = conventions.order is None and not conventions.mixed_orders
    if not silent or lang is None or lang.strip().lower() != "en" or not document.url:
        return conventions
    try:
        domain = (urlsplit(document.url).hostname or "").rpartition(".")[2]
        territory = _TERRITORIES.get(domain, domain.upper())
        if len(territory) != 2 or domain in _WORD_DOMAINS:
            return conventions
        return replace(conventions, order=day_order(Locale("en", territory)))
    except (ValueError, UnknownLocaleError):
        return conventions
