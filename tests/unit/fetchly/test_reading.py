"""What becomes of an address that a browser takes for a file, where every page is to be rendered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fetchly.crawler.http import FetchPolicy
from fetchly.crawler.storage_state import load_storage_state
from fetchly.document.reader import ReadOptions
from fetchly.errors import DocumentError, FetchError
from fetchly.goods import Page
from fetchly.reading import TargetReader
from tests.support.crawl_site import CrawlSite, Reply, page


class Downloading:
    """A browser to which every address gives a download; the scripts of a page lead it elsewhere."""

    def render(self, url: str, **options: Any) -> Page:
        raise DocumentError("this is a download", where=url, code="DOCUMENT_NOT_HTML")

    def render_html(self, page: Page, *, may_follow: Callable[[str], object] | None = None, **options: Any) -> Page:
        if may_follow is not None:
            may_follow("http://elsewhere.example/")
        return page

    def close(self) -> None:
        pass


@pytest.fixture
def site() -> Iterator[CrawlSite]:
    notes = Reply(b"two notes", content_type="text/plain")
    with CrawlSite(fixed={"/page": page("Log in"), "/notes": notes}) as site:
        yield site


@pytest.fixture
def opened() -> Iterator[Callable[..., TargetReader]]:
    readers: list[TargetReader] = []

    def opened(**options: Any) -> TargetReader:
        reader = TargetReader(FetchPolicy(allow_private=True), render="always", **options)
        reader._renderer = Downloading()  # type: ignore[assignment]
        readers.append(reader)
        return reader

    yield opened
    for reader in readers:
        reader.close()


def test_where_the_scripts_of_a_page_lead_is_asked_about_also_then(
    site: CrawlSite, opened: Callable[..., TargetReader]
) -> None:
    def refuse(url: str) -> None:
        raise FetchError("out of the crawl", url=url, code="OUT_OF_SCOPE")

    with pytest.raises(FetchError, match="out of the crawl"):
        opened().read(site.url("/page"), ReadOptions(), None, refuse)


def test_the_page_of_a_stranger_does_not_stand_for_that_of_a_user(
    site: CrawlSite, opened: Callable[..., TargetReader]
) -> None:
    reader = opened(storage_state=load_storage_state({"cookies": []}))
    with pytest.raises(DocumentError, match="download"):
        reader.read(site.url("/page"), ReadOptions())
    assert reader.read(site.url("/notes"), ReadOptions()).document.text == "two notes"
    assert "Log in" in opened().read(site.url("/page"), ReadOptions()).document.text
