"""Crawls whose pages take much memory while they are read: within their limit with the governor, beyond it without.

Memory is measured by the test itself, at the moments when it is highest: when another page has got hold of its own.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from fetchly.crawler.http import FetchPolicy
from fetchly.crawling.crawl import Crawl, Means
from fetchly.crawling.extraction import LocalExtraction
from fetchly.crawling.options import crawl_options
from fetchly.crawling.results import PageResult
from fetchly.crawling.subject import subject_of
from fetchly.document.reader import ReadOptions, read_document
from fetchly.errors import ConfigurationError
from fetchly.extraction.extractor import ExtractionOptions
from fetchly.extraction.schema import load_schema
from fetchly.goods import Page
from fetchly.governing.decisions import Load
from fetchly.governing.governor import Governor
from fetchly.reading import Reading
from tests.support.crawl_program import SCHEMA, name_of
from tests.support.crawl_site import CrawlSite
from tests.support.scripted_generator import ScriptedGenerator

pytestmark = pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="the kernel gives no PSS here")
MB = 1_000_000
PAGES = 12
AT_ONCE = 8
EACH = 60 * MB
ROOM = 360 * MB  # for five pages of eight
LONGEST_WAIT_S = 120.0


def held_now() -> int:
    """PSS of this process and all below it."""
    own = psutil.Process()
    total = 0
    for process in (own, *own.children(recursive=True)):
        try:
            total += process.memory_full_info().pss
        except psutil.Error:
            continue
    return total


@contextmanager
def holding(size: int) -> Iterator[None]:
    """Another process of ours, that holds so many bytes."""
    program = f"held = b'x' * {size}\nprint(flush=True)\ninput()"
    process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdout.readline()
        yield
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


class Looks:
    """The governor's readings, to be waited for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.changed = threading.Condition()
        real = Governor.look

        def look(governor: Governor, load: Load) -> None:
            real(governor, load)
            with self.changed:
                self.count += 1
                self.changed.notify_all()

        monkeypatch.setattr(Governor, "look", look)

    def wait(self, until: Callable[[], bool]) -> None:
        """For something that is true after a reading, or after `changed` was told."""
        with self.changed:
            assert self.changed.wait_for(until, LONGEST_WAIT_S)

    def wait_for_two(self) -> None:
        """The first of them may have begun before now."""
        seen = self.count
        self.wait(lambda: self.count >= seen + 2)


class PageReader:
    """Reads pages that are none of the site's; a page that is read is held in memory by `hold`."""

    most_tabs = 4

    def __init__(self, hold: Callable[[int], None]) -> None:
        self._hold = hold
        self._lock = threading.Lock()
        self.begun = 0
        self.told: list[int] = []

    def set_tabs(self, count: int) -> None:
        self.told.append(count)

    def browser_pids(self) -> tuple[int, ...]:
        return ()

    def read(self, target: str, options: ReadOptions, should_stop: Any = None, may_follow: Any = None) -> Reading:
        with self._lock:
            self.begun += 1
            number = self.begun
        self._hold(number)
        name = target.rpartition("/")[2]
        body = f"<html><title>Item {name}</title><h1>Item {name}</h1><p>It says so.".encode()
        page = Page(requested=target, url=target, status=200, headers=(), body=body, media_type="text/html")
        return Reading(page, read_document(page, options), (), 1.0, 1.0)


def crawl(
    site: CrawlSite, reader: PageReader, say: Callable[[str], None], limit: int | str, pages: int = PAGES
) -> Crawl[PageResult]:
    policy = FetchPolicy(allow_private=True)
    means = Means(reader, ReadOptions(), policy, "never", partial(LocalExtraction, ScriptedGenerator(name_of)))
    options = crawl_options({"delay": 0.0, "concurrency": AT_ONCE, "memory_limit": limit})
    seeds = [site.url(f"/p/{number}") for number in range(pages)]
    return Crawl(
        subject_of(seeds, load_schema(SCHEMA)), means, options, ExtractionOptions(), lambda page: page, say
    ).start()


class Load8:
    """Pages that hold 60 MB each until the governor has seen them, or until all eight threads hold one."""

    def __init__(self, looks: Looks, *, for_all: bool) -> None:
        self._looks = looks
        self._for_all = for_all
        self._held = 0
        self._lock = threading.Lock()
        self.most = 0
        self.peak = 0

    def hold(self, number: int) -> None:
        with holding(EACH):
            with self._lock:
                self._held += 1
                self.most = max(self.most, self._held)
                self.peak = max(self.peak, held_now())
            if self._for_all:
                with self._looks.changed:
                    self._looks.changed.notify_all()
                self._looks.wait(lambda: self.most == AT_ONCE)
            else:
                self._looks.wait_for_two()
            with self._lock:
                self._held -= 1


def test_a_load_beyond_the_limit_finishes_within_it(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Looks(monkeypatch)
    with CrawlSite() as site:
        loose, governed = Load8(looks, for_all=True), Load8(looks, for_all=False)
        limit = held_now() + ROOM
        with crawl(site, PageReader(loose.hold), print, "off") as running:
            assert len(list(running)) == PAGES
        assert loose.most == AT_ONCE
        assert loose.peak > limit
        assert running.summary.host.held_back == {}

        limit = held_now() + ROOM
        with crawl(site, PageReader(governed.hold), print, limit) as running:
            assert len({result.value["name"] for result in running}) == PAGES
        assert governed.most < AT_ONCE
        assert governed.peak < limit
    host = running.summary.host
    assert host.memory_limit == limit
    assert EACH < host.processes["other"].peak_memory <= governed.peak
    assert host.peak_memory < limit
    assert host.held_back["memory"].times >= 1
    assert host.held_back["memory"].seconds > 0


def test_under_pressure_contexts_close_first_and_the_crawl_goes_on_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Looks(monkeypatch)

    def hold(number: int) -> None:
        if number == 1:
            with holding(2 * ROOM):
                looks.wait(lambda: 0 in reader.told)

    reader = PageReader(hold)
    with CrawlSite() as site, crawl(site, reader, print, held_now() + ROOM) as running:
        assert len(list(running)) == PAGES
    assert reader.told[:3] == [2, 1, 0]
    assert reader.told[-1] == reader.most_tabs
    assert running.summary.done == PAGES


def test_a_crawl_that_others_leave_no_memory_goes_on_page_by_page_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    looks, said = Looks(monkeypatch), list[str]()
    at_once: list[int] = []
    ended: list[int] = []

    def hold(number: int) -> None:
        at_once.append(number - len(ended))
        looks.wait_for_two()
        ended.append(number)

    monkeypatch.setattr(Governor, "check", lambda governor: None)  # what others hold came later
    with (
        CrawlSite() as site,
        holding(ROOM),
        crawl(site, PageReader(hold), said.append, held_now() - ROOM // 2, pages=4) as running,
    ):
        assert len(list(running)) == 4
    assert set(at_once) == {1}
    assert len(said) == 1
    assert said[0].endswith("1 page at a time; no page is under way that would give any back")


def test_a_limit_below_what_is_held_already_is_said_at_the_start() -> None:
    with CrawlSite() as site, pytest.raises(ConfigurationError) as error:
        crawl(site, PageReader(lambda number: None), print, "10MB")
    assert error.value.exit_code == 2
    assert "the limit is 10 MB, and fetchly with its model holds" in error.value.message
    assert not site.log
