"""Any history of a crawl, kills included: every page is read once, the limit holds, no result is lost."""

import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fetchly.crawler.fingerprint import address_of
from fetchly.crawler.frontier import Failure, Frontier, QueuedPage

HOSTS = ("a.example", "b.example")
ADDRESSES = tuple(address_of(f"http://{host}/{number}") for host in HOSTS for number in range(6))
SOME = st.lists(st.sampled_from(ADDRESSES), max_size=4)


class History(RuleBasedStateMachine):
    """The frontier beside what it must remember."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.in_flight: list[QueuedPage] = []
        self.results: list[str] = []
        self.read_at: Counter[bytes] = Counter()

    @initialize(limit=st.one_of(st.none(), st.integers(1, 8)), in_levels=st.booleans(), seeds=SOME)
    def begin(self, limit: int | None, in_levels: bool, seeds: list[Any]) -> None:
        self.options: dict[str, Any] = {"limit": limit, "in_levels": in_levels}
        self.frontier = self.opened()
        with self.frontier.transaction():
            self.frontier.add(seeds, 0)

    def opened(self) -> Frontier:
        return Frontier(Path(self.folder.name) / "crawl", {}, resume=True, **self.options)

    def change(self, index: int, make: Callable[[QueuedPage], None]) -> None:
        page = self.in_flight.pop(index % len(self.in_flight))
        with self.frontier.transaction():
            make(page)

    @rule(host=st.sampled_from(HOSTS))
    def take(self, host: str) -> None:
        page = self.frontier.peek(host)
        if page is not None:
            with self.frontier.transaction():
                self.frontier.take(page)
            self.in_flight.append(page)

    @precondition(lambda self: self.in_flight)
    @rule(index=st.integers(0, 9), final=st.sampled_from((None, *ADDRESSES)), links=SOME, has_record=st.booleans())
    def read(self, index: int, final: Any, links: list[Any], has_record: bool) -> None:
        """As the coordinator does: a page that was read under another name is skipped."""

        def make(page: QueuedPage) -> None:
            where = final or address_of(page.url)
            if self.frontier.has_been_read(where.fingerprint, but=page.id):
                self.frontier.skip(page, "SAME_PAGE")
                return
            if has_record:
                self.frontier.complete(page, where, f'"{page.url}"', 1, links)
                self.results.append(f'"{page.url}"')
            else:
                self.frontier.skip(page, "NO_RECORD", "", links, where)
            self.read_at[where.fingerprint] += 1

        self.change(index, make)

    @precondition(lambda self: self.in_flight)
    @rule(index=st.integers(0, 9), how=st.sampled_from(("fail", "retry", "release", "skip")))
    def end_otherwise(self, index: int, how: str) -> None:
        failure = Failure("CODE", "words", True)
        frontier = self.frontier
        ways: dict[str, Callable[[QueuedPage], None]] = {
            "fail": lambda page: frontier.fail(page, failure),
            "retry": lambda page: frontier.retry(page, failure),
            "release": frontier.release,
            "skip": lambda page: frontier.skip(page, "OTHER"),
        }
        self.change(index, ways[how])

    @rule(again=st.booleans(), in_the_middle=st.booleans())
    def die(self, again: bool, in_the_middle: bool) -> None:
        if in_the_middle and self.in_flight:
            page = self.in_flight[0]
            self.frontier._database.execute("BEGIN")
            self.frontier.complete(page, ADDRESSES[0], "lost", 1, ADDRESSES)
        self.frontier.close()
        self.in_flight = []
        self.frontier = self.opened()
        if again:
            self.frontier.queue_failed()

    @invariant()
    def holds(self) -> None:
        if not hasattr(self, "frontier"):
            return
        limit = self.options["limit"]
        number = self.frontier._number
        assert limit is None or number("SELECT count(*) FROM pages WHERE reserved = 1") <= limit
        assert [result.content for result in self.frontier.results(0, 99)] == self.results
        assert all(count == 1 for count in self.read_at.values()), "a page was read twice"
        remembered = self.figures()
        self.frontier._recount()
        assert self.figures() == remembered

    def figures(self) -> dict[str, Any]:
        frontier = self.frontier
        return {
            "counts": frontier.counts(),
            "hosts": dict(frontier.hosts),
            "reserved": frontier._reserved,
            "last": frontier.last_result,
            "in flight": frontier._in_flight,
            "waiting": frontier._reserved_waiting,
        }

    def teardown(self) -> None:
        if hasattr(self, "frontier"):
            self.frontier.close()
        self.folder.cleanup()


History.TestCase.settings = settings(max_examples=25, stateful_step_count=30)
TestAnyHistory = History.TestCase
