"""A golden page's name in; everything that a model would be given of it out, as text.

`python -m tests.support.frozen_format` writes the golden files anew: only together with a new FORMAT_VERSION, once a
model has been trained for the version that stands there.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from fetchly.document.reader import ReadOptions, read_document
from fetchly.extraction.decoding import asks_for_links, bind_links, decoding_schema
from fetchly.extraction.format import FORMAT_VERSION
from fetchly.extraction.prompt import PAGE_BUDGET, build_prompt
from fetchly.extraction.schema import load_schema
from fetchly.goods import Page

FOLDER = Path(__file__).parents[1] / "golden"
SCHEMAS = {
    "buch": "book",
    "contact": "contact",
    "council": "links",
    "events": "event_list",
    "flat": "real_estate",
    "harbour_news": "article",
    "hon": "book",
    "job": "job_posting",
    "shop": "product",
    "soup": "recipe",
    "streamed": "article_list",
    "teapot": "product",
}
NARROW = 150
_TOKEN = re.compile(r"\w{1,4}|[^\w\s]|\s+")


def count(texts: list[str]) -> list[int]:
    """Tokens of a tokenizer that is nobody's, so that the format is frozen apart from the model."""
    return [len(_TOKEN.findall(text)) for text in texts]


def frozen(name: str) -> str:
    """The prompt at the default budget, the page at a narrow one, and the schema that the answer is written in."""
    schema = load_schema(SCHEMAS[name]).json
    body = (FOLDER / "documents" / f"{name}.html").read_bytes()
    options = ReadOptions(link_marks=asks_for_links(schema))
    document = read_document(Page(name, f"https://site.example/{name}", 200, (), body, "text/html"), options)
    plan = decoding_schema(schema)
    built = build_prompt(plan.user, document, PAGE_BUDGET, count)
    narrow = build_prompt(plan.user, document, NARROW, count)
    parts = [
        f"===== format {FORMAT_VERSION}, page budget {PAGE_BUDGET}",
        f"===== system\n{built.prompt.system}",
        f"===== task\n{built.prompt.task}",
        f"===== page\n{built.prompt.page}",
        f"===== source\n{built.prompt.source}",
        f"===== page within {NARROW} tokens\n{narrow.prompt.page}",
        f"===== decoding schema\n{json.dumps(bind_links(plan, narrow.prompt.links), ensure_ascii=False)}",
    ]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    for each in SCHEMAS:
        (FOLDER / "prompts" / f"{each}.txt").write_text(frozen(each), encoding="utf-8")
