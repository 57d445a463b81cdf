"""A page about a kettle, its schema, the answer of a model that reads it well, and its extraction over a server."""

from __future__ import annotations

import json
from typing import Any

from fetchly.extraction.extractor import Extraction, ExtractionOptions, Extractor
from fetchly.extraction.schema import load_schema
from fetchly.extraction.server import ServerGenerator
from fetchly.goods import Link
from tests.support.documents import make_document, with_links

SCHEMA: dict[str, Any] = {
    "title": "Kettle",
    "type": "object",
    "properties": {
        "name": {"type": "string", "x-verbatim": True},
        "price": {"type": "number", "description": "in euros"},
        "url": {"type": ["string", "null"], "format": "uri"},
    },
    "required": ["name", "price"],
    "additionalProperties": False,
}
DOCUMENT = with_links(
    make_document("Blue Kettle", "Price: 1,234.50 €", "Rated 4.5 of 5"), Link("L1", "Kettle", "https://shop.test/k")
)
GOOD = json.dumps({"name": "Blue Kettle", "price": "1,234.50 €", "url": "L1"})
RECORD = {"name": "Blue Kettle", "price": 1234.5, "url": "https://shop.test/k"}
PAGE = "<html lang=en><title>Kettles</title><h1>Blue Kettle</h1><p>Price: 1,234.50 €</p></html>".encode()
KEY = "sk-a-secret-of-the-user"


def extracted(generator: ServerGenerator, schema: Any = SCHEMA, **options: Any) -> Extraction:
    return Extractor(generator, load_schema(schema), ExtractionOptions(**options)).extract(DOCUMENT)
