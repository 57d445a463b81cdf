"""The HTTP cache against a site on loopback that keeps count of who asked for what."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from email.utils import formatdate
from pathlib import Path

import pytest

from fetchly.crawler.cache import HttpCache
from fetchly.crawler.http import FetchPolicy, HttpFetcher
from fetchly.disk_cache import DiskCache
from fetchly.errors import FetchError
from fetchly.goods import Page
from tests.support.site import Site, Visit, answer, redirect

NOW = 1_700_000_000.0
Fields = list[tuple[str, str]]


class Time:
    """The time of day of a test."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now

    def date(self) -> tuple[str, str]:
        return ("Date", formatdate(self.now, usegmt=True))


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as running:
        yield running


@pytest.fixture
def time_of_day() -> Time:
    return Time()


@pytest.fixture
def store(tmp_path: Path) -> DiskCache:
    return DiskCache(tmp_path, 10_000_000)


Open = Callable[..., HttpFetcher]


@pytest.fixture
def opened(store: DiskCache, time_of_day: Time) -> Iterator[Open]:
    """Makes fetchers that share one cache."""
    fetchers: list[HttpFetcher] = []

    def make(**policy: object) -> HttpFetcher:
        cache = HttpCache(store, allow_private=True, clock=time_of_day)
        chosen = FetchPolicy(**{"allow_private": True, "timeout_s": 10, **policy})  # type: ignore[arg-type]
        fetchers.append(HttpFetcher(chosen, cache=cache))
        return fetchers[-1]

    yield make
    for fetcher in fetchers:
        fetcher.close()


def numbered(*fields: tuple[str, str], time_of_day: Time | None = None) -> Callable[[Visit], None]:
    """A page that tells how often it was made."""
    made = 0

    def handler(visit: Visit) -> None:
        nonlocal made
        made += 1
        dated = [time_of_day.date()] if time_of_day is not None else []
        visit.send(answer(f"<p>page {made}</p>".encode(), headers=[*dated, *fields]))

    return handler


def paths(site: Site) -> list[str]:
    return [visit.path for visit in site.visits]


def test_a_fresh_page_is_not_asked_for(site: Site, opened: Open, time_of_day: Time) -> None:
    site.routes["/p"] = numbered(("Cache-Control", "max-age=60"), ("X-Robots-Tag", "noindex"), time_of_day=time_of_day)
    first = opened().fetch(site.url("/p"))
    time_of_day.now += 59
    again = opened().fetch(site.url("/p"))  # another process would do as well: the cache is on disk
    assert (first.from_cache, again.from_cache) == ("no", "fresh")
    assert (again.body, again.url, again.status, again.media_type, again.charset) == (
        (first.body, first.url, first.status, first.media_type, first.charset)
    )
    assert ("x-robots-tag", "noindex") in again.headers
    assert len(site.visits) == 1
    time_of_day.now += 1
    assert opened().fetch(site.url("/p")).body == b"<p>page 2</p>"
    assert len(site.visits) == 2


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ([("Expires", formatdate(NOW + 60, usegmt=True))], 60),
        ([("Age", "40"), ("Cache-Control", "max-age=100")], 60),
        ([("Cache-Control", "private, must-revalidate, max-age=60")], 60),
    ],
)
def test_every_way_to_say_for_how_long(
    site: Site, opened: Open, time_of_day: Time, fields: Fields, seconds: int
) -> None:
    site.routes["/p"] = numbered(*fields, time_of_day=time_of_day)
    fetcher = opened()
    fetcher.fetch(site.url("/p"))
    time_of_day.now += seconds - 1
    assert fetcher.fetch(site.url("/p")).from_cache == "fresh"
    time_of_day.now += 1
    assert fetcher.fetch(site.url("/p")).body == b"<p>page 2</p>"


@pytest.mark.parametrize(
    "fields",
    [
        [],
        [("Cache-Control", "no-store, max-age=60"), ("ETag", '"a"')],
        [("Cache-Control", "max-age=60"), ("Vary", "*")],
        [("Cache-Control", "max-age=0")],
        [("Expires", "0")],
    ],
)
def test_what_may_not_be_kept_is_asked_for_in_full(
    site: Site, opened: Open, store: DiskCache, time_of_day: Time, fields: Fields
) -> None:
    site.routes["/p"] = numbered(*fields, time_of_day=time_of_day)
    fetcher = opened()
    assert [fetcher.fetch(site.url("/p")).body for _ in range(2)] == [b"<p>page 1</p>", b"<p>page 2</p>"]
    assert store.size().entries == 0
    assert "if-none-match" not in site.visits[1].headers


def checked(etag: str, control: str, *, body: bytes = b"<p>content</p>") -> Callable[[Visit], None]:
    """A page that answers with 304 where its tag is named."""

    def handler(visit: Visit) -> None:
        fields = [("ETag", etag), ("Cache-Control", control), ("X-Visits", visit.headers.get("if-none-match", "none"))]
        if visit.headers.get("if-none-match") == etag:
            visit.send(answer(status="304 Not Modified", content_type=None, headers=fields))
        else:
            visit.send(answer(body, headers=fields))

    return handler


def test_a_stale_page_is_asked_about_by_its_tag_and_then_fresh_again(
    site: Site, opened: Open, time_of_day: Time
) -> None:
    site.routes["/p"] = checked('"v1"', "max-age=60")
    fetcher = opened()
    fetcher.fetch(site.url("/p"))
    time_of_day.now += 61
    again = fetcher.fetch(site.url("/p"))
    assert (again.from_cache, again.body, again.status) == ("revalidated", b"<p>content</p>", 200)
    assert ("x-visits", '"v1"') in again.headers  # the 304 brings fields up to date
    assert ("content-type", "text/html; charset=utf-8") in again.headers
    time_of_day.now += 59
    assert fetcher.fetch(site.url("/p")).from_cache == "fresh"
    assert len(site.visits) == 2


def test_no_cache_is_asked_about_every_time(site: Site, opened: Open) -> None:
    site.routes["/p"] = checked('W/"v1"', "no-cache, max-age=60")
    fetcher = opened()
    assert [fetcher.fetch(site.url("/p")).from_cache for _ in range(3)] == ["no", "revalidated", "revalidated"]
    assert len(site.visits) == 3


def test_a_page_is_asked_about_by_its_date(site: Site, opened: Open) -> None:
    changed = formatdate(NOW - 1_000_000, usegmt=True)

    def handler(visit: Visit) -> None:
        if visit.headers.get("if-modified-since") == changed:
            visit.send(answer(status="304 Not Modified", content_type=None))
        else:
            visit.send(answer(b"<p>content</p>", headers=[("Last-Modified", changed)]))

    site.routes["/p"] = handler
    fetcher = opened()
    assert [fetcher.fetch(site.url("/p")).from_cache for _ in range(2)] == ["no", "revalidated"]


def test_a_page_that_has_changed_takes_the_place_of_the_old_one(site: Site, opened: Open, time_of_day: Time) -> None:
    fetcher = opened()
    site.routes["/p"] = checked('"v1"', "max-age=60", body=b"<p>old</p>")
    fetcher.fetch(site.url("/p"))
    site.routes["/p"] = checked('"v2"', "max-age=60", body=b"<p>new</p>")
    time_of_day.now += 60
    changed = fetcher.fetch(site.url("/p"))
    assert (changed.from_cache, changed.body) == ("no", b"<p>new</p>")
    assert fetcher.fetch(site.url("/p")).body == b"<p>new</p>"
    assert [visit.headers.get("if-none-match") for visit in site.visits] == [None, '"v1"']


def test_a_changed_page_that_may_not_be_kept_leaves_nothing_old(site: Site, opened: Open, store: DiskCache) -> None:
    fetcher = opened()
    site.routes["/p"] = checked('"v1"', "no-cache")
    fetcher.fetch(site.url("/p"))
    assert store.size().entries == 1
    site.routes["/p"] = numbered(("Cache-Control", "no-store"))
    assert fetcher.fetch(site.url("/p")).body == b"<p>page 1</p>"
    assert store.size().entries == 0


def test_a_304_about_another_version_is_no_answer(site: Site, opened: Open) -> None:
    def handler(visit: Visit) -> None:
        if "if-none-match" in visit.headers:
            visit.send(answer(status="304 Not Modified", content_type=None, headers=[("ETag", '"v9"')]))
        else:
            visit.send(answer(f"<p>{len(site.visits)}</p>".encode(), headers=[("ETag", '"v1"')]))

    site.routes["/p"] = handler
    fetcher = opened()
    fetcher.fetch(site.url("/p"))
    again = fetcher.fetch(site.url("/p"))
    assert (again.from_cache, again.body) == ("no", b"<p>3</p>")
    assert "if-none-match" not in site.visits[2].headers


def test_a_stale_page_is_not_used_where_its_server_fails(site: Site, opened: Open, time_of_day: Time) -> None:
    site.routes["/p"] = numbered(("Cache-Control", "max-age=60, stale-if-error=600"), ("ETag", '"a"'))
    fetcher = opened()
    fetcher.fetch(site.url("/p"))
    time_of_day.now += 60
    site.routes["/p"] = answer(b"sorry", status="503 Service Unavailable")
    with pytest.raises(FetchError, match="503"):
        fetcher.fetch(site.url("/p"))
    site.routes["/p"] = lambda visit: None  # the connection breaks
    with pytest.raises(FetchError):
        fetcher.fetch(site.url("/p"))


def test_the_request_as_it_is_sent_is_the_key(site: Site, opened: Open, store: DiskCache) -> None:
    site.routes["/p"] = numbered(("Cache-Control", "max-age=60"), ("Vary", "User-Agent, Accept"))
    one, other = opened(user_agent="one"), opened(user_agent="other")
    bodies = [fetcher.fetch(site.url(path)).body for path in ("/p", "/p?a", "/p?b", "/p#f") for fetcher in (one, other)]
    assert bodies == [f"<p>page {number}</p>".encode() for number in (1, 2, 3, 4, 5, 6, 1, 2)]
    public = HttpFetcher(one.policy, cache=HttpCache(store, allow_private=False, clock=lambda: NOW))
    with public:
        assert public.fetch(site.url("/p")).from_cache == "no"


def test_an_encoded_body_is_kept_decoded(site: Site, opened: Open) -> None:
    fields = [("Content-Encoding", "gzip"), ("Cache-Control", "max-age=60")]
    site.routes["/p"] = answer(gzip.compress(b"<p>content</p>"), headers=fields)
    fetcher = opened()
    first, again = (fetcher.fetch(site.url("/p")) for _ in range(2))
    assert first.body == again.body == b"<p>content</p>"
    assert again.from_cache == "fresh"


def test_redirects_are_kept_one_by_one_where_they_say_for_how_long(site: Site, opened: Open) -> None:
    site.routes["/a"] = redirect("/b", status="301 Moved Permanently", headers=[("Cache-Control", "max-age=60")])
    site.routes["/b"] = redirect("/c")
    site.routes["/c"] = numbered(("Cache-Control", "max-age=60"))
    fetcher = opened()
    first, again = (fetcher.fetch(site.url("/a")) for _ in range(2))
    assert paths(site) == ["/a", "/b", "/c", "/b"]
    assert first.redirects == again.redirects == (site.url("/a"), site.url("/b"))
    assert (again.url, again.from_cache) == (site.url("/c"), "fresh")


def test_a_kept_redirect_is_still_asked_about_whether_it_may_be_followed(site: Site, opened: Open) -> None:
    site.routes["/a"] = redirect("/b", headers=[("Cache-Control", "max-age=60")])
    site.routes["/b"] = answer(b"<p>content</p>")
    fetcher = opened()
    fetcher.fetch(site.url("/a"))
    seen: list[str] = []

    def may_follow(url: str) -> None:
        seen.append(url)
        raise FetchError("not there", url=url)

    with pytest.raises(FetchError, match="not there"):
        fetcher.fetch(site.url("/a"), may_follow=may_follow)
    assert seen == [site.url("/b")]


def test_a_request_with_a_cookie_goes_past_the_cache(site: Site, opened: Open, store: DiskCache) -> None:
    site.routes["/a"] = redirect("/b", headers=[("Set-Cookie", "seen=1; Path=/"), ("Cache-Control", "max-age=60")])
    site.routes["/b"] = lambda visit: visit.send(
        answer(visit.headers.get("cookie", "none").encode(), headers=[("Cache-Control", "max-age=60")])
    )
    fetcher = opened()
    assert fetcher.fetch(site.url("/a")).body == b"seen=1"
    assert fetcher.fetch(site.url("/b")).body == b"none"
    assert fetcher.fetch(site.url("/b")).from_cache == "fresh"
    # A kept redirect sets its cookie as it did when it came.
    assert fetcher.fetch(site.url("/a")).body == b"seen=1"
    assert paths(site) == ["/a", "/b", "/b", "/b"]
    assert store.size().entries == 2


def test_what_did_not_come_whole_is_not_kept(site: Site, opened: Open, store: DiskCache) -> None:
    fields = [("Cache-Control", "max-age=60")]
    site.routes["/long"] = answer(b"x" * 5000, headers=fields)
    site.routes["/short"] = answer(b"x" * 5000, headers=fields)[:-100]
    site.routes["/broken"] = answer(b"no gzip", headers=[*fields, ("Content-Encoding", "gzip")])
    site.routes["/peeked"] = answer(b"x" * 50_000, headers=fields)
    fetcher = opened()
    assert len(fetcher.fetch(site.url("/long"), cut_at=1000).body) == 1000
    for path in ("/short", "/broken"):
        with pytest.raises(FetchError):
            fetcher.fetch(site.url(path))

    def peek(page: Page) -> None:
        raise FetchError("seen enough", url=str(page.url))

    with pytest.raises(FetchError, match="seen enough"):
        fetcher.fetch(site.url("/peeked"), peek=peek)
    assert store.size().entries == 0


def test_the_bounds_of_a_fetch_hold_for_what_is_kept(site: Site, opened: Open) -> None:
    site.routes["/p"] = answer(b"x" * 5000, headers=[("Cache-Control", "max-age=60")])
    opened().fetch(site.url("/p"))
    cut = opened().fetch(site.url("/p"), cut_at=1000)
    assert (len(cut.body), cut.from_cache, cut.warnings) == (1000, "fresh", ("only the first 1,000 bytes were read",))
    with pytest.raises(FetchError) as failed:
        opened(max_bytes=1000).fetch(site.url("/p"))
    assert failed.value.code == "BODY_TOO_LARGE"
    assert opened().fetch(site.url("/p")).from_cache == "fresh"
    assert len(site.visits) == 1


def test_errors_are_asked_for_anew(site: Site, opened: Open, store: DiskCache) -> None:
    site.routes["/p"] = answer(b"gone", status="410 Gone", headers=[("Cache-Control", "max-age=60")])
    fetcher = opened()
    for _ in range(2):
        with pytest.raises(FetchError, match="410"):
            fetcher.fetch(site.url("/p"))
    assert len(site.visits) == 2
    assert store.size().entries == 0


def test_a_damaged_cache_is_an_empty_one(site: Site, opened: Open, tmp_path: Path) -> None:
    for path in ("/a", "/b", "/c"):
        site.routes[path] = numbered(("Cache-Control", "max-age=60"), ("ETag", '"a"'))
    fetcher = opened()
    for path in ("/a", "/b", "/c"):
        fetcher.fetch(site.url(path))
    for number, file in enumerate(path for path in tmp_path.rglob("*") if path.is_file()):
        raw = file.read_bytes()
        file.write_bytes([raw[:-1], b"", raw.replace(b"page 1", b"page 9")][number])
    for path in ("/a", "/b", "/c"):
        page = fetcher.fetch(site.url(path))
        assert (page.from_cache, page.body) == ("no", b"<p>page 2</p>")
    assert all("if-none-match" not in visit.headers for visit in site.visits)
    assert fetcher.fetch(site.url("/a")).from_cache == "fresh"


def test_without_a_cache_nothing_is_kept(site: Site, tmp_path: Path) -> None:
    site.routes["/p"] = numbered(("Cache-Control", "max-age=60"))
    with HttpFetcher(FetchPolicy(allow_private=True)) as fetcher:
        assert [fetcher.fetch(site.url("/p")).from_cache for _ in range(2)] == ["no", "no"]
    assert list(tmp_path.iterdir()) == []
