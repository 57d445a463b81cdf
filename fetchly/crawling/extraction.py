"""Read pages in, the event that each one's record was written, or not, into the inbox: the crawl's last stage."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Protocol

from fetchly.crawling.events import Extracted, ReadPage
from fetchly.crawling.workers import Inbox, Workers
from fetchly.extraction.extractor import ExtractionOptions, Extractor
from fetchly.extraction.generator import Generator
from fetchly.extraction.schema import UserSchema


class Extraction(Protocol):
    """Whatever writes the records of a crawl. `identities` are what a record depends on besides its page, and `budgets`
    how many tokens of a page are read, by the names of the schemas; `schemas` are the user's. `model` identifies the
    model, and `width` is how many pages it takes side by side."""

    identities: Mapping[str, str]
    budgets: Mapping[str, int]
    schemas: Mapping[str, UserSchema]
    model: str
    width: int

    def submit(self, read: ReadPage) -> None:
        """Have the record of a page written; an Extracted comes of it, whatever happens."""

    def close(self) -> None:
        """Take no more pages, and give back what is the crawl's alone."""


StartExtraction = Callable[[Mapping[str, UserSchema], ExtractionOptions, Inbox], Extraction]
"""The schemas of a crawl by name, how records are drawn, and where events go. Errors: what loading the model raises."""


class LocalExtraction:
    """One thread that writes records, one at a time: the model takes no more."""

    width: int = 1

    def __init__(
        self, generator: Generator, schemas: Mapping[str, UserSchema], options: ExtractionOptions, inbox: Inbox
    ) -> None:
        self._extractors = {name: Extractor(generator, schema, options) for name, schema in schemas.items()}
        self._workers = Workers(self.width, inbox, "fetchly-extract")
        self.schemas: Mapping[str, UserSchema] = schemas
        self.identities: Mapping[str, str] = {name: extractor.identity for name, extractor in self._extractors.items()}
        self.budgets: Mapping[str, int] = {name: extractor.budget for name, extractor in self._extractors.items()}
        self.model = generator.identity

    def submit(self, read: ReadPage) -> None:
        """As the protocol says."""
        self._workers.submit(lambda: (self.write(read),))

    def close(self) -> None:
        """As the protocol says. The model is another's."""
        self._workers.close()

    def write(self, read: ReadPage) -> Extracted:
        """The record of a page, now and here; one thread at a time."""
        started = time.perf_counter()
        assert read.schema is not None
        try:
            extraction = self._extractors[read.schema].extract(read.document)
        except Exception as error:  # also a bug of ours that one page brings out
            return Extracted(read, None, error, 1000 * (time.perf_counter() - started))
        return Extracted(read, extraction, None, 1000 * (time.perf_counter() - started))
