"""A number and a seed in, a folder of invented pages, schemas and right answers out, as docs/eval.md describes it."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fetchly.errors import ConfigurationError, OutputError
from fetchly.lab.synthetic.catalogue import all_fields
from fetchly.lab.synthetic.pages import GENERATOR_VERSION, SyntheticPage, generate

MOST_PAGES = 1_000_000
"""Pages of one seed: the seeds of two corpora never share a page."""
_WORKED_OUT = ("choice", "flag", "minutes")


def page_seed(seed: int, number: int) -> int:
    """The seed of page `number` (from 0) of a corpus. Errors: ConfigurationError beyond MOST_PAGES."""
    if not 0 <= number < MOST_PAGES:
        raise ConfigurationError(f"a corpus has at most {MOST_PAGES:,} pages", hint="take another seed for more")
    return seed * MOST_PAGES + number


def write_corpus(folder: Path, count: int, seed: int, on_page: Callable[[str], None] = lambda _: None) -> None:
    """Write pages 0 to `count` - 1 of a seed: train.jsonl, html/<id>.html.gz, schemas/<id>.json.

    A longer corpus of a seed begins with the shorter one; the same call writes the same bytes. train.jsonl appears
    when all is done. Errors: ConfigurationError for a folder that holds a train.jsonl already and for too many pages,
    OutputError where something cannot be written.
    """
    if count < 1:
        raise ConfigurationError("a corpus has at least one page", where="--count")
    page_seed(seed, count - 1)
    answers = folder / "train.jsonl"
    if answers.exists():
        raise ConfigurationError(
            "there is a corpus already", where=str(answers), hint="name a new folder, or remove this one"
        )
    partial = folder / "train.jsonl.part"
    try:
        for place in (folder / "html", folder / "schemas"):
            place.mkdir(parents=True, exist_ok=True)
        with partial.open("w", encoding="utf-8", newline="\n") as lines:
            for number in range(count):
                page = generate(page_seed(seed, number))
                identity = f"synthetic-{page.seed:09}"
                (folder / "html" / f"{identity}.html.gz").write_bytes(gzip.compress(page.html, mtime=0))
                schema = json.dumps(page.schema, ensure_ascii=False, indent=1) + "\n"
                (folder / "schemas" / f"{identity}.json").write_text(schema, encoding="utf-8", newline="\n")
                lines.write(json.dumps(line(page, identity), ensure_ascii=False) + "\n")
                on_page(identity)
        os.replace(partial, answers)
    except OSError as error:
        raise OutputError(f"cannot be written: {error.strerror}", where=str(error.filename or folder)) from None


def line(page: SyntheticPage, identity: str) -> dict[str, Any]:
    """The line of a page in train.jsonl. Beyond what every set has: `complete`, every value stands on the page and
    every null is a true one; `sources`, the text of the page for the value at a JSON pointer."""
    return {
        "id": identity,
        "set": "synthetic",
        "vertical": identity,
        "site": page.url.split("/")[2],
        "url": page.url,
        "lang": page.lang,
        "source": f"fetchly lab synthesize, generator {GENERATOR_VERSION}",
        "expected": page.expected,
        "usable": list(page.usable),
        "verbatim": {name: _stands(name, page.concepts, page.sources) for name in page.usable},
        "missing": list(page.missing),
        "jsonld_types": list(page.jsonld_types),
        "structured": page.structured,
        "complete": True,
        "sources": dict(page.sources),
        "domain": page.domain,
        "layouts": list(page.layouts),
    }


def _stands(name: str, concepts: Mapping[str, str], sources: Mapping[str, str]) -> str:
    """How the value of a field stands on the page: `text`, `html` for URLs, `none` for what is worked out."""
    key = concepts.get(name)
    if key is None or all_fields()[key].kind == "rows":
        return "text" if any(pointer.startswith(f"/{name}/") for pointer in sources) else "html"
    kind = all_fields()[key].kind
    if kind in ("link", "image"):
        return "html"
    return "none" if kind in _WORKED_OUT else "text"
