"""A crawl as an iterator: its results, its end, its state, with an event loop and without."""

import asyncio
import json
import math
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fetchly.crawling.coordinator import Coordinator
from fetchly.errors import ConfigurationError, FetchError, ModelUnavailable
from fetchly.extraction.generator import GenerationTask
from fetchly.sdk import AsyncClient, Client
from tests.support.crawl_program import SCHEMA, name_of
from tests.support.crawl_site import CrawlSite, Reply, numbered
from tests.support.crawls import client_of, crawled, items, names
from tests.support.scripted_generator import ScriptedGenerator


@pytest.fixture
def client() -> Iterator[Client]:
    with client_of() as client:
        yield client


def test_what_ends_every_page_ends_the_crawl(tmp_path: Path) -> None:
    def answer(task: GenerationTask) -> str:
        raise ModelUnavailable("the model is gone")

    with CrawlSite(numbered(4)) as site:
        with client_of(answer) as client, pytest.raises(ModelUnavailable):
            names(crawled(client, site.url(), state=tmp_path / "crawl"))
        with client_of() as client:  # nothing is lost, and no page bears the blame
            assert names(crawled(client, site.url(), state=tmp_path / "crawl", resume=True)) == items(*range(4))


def test_no_more_is_read_than_the_model_keeps_up_with() -> None:
    let_go = threading.Event()

    def answer(task: GenerationTask) -> str:
        let_go.wait(20)
        return name_of(task)

    with CrawlSite(numbered(60)) as site, client_of(answer, budget=100) as client:
        seeds = [site.url(f"/p/{number}") for number in range(40)]
        with crawled(client, seeds, waiting_tokens=500) as crawl:
            end = time.monotonic() + 20
            while time.monotonic() < end and (crawl.progress.busy or not crawl.progress.waiting > 5):
                time.sleep(0.05)
            time.sleep(0.3)
            # Pages of some 27 tokens, beside room for one of 100.
            assert 5 < len(site.paths()) == crawl.progress.waiting < 25
            let_go.set()
            assert len(list(crawl)) == 60


def test_results_that_nobody_takes_hold_nothing_up_and_stay_on_disk(client: Client) -> None:
    with CrawlSite(numbered(90)) as site, crawled(client, site.url()) as crawl:
        end = time.monotonic() + 20
        while crawl.progress.counts.done < 90 and time.monotonic() < end:
            time.sleep(0.02)
        assert crawl.progress.counts.done == 90
        assert crawl._deliveries.room == 0
        assert len(list(crawl)) == 90


def test_a_crawl_that_waits_for_its_reader_alone_is_still(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once nothing is due it does not look for events again and again."""
    waiting = threading.Event()
    due: list[float] = []
    events, deliver = Coordinator._events, Coordinator._deliver_the_rest

    def watched(coordinator: Coordinator) -> Any:
        if waiting.is_set():
            due.append(coordinator._wake_at)
        return events(coordinator)

    def delivered(coordinator: Coordinator) -> None:
        waiting.set()
        deliver(coordinator)

    monkeypatch.setattr(Coordinator, "_events", watched)
    monkeypatch.setattr(Coordinator, "_deliver_the_rest", delivered)
    with CrawlSite(numbered(60)) as site, crawled(client, site.url()) as crawl:
        assert waiting.wait(20)
        assert len(list(crawl)) == 60
    assert set(due) == {math.inf}


def test_a_stopped_crawl_finishes_what_is_under_way_and_goes_on_later(client: Client, tmp_path: Path) -> None:
    with CrawlSite(numbered(60), pause_s=0.01) as site:
        options: dict[str, Any] = {"state": tmp_path / "crawl", "concurrency": 3}
        crawl = crawled(client, site.url(), **options)
        found = [next(crawl).value["name"]]
        crawl.stop()
        found += [result.value["name"] for result in crawl]
        assert len(found) == len(site.paths()) < 60
        assert crawl.summary.stopped
        again = crawled(client, site.url(), resume=True, **options)
        whole = [result.value["name"] for result in again]
        assert whole[: len(found)] == found  # those of the first run, in their order
        assert sorted(whole) == items(*range(60))
        assert Counter(site.paths()) == {f"/p/{number}": 1 for number in range(60)}


def test_a_crawl_that_waits_for_a_host_stops_at_once(client: Client, tmp_path: Path) -> None:
    later = Reply(b"later", 429, headers=(("Retry-After", "60"),))
    with CrawlSite(numbered(3), {"/p/0": later}) as site:
        crawl = crawled(client, site.url(), state=tmp_path / "crawl")
        end = time.monotonic() + 20
        while not any(host.why == "paused" for host in crawl.progress.hosts) and time.monotonic() < end:
            time.sleep(0.02)
        began = time.monotonic()
        crawl.stop()
        assert list(crawl) == []
        assert time.monotonic() - began < 10
        assert crawl.summary.stopped
        assert crawl.summary.queued == 1


def test_a_file_that_waits_for_its_hosts_turn_stops_at_once(client: Client) -> None:
    with CrawlSite(numbered(3)) as site:
        crawl = crawled(client, site.url(), sitemap=True, delay=60.0)
        end = time.monotonic() + 20
        while not (site.log and crawl.progress.busy) and time.monotonic() < end:
            time.sleep(0.02)
        time.sleep(0.3)
        began = time.monotonic()
        crawl.stop()
        assert list(crawl) == []
        assert time.monotonic() - began < 10
        assert [asked.path for asked in site.log] == ["/robots.txt"]


def test_a_closed_crawl_leaves_no_thread_and_loses_nothing(client: Client, tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with CrawlSite(numbered(60), pause_s=0.01) as site:
        with crawled(client, site.url(), state=tmp_path / "crawl") as crawl:
            next(crawl)
        assert not [thread for thread in set(threading.enumerate()) - before if thread.name.startswith("fetchly-")]
        assert names(crawled(client, site.url(), state=tmp_path / "crawl", resume=True)) == items(*range(60))


def test_closing_the_client_ends_its_crawls() -> None:
    with CrawlSite(numbered(2000)) as site:
        client = client_of()
        crawl = crawled(client, site.url())
        next(crawl)
        client.close()
        assert not crawl._thread.is_alive()
        assert len(list(crawl)) < 2000


def test_mistakes_are_told_before_anything_is_asked_for(client: Client, tmp_path: Path) -> None:
    with CrawlSite(numbered(2)) as site:
        for options in (
            {"limit": 0}, {"depth": -1}, {"delay": -1.0}, {"concurrency": 0}, {"follow": "p/*"}, {"color": "red"},
            {"resume": True}, {"failed": True}, {"temperature": -1.0}, {"exclude": ["/p/0"]},
        ):  # fmt: skip
            with pytest.raises(ConfigurationError):
                crawled(client, site.url(), **options)
        with pytest.raises(ConfigurationError):
            crawled(client, [])
        with pytest.raises(FetchError):
            crawled(client, "page.html")
        assert site.log == []


def test_a_resumed_crawl_must_be_the_same(client: Client, tmp_path: Path) -> None:
    with CrawlSite(numbered(2)) as site:
        assert len(names(crawled(client, site.url(), state=tmp_path / "crawl"))) == 2
        with pytest.raises(ConfigurationError, match="extraction"):
            crawled(client, site.url(), state=tmp_path / "crawl", resume=True, seed=7)
        with pytest.raises(ConfigurationError, match="seeds"):
            crawled(client, site.url("/p/1"), state=tmp_path / "crawl", resume=True)
        with pytest.raises(ConfigurationError) as caught:
            crawled(client, site.url(), state=tmp_path / "crawl")
        assert caught.value.code == "STATE_EXISTS"


def test_results_come_in_the_schemas_type_with_all_that_a_reader_asks_for(client: Client, tmp_path: Path) -> None:
    from typing_extensions import TypedDict

    class Item(TypedDict):
        name: str

    moved = Reply(status=301, headers=(("Location", "/p/1"),))
    with CrawlSite(numbered(2), {"/": moved}) as site:
        for resume in (False, True):  # as it is extracted, and as it is read back
            crawl = client.crawl(site.url("/"), Item, delay=0.0, limit=1, state=tmp_path / "crawl", resume=resume)
            (result,) = list(crawl)
            assert result.record["name"] == "Item 1"
            assert (result.url, result.status, result.redirects) == (site.url("/p/1"), 200, (site.url("/"),))
            assert result.evidence["/name"].found
            assert result.stats.output_tokens == 3
            assert len(result.identity) == 64


def test_a_crawl_with_an_event_loop() -> None:
    async def run() -> list[str]:
        async with AsyncClient(generator=ScriptedGenerator(name_of), render="never", allow_private=True) as client:
            found = []
            async with client.crawl(site.url(), SCHEMA, delay=0.0) as crawl:
                async for result in crawl:
                    found.append(result.value["name"])
                assert crawl.summary is not None
                assert crawl.summary.done == 40
            return found

    with CrawlSite(numbered(40)) as site:
        assert sorted(asyncio.run(run())) == items(*range(40))


def test_a_wait_that_is_given_up_takes_no_result_with_it() -> None:
    def answer(task: GenerationTask) -> str:
        time.sleep(0.03)
        return name_of(task)

    async def run() -> list[str]:
        async with AsyncClient(generator=ScriptedGenerator(answer), render="never", allow_private=True) as client:
            found: list[str] = []
            async with client.crawl(site.url(), SCHEMA, delay=0.0) as crawl:
                while True:
                    try:
                        found.append((await asyncio.wait_for(anext(crawl), 0.02)).value["name"])
                    except TimeoutError:
                        continue
                    except StopAsyncIteration:
                        return found

    with CrawlSite(numbered(12)) as site:
        assert sorted(asyncio.run(run())) == items(*range(12))


def test_json_that_is_no_unicode_survives_the_state(tmp_path: Path) -> None:
    def answer(task: GenerationTask) -> str:
        return json.dumps({"name": "half \ud83d of a pair"})

    with CrawlSite(numbered(1)) as site, client_of(answer) as client:
        assert names(crawled(client, site.url(), state=tmp_path / "crawl")) == ["half \ud83d of a pair"]
