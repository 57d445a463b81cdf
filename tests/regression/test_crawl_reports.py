"""Public reports about whole crawls, as whole crawls: what must hold here. Those about a part of one stand in
test_crawling_reports and test_fetching_reports."""

import gzip
import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fetchly.errors import ConfigurationError
from fetchly.extraction.generator import GenerationTask
from fetchly.sdk import Client
from tests.support.crawl_site import CrawlSite, Reply, numbered, page
from tests.support.crawls import client_of, crawled, items, names


@pytest.fixture
def client() -> Iterator[Client]:
    with client_of() as client:
        yield client


def test_a_page_has_the_same_time_in_a_crawl_as_alone() -> None:
    # crawl4ai#1818: the time of a page is not spent while its host's turn is waited for
    with CrawlSite(numbered(7, fan=6), pause_s=0.2) as site, client_of(timeout=1.5) as client:
        alone = client.document(site.url()).text
        crawl = crawled(client, site.url(), delay=0.4, concurrency=7)
        assert names(crawl) == items(*range(7))
        assert crawl.summary.failed == {}
        assert crawl.summary.seconds > 1.5
        assert client.document(site.url()).text == alone


def test_the_limit_is_never_overrun(client: Client) -> None:
    # crawl4ai#927
    with CrawlSite(numbered(300, fan=30), pause_s=0.01) as site:
        crawl = crawled(client, site.url(), limit=25, concurrency=16)
        assert len(names(crawl)) == 25
        assert len(site.paths()) == 25


def test_a_slash_at_the_end_goes_out_with_the_request(client: Client) -> None:
    # crawl4ai#1888
    fixed = {"/": page("Start", ["/content/"]), "/content/": page("Content")}
    with CrawlSite(fixed=fixed) as site:
        assert names(crawled(client, site.url("/"))) == ["Content", "Start"]


def test_a_calendar_without_end_ends_and_is_told(client: Client) -> None:
    # crawler4j#31
    said: list[str] = []

    def months(path: str) -> Reply | None:
        year = path.removeprefix("/calendar?year=")
        if not year.isdigit():
            return None
        return page(f"Year {year}", [f"/calendar?year={int(year) + 1}", f"/calendar?year={int(year) - 1}", "/p/1"])

    fixed = {"/": page("Start", ["/calendar?year=2024"]), "/p/1": page("Item 1")}
    with CrawlSite(months, fixed) as site:
        crawl = crawled(client, site.url("/"), per_shape=12, report=said.append)
        found = names(crawl)
    assert (len(found), "Item 1" in found) == (14, True)
    assert set(crawl.summary.skipped) == {"TRAP_SUSPECTED"}
    assert [line.split()[0] for line in said] == ["TRAP_SUSPECTED"]


def test_what_was_in_flight_and_queued_is_there_after_an_end_at_once(tmp_path: Path) -> None:
    # scrapy#2399, #4106, #3413, #7978; with SIGKILL and at random moments: test_crawl_kills
    state = tmp_path / "crawl"
    with CrawlSite(numbered(40), pause_s=0.01) as site, client_of() as client:
        crawl = crawled(client, site.url(), state=state, limit=40)
        first = [crawl.take().value["name"] for _ in range(5) if crawl.wait()]
        crawl.close()
        asked, done = len(site.paths()), crawl.summary.done
        again = crawled(client, site.url(), state=state, resume=True)
        found = names(again)
        assert found == items(*range(40))
        assert set(first) <= set(found)
        assert len(site.paths()) == asked + 40 - done  # what was in flight again, and nothing that was done
    assert 5 <= done < 40


@pytest.mark.parametrize("damage", ["begin", "middle", "short", "foreign", "text"])
def test_a_damaged_state_is_told_apart_from_a_crawl_that_is_over(tmp_path: Path, damage: str) -> None:
    # scrapy#5312: a queue on disk that is broken; nothing is begun anew without a word, and nothing is overwritten
    state = tmp_path / "crawl"
    with CrawlSite(numbered(60)) as site, client_of() as client:
        names(crawled(client, site.url(), state=state))
        whole = state.read_bytes()
        middle = len(whole) // 2
        broken = {
            "begin": b"\0" * 100 + whole[100:],
            "middle": whole[: middle - 4096] + b"\xff" * 8192 + whole[middle + 4096 :],
            "short": whole[:middle],
            "foreign": b"SQLite format 3\0" + b"\0" * 4096,
            "text": b"{}\n",
        }[damage]
        state.write_bytes(broken)
        with pytest.raises(ConfigurationError) as failed:
            crawled(client, site.url(), state=state, resume=True)
        assert failed.value.code == "STATE_INVALID"
        assert str(state) in failed.value.line()
        assert state.read_bytes() == broken
        state.write_bytes(whole)
        assert names(crawled(client, site.url(), state=state, resume=True)) == items(*range(60))


PRICED = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "price": {"type": ["number", "null"]}},
    "required": ["name", "price"],
}


@pytest.mark.parametrize("is_rebuilt", [True, False])
def test_a_field_that_most_records_lack_is_told(is_rebuilt: bool) -> None:
    # scrapy#2360
    def record(task: GenerationTask) -> str:
        name = task.prompt.source.partition("\n")[0]
        price = "null" if is_rebuilt and name != "Item 0" else "3.5"
        return f'{{"name": "{name}", "price": {price}}}'

    said: list[str] = []
    with CrawlSite(numbered(12)) as site, client_of(record) as client:
        crawl = client.crawl(site.url(), PRICED, delay=0.0, report=said.append)
        assert len(names(crawl)) == 12
    told = ["FIELDS_EMPTY: of 12 records few have a value for price (1)"] if is_rebuilt else []
    assert [line for line in said if line.startswith("FIELDS")] == told
    assert crawl.summary.coverage == {"name": 1.0, "price": 0.083 if is_rebuilt else 1.0}


@pytest.fixture
def loopback_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every name of `.test` and `.co.uk` leads to loopback."""
    asked = socket.getaddrinfo

    def found(host: Any, *arguments: Any, **options: Any) -> Any:
        is_ours = isinstance(host, str) and host.endswith((".test", ".co.uk"))
        return asked("127.0.0.1" if is_ours else host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", found)


def test_a_site_ends_at_its_public_suffix(loopback_names: None, client: Client) -> None:
    # crawlee-python PR#1572
    with CrawlSite(lambda path: page(path)) as site:
        at = {name: f"http://{name}.co.uk:{site.port}" for name in ("a", "shop.a", "b")}
        site.fixed = {"/": page("Start", [f"{at['shop.a']}/in", f"{at['b']}/out"])}
        assert names(crawled(client, f"{at['a']}/")) == ["/in", "Start"]
        assert site.paths("/out") == []


def test_the_scope_is_looked_at_again_after_a_redirect(loopback_names: None, client: Client) -> None:
    # crawlee-python PR#1607
    with CrawlSite(lambda path: page(path) if path == "/out" else None) as site:
        away = f"http://b.co.uk:{site.port}/out"
        refresh = f"<meta http-equiv=refresh content='0; url={away}'>".encode()
        site.fixed = {
            "/": page("Start", ["/moved", "/refreshed", "/private/a"]),
            "/moved": Reply(status=301, headers=(("Location", away),)),
            "/refreshed": Reply(refresh),
            "/private/a": Reply(status=302, headers=(("Location", "/closed/a"),)),
        }
        crawl = crawled(client, f"http://a.co.uk:{site.port}/", exclude=["/closed/**"])
        assert names(crawl) == ["Start"]
        assert site.paths("/out") == site.paths("/closed") == []
    assert crawl.summary.skipped == {"OTHER_SITE": 2, "EXCLUDED": 1}


def test_nested_and_packed_sitemaps_lead_to_their_pages(client: Client) -> None:
    # firecrawl#477, scrapy#951
    def index(*files: str) -> Reply:
        entries = "".join(f"<sitemap><loc>{file}</loc></sitemap>" for file in files)
        return Reply(f"<sitemapindex>{entries}</sitemapindex>".encode(), content_type="text/xml")

    def listed(number: int) -> bytes:
        return f"<urlset><url><loc><![CDATA[/p/{number}]]></loc></url></urlset>".encode()

    packed = gzip.compress(listed(3), mtime=0)
    twice = (("Content-Encoding", "gzip"),)
    fixed = {
        "/robots.txt": Reply(b"Sitemap: /maps/index.xml\n", content_type="text/plain"),
        "/maps/index.xml": index("/maps/inner.xml", "/maps/2.xml.gz"),
        "/maps/inner.xml": index("/maps/1.xml", "/maps/3.xml.gz", "/maps/4.xml.gz"),
        "/maps/1.xml": Reply(listed(1), content_type="text/xml"),
        "/maps/2.xml.gz": Reply(listed(2), content_type="application/gzip"),  # it only says so
        "/maps/3.xml.gz": Reply(packed, content_type="application/gzip"),
        "/maps/4.xml.gz": Reply(gzip.compress(gzip.compress(listed(4))), content_type="text/xml", headers=twice),
        "/": page("Start"),
    }
    with CrawlSite(numbered(9, fan=0), fixed) as site:
        found = names(crawled(client, site.url("/"), sitemap=True))
    assert found == sorted([*items(0, 1, 2, 3, 4), "Start"])  # /p/0 is linked


def test_a_host_in_any_script_keeps_its_port(loopback_names: None, client: Client) -> None:
    # w3lib#171
    with CrawlSite(numbered(2)) as site:
        crawl = crawled(client, f"http://bücher.test:{site.port}/p/0")
        assert names(crawl) == items(0, 1)
        assert [host.host for host in crawl.progress.hosts] == [f"xn--bcher-kva.test:{site.port}"]


def test_a_query_goes_out_in_the_charset_of_its_page(client: Client) -> None:
    # yarl#19
    start = '<meta charset="windows-1251"><h1>Start</h1><p>And <a href="/вася?q=вася">more</a>'
    with CrawlSite(lambda path: page("More") if path.startswith("/%") else None) as site:
        site.fixed = {"/": Reply(start.encode("windows-1251"), content_type="text/html")}
        assert names(crawled(client, site.url("/"))) == ["More", "Start"]
        assert site.paths("/%") == ["/%D0%B2%D0%B0%D1%81%D1%8F?q=%E2%E0%F1%FF"]


def test_the_next_page_is_followed_also_with_a_fragment(client: Client) -> None:
    # bayes-platform PR#632
    def answer(path: str) -> Reply | None:
        number = int(path.removeprefix("/list?page=") or 1) if path.startswith("/list") and "=" in path else 1
        links = ["#top", f"?page={number + 1}#results", "/list#foot"] if number < 4 else []
        return page(f"Item {number}", links) if path.startswith("/list") else None

    with CrawlSite(answer) as site:
        crawl = crawled(client, site.url("/list?page=1"), exclude=["/list/**"])
        assert names(crawl) == sorted([*items(1, 2, 3, 4), "Item 1"])  # /list is a page of its own
        assert Counter(site.paths("/list")) == {"/list": 1, **{f"/list?page={number}": 1 for number in range(1, 5)}}


def test_a_refresh_and_links_are_relative_to_the_base(client: Client) -> None:
    # scrapy gh:7042
    fixed = {
        "/": Reply(b'<base href=/x/><meta http-equiv=refresh content="0;url=y">'),
        "/x/y": Reply(b"<base href=/z/><h1>There</h1><p>It <a href=w>goes on</a>"),
        "/z/w": page("On"),
    }
    with CrawlSite(fixed=fixed) as site:
        assert names(crawled(client, site.url("/"))) == ["On", "There"]
        assert sorted(site.paths("/")) == ["/", "/robots.txt", "/x/y", "/z/w"]
