"""Who is asked next: hosts in turn, robots.txt first, nobody before the time."""

from typing import Any, cast

from fetchly.crawler.fingerprint import address_of
from fetchly.crawler.frontier import Frontier
from fetchly.crawler.politeness import Outcome, Politeness, PolitenessLimits
from fetchly.crawler.robots import Robots
from fetchly.crawler.scope import Scope
from fetchly.crawling.events import OriginAsked
from fetchly.crawling.fetching import Fetching
from fetchly.crawling.schedule import HOST_SILENT, ROBOTS_WAITS, Schedule
from fetchly.document.reader import ReadOptions
from fetchly.errors import FetchError, PolicyRefused
from fetchly.goods import Page

OPEN = b"User-agent: *\nAllow: /\n"


SILENCE = Outcome(error_code="CONNECTION_FAILED")


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Desk:
    """A schedule over a frontier in memory and a robots.txt in `rules` (an exception: what asking for it raises)."""

    def __init__(self, *urls: str, delay_s: float = 0.0, per_host: int = 1, limit: int | None = None) -> None:
        self.clock = Clock()
        self.rules: bytes | Exception = OPEN
        self.asked: list[str] = []
        self.refused: list[str] = []
        self.frontier = Frontier(None, {}, limit=limit)
        self.politeness = Politeness(delay_s, per_host, self.clock)
        addresses = [address_of(url) for url in urls]
        fetching = Fetching(
            reader=cast(Any, None),
            options=ReadOptions(),
            scope=Scope(addresses),
            politeness=self.politeness,
            robots=Robots(self.fetch, "fetchly", self.clock),
            fetch=self.fetch,
            agent="fetchly",
            should_stop=lambda: False,
        )
        self.waits: list[str] = []
        self.schedule = Schedule(
            self.frontier,
            fetching,
            self.clock,
            lambda page, failure: self.refused.append(failure.code),
            self.waits.append,
        )
        with self.frontier.transaction():
            self.frontier.add(addresses, 0)

    def fetch(self, url: str) -> Page:
        self.asked.append(url)
        if isinstance(self.rules, Exception):
            raise self.rules
        return Page(url, url, 200, (), self.rules, "text/plain")

    def next(self) -> str | None:
        """The page to be read next, `robots` where that was asked for first."""
        with self.frontier.transaction():
            task = self.schedule.next()
        if task is None:
            return None
        if task.page is not None:
            return task.page.url
        (event,) = task.work()
        assert isinstance(event, OriginAsked)
        self.schedule.asked(event.origin, event.error)
        return "robots"


def test_robots_txt_comes_first_and_hosts_take_turns() -> None:
    desk = Desk("http://a.example/1", "http://a.example/2", "http://b.example/1", "http://b.example/2", per_host=9)
    assert [desk.next() for _ in range(7)] == [
        "robots", "robots",
        "http://a.example/1", "http://b.example/1", "http://a.example/2", "http://b.example/2", None,
    ]  # fmt: skip
    assert desk.asked == ["http://a.example/robots.txt", "http://b.example/robots.txt"]


def test_a_host_waits_for_its_time_and_says_when() -> None:
    desk = Desk("http://a.example/1", "http://a.example/2", delay_s=5.0)
    assert [desk.next() for _ in range(3)] == ["robots", "http://a.example/1", None]
    assert desk.schedule.wake_at == float("inf")  # its slot is taken: an event will come
    desk.politeness.end("a.example", Outcome(status=200))
    assert desk.next() is None
    assert desk.schedule.wake_at == 1005.0
    desk.clock.now = 1005.0
    assert desk.next() == "http://a.example/2"


def test_while_robots_txt_is_being_asked_for_no_page_is() -> None:
    desk = Desk("http://a.example/1", "http://a.example/2")
    with desk.frontier.transaction():
        first = desk.schedule.next()
        assert first is not None
        assert first.page is None
        assert desk.schedule.next() is None


def test_what_robots_txt_forbids_is_skipped_without_a_request() -> None:
    desk = Desk(*(f"http://a.example/{number}" for number in range(500)))
    desk.rules = b"User-agent: *\nDisallow: /\nAllow: /499$\n"
    assert desk.next() == "robots"
    assert desk.next() is None
    assert desk.schedule.wake_at == float("-inf")  # there is more to be looked at, after whatever has happened
    assert [desk.next() for _ in range(2)] == [None, "http://a.example/499"]
    assert desk.frontier.counts().skipped == {"ROBOTS_DISALLOWED": 499}


def test_a_site_whose_robots_txt_is_out_of_reach_is_waited_for_and_then_given_up() -> None:
    desk = Desk("http://a.example/1", "http://a.example/2")
    desk.rules = FetchError("no answer", url="http://a.example/robots.txt", code="TIMEOUT")
    for _ in range(ROBOTS_WAITS):
        assert [desk.next(), desk.next()] == ["robots", None]
        assert desk.schedule.wake_at > desk.clock.now
        desk.clock.now = desk.schedule.wake_at
    assert [desk.next(), desk.next()] == ["robots", None]
    assert desk.frontier.counts().failed == {"ROBOTS_UNREACHABLE": 2}
    assert desk.refused == ["ROBOTS_UNREACHABLE"] * 2
    assert len(desk.waits) == ROBOTS_WAITS
    assert desk.waits[0].startswith(
        "ROBOTS_WAITED_FOR http://a.example: the site's robots.txt is out of reach (TIMEOUT"
    )
    assert desk.waits[0].endswith("it is asked again in 60 s")


def test_a_site_that_is_back_is_read() -> None:
    desk = Desk("http://a.example/1")
    desk.rules = FetchError("no answer", url="http://a.example/robots.txt", code="TIMEOUT")
    assert [desk.next(), desk.next()] == ["robots", None]
    desk.clock.now = desk.schedule.wake_at
    desk.rules = OPEN
    assert [desk.next(), desk.next()] == ["robots", "http://a.example/1"]


def test_the_pages_of_a_site_that_is_out_of_bounds_fail() -> None:
    desk = Desk("http://a.example/1", "http://a.example/2")
    desk.rules = PolicyRefused("a private address", url="http://a.example/robots.txt", code="ADDRESS_REFUSED")
    assert [desk.next(), desk.next()] == ["robots", None]
    assert desk.frontier.counts().failed == {"ADDRESS_REFUSED": 2}
    assert desk.asked == ["http://a.example/robots.txt"]


def test_a_host_that_answers_nothing_is_given_up_and_holds_nobody_up() -> None:
    desk = Desk(*(f"http://a.example/{number}" for number in range(20)), "http://b.example/1")
    assert [desk.next() for _ in range(4)] == ["robots", "robots", "http://a.example/0", "http://b.example/1"]
    asked = 0
    while not desk.politeness.is_silent("a.example"):
        desk.politeness.end("a.example", SILENCE)
        asked += 1
        desk.clock.now += 1000
        if not desk.politeness.is_silent("a.example"):
            assert desk.next() == f"http://a.example/{asked}"
    assert asked == PolitenessLimits().give_up_after
    assert desk.next() is None
    assert desk.frontier.counts().failed == {HOST_SILENT: 20 - asked}
    assert desk.refused == [HOST_SILENT]  # the others are like it
    assert desk.frontier.hosts == {}


def test_pages_that_were_never_asked_for_leave_their_place_to_others() -> None:
    desk = Desk("http://a.example/1", "http://a.example/2", "http://b.example/1", limit=1)
    desk.rules = PolicyRefused("a private address", url="http://a.example/robots.txt", code="ADDRESS_REFUSED")
    assert desk.next() == "robots"
    desk.rules = OPEN
    assert [desk.next(), desk.next()] == ["robots", "http://b.example/1"]
    assert desk.frontier.is_limit_reached
    assert desk.frontier.counts().failed == {"ADDRESS_REFUSED": 2}


def test_a_host_that_there_is_not_is_not_waited_for() -> None:
    desk = Desk("http://a.example/1")
    desk.rules = FetchError("not known", url="http://a.example/robots.txt", code="HOST_UNKNOWN")
    assert [desk.next(), desk.next()] == ["robots", None]
    assert desk.frontier.counts().failed == {"HOST_UNKNOWN": 1}
