"""A gold record in, its page read as an extraction under its schema would read it out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fetchly.document.reader import ReadOptions
from fetchly.extraction.decoding import asks_for_links
from fetchly.goods import Document, Page
from fetchly.lab.dataset import Dataset, GoldRecord

ReadPage = Callable[[Page], Document]
"""Reads a page in one fixed way."""


@dataclass(frozen=True, slots=True)
class SetReader:
    """Reads the pages of datasets. `read_page` does the work (`DocumentReader.read`, `read_document`); `structured`
    False leaves out what pages say to machines. Links are marked where the schema asks for them, as in `extract`."""

    read_page: Callable[[Page, ReadOptions], Document]
    structured: bool = True

    def read(self, dataset: Dataset, record: GoldRecord) -> Document:
        """Errors: DocumentError."""
        marks = asks_for_links(dataset.schema(record).json)
        return self.read_page(dataset.page(record), ReadOptions(link_marks=marks, structured=self.structured))
