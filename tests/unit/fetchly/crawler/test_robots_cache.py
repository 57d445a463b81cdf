"""How long a robots.txt is believed, whose it is, and how often it is asked for (RFC 9309)."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from fetchly.crawler.http import USER_AGENT
from fetchly.crawler.robots import KEPT_S, MAX_BYTES, STALE_S, Robots, RobotsRules, origin_of, product_token
from fetchly.goods import Page
from tests.support.robots_files import SITE, Web, failed, page


def test_a_file_is_kept_for_a_day() -> None:
    web = Web([page("User-agent: *\nDisallow: /a"), page("User-agent: *\nDisallow: /b")])
    robots = web.robots()
    assert robots.known(f"{SITE}/a") is None
    assert not robots.rules_for(f"{SITE}/a").allowed(f"{SITE}/a")
    web.seconds = KEPT_S - 1
    assert not robots.rules_for(f"{SITE}/a").allowed(f"{SITE}/a")
    assert robots.known(f"{SITE}/other") is robots.rules_for(f"{SITE}/a")
    assert len(web.asked) == 1
    web.seconds = KEPT_S
    assert robots.known(f"{SITE}/a") is None
    assert robots.rules_for(f"{SITE}/a").allowed(f"{SITE}/a")
    assert web.asked == [f"{SITE}/robots.txt"] * 2


def test_a_site_out_of_reach_is_asked_again_ever_more_seldom() -> None:
    web = Web([failed(503)])
    robots = web.robots()
    waits = []
    for _ in range(9):
        until = robots.rules_for(SITE).until
        waits.append(until - web.seconds)
        web.seconds = until - 0.1
        robots.rules_for(SITE)
        web.seconds = until
    assert waits == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]
    assert len(web.asked) == 9
    web.answers = [page(""), failed(503)]
    assert robots.rules_for(SITE).reason is None
    web.seconds = robots.rules_for(SITE).until
    assert robots.rules_for(SITE).until - web.seconds == 60  # the row of failures is over


def test_an_older_copy_serves_a_site_out_of_reach_for_thirty_days() -> None:
    web = Web([page("User-agent: *\nDisallow: /a\nCrawl-delay: 3\nSitemap: /s"), failed(500)])
    robots = web.robots()
    robots.rules_for(SITE)
    for web.seconds in (KEPT_S, STALE_S - 1):
        found = robots.rules_for(SITE)
        assert found.allowed(f"{SITE}/b")
        assert not found.allowed(f"{SITE}/a")
        assert (found.crawl_delay_s, found.sitemaps) == (3, (f"{SITE}/s",))
        assert "an older copy is in force" in found.notes[-1]
        assert len(found.notes) == 1
    web.seconds = STALE_S + 1
    assert not robots.rules_for(SITE).allowed(f"{SITE}/b")


def test_that_there_was_none_serves_as_a_copy_too() -> None:
    web = Web([failed(404), failed(500)])
    robots = web.robots()
    robots.rules_for(SITE)
    web.seconds = KEPT_S
    assert robots.rules_for(SITE).allowed(f"{SITE}/b")


# ---- whose it is


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("http://Example.org/a", "http://example.org"),
        ("https://example.org:443/", "https://example.org"),
        ("https://example.org:80/", "https://example.org:80"),
        ("http://example.org:8080/?x#y", "http://example.org:8080"),
        ("http://[::1]:8000/", "http://[::1]:8000"),
    ],
)
def test_every_origin_has_its_own(url: str, origin: str) -> None:
    assert origin_of(url) == origin
    web = Web([page("")])
    robots = web.robots()
    robots.rules_for(url)
    robots.rules_for(f"{SITE}:9999/")
    assert web.asked == [f"{origin}/robots.txt", f"{SITE}:9999/robots.txt"]


@pytest.mark.parametrize(
    ("header", "token"),
    [
        (USER_AGENT, "fetchly"),
        ("Fetchly/1.0", "fetchly"),
        ("MyBot", "mybot"),
        ("my-bot_2/3.1 (+http://h/)", "my-bot_2"),
        ("Mozilla/5.0 (compatible; OurBot/2.1; +http://h/)", "ourbot"),
        ("Mozilla/5.0 (X11; Linux x86_64)", "mozilla"),
    ],
)
def test_the_name_that_the_requests_bear_is_the_name_that_rules_are_for(header: str, token: str) -> None:
    assert product_token(header) == token


def test_many_threads_fetch_once() -> None:
    started = threading.Event()
    asked: list[str] = []

    def slow(url: str) -> Page:
        asked.append(url)
        started.wait(5)
        return page("User-agent: *\nDisallow: /a")

    robots = Robots(slow, "fetchly")
    found: list[RobotsRules] = []
    threads = [threading.Thread(target=lambda: found.append(robots.rules_for(f"{SITE}/a"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    other = threading.Thread(target=robots.rules_for, args=("http://other.example/",))
    other.start()
    started.set()
    for thread in (*threads, other):
        thread.join(5)
    assert sorted(asked) == [f"{SITE}/robots.txt", "http://other.example/robots.txt"]
    assert len({id(rules) for rules in found}) == 1


def test_a_slow_site_holds_up_no_other() -> None:
    gate = threading.Event()

    def fetch(url: str) -> Page:
        if "slow" in url:
            gate.wait(5)
        return page("")

    robots = Robots(fetch, "fetchly")
    thread = threading.Thread(target=robots.rules_for, args=("http://slow.example/",))
    thread.start()
    assert robots.rules_for(SITE).reason is None
    assert robots.known("http://slow.example/") is None
    gate.set()
    thread.join(5)
    assert robots.known("http://slow.example/") is not None


def test_what_is_held_is_bounded() -> None:
    big = page("User-agent: *\nDisallow: /a\n" + "#" * MAX_BYTES)
    web = Web([big])
    robots = web.robots()
    for number in range(60):
        robots.rules_for(f"http://h{number}.example/")
    held = [number for number in range(60) if robots.known(f"http://h{number}.example/") is not None]
    assert 20 < len(held) < 40
    assert held == list(range(60 - len(held), 60))


def test_what_is_being_fetched_is_not_forgotten() -> None:
    gate = threading.Event()
    asked: list[str] = []

    def fetch(url: str) -> Page:
        asked.append(url)
        if "slow" in url:
            gate.wait(5)
        return page("#" * MAX_BYTES)

    robots = Robots(fetch, "fetchly")
    threads = [threading.Thread(target=robots.rules_for, args=("http://slow.example/",)) for _ in range(2)]
    threads[0].start()
    for number in range(60):
        robots.rules_for(f"http://h{number}.example/")
    threads[1].start()
    gate.set()
    for thread in threads:
        thread.join(5)
    assert asked.count("http://slow.example/robots.txt") == 1


def test_a_renewal_is_one_request_whoever_asks() -> None:
    web = Web([page("")])
    robots = web.robots()
    ask: Callable[[], object] = lambda: robots.rules_for(SITE)  # noqa: E731
    for web.seconds in (0.0, KEPT_S):
        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(5)
    assert len(web.asked) == 2
