"""Traps, dead hosts, pages without a record: what a crawl does about them, and what it says."""

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fetchly.crawler.politeness import Politeness, PolitenessLimits
from fetchly.errors import RecordInvalid
from fetchly.extraction.generator import GenerationTask
from fetchly.extraction.validation import VALUE_MISSING
from fetchly.sdk import Client
from tests.support.crawl_program import name_of
from tests.support.crawl_site import CrawlSite, Reply, numbered, page
from tests.support.crawls import client_of, crawled, items, names
from tests.support.site import Site, Visit, answer


@pytest.fixture
def client() -> Iterator[Client]:
    with client_of() as client:
        yield client


def only_items(pointer: str = "/name") -> Callable[[GenerationTask], str]:
    """A model that finds a name on the pages of items alone."""

    def answer(task: GenerationTask) -> str:
        if "Item" not in task.prompt.source:
            raise RecordInvalid("null is not of type 'string'", pointer=pointer, code=VALUE_MISSING)
        return name_of(task)

    return answer


# ---- pages without a record


INDEX = {"/": page("Shop", ["/pots", "/pans"]), "/pots": page("Pots", ["/p/1"]), "/pans": page("Pans", ["/p/2"])}


def test_index_pages_are_no_failures_and_lead_to_the_records() -> None:
    said: list[str] = []
    with CrawlSite(numbered(3, fan=0), INDEX) as site, client_of(only_items()) as client:
        crawl = crawled(client, site.url("/"), report=said.append, concurrency=1)
        assert names(crawl) == items(0, 1, 2)
    assert (crawl.summary.failed, crawl.summary.skipped) == ({}, {"NO_RECORD": 3})
    assert said == [f"NO_RECORD: pages without /name give no record, the first: {site.url('/')}"]


def test_pages_without_a_record_count_towards_the_limit() -> None:
    with CrawlSite(numbered(3, fan=0), INDEX) as site, client_of(only_items()) as client:
        crawl = crawled(client, site.url("/"), limit=4)
        assert len(names(crawl)) == 1
    assert len(site.paths("/")) == 1 + 4  # robots.txt, and the pages


def test_a_page_without_a_record_is_read_once_whatever_leads_there(tmp_path: Path) -> None:
    """Every page of a shop may redirect to the one that asks who one is."""
    ways = {f"/way/{number}": Reply(status=302, headers=(("Location", "/login"),)) for number in range(6)}
    fixed = {"/p/0": page("Item 0", [*ways, "/login", "/p/1"]), "/p/1": page("Item 1"), "/login": page("Who?"), **ways}
    asked: list[str] = []

    def answer(task: GenerationTask) -> str:
        asked.append(name_of(task))
        return only_items()(task)

    with CrawlSite(fixed=fixed) as site, client_of(answer, attempts=1) as client:
        options: dict[str, Any] = {"state": tmp_path / "crawl", "concurrency": 1}
        crawl = crawled(client, site.url(), limit=3, **options)
        assert names(crawl) == items(0, 1)
        assert crawl.summary.skipped == {"NO_RECORD": 1, "SAME_PAGE": 6}
        assert sum("Who?" in name for name in asked) == 1
        again = crawled(client, site.url(), limit=3, resume=True, **options)
        assert (names(again), again.summary.skipped) == (items(0, 1), {"NO_RECORD": 1, "SAME_PAGE": 6})


def test_a_list_of_which_one_entry_lacks_a_value_is_a_failure() -> None:
    with CrawlSite(numbered(3, fan=0), INDEX) as site, client_of(only_items("/3/name")) as client:
        crawl = crawled(client, site.url("/"))
        assert names(crawl) == items(0, 1, 2)
    assert crawl.summary.failed == {VALUE_MISSING: 3}


def test_a_resumed_crawl_does_not_read_them_again(tmp_path: Path) -> None:
    options: dict[str, Any] = {"state": tmp_path / "crawl"}
    with CrawlSite(numbered(3, fan=0), INDEX) as site, client_of(only_items()) as client:
        names(crawled(client, site.url("/"), **options))
        asked = len(site.paths())
        crawl = crawled(client, site.url("/"), resume=True, failed=True, **options)
        assert names(crawl) == items(0, 1, 2)
        assert len(site.paths()) == asked
    assert crawl.summary.skipped == {"NO_RECORD": 3}


def test_the_command_says_that_all_is_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fetchly import sdk
    from fetchly.cli.app import run
    from tests.support.crawl_program import SCHEMA
    from tests.support.scripted_generator import ScriptedGenerator

    monkeypatch.setattr(sdk, "LocalGenerator", lambda *_, **__: ScriptedGenerator(only_items()))
    monkeypatch.chdir(tmp_path)
    Path("schema.json").write_text(json.dumps(SCHEMA))
    with CrawlSite(numbered(3, fan=0), INDEX) as site:
        flags = ["-s", "schema.json", "-o", "out.jsonl", "--allow-private", "--render", "never", "--delay", "0"]
        assert run(["crawl", site.url("/"), *flags, "--stats-json", "stats.json"]) == 0
        assert run(["crawl", site.url("/pots"), "--depth", "0", *flags[:2], "-o", "none.jsonl", *flags[4:]]) == 1
    summary = json.loads(Path("stats.json").read_text())
    assert (summary["skipped"], summary["failed"], summary["records"]) == ({"NO_RECORD": 3}, {}, 3)
    assert summary["coverage"] == {"name": 1.0}


# ---- hosts that do not answer


def silent_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def test_a_host_that_falls_silent_is_given_up_and_tried_again_on_demand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    soon = PolitenessLimits(backoff_s=0.001, max_backoff_s=0.001, give_up_after=4)
    monkeypatch.setattr("fetchly.crawling.crawl.Politeness", partial(Politeness, limits=soon))
    dead = True

    def serve(visit: Visit) -> None:
        if visit.path == "/":
            links = "".join(f"<a href=/x/{number}>x</a>" for number in range(30))
            visit.send(answer(f"<h1>Start</h1><p>It is.</p>{links}".encode()))
        elif not dead:
            visit.send(answer(f"<h1>{visit.path}</h1><p>It is.</p>".encode()))
        # else: the connection is closed without a word

    said: list[str] = []
    options: dict[str, Any] = {"state": tmp_path / "crawl", "report": said.append, "tries": 1}
    with Site() as site, CrawlSite(numbered(20)) as other, client_of() as client:
        site.routes |= {"/": serve, **{f"/x/{number}": serve for number in range(30)}}
        seeds = [site.url("/"), other.url()]
        crawl = crawled(client, seeds, **options)
        assert names(crawl) == sorted([*items(*range(20)), "Start"])
        failed = crawl.summary.failed
        assert sum(failed.values()) == 30
        assert failed["HOST_SILENT"] >= 15  # some were under way together
        assert len([line for line in said if "HOST_SILENT" in line]) == 1
        dead = False
        again = crawled(client, seeds, resume=True, failed=True, **options)
        assert len(names(again)) == 20 + 1 + 30
        assert again.summary.failed == {}


# ---- what is no page


def test_a_film_is_cut_off_after_its_head(client: Client) -> None:
    gone = threading.Event()
    sent = [0]

    def film(visit: Visit) -> None:
        visit.send(b"HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\nContent-Length: 500000000\r\n\r\n")
        try:
            while sent[0] < 500_000_000:
                visit.send(b"\0\0\0\x20ftypisom" + os.urandom(65_524))
                sent[0] += 65_536
        except OSError:
            gone.set()

    with Site() as site:
        site.routes |= {"/": answer(b"<h1>Start</h1><p>A film. <a href=/film>see</a>"), "/film": film}
        crawl = crawled(client, site.url("/"))
        assert names(crawl) == ["Start"]
        assert gone.wait(20)
    assert crawl.summary.skipped == {"NOT_HTML_MEDIA": 1}
    assert sent[0] < 20_000_000  # what the buffers on the way hold


def test_a_page_that_begins_with_very_much_nothing_is_a_page(client: Client) -> None:
    with CrawlSite(fixed={"/": Reply(b"\n" * 100_000 + page("Start").body)}) as site:
        assert names(crawled(client, site.url("/"))) == ["Start"]


FEED = b"""<?xml version='1.0'?><rss version='2.0'><channel><link>/</link>
<item><link>/p/1</link></item><item><link>/p/2</link></item><item><link>http://elsewhere.example/</link></item>
<item></item></channel></rss>"""


def test_a_feed_as_a_seed_stands_for_its_pages(client: Client) -> None:
    said: list[str] = []
    feed = Reply(FEED, content_type="application/rss+xml")
    with CrawlSite(numbered(9, fan=0), {"/feed": feed}) as site:
        crawl = crawled(client, site.url("/feed"), depth=0, report=said.append)
        assert names(crawl) == items(1, 2)
    assert crawl.summary.skipped == {"NOT_HTML_FEED": 1}
    assert len(said) == 1  # the entry without an address
    assert said[0].startswith(f"SITEMAP_ENTRIES {site.url('/feed')}")


def test_a_feed_on_the_way_is_told_apart_and_passed_by(client: Client) -> None:
    feed = Reply(FEED, content_type="application/rss+xml")
    with CrawlSite(numbered(9, fan=0), {"/": page("Start", ["/feed"]), "/feed": feed}) as site:
        crawl = crawled(client, site.url("/"))
        assert names(crawl) == ["Start"]
        assert site.paths("/feed") == ["/feed"]
    assert crawl.summary.skipped == {"NOT_HTML_FEED": 1}


# ---- what is said


def test_what_is_odd_in_a_robots_txt_is_said_once(client: Client) -> None:
    said: list[str] = []
    rules = Reply(b"User-agent: *\nDisallow: /x\nSitemap: file:///map\n", content_type="text/plain")
    with CrawlSite(numbered(9), {"/robots.txt": rules}) as site:
        names(crawled(client, site.url(), report=said.append))
    assert len(said) == 1
    assert said[0].startswith(f"ROBOTS_NOTE {site.url('')}: ")
    assert "file:///map" in said[0]


def test_a_path_that_grows_for_ever_ends(client: Client) -> None:
    said: list[str] = []

    def grow(path: str) -> Reply | None:
        return page(path, ["b/"], "".join(f"<p>{word}" for word in path.split("/"))) if path.endswith("/") else None

    with CrawlSite(grow) as site:
        crawl = crawled(client, site.url("/a/"), per_shape=500, report=said.append)
        assert len(names(crawl)) == 1 + 2 + 5
    assert crawl.summary.skipped == {"TRAP_SUSPECTED": 1}
    assert "whose paths repeat themselves" in said[0]


def test_a_session_in_the_address_makes_no_new_page(client: Client) -> None:
    sessions = iter(range(1000))

    def answer(path: str) -> Reply | None:
        name = path.partition(";")[0].partition("?")[0]
        links = [f"/{letter};jsessionid=A{next(sessions)}?PHPSESSID={next(sessions)}" for letter in "abc"]
        return page(name, links) if name in ("/", "/a", "/b", "/c") else None

    with CrawlSite(answer) as site:
        assert names(crawled(client, site.url("/"), limit=50)) == ["/", "/a", "/b", "/c"]
        assert ";jsessionid=A" in site.paths("/a")[0]  # the request goes out as it was written
