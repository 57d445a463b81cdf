"""What the stages tell the coordinator: goods that travel through its inbox."""

from __future__ import annotations

from dataclasses import dataclass

from fetchly.crawler.fingerprint import Address
from fetchly.crawler.frontier import QueuedPage
from fetchly.crawler.sitemap import SitemapNote
from fetchly.extraction.extractor import Extraction
from fetchly.goods import CacheUse, Document


@dataclass(frozen=True, slots=True)
class ReadPage:
    """A page that was fetched and read. `final` is where it led; `links` are those that belong to the crawl, of so many
    on the page; `schema` is the name of that of its record, None: it is here for its links alone. `signature` is there
    where near-duplicates are looked for, and the page says anything. Times in milliseconds."""

    page: QueuedPage
    final: Address
    document: Document
    links: tuple[Address, ...]
    schema: str | None
    status: int | None
    redirects: tuple[str, ...]
    rendered: bool
    warnings: tuple[str, ...]
    fetch_ms: float
    read_ms: float
    render_ms: float = 0.0
    from_cache: CacheUse = "no"
    signature: bytes | None = None


@dataclass(frozen=True, slots=True)
class FailedPage:
    """A page that could not be fetched or read."""

    page: QueuedPage
    error: Exception


@dataclass(frozen=True, slots=True)
class RefusedPage:
    """A page that turned out to be none of the crawl's; `instead` is another one that it leads to; `is_list`: it
    stands for pages that it lists, as a feed does, and they are queued."""

    page: QueuedPage
    code: str
    message: str
    instead: Address | None = None
    is_list: bool = False


@dataclass(frozen=True, slots=True)
class OriginAsked:
    """A site's robots.txt has been asked for. `error`: the site itself is out of bounds; `notes` say what of the file
    was not read."""

    origin: str
    error: Exception | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SitemapPages:
    """Pages that a site's sitemaps list, or one that was named, and what was left out of them; with `is_end`, nothing
    more comes of `origin`, which is the site or the URL of the named one, and `error` may be why."""

    origin: str
    addresses: tuple[Address, ...]
    is_end: bool = False
    notes: tuple[SitemapNote, ...] = ()
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Extracted:
    """A record was written for a read page, or not. `ms` is the time that it took."""

    read: ReadPage
    extraction: Extraction | None
    error: Exception | None
    ms: float


@dataclass(frozen=True, slots=True)
class Nudge:
    """Somebody outside changed something: a reader took a result, or asked for the end."""


Event = ReadPage | FailedPage | RefusedPage | OriginAsked | SitemapPages | Extracted | Nudge
