"""The address of a page in; the name of the schema that its record obeys out. Knows at the end why there were none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fetchly.crawler.fingerprint import Address
from fetchly.crawler.local_pages import FILES, is_local
from fetchly.crawler.scope import NOT_FOLLOWED, Glob
from fetchly.crawling.failures import NO_RECORD
from fetchly.crawling.summary import CrawlSummary
from fetchly.pipeline.pipeline import Pipeline
from fetchly.pipeline.positions import descend, shown

NO_MATCH = "NO_MATCH"
"""Of a run that has read pages, and none of them for a record."""


class PageChoice:
    """The first schema whose `match` is like a page. The globs of files are matched on their paths within the
    pipeline's folder. Asked from several threads."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._follow = [Glob(pattern) for pattern in pipeline.source.follow]
        self._has_chosen = False
        self._unlike: tuple[str, Address] | None = None  # the key whose globs are unlike the first such page

    def __call__(self, address: Address) -> str | None:
        """None for a page that is read for its links alone."""
        local = _within(address, self._pipeline.folder)
        schema = next((schema.name for schema in self._pipeline.schemas if schema.matches(local)), None)
        if schema is not None and self._is_followed(address):
            self._has_chosen = True
        elif self._unlike is None:
            self._unlike = ("match" if schema is None else "follow", address)
        return schema

    def complaint(self, crawl: CrawlSummary) -> str | None:
        """A line for the user, where pages were read at the end of a crawl, and all of them for their links alone."""
        has_record = crawl.done or NO_RECORD in crawl.skipped
        if has_record or self._has_chosen or self._unlike is None or not crawl.skipped.get(NOT_FOLLOWED):
            return None
        key, page = self._unlike
        return (
            f"{NO_MATCH}: no page that was read is like {key} ({self._globs(key)}), so that all were read for their "
            f"links alone, the first: {page.url} (a glob is compared with the whole path)"
        )

    def _is_followed(self, address: Address) -> bool:
        """A page is only read for a record where the crawl follows links to it; a file always."""
        return not self._follow or is_local(address.host) or any(glob.matches(address.path) for glob in self._follow)

    def _globs(self, key: str) -> str:
        """As the file has them: what came from the environment is not shown."""
        if key == "follow":
            return self._shown(("source", key), len(self._follow))
        schemas = self._pipeline.schemas
        return "; ".join(f"{each.name}: {self._shown((*each.path, key), len(each.match))}" for each in schemas)

    def _shown(self, path: tuple[str | int, ...], count: int) -> str:
        tree = self._pipeline.loaded.tree
        return ", ".join(shown(descend(tree, (*path, number))) for number in range(count))


def _within(address: Address, folder: Path) -> Address:
    """A file's, as globs are matched on it."""
    if address.host != FILES or not Path(address.path).is_relative_to(folder):
        return address
    return replace(address, path=f"/{Path(address.path).relative_to(folder).as_posix()}")
