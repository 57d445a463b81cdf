"""Public reports about robots.txt, sitemaps, politeness and the safety of a crawl: what must hold here."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Iterator
from functools import partial

import pytest

from fetchly.crawler import robots
from fetchly.crawler.answers import StatusError, content_type_of
from fetchly.crawler.http import FetchPolicy, HttpFetcher
from fetchly.crawler.politeness import Outcome, Politeness, PolitenessLimits
from fetchly.crawler.robots import Robots, RobotsRules
from fetchly.crawler.sitemap import SitemapLimits, SitemapNote, sitemap_urls
from fetchly.document.media import NotHtml, kind_of
from fetchly.document.reader import read_document
from fetchly.egress import EgressGate
from fetchly.errors import FetchError, PolicyRefused
from tests.support.site import Site, Visit, answer, redirect

PAGE = "<html><body><h1>Honig für zwölf €</h1></body></html>".encode()


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as running:
        yield running


@pytest.fixture
def fetcher() -> Iterator[HttpFetcher]:
    with HttpFetcher(FetchPolicy(allow_private=True, timeout_s=5)) as opened:
        yield opened


def rules(site: Site, fetcher: HttpFetcher, text: bytes) -> RobotsRules:
    site.routes["/robots.txt"] = answer(text, content_type="text/plain")
    return Robots(partial(fetcher.fetch, cut_at=robots.MAX_BYTES + 1), "fetchly").rules_for(site.url())


def listed(site: Site, fetcher: HttpFetcher, limits: SitemapLimits | None = None) -> tuple[list[str], list[str]]:
    notes: list[SitemapNote] = []
    entries = sitemap_urls(site.url("/sitemap.xml"), fetcher.fetch, limits, report=notes.append)
    return [entry.url.removeprefix(site.url("")) for entry in entries], [note.code for note in notes]


# ---- robots.txt


def test_a_byte_order_mark_hides_no_group(site: Site, fetcher: HttpFetcher) -> None:
    # scrapy#6195
    found = rules(site, fetcher, b"\xef\xbb\xbfUser-agent: *\nDisallow: /a\n")
    assert not found.allowed(site.url("/a"))


@pytest.mark.parametrize(
    ("path", "allowed"), [("/en/", True), ("/en/x", False), ("/de/test", False), ("/de/x", True), ("/test", False)]
)
def test_wildcards_ends_and_the_longest_match(site: Site, fetcher: HttpFetcher, path: str, allowed: bool) -> None:
    # scrapy#754, scrapy#3637, reppy#83
    found = rules(site, fetcher, b"User-agent: *\nAllow: /en/$\nDisallow: /en/\nDisallow: */test\n")
    assert found.allowed(site.url(path)) is allowed


def test_a_site_whose_robots_txt_fails_is_not_open(site: Site, fetcher: HttpFetcher) -> None:
    # crawl4ai's parser takes every failure for permission
    site.routes["/robots.txt"] = answer(status="503 Busy")
    assert not Robots(fetcher.fetch, "fetchly").rules_for(site.url()).allowed(site.url("/a"))


# ---- pauses


@pytest.mark.parametrize("header", ["2", "Thu, 01 Jan 1970 00:00:02 GMT", "-2", "soon", None])
def test_a_429_pauses_the_host_and_burns_no_request(site: Site, fetcher: HttpFetcher, header: str | None) -> None:
    # crawl4ai#1095, crawlee#3623, crawlee-python PR#1762, PR#1995 (negative)
    clock = [0.0]
    politeness = Politeness(0.0, 4, lambda: clock[0], lambda: 0.5)
    headers = [("Retry-After", header)] if header else []
    site.routes["/"] = answer(status="429 Slow down", headers=headers)
    assert politeness.begin("h")
    with pytest.raises(StatusError) as failed:
        fetcher.fetch(site.url())
    politeness.end("h", Outcome.of_error(failed.value))
    assert not politeness.begin("h")
    assert politeness.begin("other")
    assert politeness.ready_at("h") == (2.0 if header == "2" else 7.5)
    clock[0] = politeness.ready_at("h")
    assert politeness.begin("h")


def test_no_slot_is_held_while_a_host_is_throttled() -> None:
    # crawlee-python#2176: a worker that sleeps out a delay is missing for every other host
    politeness = Politeness(1000.0, 2, lambda: 0.0)
    assert politeness.begin("slow")
    assert not politeness.begin("slow")
    (state,) = politeness.states()
    assert (state.in_flight, state.why) == (1, "delay")
    assert all(politeness.begin(f"h{number}") for number in range(100))


def test_a_wait_of_a_day_is_bounded_and_told() -> None:
    # the other side of crawl4ai#1095: what a server asks for must not stop a crawl for ever, either
    politeness = Politeness(0.0, 1, lambda: 0.0, limits=PolitenessLimits(max_pause_s=600))
    politeness.begin("h")
    politeness.end("h", Outcome(429, "86400"))
    (state,) = politeness.states()
    assert state.wait_s == 600
    assert "86,400 s" in state.notes[0]


# ---- sitemaps


def test_an_index_of_indexes_is_read_to_its_pages(site: Site, fetcher: HttpFetcher) -> None:
    # firecrawl#477
    site.routes |= {
        "/sitemap.xml": answer(b"<sitemapindex><sitemap><loc>/i.xml</loc></sitemap></sitemapindex>"),
        "/i.xml": answer(b"<sitemapindex><sitemap><loc>/u.xml</loc></sitemap></sitemapindex>"),
        "/u.xml": answer(b"<urlset><url><loc>/a</loc></url></urlset>"),
    }
    assert listed(site, fetcher) == (["/a"], [])


URLSET = b"<urlset><url><loc><![CDATA[/a?b&c]]></loc></url><url><loc></loc></url></urlset>"


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (URLSET, []),  # called .gz, and is not
        (gzip.compress(URLSET, mtime=0), []),
        (gzip.compress(URLSET, mtime=0), [("Content-Encoding", "gzip")]),
        (gzip.compress(gzip.compress(URLSET, mtime=0), mtime=0), [("Content-Encoding", "gzip")]),
    ],
)
def test_a_gz_file_is_what_its_bytes_are(
    site: Site, fetcher: HttpFetcher, body: bytes, headers: list[tuple[str, str]]
) -> None:
    # scrapy#951, browsertrix-crawler PR#578; CDATA in loc, and an empty loc
    site.routes |= {
        "/sitemap.xml": answer(b"<sitemapindex><sitemap><loc>/s.xml.gz</loc></sitemap></sitemapindex>"),
        "/s.xml.gz": answer(body, content_type="application/x-gzip", headers=headers),
    }
    assert listed(site, fetcher) == (["/a?b&c"], ["SITEMAP_ENTRIES"])


def test_an_error_page_with_200_is_no_sitemap(site: Site, fetcher: HttpFetcher) -> None:
    # crawlee-python PR#2123
    site.routes["/sitemap.xml"] = answer(b"<!doctype html><p>Not found <a href=/x>x</a>")
    assert listed(site, fetcher) == ([], ["SITEMAP_NOT_ONE"])


def test_a_bomb_and_a_circle_end(site: Site, fetcher: HttpFetcher) -> None:
    # crawlee-python PR#2012; crawl4ai's seeder unpacks without a bound
    index = b"".join(b"<sitemap><loc>%s</loc></sitemap>" % name for name in (b"/sitemap.xml", b"/bomb.gz"))
    site.routes |= {
        "/sitemap.xml": answer(b"<sitemapindex>" + index + b"</sitemapindex>"),
        "/bomb.gz": answer(gzip.compress(b"<urlset>" + b" " * 60_000_000, mtime=0)),
    }
    start = time.process_time()
    assert listed(site, fetcher, SitemapLimits(max_bytes=1_000_000)) == ([], ["SITEMAP_SEEN", "SITEMAP_TOO_LARGE"])
    assert time.process_time() - start < 5
    assert len(site.visits) == 2


def test_an_index_that_nests_for_ever_ends(site: Site, fetcher: HttpFetcher) -> None:
    # crawlee-python PR#2012
    def deeper(visit: Visit) -> None:
        visit.send(answer(f"<sitemapindex><sitemap><loc>?{len(site.visits)}</loc></sitemap></sitemapindex>".encode()))

    site.routes["/sitemap.xml"] = deeper
    assert listed(site, fetcher) == ([], ["SITEMAP_TOO_DEEP"])
    assert len(site.visits) == 1 + SitemapLimits().max_depth


def test_a_sitemap_speaks_for_its_own_host_where_the_rule_is_wanted(site: Site, fetcher: HttpFetcher) -> None:
    # crawlee-python PR#1864
    site.routes["/sitemap.xml"] = answer(
        b"<urlset><url><loc>/a</loc></url><url><loc>//evil.example/</loc></url></urlset>"
    )
    notes: list[SitemapNote] = []
    entries = sitemap_urls(site.url("/sitemap.xml"), fetcher.fetch, report=notes.append, hosts=())
    assert [entry.url for entry in entries] == [site.url("/a")]
    assert "1 x address of another host" in notes[0].message


def test_no_list_leads_to_another_scheme(site: Site, fetcher: HttpFetcher) -> None:
    # crawlee-python PR#1862
    site.routes["/sitemap.xml"] = answer(b"file:///etc/passwd\nhttp://h/a\nftp://h/\n", content_type="text/plain")
    assert listed(site, fetcher) == (["http://h/a"], ["SITEMAP_ENTRIES"])
    found = rules(site, fetcher, b"Sitemap: file:///etc/passwd\nSitemap: gopher://h/\n")
    assert (found.sitemaps, len(found.notes)) == ((), 2)


# ---- what goes out, and what it is


def test_the_request_goes_out_as_the_link_is_written(site: Site, fetcher: HttpFetcher) -> None:
    # crawl4ai#1888: `/content` is another page than `/content/`
    site.routes |= {"/content/": answer(PAGE), "/content": answer(status="404 Not Found")}
    assert fetcher.fetch(site.url("/content/?b=2&a=1&a=#x")).body == PAGE
    assert site.visits[0].path == "/content/?b=2&a=1&a="


def test_a_link_to_the_next_page_is_a_link_also_with_a_fragment(site: Site, fetcher: HttpFetcher) -> None:
    # bayes-platform PR#632
    site.routes["/list"] = answer(
        b"<p>one <a href='?page=2#top'>next</a> <a href='#top'>up</a> <a href='/list#a'>a</a>"
    )
    document = read_document(fetcher.fetch(site.url("/list")))
    assert [link.url for link in document.links][:1] == [site.url("/list?page=2#top")]
    assert site.url("/list#top") not in [link.url for link in document.links]


@pytest.mark.parametrize(
    ("path", "body", "media_type", "family"),
    [
        ("/report.pdf", b"%PDF-1.7 ...", "application/pdf", "pdf"),
        ("/report.html", b"%PDF-1.7 ...", "text/html", "pdf"),
        ("/download", b"%PDF-1.7 ...", "application/octet-stream", "pdf"),
        ("/page.pdf", PAGE, "text/html", None),
        ("/viewer", b"<html><body><h1>Report</h1><embed src=/report.pdf type=application/pdf>", "text/html", None),
        ("/feed", b"<?xml version='1.0'?><rss><channel/></rss>", "text/html", "feed"),
        ("/api", b'{"html": "<html>"}', "text/html", "data"),
        ("/photo", b"\xff\xd8\xff\xe0", "text/html", "image"),
    ],
)
def test_a_document_is_what_its_bytes_are(
    site: Site, fetcher: HttpFetcher, path: str, body: bytes, media_type: str, family: str | None
) -> None:
    # groktocrawl#26, firecrawl#342, firecrawl PR#2363, firecrawl-simple PR#42
    site.routes[path] = answer(body, content_type=media_type)
    page = fetcher.fetch(site.url(path))
    if family is None:
        assert kind_of(page) == "html"
        return
    with pytest.raises(NotHtml) as refused:
        kind_of(page)
    assert (refused.value.family, refused.value.code) == (family, "DOCUMENT_NOT_HTML")


# ---- safety


def test_every_hop_is_checked_again(site: Site) -> None:
    # crewAI#6520
    looked_up: list[str] = []

    def resolver(host: str, port: int) -> list[str]:
        looked_up.append(host)
        return ["127.0.0.1"]

    site.routes["/"] = redirect(site.url("/b", host="b.example"))
    with HttpFetcher(gate=EgressGate(resolver=resolver)) as strict, pytest.raises(PolicyRefused):
        strict.fetch(site.url(host="a.example"))
    with HttpFetcher(gate=EgressGate(resolver=resolver, allow_private=True)) as opened, pytest.raises(FetchError):
        opened.fetch(site.url(host="a.example"))
    assert looked_up == ["a.example", "a.example", "b.example"]


@pytest.mark.parametrize("second", range(16, 32))
def test_all_of_a_private_range_is_private(second: int) -> None:
    # firecrawl CVE-2024-56800, CVE-2025-57818: 172.16.0.0/12 by hand, and missed
    for host in (f"172.{second}.0.1", f"172.{second}.255.255", f"[::ffff:172.{second}.3.4]"):
        with HttpFetcher() as strict, pytest.raises(PolicyRefused) as refused:
            strict.fetch(f"http://{host}/")
        assert refused.value.code == "ADDRESS_REFUSED"


def test_no_credential_and_no_cookie_crosses_to_another_host(site: Site) -> None:
    # scrapy GHSA-cw9j-q3vf-hrrv, GHSA-4qqq-9vqf-3h3f, GHSA-cjvr-mfj7-j4j8
    gate = EgressGate(resolver=lambda host, port: ["127.0.0.1"], allow_private=True)
    cookie = [("Set-Cookie", "secret=1; Path=/"), ("WWW-Authenticate", "Basic")]
    site.routes |= {"/a": redirect(site.url("/b", host="b.example"), headers=cookie), "/b": answer(PAGE)}
    with HttpFetcher(gate=gate) as fetcher:
        fetcher.fetch(site.url("/a", host="a.example"))
    assert not {"cookie", "authorization", "referer", "proxy-authorization"} & set(site.visits[1].headers)


@pytest.mark.parametrize("domain", ["com", "co.uk", ".co.uk", "example", "b.example", ".", ""])
def test_a_cookie_for_a_public_suffix_is_nobodys(site: Site, domain: str) -> None:
    # scrapy GHSA-mfjm-vh54-3f96
    gate = EgressGate(resolver=lambda host, port: ["127.0.0.1"], allow_private=True)
    cookie = [("Set-Cookie", f"secret=1; Path=/; Domain={domain}")]
    site.routes |= {"/a": redirect(site.url("/b", host="b.co.uk"), headers=cookie), "/b": answer(PAGE)}
    with HttpFetcher(gate=gate) as fetcher:
        fetcher.fetch(site.url("/a", host="a.co.uk"))
    assert "cookie" not in site.visits[1].headers


def test_a_cookie_for_a_site_reaches_its_other_hosts(site: Site) -> None:
    gate = EgressGate(resolver=lambda host, port: ["127.0.0.1"], allow_private=True)
    cookie = [("Set-Cookie", "seen=1; Path=/; Domain=shop.co.uk")]
    site.routes |= {"/a": redirect(site.url("/b", host="www.shop.co.uk"), headers=cookie), "/b": answer(PAGE)}
    with HttpFetcher(gate=gate) as fetcher:
        fetcher.fetch(site.url("/a", host="shop.co.uk"))
    assert site.visits[1].headers["cookie"] == "seen=1"


@pytest.mark.parametrize("part", ["text/html;", ";charset=", "a/b,", " ", "=", '"', "x/" * 2])
def test_no_header_takes_time_that_grows_faster_than_it(part: str) -> None:
    # scrapy GHSA-cc65-xxvf-f7r9
    start = time.process_time()
    content_type_of([part * (1_000_000 // len(part))])
    assert time.process_time() - start < 5


def test_the_bound_counts_what_is_unpacked(site: Site) -> None:
    # scrapy GHSA-7j7m-v7m3-jqm7
    site.routes["/"] = answer(gzip.compress(b"x" * 1_000_001, mtime=0), headers=[("Content-Encoding", "gzip")])
    with HttpFetcher(FetchPolicy(allow_private=True, max_bytes=1_000_000)) as fetcher:
        with pytest.raises(FetchError) as failed:
            fetcher.fetch(site.url())
        assert failed.value.code == "BODY_TOO_LARGE"


def test_no_server_writes_lines_into_a_log(site: Site, fetcher: HttpFetcher) -> None:
    # crawl4ai, advisories of 0.8 and 0.9: line breaks of a server's in the log
    site.routes |= {
        "/r": redirect("/%0d%0aINFO:%20all%20is%20well"),
        "/e": b"HTTP/1.1 500 Oops\x1b[2J\r\nContent-Length: 0\r\n\r\n",
        "/w": answer(status="503 Busy", headers=[("Retry-After", "1\t\x0b2")]),
    }
    for path in ("/r", "/e", "/w"):
        with pytest.raises(FetchError) as failed:
            fetcher.fetch(site.url(path))
        assert failed.value.line().isprintable()


def test_one_robots_txt_for_many_threads(site: Site, fetcher: HttpFetcher) -> None:
    # no report of one number: in several programs every worker of a crawl asks for the file by itself
    site.routes["/robots.txt"] = answer(b"User-agent: *\nDisallow: /a")
    asked = Robots(fetcher.fetch, "fetchly")
    threads = [threading.Thread(target=asked.rules_for, args=(site.url(f"/{number}"),)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    assert len(site.visits) == 1
