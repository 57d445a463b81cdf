"""Seeds, lists and schemas in; what a crawl is about out: where it begins, and which record it wants of which page."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fetchly.crawler.fingerprint import Address, address_of
from fetchly.crawling.results import RECORD
from fetchly.errors import ConfigurationError
from fetchly.extraction.decoding import asks_for_links
from fetchly.extraction.schema import UserSchema


@dataclass(frozen=True, slots=True)
class Subject:
    """`seeds` must lie within the scope; `listed` are further pages to begin with, taken one by one as they are queued,
    and `sitemaps` the URLs of sitemaps whose pages are, too. `choose` names the schema of a page by its final address,
    None for one that is read for its links alone. `settings` are what a state must have been begun with, as JSON."""

    seeds: Sequence[Address]
    schemas: Mapping[str, UserSchema]
    choose: Callable[[Address], str | None]
    settings: Mapping[str, Any]
    listed: Iterable[Address] = ()
    sitemaps: tuple[str, ...] = ()
    asking: frozenset[str] = field(init=False)
    """The schemas that ask for links."""

    def __post_init__(self) -> None:
        asking = frozenset(name for name, schema in self.schemas.items() if asks_for_links(schema.json))
        object.__setattr__(self, "asking", asking)

    @property
    def digest(self) -> str:
        """Of the schemas."""
        content = {name: schema.json for name, schema in self.schemas.items()}
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:12]


def subject_of(seeds: Sequence[str], schema: UserSchema) -> Subject:
    """Seeds as a user writes them, and one schema for every page. Errors: ConfigurationError, FetchError BAD_URL."""
    if not seeds:
        raise ConfigurationError("there is no seed to begin with", hint="name a URL")
    addresses = [address_of(seed.strip().partition("#")[0]) for seed in seeds]
    settings = {"seeds": [address.url for address in addresses]}
    return Subject(addresses, {RECORD: schema}, lambda address: RECORD, settings)
