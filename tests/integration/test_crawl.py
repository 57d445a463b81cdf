"""Crawls of a site on loopback with a script in place of the model; what the site was asked for is in its log."""

import itertools
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fetchly.errors import ExtractionError, RecordInvalid
from fetchly.extraction.generator import GenerationTask
from fetchly.sdk import Client
from tests.support.crawl_program import name_of
from tests.support.crawl_site import CrawlSite, Reply, numbered, page
from tests.support.crawls import client_of, crawled, items, names


@pytest.fixture
def client() -> Iterator[Client]:
    with client_of() as client:
        yield client


def test_every_page_is_asked_for_once_and_gives_its_record(client: Client) -> None:
    with CrawlSite(numbered(60)) as site:
        crawl = crawled(client, site.url())
        assert names(crawl) == items(*range(60))
    assert Counter(site.paths()) == {f"/p/{number}": 1 for number in range(60)}
    summary = crawl.summary
    assert (summary.done, summary.records, summary.queued, summary.stopped) == (60, 60, 0, False)
    assert summary.failed == {}


def test_a_request_goes_out_as_its_link_is_written(client: Client) -> None:
    links = ["/content/", "/a?b=2&a=1&utm_source=mail", "/%7Etea/?x=%2f", "/a?a=1&b=2#part", "/A", "/a"]
    with CrawlSite(lambda path: page(path), {"/": page("Start", links)}) as site:
        names(crawled(client, site.url("/")))
        assert sorted(site.paths("/")) == sorted(["/robots.txt", "/", *(link.partition("#")[0] for link in links)])


@pytest.mark.parametrize("limit", [1, 7, 20])
def test_the_limit_is_exact_with_many_threads(client: Client, limit: int) -> None:
    # Links that turn out to be no pages do not count, however many threads have them in hand.
    def answer(path: str) -> Reply | None:
        reply = numbered(200)(path)
        number = path.removeprefix("/p/")
        if reply is not None and number.isdigit() and int(number) % 3 == 2:
            return Reply(b"%PDF-1.7 no page", content_type="application/pdf")
        return reply

    with CrawlSite(answer, pause_s=0.01) as site:
        crawl = crawled(client, site.url(), limit=limit, concurrency=12)
        found = names(crawl)
    assert len(found) == len(set(found)) == limit
    assert crawl.summary.done == limit
    assert len(site.paths()) == limit + sum(crawl.summary.skipped.values())
    assert site.most_at_once > 1 or limit == 1


def assert_apart(times: list[float], seconds: float) -> None:
    """Of the moments at which requests came in; they were sent apart, and each has taken its own time to come."""
    assert times[-1] - times[0] > (len(times) - 1.5) * seconds
    assert min(after - before for before, after in itertools.pairwise(times)) > seconds / 2


def test_the_delay_lies_between_all_requests_to_a_host(client: Client) -> None:
    with CrawlSite(numbered(6)) as site:
        names(crawled(client, site.url(), delay=0.15))
        times = [asked.at for asked in site.log]
    assert len(times) == 7  # robots.txt, too
    assert_apart(times, 0.15)


def test_a_host_is_asked_by_so_many_threads_at_a_time(client: Client) -> None:
    with CrawlSite(numbered(20), pause_s=0.03) as site:
        names(crawled(client, site.url(), per_host=2))
        assert site.most_at_once == 2


def test_retry_after_pauses_the_host_and_not_the_page(client: Client) -> None:
    asked: list[float] = []

    def answer(path: str) -> Reply | None:
        if path == "/p/1" and not asked:
            asked.append(time.monotonic())
            return Reply(b"slow down", 429, headers=(("Retry-After", "1"),))
        return numbered(12)(path)

    with CrawlSite(answer) as site:
        crawl = crawled(client, site.url(), concurrency=1)
        assert names(crawl) == items(*range(12))
        later = [at for at in site.times() if at > asked[0]]
    assert min(later) - asked[0] >= 0.95
    assert crawl.summary.failed == {}


def test_robots_txt_is_asked_first_and_kept_to(client: Client) -> None:
    rules = Reply(b"User-agent: *\nDisallow: /p/2\nCrawl-delay: 0.1\n", content_type="text/plain")
    with CrawlSite(numbered(12), {"/robots.txt": rules}) as site:
        crawl = crawled(client, site.url())
        assert len(names(crawl)) == 12 - 1 - 3
        asked = [asked.path for asked in site.log]
        times = site.times()
    assert asked[0] == "/robots.txt"
    assert asked.count("/robots.txt") == 1
    assert not [path for path in asked if path.startswith("/p/2")]
    assert crawl.summary.skipped == {"ROBOTS_DISALLOWED": 1}
    assert_apart(times, 0.1)


def test_where_robots_txt_forbids_the_seed_nothing_is_asked_for(client: Client) -> None:
    said: list[str] = []
    rules = Reply(b"User-agent: *\nDisallow: /\n", content_type="text/plain")
    with CrawlSite(numbered(3), {"/robots.txt": rules}) as site:
        crawl = crawled(client, site.url(), report=said.append)
        assert names(crawl) == []
        assert site.paths() == []
    assert crawl.summary.skipped == {"ROBOTS_DISALLOWED": 1}
    assert "ROBOTS_DISALLOWED" in said[0]


def test_redirects_to_one_page_give_one_record(client: Client) -> None:
    fixed = {f"/old/{number}": Reply(status=302, headers=(("Location", "/p/1"),)) for number in range(8)}
    fixed["/"] = page("Start", [*fixed, "/p/1", "/p/2"])
    with CrawlSite(numbered(3), fixed, pause_s=0.02) as site:
        crawl = crawled(client, site.url("/"))
        assert names(crawl) == sorted([*items(0, 1, 2), "Start"])
    assert crawl.summary.skipped["SAME_PAGE"] == 8


def test_a_page_that_waits_for_the_model_is_known_under_both_names() -> None:
    let_go = threading.Event()

    def answer(task: GenerationTask) -> str:
        let_go.wait(20)
        return name_of(task)

    moved = Reply(status=302, headers=(("Location", "/p/1"),))
    with CrawlSite(numbered(2), {"/old": moved, "/older": moved}) as site, client_of(answer) as client:
        crawl = crawled(client, [site.url("/old"), site.url("/older")])
        end = time.monotonic() + 20
        while not crawl.progress.counts.skipped and time.monotonic() < end:
            time.sleep(0.02)
        assert crawl.progress.counts.skipped == {"SAME_PAGE": 1}
        let_go.set()
        assert names(crawl) == items(0, 1)


def test_links_and_redirects_out_of_the_site_are_not_followed(client: Client) -> None:
    with CrawlSite(numbered(3)) as other, CrawlSite(numbered(3)) as site:
        leaving = Reply(status=302, headers=(("Location", other.url("/p/2")),))
        site.fixed = {"/": page("Start", [other.url("/p/1"), "/away", "/p/2"]), "/away": leaving}
        crawl = crawled(client, site.url("/"))
        # /p/2 links back to /p/0, and that to everything.
        assert names(crawl) == sorted([*items(0, 1, 2), "Start"])
        assert crawl.summary.skipped == {"OTHER_SITE": 1}
        assert other.log == []


def test_a_redirect_to_another_host_of_the_crawl_waits_for_its_turn_and_its_rules(client: Client) -> None:
    rules = Reply(b"User-agent: *\nDisallow: /p/1\n", content_type="text/plain")
    with CrawlSite(numbered(3), {"/robots.txt": rules}) as other, CrawlSite() as site:
        site.fixed = {
            "/": page("Start", ["/good", "/bad"]),
            "/good": Reply(status=301, headers=(("Location", other.url("/p/2")),)),
            "/bad": Reply(status=301, headers=(("Location", other.url("/p/1")),)),
        }
        crawl = crawled(client, [site.url("/"), other.url("/p/0")])
        assert names(crawl) == sorted([*items(0, 2), "Start"])
        assert next(asked.path for asked in other.log) == "/robots.txt"
        assert sorted(other.paths()) == ["/p/0", "/p/2"]
    assert crawl.summary.skipped == {"REDIRECTED": 2, "ROBOTS_DISALLOWED": 1}


def test_a_redirect_is_not_followed_to_where_robots_txt_forbids(client: Client) -> None:
    rules = Reply(b"User-agent: *\nDisallow: /closed\n", content_type="text/plain")
    moved = Reply(status=302, headers=(("Location", "/closed/x"),))
    refreshed = Reply(b"<meta http-equiv=refresh content='0; url=/closed/y'>")
    with CrawlSite(numbered(1), {"/robots.txt": rules, "/a": moved, "/b": refreshed}) as site:
        crawl = crawled(client, [site.url("/a"), site.url("/b"), site.url("/p/0")])
        assert names(crawl) == items(0)
        assert site.paths("/closed") == []
    assert crawl.summary.skipped == {"ROBOTS_DISALLOWED": 2}


def test_a_seed_that_is_not_followed_is_read_for_its_links_alone(client: Client) -> None:
    fixed = {"/": page("Start", ["/p/1", "/about"]), "/about": page("About", ["/p/2"])}
    with CrawlSite(numbered(4), fixed) as site:
        crawl = crawled(client, site.url("/"), follow="/p/*", exclude=["/p/3"], limit=3)
        assert names(crawl) == items(0, 1, 2)
        assert "/about" not in site.paths("/")
        assert "/p/3" not in site.paths()
    assert crawl.summary.skipped == {"NOT_FOLLOWED": 1}


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_the_depth_is_that_of_the_shortest_way(client: Client, depth: int) -> None:
    # /p/4 is also behind a long way, whose pages answer at once; the short way takes its time.
    def answer(path: str) -> Reply | None:
        if path == "/p/2":
            time.sleep(0.2)
        return numbered(40)(path)

    levels = [1, 3, 9]
    with CrawlSite(answer) as site:
        assert names(crawled(client, site.url(), depth=depth)) == items(*range(sum(levels[: depth + 1])))


def test_a_page_that_asks_for_it_has_no_links_followed(client: Client) -> None:
    closed = Reply(page("Start", ["/p/1"]).body, headers=(("X-Robots-Tag", "nofollow"),))
    with CrawlSite(numbered(4), {"/": closed}) as site:
        assert names(crawled(client, site.url("/"))) == ["Start"]


def test_what_is_no_page_is_told_apart_and_is_no_failure(client: Client) -> None:
    fixed = {
        "/": page("Start", ["/feed", "/a.pdf", "/b", "/data", "/c.pdf"]),
        "/feed": Reply(b"<?xml version='1.0'?><rss version='2.0'></rss>", content_type="application/rss+xml"),
        "/a.pdf": Reply(b"%PDF-1.7 ...", content_type="application/pdf"),
        "/b": Reply(b"\x89PNG\r\n\x1a\n", content_type="image/png"),
        "/data": Reply(b'{"a": 1}', content_type="application/json"),
        "/c.pdf": page("A page with a strange name"),
    }
    with CrawlSite(fixed=fixed) as site:
        crawl = crawled(client, site.url("/"))
        assert names(crawl) == ["A page with a strange name", "Start"]
    assert crawl.summary.skipped == {f"NOT_HTML_{kind}": 1 for kind in ("FEED", "PDF", "IMAGE", "DATA")}
    assert crawl.summary.failed == {}


def test_a_seed_that_is_no_page_is_told(client: Client) -> None:
    said: list[str] = []
    with CrawlSite(fixed={"/": Reply(b"%PDF-1.7", content_type="application/pdf")}) as site:
        assert names(crawled(client, site.url("/"), report=said.append)) == []
    assert "a PDF" in said[0]


def test_sitemaps_add_to_the_seeds(client: Client) -> None:
    entries = "".join(f"<url><loc>/alone/{number}</loc></url>" for number in range(5))
    listed = Reply(f"<urlset>{entries}<url><loc>http://other.example/x</loc></url></urlset>".encode())

    def answer(path: str) -> Reply | None:
        return page(path) if path.startswith("/alone/") else None

    with CrawlSite(answer, {"/": page("Start"), "/sitemap.xml": listed}) as site:
        assert names(crawled(client, site.url("/"), sitemap=True)) == [
            *(f"/alone/{number}" for number in range(5)), "Start",
        ]  # fmt: skip


def test_a_sitemap_that_a_run_did_not_come_to_is_read_by_the_next(client: Client, tmp_path: Path) -> None:
    """Also where nothing else is left of its site."""
    let_go = threading.Event()
    listed = Reply(b"<urlset><url><loc>/alone</loc></url></urlset>")

    def answer(path: str) -> Reply | None:
        if path == "/sitemap.xml":
            let_go.wait(20)
            return listed
        return {"/": page("Start"), "/alone": page("Alone")}.get(path)

    with CrawlSite(answer) as site:
        options: dict[str, Any] = {"sitemap": True, "state": tmp_path / "crawl"}
        with crawled(client, site.url("/"), **options) as crawl:
            assert next(crawl).value == {"name": "Start"}
            crawl.abort()
            let_go.set()
        again = crawled(client, site.url("/"), resume=True, **options)
        assert names(again) == ["Alone", "Start"]
        assert names(crawled(client, site.url("/"), resume=True, **options)) == ["Alone", "Start"]
        assert len(site.paths("/sitemap")) == 2


def test_failing_pages_are_tried_again_and_then_told(client: Client, tmp_path: Path) -> None:
    broken = True

    def answer(path: str) -> Reply | None:
        if broken and path == "/p/1":
            return Reply(b"oops", 500)
        if broken and path == "/p/2":
            return Reply(b"gone", 410)
        return numbered(8)(path)

    said: list[str] = []
    with CrawlSite(answer) as site:
        options: dict[str, Any] = {"state": tmp_path / "crawl", "concurrency": 1, "tries": 2, "report": said.append}
        crawl = crawled(client, site.url(), **options)
        assert names(crawl) == items(0, 3)
        assert crawl.summary.failed == {"HTTP_STATUS": 2}
        assert Counter(site.paths()) == {"/p/0": 1, "/p/1": 2, "/p/2": 1, "/p/3": 1}
        assert sorted(line.split()[1].rstrip(":") for line in said) == [site.url("/p/1"), site.url("/p/2")]
        broken = False
        again = crawled(client, site.url(), resume=True, failed=True, **options)
        assert names(again) == items(*range(8))
        assert again.summary.failed == {}
        assert Counter(site.paths())["/p/0"] == 1


@pytest.mark.parametrize("failures", [2, 3])
def test_a_model_that_is_busy_is_asked_again(failures: int) -> None:
    asked: list[str] = []

    def answer(task: GenerationTask) -> str:
        asked.append(name_of(task))
        if "Item 1" in asked[-1] and asked.count(asked[-1]) <= failures:
            raise ExtractionError("the model server is busy", code="SERVER_BUSY", retryable=True)
        return asked[-1]

    with CrawlSite(numbered(3)) as site, client_of(answer) as client:
        crawl = crawled(client, site.url(), tries=3)
        assert names(crawl) == (items(0, 1, 2) if failures < 3 else items(0, 2))
        assert crawl.summary.failed == ({} if failures < 3 else {"SERVER_BUSY": 1})
        assert Counter(site.paths()) == {"/p/0": 1, "/p/1": 3, "/p/2": 1}


def test_a_page_without_a_record_is_failed_and_its_links_are_followed() -> None:
    def answer(task: GenerationTask) -> str:
        if "Item 0" in task.prompt.source:
            raise RecordInvalid("no such value", pointer="/name")
        return name_of(task)

    with CrawlSite(numbered(4)) as site, client_of(answer) as client:
        crawl = crawled(client, site.url())
        assert names(crawl) == items(1, 2, 3)
        assert crawl.summary.failed == {"RECORD_INVALID": 1}


def test_a_bug_that_one_page_brings_out_fails_that_page() -> None:
    def answer(task: GenerationTask) -> str:
        if "This is Item 1," in task.prompt.source:
            raise ZeroDivisionError("of ours")
        return name_of(task)

    said: list[str] = []
    with CrawlSite(numbered(4)) as site, client_of(answer) as client:
        crawl = crawled(client, site.url(), report=said.append)
        assert names(crawl) == items(0, 2, 3)
        assert crawl.summary.failed == {"INTERNAL": 1}
    assert "ZeroDivisionError: of ours" in said[0]


def test_a_private_address_is_refused_without_a_request() -> None:
    with CrawlSite(numbered(4)) as site, client_of(allow_private=False) as client:
        crawl = crawled(client, site.url())
        assert names(crawl) == []
        assert crawl.summary.failed == {"ADDRESS_REFUSED": 1}
        assert site.log == []


def test_a_page_of_very_many_links_is_taken_whole_and_left_at_the_limit(client: Client) -> None:
    crowd = page("Start", (f"/p/{number}" for number in range(100_000)))
    with CrawlSite(numbered(100_000, fan=0), {"/": crowd}) as site:
        crawl = crawled(client, site.url("/"), limit=5, per_shape=200_000)
        assert len(names(crawl)) == 5
    assert crawl.summary.queued == 100_000 - 4
