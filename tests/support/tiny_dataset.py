"""Four notices of two invented towns, and what they say: a dataset small enough to reason about."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Notice",
    "type": "object",
    "properties": {
        "title": {"type": ["string", "null"], "description": "Heading of the notice."},
        "published_date": {"type": ["string", "null"], "description": "Day of publication, as YYYY-MM-DD."},
        "price": {"type": ["number", "null"], "description": "Fee."},
        "topics": {"type": ["array", "null"], "items": {"type": "string"}, "description": "Topics."},
    },
    "required": ["title", "published_date", "price", "topics"],
    "additionalProperties": False,
}

FERRY = (
    "<html lang=en><title>Ferry</title><body><h1>The ferry runs again</h1><p>Posted on 3 May 2021.</p>"
    "<p>A crossing costs $2.50.</p><ul><li>River<li>Traffic</ul><script>hidden secret</script>"
)
MARKET = (
    "<html lang=de><title>Markt</title><body><h1>Markt am Samstag</h1><p>Bekanntgabe: 12. März 2020</p>"
    '<p>Themen: Handel, Gemüse</p><script type="application/ld+json">{"@type":"Article"}</script>'
)
BRIDGE = "<html lang=en><title>Bridge</title><body><h1>Bridge closed</h1><p>No date is given.</p>"
EMPTY = "<html><body><script>all of it is written later</script></body></html>"

PAGES = {"ferry": FERRY, "market": MARKET, "bridge": BRIDGE, "empty": EMPTY}


def gold(page: str, expected: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A line of the dataset, with the keys that a line must have."""
    return {"id": page, "vertical": "notice", "expected": expected, "usable": list(expected), **more}


RECORDS = [
    gold(
        "ferry",
        {
            "title": "The ferry runs again",
            "published_date": "2021-05-03",
            "price": 2.5,
            "topics": ["River", "Traffic"],
        },
        site="north.example",
        verbatim={"title": "text", "published_date": "text", "price": "text", "topics": "text"},
    ),
    gold(
        "market",
        {"title": "Markt am Samstag", "published_date": "2020-03-12", "topics": ["Handel", "Gemüse"]},
        site="south.example",
        lang="de",
        missing=["price"],
        verbatim={"title": "text", "published_date": "text", "topics": "text"},
        jsonld_types=["Article"],
    ),
    gold("bridge", {"title": "Bridge closed"}, site="north.example", missing=["published_date"]),
    gold("empty", {"title": "Never seen"}, site="south.example"),
]

ANSWERS: dict[str, dict[str, Any]] = {
    "ferry": {"title": "The ferry runs again", "published_date": "3 May 2021", "price": "$2.50", "topics": ["River"]},
    "Markt": {"title": "Markt am Samstag", "published_date": None, "price": None, "topics": ["Handel", "Gemüse"]},
    "Bridge": {"title": "No date is given.", "published_date": None, "price": None, "topics": None},
}
"""What a scripted generator writes, by a word of the page. Of ten scored fields 5.5 right, 1 wrong, 4.5 missed (the
page without text included); spans of the page, as the decoding schema has it."""


def build(folder: Path, records: list[dict[str, Any]] | None = None, split: str = "dev") -> Path:
    """Write the dataset to `folder`, pages and schema included."""
    (folder / "html").mkdir(parents=True, exist_ok=True)
    (folder / "schemas").mkdir(exist_ok=True)
    lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in (RECORDS if records is None else records))
    (folder / f"{split}.jsonl").write_text("".join(lines), "utf-8")
    for name, page in PAGES.items():
        (folder / "html" / f"{name}.html.gz").write_bytes(gzip.compress(page.encode(), mtime=0))
    (folder / "schemas" / "notice.json").write_text(json.dumps(SCHEMA), "utf-8")
    return folder


def answer(page: str) -> str:
    """The scripted answer to a page as the model is shown it."""
    return next(json.dumps(record, ensure_ascii=False) for word, record in ANSWERS.items() if word in page)
