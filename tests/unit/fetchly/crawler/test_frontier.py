"""The state of a crawl: what is handed out, what counts, what a killed process leaves behind."""

import re
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fetchly.crawler.fingerprint import Address, address_of
from fetchly.crawler.frontier import SAME_PAGE, Failure, Frontier, FrontierCounts, QueuedPage
from fetchly.errors import ConfigurationError, OutputError

SETTINGS = {"seeds": ["http://a.example/"], "follow": (), "depth": None}
HOST = "a.example"
BROKEN = Failure("HTTP_STATUS", "the server answered 500", retryable=True)


def at(path: str, host: str = HOST) -> Address:
    return address_of(f"http://{host}{path}")


def opened(file: Path | None, **options: Any) -> Frontier:
    return Frontier(file, SETTINGS, **options)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "crawl"


@pytest.fixture
def frontier() -> Iterator[Frontier]:
    frontier = opened(None)
    yield frontier
    frontier.close()


def fill(frontier: Frontier, *paths: str, depth: int = 0, host: str = HOST) -> None:
    with frontier.transaction():
        frontier.add([at(path, host) for path in paths], depth)


def taken(frontier: Frontier, host: str = HOST) -> QueuedPage:
    page = frontier.peek(host)
    assert page is not None
    with frontier.transaction():
        frontier.take(page)
    return page


def paths_left(frontier: Frontier, host: str = HOST) -> list[str]:
    """What is handed out from now on, in order."""
    paths = []
    while (page := frontier.peek(host)) is not None:
        with frontier.transaction():
            frontier.take(page)
        paths.append(page.url.removeprefix(f"http://{host}"))
    return paths


def done(frontier: Frontier, page: QueuedPage, final: str | None = None, *links: str) -> None:
    with frontier.transaction():
        where = address_of(final or page.url)
        frontier.complete(page, where, f'"{page.url}"', 1, [at(link) for link in links])


def test_pages_come_once_and_near_ones_first(frontier: Frontier) -> None:
    fill(frontier, "/b", depth=1)
    fill(frontier, "/a", "/a#x", "/a?utm_source=y", "/c", depth=0)
    assert frontier.hosts == {HOST: 3}
    assert paths_left(frontier) == ["/a", "/c", "/b"]
    assert frontier.hosts == {}
    assert not frontier.has_more


def test_a_known_page_is_not_added_again(frontier: Frontier) -> None:
    fill(frontier, "/a")
    done(frontier, taken(frontier), None, "/a", "/b")
    with frontier.transaction():
        assert frontier.add([at("/a"), at("/b"), at("/c")], 1) == 1
    assert paths_left(frontier) == ["/b", "/c"]


def test_the_limit_counts_what_is_under_way_done_or_failed() -> None:
    frontier = opened(None, limit=2)
    fill(frontier, "/a", "/b", "/c", "/d")
    one, two = taken(frontier), taken(frontier)
    assert frontier.peek(HOST) is None
    assert not frontier.has_more
    with frontier.transaction():
        frontier.skip(one, "DOCUMENT_NOT_HTML")  # given back
    three = taken(frontier)
    assert frontier.peek(HOST) is None
    with frontier.transaction():
        frontier.fail(two, BROKEN)
    done(frontier, three)
    assert frontier.peek(HOST) is None
    counts = frontier.counts()
    assert (counts.done, counts.failed, counts.skipped) == (1, {"HTTP_STATUS": 1}, {"DOCUMENT_NOT_HTML": 1})
    frontier.close()


def test_a_page_that_is_tried_again_keeps_its_place_under_the_limit() -> None:
    frontier = opened(None, limit=2)
    fill(frontier, "/a", "/b", "/c")
    one = taken(frontier)
    with frontier.transaction():
        frontier.retry(one, BROKEN)
    assert taken(frontier).url.endswith("/b")  # others first
    again = frontier.peek(HOST)
    assert again is not None
    assert again.url.endswith("/a")
    assert again.attempts == 1
    assert paths_left(frontier) == ["/a"]
    frontier.close()


def test_a_redirect_to_a_known_page_is_no_page_of_its_own(frontier: Frontier) -> None:
    fill(frontier, "/old", "/new", "/later")
    done(frontier, taken(frontier), "http://a.example/new")
    assert frontier.has_been_read(at("/new").fingerprint, but=0)
    assert frontier.has_been_read(at("/old").fingerprint, but=0)
    assert not frontier.has_been_read(at("/later").fingerprint, but=0)
    assert frontier.hosts == {HOST: 1}
    assert paths_left(frontier) == ["/later"]  # /new was never asked for
    assert frontier.counts().skipped == {SAME_PAGE: 1}


def test_the_target_of_a_redirect_that_is_under_way_itself_is_known_as_read(frontier: Frontier) -> None:
    fill(frontier, "/old", "/new")
    old, new = taken(frontier), taken(frontier)
    assert not frontier.has_been_read(at("/new").fingerprint, but=new.id)
    done(frontier, old, "http://a.example/new")
    assert frontier.has_been_read(at("/new").fingerprint, but=new.id)


def test_where_a_redirect_leads_is_not_asked_for_later(frontier: Frontier) -> None:
    fill(frontier, "/old")
    done(frontier, taken(frontier), "http://a.example/new", "/new", "/next")
    assert paths_left(frontier) == ["/next"]


def test_in_levels_nothing_is_begun_while_a_nearer_page_is_open() -> None:
    frontier = opened(None, in_levels=True)
    fill(frontier, "/far", depth=2)
    fill(frontier, "/near", depth=1)
    near = taken(frontier)
    assert frontier.peek(HOST) is None
    assert frontier.has_more
    done(frontier, near, None, "/far", "/new")
    assert paths_left(frontier) == ["/far", "/new"]
    frontier.close()


def test_in_levels_a_page_is_as_deep_as_its_nearest_mention() -> None:
    frontier = opened(None, in_levels=True)
    fill(frontier, "/a", depth=5)
    fill(frontier, "/a", depth=1)
    page = frontier.peek(HOST)
    assert page is not None
    assert page.depth == 1
    frontier.close()


def test_what_was_in_flight_when_a_run_died_is_queued_first(file: Path) -> None:
    first = opened(file, limit=3)
    fill(first, "/a", "/b", "/c")
    done(first, taken(first))
    taken(first)
    first.close()  # a killed process closes nothing, and loses no more than this
    second = opened(file, limit=3, resume=True)
    fill(second, "/a", "/z")
    assert second.counts().done == 1
    assert second.counts().records == 1
    assert paths_left(second) == ["/b", "/c"]
    second.close()


def test_a_change_that_was_not_committed_never_was(file: Path) -> None:
    first = opened(file)
    fill(first, "/a")
    page = taken(first)
    first._database.execute("BEGIN")
    first.complete(page, at("/a"), "null", 1, [at("/b")])
    first.close()
    second = opened(file, resume=True)
    assert second.results(0, 10) == []
    assert paths_left(second) == ["/a"]
    second.close()


def test_results_are_numbered_in_their_order(frontier: Frontier) -> None:
    fill(frontier, "/a", "/b", "/c")
    one, two, three = taken(frontier), taken(frontier), taken(frontier)
    for page in (three, one, two):
        done(frontier, page)
    assert [result.content for result in frontier.results(0, 2)] == ['"http://a.example/c"', '"http://a.example/a"']
    assert [result.seq for result in frontier.results(2, 10)] == [3]
    assert frontier.last_result == 3


def test_failures_are_queued_again_before_others_and_within_the_limit(file: Path) -> None:
    frontier = opened(file, limit=2)
    fill(frontier, "/a", "/b", "/c")
    one, two = taken(frontier), taken(frontier)
    with frontier.transaction():
        frontier.fail(two, BROKEN)
        frontier.fail(one, Failure("TIMEOUT", "not finished"))
    assert frontier.counts().failed == {"TIMEOUT": 1, "HTTP_STATUS": 1}
    frontier.close()
    again = opened(file, limit=2, resume=True)
    assert again.queue_failed() == 2
    assert again.counts().failed == {}
    assert paths_left(again) == ["/a", "/b"]
    again.close()


def test_a_raised_limit_goes_on(file: Path) -> None:
    first = opened(file, limit=1)
    fill(first, "/a", "/b")
    done(first, taken(first))
    first.close()
    second = opened(file, limit=2, resume=True)
    assert paths_left(second) == ["/b"]
    second.close()


def test_notes_are_kept(file: Path) -> None:
    first = opened(file)
    with first.transaction():
        first.note("sitemap a")
    first.close()
    second = opened(file, resume=True)
    assert second.noted("sitemap a")
    assert not second.noted("sitemap b")
    second.close()


def with_a_record(frontier: Frontier, page: QueuedPage) -> None:
    frontier.complete(page, at("/"), "{}", 1)


def with_none(frontier: Frontier, page: QueuedPage) -> None:
    frontier.complete(page, at("/"), "[]", 0)


def for_its_links(frontier: Frontier, page: QueuedPage) -> None:
    frontier.skip(page, "NOT_FOLLOWED", "read for its links alone")


def a_sheet(frontier: Frontier, page: QueuedPage) -> None:
    frontier.skip(page, "NOT_HTML_PDF", "it is a PDF")


def failed_with_links(frontier: Frontier, page: QueuedPage) -> None:
    frontier.fail(page, Failure("RECORD_INVALID", "no"), [at("/next")])


def failed(frontier: Frontier, page: QueuedPage) -> None:
    frontier.fail(page, Failure("HTTP_STATUS", "no such page"))


def to_be_tried_again(frontier: Frontier, page: QueuedPage) -> None:
    frontier.retry(page, BROKEN)


def forbidden(frontier: Frontier, page: QueuedPage) -> None:
    frontier.skip(page, "ROBOTS_DISALLOWED", "the site says no")


def moved(frontier: Frontier, page: QueuedPage) -> None:
    frontier.skip(page, "REDIRECTED", "it leads elsewhere")
    frontier.add([at("/elsewhere")], page.depth, page.id)


@pytest.mark.parametrize("end", [with_a_record, with_none, for_its_links, a_sheet, failed_with_links])
def test_a_state_into_which_a_page_was_read_is_not_overwritten(file: Path, end: Callable[..., None]) -> None:
    frontier = opened(file)
    fill(frontier, "/")
    page = taken(frontier)
    with frontier.transaction():
        end(frontier, page)
    frontier.close()
    for settings in (SETTINGS, {**SETTINGS, "depth": 3}):
        with pytest.raises(ConfigurationError) as caught:
            Frontier(file, settings)
        assert caught.value.code == "STATE_EXISTS"
    opened(file, resume=True).close()


@pytest.mark.parametrize("end", [failed, to_be_tried_again, forbidden, moved, lambda *_: None])
def test_a_state_into_which_no_page_was_read_is_begun_anew(file: Path, end: Callable[..., None]) -> None:
    first = opened(file)
    fill(first, "/", "/never/asked/for")
    page = taken(first)
    with first.transaction():
        first.note("sitemap a")
        end(first, page)
    name = first.run
    first.close()
    second = opened(file)
    assert second.run == name  # who has kept nothing but the beginning of this run goes on with it
    assert second.counts() == FrontierCounts(0, 0, 0, {}, {}, 0)
    assert not second.noted("sitemap a")
    fill(second, "/")
    assert taken(second).attempts == 0
    second.close()
    other = Frontier(file, {"seeds": ["http://other.example/"]})
    assert other.run != name
    assert other.counts().queued == 0
    other.close()


def test_resuming_what_was_never_begun_begins(file: Path) -> None:
    opened(file, resume=True).close()
    opened(file, resume=True).close()


def test_a_file_that_was_made_and_not_filled_before_the_kill_is_begun_again(file: Path) -> None:
    database = sqlite3.connect(file)
    database.execute("PRAGMA journal_mode = WAL")
    database.close()
    opened(file).close()


def test_other_settings_are_refused(file: Path) -> None:
    opened(file).close()
    with pytest.raises(ConfigurationError, match=r"depth null.*has 3") as caught:
        Frontier(file, {**SETTINGS, "depth": 3}, resume=True)
    assert caught.value.code == "RUN_DIFFERS"


def test_two_crawls_do_not_share_a_state(file: Path) -> None:
    first = opened(file)
    with pytest.raises(ConfigurationError) as caught:
        opened(file, resume=True)
    assert caught.value.code == "STATE_IN_USE"
    first.close()
    opened(file, resume=True).close()


@pytest.mark.parametrize("key", ["source", "rows", "schema"])
def test_of_settings_that_are_digests_words_are_told(file: Path, key: str) -> None:
    Frontier(file, {**SETTINGS, key: "0123456789ab"}).close()
    with pytest.raises(ConfigurationError, match=r"begun with (an)?other ") as caught:
        Frontier(file, {**SETTINGS, key: "ba9876543210"}, resume=True)
    assert caught.value.code == "RUN_DIFFERS"
    assert key in caught.value.message
    assert not re.search("[0-9]", caught.value.message)


@pytest.mark.parametrize("content", [b"not a database at all, but long enough to be read as one" * 20, b"short"])
def test_a_foreign_file_is_left_alone(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    with pytest.raises(ConfigurationError) as caught:
        opened(file, resume=True)
    assert caught.value.code == "STATE_INVALID"
    assert file.read_bytes() == content


def test_another_programs_database_is_left_alone(file: Path) -> None:
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE pages (id)")
    database.close()
    with pytest.raises(ConfigurationError) as caught:
        opened(file, resume=True)
    assert caught.value.code == "STATE_INVALID"


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(OutputError) as caught:
        opened(tmp_path / "missing" / "crawl")
    assert "missing" in (caught.value.where or "")
