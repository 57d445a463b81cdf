"""What holds of a crawl's one thread whatever goes on around it: it is not swamped, and closes what it has opened."""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from fetchly.crawler.fingerprint import Address
from fetchly.crawler.frontier import Frontier
from fetchly.crawling.events import SitemapPages
from fetchly.crawling.extraction import LocalExtraction
from fetchly.crawling.fetching import Fetching
from fetchly.crawling.workers import Workers
from fetchly.errors import ConfigurationError
from fetchly.governing.governor import Governor
from fetchly.sdk import Client
from tests.support.crawl_site import CrawlSite, Reply, page
from tests.support.crawls import client_of, crawled


@pytest.fixture
def client() -> Iterator[Client]:
    with client_of() as client:
        yield client


def test_a_large_sitemap_waits_for_the_state_and_loses_nothing(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """While batches are stored slowly, few are read from it in advance."""
    count, batch = 400, 4
    monkeypatch.setattr("fetchly.crawling.fetching._SITEMAP_BATCH", batch)
    entries = "".join(f"<url><loc>/alone/{number}</loc></url>" for number in range(count))
    made = stored = most = 0
    list_pages, store = Fetching.list_pages, Frontier.add

    def counted(fetching: Fetching, origin: str) -> Iterator[SitemapPages]:
        nonlocal made
        for event in list_pages(fetching, origin):
            made += bool(event.addresses)
            yield event

    def slow(frontier: Frontier, addresses: Sequence[Address], depth: int, *found: int) -> int:
        nonlocal stored, most
        if made and addresses:
            most = max(most, made - stored)
            stored += 1
            time.sleep(0.003)
        return store(frontier, addresses, depth, *found)

    monkeypatch.setattr(Fetching, "list_pages", counted)
    monkeypatch.setattr(Frontier, "add", slow)
    fixed = {"/": page("Start"), "/sitemap.xml": Reply(f"<urlset>{entries}</urlset>".encode())}
    with CrawlSite(fixed=fixed) as site, crawled(client, site.url("/"), sitemap=True, limit=1) as crawl:
        while crawl.wait():
            crawl.take()
    assert (made, stored) == (count // batch, count // batch)
    assert crawl.progress.counts.queued == count
    assert most <= 3, "one at the coordinator, one that waits for it, one that its thread holds"


def test_what_cannot_be_closed_keeps_nothing_else_open(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []
    for kind in (Workers, Frontier):

        def close(this: Any, name: str = kind.__name__, close: Callable[[Any], None] = kind.close) -> None:
            closed.append(name)
            close(this)

        monkeypatch.setattr(kind, "close", close)

    def broken(governor: Governor, load: object) -> None:
        raise OSError("the kernel says nothing")

    monkeypatch.setattr(Governor, "close", broken)
    with CrawlSite(fixed={"/": page("Start")}) as site:
        crawl = crawled(client, site.url("/"))
        with crawl, pytest.raises(OSError, match="the kernel says nothing"):
            assert [result.value for result in crawl] == [{"name": "Start"}]
    assert closed == ["Workers", "Workers", "Frontier"], "those that fetch, the one that extracts, the state"


def test_a_crawl_that_cannot_begin_gives_its_writers_back(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []
    monkeypatch.setattr(LocalExtraction, "close", lambda self: closed.append("extraction"))
    state = tmp_path / "crawl"
    state.write_text("no state at all, but some text that is long enough to be none")
    with pytest.raises(ConfigurationError, match="state"):
        crawled(client, "http://127.0.0.1:9/", state=state)
    assert closed == ["extraction"]
