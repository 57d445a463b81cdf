"""The file of a crawl's state in, while nobody else has it open; the pages that failed in it out."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from fetchly.crawler.state_file import worded
from fetchly.errors import OutputError


@dataclass(frozen=True, slots=True)
class FailedPage:
    """A page, by the URL that it was found under. `message` is one line without code, URL and hint; `attempts` is how
    often it was asked for: 0 for one that never was."""

    url: str
    code: str
    message: str
    attempts: int
    retryable: bool
    hint: str | None


def failed_pages(state: Path) -> Iterator[FailedPage]:
    """In the order in which they were found.

    Errors: OutputError for a state that is not there, and those of the state.
    """
    query = "SELECT url, code, message, attempts, retryable, hint FROM pages WHERE state = 'failed' ORDER BY id"
    try:
        # Opened as it is, and not made where it is not there.
        with closing(sqlite3.connect(f"{state.absolute().as_uri()}?mode=rw", uri=True)) as database:
            for url, code, message, attempts, retryable, hint in database.execute(query):
                words = message.removeprefix(code).removeprefix(f" {url}").removeprefix(": ")
                words = words.removesuffix(f" ({' '.join(hint.split())})") if hint else words
                yield FailedPage(url, code, words, attempts, bool(retryable), hint)
    except sqlite3.Error as error:
        if not state.exists():
            raise OutputError("the state is gone", where=str(state)) from None
        raise worded(error, str(state)) from None
