"""robots.txt and sitemaps over HTTP, from sites on loopback, in their hosts' turns."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from fetchly.crawler import robots, sitemap
from fetchly.crawler.http import FetchPolicy, HttpFetcher
from fetchly.crawler.polite_fetch import PoliteFetch
from fetchly.crawler.politeness import Politeness, host_key
from fetchly.crawler.sitemap import SitemapNote, sitemap_urls
from fetchly.errors import FetchError, PolicyRefused
from tests.support.hostile_server import CATALOGUE
from tests.support.site import Handler, Site, Visit, answer, redirect

CLOSED = answer(b"User-agent: *\nDisallow: /closed\n", content_type="text/plain")


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as running:
        yield running


@pytest.fixture
def fetcher() -> Iterator[HttpFetcher]:
    with HttpFetcher(FetchPolicy(allow_private=True, timeout_s=1.5)) as opened:
        yield opened


def rules(site: Site, fetcher: HttpFetcher) -> robots.RobotsRules:
    fetch = partial(fetcher.fetch, cut_at=robots.MAX_BYTES + 1)
    return robots.Robots(fetch, robots.product_token(fetcher.policy.user_agent)).rules_for(site.url("/page"))


def test_the_rules_are_asked_for_and_obeyed_under_one_name(site: Site, fetcher: HttpFetcher) -> None:
    site.routes["/robots.txt"] = answer(b"\xef\xbb\xbfUser-agent: fetchly\r\nDisallow: /closed\r\nCrawl-delay: 3")
    found = rules(site, fetcher)
    assert not found.allowed(site.url("/closed/x"))
    assert found.allowed(site.url("/open"))
    assert found.crawl_delay_s == 3
    assert [visit.path for visit in site.visits] == ["/robots.txt"]
    assert "fetchly" in site.visits[0].headers["user-agent"]


@pytest.mark.parametrize(
    ("route", "allowed", "closed_allowed"),
    [
        (CLOSED, True, False),
        (answer(status="404 Not Found"), True, True),
        (answer(status="403 Forbidden"), True, True),
        (answer(status="500 Oops"), False, False),
        (answer(status="429 Slow down"), False, False),
        (answer(status="204 No Content"), True, True),
        (answer(b"<html><body>Not found</body></html>"), True, True),
        (
            answer(
                gzip.compress(b"User-agent: *\nDisallow: /closed\n", mtime=0), headers=[("Content-Encoding", "gzip")]
            ),
            True,
            False,
        ),
        (redirect("file:///etc/passwd"), False, False),
        (redirect("/robots.txt"), True, True),
    ],
    ids=range(10),
)
def test_every_answer_means_something(
    site: Site, fetcher: HttpFetcher, route: bytes, allowed: bool, closed_allowed: bool
) -> None:
    site.routes["/robots.txt"] = route
    found = rules(site, fetcher)
    assert (found.allowed(site.url("/open")), found.allowed(site.url("/closed"))) == (allowed, closed_allowed)


def test_nobody_listens(fetcher: HttpFetcher) -> None:
    with Site() as gone:
        pass
    found = rules(gone, fetcher)
    refusal = found.refusal(gone.url("/x"))
    assert refusal is not None
    assert (refusal.code, refusal.retryable) == ("ROBOTS_UNREACHABLE", True)


@pytest.mark.parametrize(("hops", "closed"), [(1, True), (5, True), (6, False)])
def test_redirects_are_followed_across_hosts_and_speak_for_the_first(
    site: Site, fetcher: HttpFetcher, hops: int, closed: bool
) -> None:
    with Site() as other:
        places = [f"{(other if hop % 2 else site).url(f'/r{hop}.txt')}" for hop in range(hops)]
        site.routes["/robots.txt"] = redirect(places[0])
        for hop, target in enumerate(places[1:]):
            (other if hop % 2 else site).routes[f"/r{hop}.txt"] = redirect(target)
        (other if (hops - 1) % 2 else site).routes[f"/r{hops - 1}.txt"] = CLOSED
        found = rules(site, fetcher)
    assert found.origin == site.url("")
    assert found.allowed(site.url("/closed")) is not closed


def test_the_gate_stands_before_robots_txt_too(site: Site) -> None:
    with HttpFetcher() as strict, pytest.raises(PolicyRefused) as refused:
        rules(site, strict)
    assert refused.value.code == "ADDRESS_REFUSED"
    assert site.connections == 0


def test_a_robots_txt_without_an_end_is_read_as_far_as_it_counts(site: Site, fetcher: HttpFetcher) -> None:
    def endless(visit: Visit) -> None:
        visit.send(b"HTTP/1.1 200 OK\r\n\r\nUser-agent: *\nDisallow: /closed\n")
        visit.endless(b"Allow: /\n" * 10_000)

    site.routes["/robots.txt"] = endless
    found = rules(site, fetcher)
    assert not found.allowed(site.url("/closed"))
    assert found.notes == ("only the first 512,000 bytes of robots.txt were read",)


@pytest.mark.parametrize("name", [name for name in CATALOGUE if not name.startswith("redirect")])
def test_a_hostile_robots_txt_closes_or_opens_and_costs_little(site: Site, fetcher: HttpFetcher, name: str) -> None:
    site.routes["/robots.txt"] = CATALOGUE[name].route
    start = time.monotonic()
    found = rules(site, fetcher)
    assert time.monotonic() - start < 4
    assert found.reason is None or "out of reach" in found.reason


# ---- in turn


class Turns:
    """A clock that sleeping sets on, so that a polite fetch takes no time; which host was asked when."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.asked: list[tuple[float, str]] = []

    def __call__(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> bool:
        self.seconds += seconds
        return False


def test_robots_and_sitemaps_wait_for_their_hosts_turn(site: Site, fetcher: HttpFetcher) -> None:
    turns = Turns()
    politeness = Politeness(2.0, 1, turns)

    def fetch(url: str, **guide: object) -> object:
        turns.asked.append((turns(), url))
        return fetcher.fetch(url, **guide)  # type: ignore[arg-type]

    polite = PoliteFetch(fetch, politeness, turns.sleep, clock=turns)  # type: ignore[arg-type]
    site.routes |= {
        "/robots.txt": answer(b"User-agent: *\nCrawl-delay: 5\nSitemap: /index.xml"),
        "/index.xml": answer(b"<sitemapindex><sitemap><loc>/a.xml</loc></sitemap></sitemapindex>"),
        "/a.xml": answer(b"<urlset><url><loc>/1</loc></url></urlset>"),
    }
    found = robots.Robots(polite, "fetchly", turns).rules_for(site.url())
    politeness.set_crawl_delay(host_key(site.url()), found.crawl_delay_s)
    (named,) = found.sitemaps
    entries = list(sitemap_urls(named, polite, report=print))
    assert [entry.url for entry in entries] == [site.url("/1")]
    assert [(at, url.rpartition("/")[2]) for at, url in turns.asked] == [
        (0, "robots.txt"),
        (5, "index.xml"),
        (10, "a.xml"),
    ]
    (state,) = politeness.states()
    assert (state.started, state.in_flight, state.failures) == (3, 0, 0)


def test_a_busy_host_is_left_alone_by_every_thread(site: Site, fetcher: HttpFetcher) -> None:
    """The server's own log: it never sees two requests at once, and none after it has asked for a pause."""
    under_way, most = 0, 0
    lock = threading.Lock()

    def page(visit: Visit) -> None:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        time.sleep(0.002)
        with lock:
            under_way -= 1
            paused = len(site.visits) >= 12
        visit.send(answer(status="429 Slow down", headers=[("Retry-After", "3000")]) if paused else answer(b"x"))

    site.routes["/"] = page
    politeness = Politeness(0.001, 1)
    polite = PoliteFetch(fetcher.fetch, politeness, threading.Event().wait, clock=time.monotonic, patience_s=20)
    errors: list[str] = []

    def work() -> None:
        for _ in range(4):
            try:
                polite(site.url())
            except FetchError as error:
                errors.append(error.code)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert most == 1
    assert len(site.visits) == 12
    assert errors == ["HTTP_STATUS"] + ["HOST_PAUSED"] * 12


# ---- sitemaps


def walked(site: Site, fetcher: HttpFetcher, notes: Callable[[SitemapNote], None]) -> list[str]:
    fetch = partial(fetcher.fetch, cut_at=sitemap.MAX_BYTES)
    return [entry.url for entry in sitemap_urls(site.url("/sitemap.xml"), fetch, report=notes)]


@pytest.mark.parametrize("encoded", [False, True])
@pytest.mark.parametrize("media_type", ["application/x-gzip", "text/xml", "text/html", None])
def test_a_packed_sitemap_however_it_is_labelled(
    site: Site, fetcher: HttpFetcher, encoded: bool, media_type: str | None
) -> None:
    body = gzip.compress(b"<urlset><url><loc>/1</loc></url></urlset>", mtime=0)
    headers = [("Content-Encoding", "gzip")] if encoded else []
    site.routes["/sitemap.xml"] = answer(
        gzip.compress(body, mtime=0) if encoded else body, content_type=media_type, headers=headers
    )
    notes: list[SitemapNote] = []
    assert walked(site, fetcher, notes.append) == [site.url("/1")]
    assert notes == []


def test_a_sitemap_without_an_end_is_read_up_to_the_bound(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(visit: Visit) -> None:
        visit.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\n\r\n<urlset>")
        visit.endless(b"<url><loc>/1</loc></url>" * 5000)

    site.routes["/sitemap.xml"] = endless
    notes: list[SitemapNote] = []
    with HttpFetcher(FetchPolicy(allow_private=True, timeout_s=20)) as fetcher:
        fetch = partial(fetcher.fetch, cut_at=1_000_000)
        found = list(sitemap_urls(site.url("/sitemap.xml"), fetch, report=notes.append))
    assert 30_000 < len(found) < 50_000
    assert [note.code for note in notes] == ["SITEMAP_TOO_LARGE"]


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_hostile_sitemap_costs_little_and_is_told(site: Site, fetcher: HttpFetcher, name: str) -> None:
    route: bytes | Handler = CATALOGUE[name].route
    site.routes["/sitemap.xml"] = route
    notes: list[SitemapNote] = []
    start = time.monotonic()
    with HttpFetcher(FetchPolicy(allow_private=True, timeout_s=1.5, max_bytes=2_000_000)) as opened:
        found = [
            entry.url
            for entry in sitemap_urls(
                site.url("/sitemap.xml"), partial(opened.fetch, cut_at=1_000_000), report=notes.append
            )
        ]
    assert found == []
    assert notes
    assert time.monotonic() - start < 6
