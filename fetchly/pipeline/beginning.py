"""The section `source` in; the pages that a run begins with, as what a crawl is about, out.

Files are found and tables opened before anything else is done; the lines of a list are read one by one, as they are
queued, so that a list may be longer than memory. In a list, blank lines and lines that begin with # say nothing, and a
line that begins with { is a JSON object with a `url`, as a quarantine file has them.
"""

from __future__ import annotations

import csv
import glob
import hashlib
import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, TextIO

from fetchly.crawler.fingerprint import Address, address_of
from fetchly.crawler.local_pages import file_address, no_url
from fetchly.crawler.scope import Glob
from fetchly.crawling.subject import Subject
from fetchly.errors import ConfigurationError, FetchError
from fetchly.pipeline.masking import dumped
from fetchly.pipeline.page_choice import PageChoice
from fetchly.pipeline.pipeline import Pipeline
from fetchly.pipeline.source import UrlList

Say = Callable[[str], None]
_PAGES = ("seeds", "files", "sitemap", "urls")


def subject_of(pipeline: Pipeline, choice: PageChoice, say: Say) -> Subject:
    """What the crawl of a pipeline is about; `choice` is the pipeline's. `say` is told of lines that are left out.

    Errors: ConfigurationError for a file that is not there, a table without its column, a glob that no file is like.
    """
    source = pipeline.source
    seeds = [address_of(seed.strip().partition("#")[0]) for seed in source.seeds]
    lists = [_List(pipeline, number, entry, say) for number, entry in enumerate(source.urls)]
    files = [file for number, pattern in enumerate(source.files) for file in _files(pipeline, number, pattern)]

    def listed() -> Iterator[Address]:
        yield from map(file_address, files)
        for each in lists:
            yield from each.addresses()

    return Subject(
        seeds,
        {schema.name: schema.schema for schema in pipeline.schemas},
        choice,
        _settings(pipeline),
        listed(),
        source.sitemap_urls,
    )


def _settings(pipeline: Pipeline) -> dict[str, str]:
    """Digests, as a message may show them: the sections may hold what comes from the environment."""
    source = dumped(pipeline.source)
    rows = [
        [schema.name, [glob.pattern for glob in schema.match], schema.rows, dumped(schema.transform)]
        for schema in pipeline.schemas
    ]
    return {"source": _digest({key: source.get(key) for key in _PAGES}), "rows": _digest(rows)}


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


def _files(pipeline: Pipeline, number: int, pattern: str) -> list[Path]:
    found = sorted(Path(os.path.abspath(name)) for name in glob.iglob(pattern, recursive=True) if os.path.isfile(name))
    if not found:
        raise ConfigurationError(
            "no file is like this glob",
            where=pipeline.place("source", "files", number),
            hint="** stands for any number of folders; relative paths begin in the pipeline's folder",
            code="FILE_MISSING",
        )
    return found


class _List:
    """One entry of `urls`, open."""

    def __init__(self, pipeline: Pipeline, number: int, entry: UrlList, say: Say) -> None:
        self._place = pipeline.place("source", "urls", number)
        self._entry = entry
        self._say = say
        self._exclude = [Glob(pattern) for pattern in pipeline.source.exclude]
        self._file = entry.file or entry.csv
        self._name = self._file.name if self._file is not None else "stdin"
        self._stream = self._opened()
        self._table = self._opened_table() if entry.column is not None else None

    def addresses(self) -> Iterator[Address]:
        """Of all lines, in their order."""
        excluded = 0
        with closing(self._stream):
            for line, text in self._texts():
                try:
                    address = address_of(text.partition("#")[0])
                except FetchError as error:
                    hint = f" ({error.hint})" if error.hint else ""
                    self._say(f"{error.code} {self._name}:{line}: {error.message}{hint}")
                    yield no_url(text)
                    continue
                if any(pattern.matches(address.path) for pattern in self._exclude):
                    excluded += 1
                else:
                    yield address
        if excluded:
            self._say(f"EXCLUDED {self._name}: exclude leaves out {excluded:,} of its URLs")

    def _texts(self) -> Iterator[tuple[int, str]]:
        if self._table is None:
            for number, line in enumerate(self._stream, start=1):
                text = line.strip()
                if text and not text.startswith("#"):
                    yield number, _url_of(text) if text.startswith("{") else text
            return
        assert self._entry.column is not None
        try:
            for row in self._table:
                text = (row[self._entry.column] or "").strip()
                if text:
                    yield self._table.line_num, text
        except csv.Error as error:
            raise self._unreadable(error) from None

    def _unreadable(self, error: csv.Error) -> ConfigurationError:
        return ConfigurationError(f"the table cannot be read: {error}", where=self._name, hint="check its delimiter")

    def _opened(self) -> TextIO:
        try:
            if self._file is not None:
                return self._file.open(encoding="utf-8-sig", errors="replace", newline="")
        except OSError as error:
            raise ConfigurationError(
                f"the list cannot be read: {error.strerror or error}", where=self._place, hint="check the path"
            ) from None
        if sys.stdin is None:
            raise ConfigurationError("standard input is closed", where=self._place, hint="pipe the list in")
        # A stream of its own: closing it leaves the program's standard input as it is.
        return io.TextIOWrapper(
            io.FileIO(sys.stdin.fileno(), closefd=False), encoding="utf-8-sig", errors="replace", newline=""
        )

    def _opened_table(self) -> csv.DictReader[str]:
        table = csv.DictReader(self._stream, delimiter=self._entry.delimiter or ",")
        try:
            columns = table.fieldnames or ()
        except csv.Error as error:
            self._stream.close()
            raise self._unreadable(error) from None
        if self._entry.column not in columns:
            self._stream.close()
            raise ConfigurationError(
                f"the table {self._name} has no column {self._entry.column!r}",
                where=self._place,
                hint=f"it has: {', '.join(columns)}" if columns else "its first line names the columns",
            )
        return table


def _url_of(line: str) -> str:
    """The URL of a line of a quarantine file; the line itself where it is none."""
    try:
        found = json.loads(line)
    except ValueError:
        return line
    return str(found.get("url", line)) if isinstance(found, dict) else line
