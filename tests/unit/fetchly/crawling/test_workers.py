"""Events on their way from threads to the one that takes them."""

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from fetchly.crawling.events import Event, Nudge, SitemapPages
from fetchly.crawling.workers import Inbox, Workers

LONG_S = 20.0
BATCHES = 50


class Listing:
    """Work that comes to many events. `made` are the ones that exist already."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.made = 0

    def __call__(self) -> Iterator[Event]:
        for _ in range(BATCHES):
            self.made += 1
            yield SitemapPages(self.name, ())
        yield SitemapPages(self.name, (), is_end=True)


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + LONG_S
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.001)


def made(listings: list[Listing], count: int) -> bool:
    return sum(listing.made for listing in listings) == count


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    made = Inbox()
    yield made
    made.close()


def test_work_of_many_events_goes_no_faster_than_they_are_taken(inbox: Inbox) -> None:
    listings = [Listing(name) for name in "ab"]
    workers = Workers(2, inbox, "test")
    for listing in listings:
        workers.submit(listing)
    taken: list[SitemapPages] = []
    for step in range(5):
        # One of each waits here and one more is made, which its thread holds.
        until(partial(made, listings, len(taken) + 4))
        time.sleep(0.02)
        assert made(listings, len(taken) + 4), f"step {step}"
        taken += [event for event in inbox.take(100, 0) if isinstance(event, SitemapPages)]
        assert len(taken) == 2 * (step + 1)
    while len(taken) < 2 * (BATCHES + 1):
        taken += [event for event in inbox.take(100, LONG_S) if isinstance(event, SitemapPages)]
    for name in "ab":  # all of it, in order
        assert [event.is_end for event in taken if event.origin == name] == [*([False] * BATCHES), True]
    assert inbox.take(100, 0) == []
    workers.close()


def test_a_thread_that_waits_for_the_taker_ends_with_the_inbox(inbox: Inbox) -> None:
    listing = Listing("a")
    workers = Workers(1, inbox, "test")
    workers.submit(listing)
    until(lambda: listing.made == 2)
    thread = next(thread for thread in threading.enumerate() if thread.name == "test-0")
    inbox.close()
    workers.close()
    assert not thread.is_alive()
    assert listing.made == 2


def test_work_of_one_event_waits_for_nobody(inbox: Inbox) -> None:
    done = threading.Event()
    workers = Workers(1, inbox, "test")
    for _ in range(10):
        workers.submit(lambda: (Nudge(),))

    def last() -> Iterator[Event]:
        done.set()
        return iter(())

    workers.submit(last)
    assert done.wait(LONG_S)
    assert len(inbox.take(100, 0)) == 10
    workers.close()


def test_the_oldest_come_first_and_no_more_than_asked_for(inbox: Inbox) -> None:
    events = [SitemapPages(str(number), ()) for number in range(5)]
    for event in events:
        inbox.put(event)
    assert [inbox.take(2, 0), inbox.take(2, 0), inbox.take(2, 0), inbox.take(2, 0)] == [
        events[:2], events[2:4], events[4:], [],
    ]  # fmt: skip


def test_an_event_that_comes_meanwhile_is_waited_for(inbox: Inbox) -> None:
    timer = threading.Timer(0.05, inbox.put, (Nudge(),))
    timer.start()
    assert inbox.take(1, LONG_S) == [Nudge()]
    timer.join()


def test_a_closed_inbox_takes_in_nothing(inbox: Inbox) -> None:
    number = inbox.put(Nudge())
    inbox.close()
    assert not inbox.wait_taken(number)
    inbox.put(Nudge())
    assert inbox.take(1, 0) == []
