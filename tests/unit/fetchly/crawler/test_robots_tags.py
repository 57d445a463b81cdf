"""What a page says to programs about itself."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchly.crawler.robots_tags import RobotsTags, robots_tags_of
from fetchly.goods import Page


def tags(body: bytes = b"", *headers: str, media_type: str | None = "text/html") -> RobotsTags:
    named = tuple(("x-robots-tag", value) for value in headers)
    return robots_tags_of(Page("-", "http://h/", 200, named, body, media_type), "fetchly")


NOTHING, NOFOLLOW, NOINDEX = RobotsTags(), RobotsTags(nofollow=True), RobotsTags(noindex=True)
BOTH = RobotsTags(nofollow=True, noindex=True)


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        (b"<meta name=robots content=nofollow>", NOFOLLOW),
        (b"<META NAME='Robots' CONTENT='NoIndex, NoFollow'>", BOTH),
        (b"<meta name=robots content='none'/>", BOTH),
        (b"<meta name=robots content='noindex  nofollow'>", BOTH),
        (b"<meta content=noindex name=robots>", NOINDEX),
        (b"<meta name=fetchly content=nofollow>", NOFOLLOW),
        (b"<meta name=googlebot content=nofollow>", NOTHING),
        (b"<meta name=robots content=index><meta name=fetchly content=nofollow>", NOFOLLOW),
        (b"<meta name=robots content='index, follow'>", NOTHING),
        (b"<meta name=robots content='nofollowing'>", NOTHING),
        (b"<meta name=robots>", NOTHING),
        (b"<meta name=description content='none'>", NOTHING),
        (b"<!-- <meta name=robots content=nofollow> -->", NOTHING),
        (b"<noscript><meta name=robots content=nofollow></noscript>", NOTHING),
        (b"<script>'<meta name=robots content=nofollow>'</script>", NOTHING),
        (b"<![endif]><meta name=robots content=nofollow>", NOFOLLOW),
        (b"<p>x</p>" * 10 + b"<meta name=robots content=nofollow>", NOFOLLOW),
        (b"<a rel=nofollow href=/>x</a>", NOTHING),
    ],
)
def test_meta_elements(markup: bytes, expected: RobotsTags) -> None:
    assert tags(markup) == expected


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (("nofollow",), NOFOLLOW),
        (("NoIndex, NOFOLLOW",), BOTH),
        (("none",), BOTH),
        (("noindex", "nofollow"), BOTH),
        (("fetchly: nofollow",), NOFOLLOW),
        (("googlebot: nofollow",), NOTHING),
        (("googlebot: nofollow, noindex",), NOTHING),
        (("noindex, googlebot: nofollow",), NOINDEX),
        (("googlebot: nofollow, fetchly: noindex",), NOINDEX),
        (("*: noindex",), NOINDEX),
        (("unavailable_after: 25 Jun 2027 15:00:00 PST, nofollow",), NOFOLLOW),
        (("max-snippet: 10, noindex",), NOINDEX),
        (("",), NOTHING),
    ],
)
def test_headers(headers: tuple[str, ...], expected: RobotsTags) -> None:
    assert tags(b"", *headers) == expected
    assert tags(b"", *headers, media_type="application/pdf") == expected


def test_the_strictest_counts() -> None:
    assert tags(b"<meta name=robots content=nofollow>", "noindex") == BOTH


def test_what_is_no_page_has_no_meta_elements() -> None:
    assert tags(b"<meta name=robots content=nofollow>", media_type="text/plain") == NOTHING


@pytest.mark.parametrize("part", [b"<meta ", b"<!--", b"<", b"<a b=", b"&", b"<![", b"<meta name=robots content='"])
def test_a_hostile_page_costs_little(part: bytes) -> None:
    start = time.process_time()
    tags(part * (3_000_000 // len(part)) + b"none")
    tags(b"none" + part * (3_000_000 // len(part)))
    assert time.process_time() - start < 10


@given(st.binary(max_size=200), st.text(max_size=60))
def test_nothing_is_a_surprise(body: bytes, header: str) -> None:
    tags(b"nofollow" + body, header)
