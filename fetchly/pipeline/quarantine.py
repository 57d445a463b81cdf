"""The state of a run and its rejected rows in; a file of what failed, one JSON object a line, that can be run again
out: by `--resume --failed`, or as a list of `urls`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from fetchly.crawler.failed_pages import failed_pages
from fetchly.pipeline.rows import Rejected
from fetchly.pipeline.whole_file import write_whole


def write_quarantine(file: Path, state: Path, rejected: Iterable[Rejected]) -> int:
    """Write it whole, also where nothing failed. How many lines. Errors: OutputError, and those of the state."""
    lines = 0

    def written() -> Iterator[str]:
        nonlocal lines
        for entry in _entries(state, rejected):
            lines += 1
            yield json.dumps(entry, ensure_ascii=False) + "\n"

    write_whole(file, written())
    return lines


def _entries(state: Path, rejected: Iterable[Rejected]) -> Iterator[dict[str, Any]]:
    for page in failed_pages(state):
        yield {
            "url": page.url, "code": page.code, "message": page.message, "attempts": page.attempts,
            "retryable": page.retryable, "hint": page.hint,
        }  # fmt: skip
    for row in rejected:
        yield {
            "url": row.url, "code": row.code, "message": row.message, "hint": row.hint,
            "row": row.key, "schema": row.schema, "sink": row.sink,
        }  # fmt: skip
