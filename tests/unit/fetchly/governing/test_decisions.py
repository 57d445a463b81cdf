"""What is held back, when, and in which order."""

import pytest

from fetchly.governing.decisions import IDLE_PATIENCE_S, STUCK_PATIENCE_S, Allowance, Decider, Decision, Load, Reading
from fetchly.governing.page_cost import FIRST_BYTES, LEAST_BYTES, PageCost

MB = 1_000_000
BASE = 400 * MB
LIMIT = 2400 * MB


class Host:
    """A host whose clock is turned by hand; a page's readings go to a decider."""

    def __init__(self, tabs: int = 4, pages: int = 8) -> None:
        self.decider = Decider(tabs, pages)
        self.now = 0.0
        self.finished = 0
        self.at(BASE)

    def at(
        self,
        used: int,
        under_way: int = 0,
        waiting: int = 0,
        cpu: float = 0.1,
        after: float = 0.25,
        limit: int = LIMIT,
    ) -> Decision:
        self.now += after
        return self.decider.decide(Reading(used, limit, cpu), Load(under_way, waiting, self.finished), self.now)


def test_with_room_nothing_is_held_back() -> None:
    assert Host().at(BASE + 300 * MB, under_way=8) == Decision(Allowance(4, 8))


def test_tabs_go_first_then_pages_and_they_come_back_one_step_at_a_time() -> None:
    host = Host()
    closing = [host.at(2390 * MB, under_way=8) for _ in range(5)]
    assert [decision.allowance.tabs for decision in closing] == [2, 1, 0, 0, 0]
    assert [decision.allowance.pages for decision in closing] == [6, 6, 6, 0, 0]  # two of the eight did not fit
    assert closing[0].words == "memory 2.4 GB of 2.4 GB: 2 tabs, 6 pages at a time"
    assert closing[2].words == "memory 2.4 GB of 2.4 GB: no tabs, 6 pages at a time"
    assert closing[4].words == "memory 2.4 GB of 2.4 GB: no new pages"
    host.finished += 100  # small ones
    opening = [host.at(BASE, after=5.0) for _ in range(8)]
    assert [decision.allowance.tabs for decision in opening] == [0, 0, 1, 2, 4, 4, 4, 4]
    assert [decision.allowance.pages for decision in opening[:2]] == [0, 8]
    assert opening[-1] == Decision(Allowance(4, 8))


def test_between_the_marks_everything_stays() -> None:
    host = Host()
    host.at(2390 * MB, under_way=8)
    held = [host.at(1800 * MB, under_way=8, after=5.0).allowance.tabs for _ in range(5)]
    assert held == [2] * 5


def test_a_page_is_begun_only_where_it_will_fit() -> None:
    host = Host()
    limit = BASE + 3 * FIRST_BYTES
    assert host.at(BASE, limit=limit).allowance.pages == 2  # 0.85 of three
    host.finished += 80
    assert host.at(BASE, limit=limit).allowance.pages == 8  # small ones, as it turned out
    assert host.at(BASE + 280 * MB, under_way=4, limit=limit).allowance.pages == 5
    words = host.at(BASE + 280 * MB, under_way=4, limit=limit).words
    assert words == "memory 680 MB of 850 MB: 5 pages at a time"


def test_one_page_goes_on_where_others_hold_the_memory() -> None:
    host = Host(tabs=0)
    for _ in range(3):
        closed = host.at(BASE + 100 * MB, limit=BASE)
    assert closed.allowance.pages == 0
    forced = host.at(BASE + 100 * MB, limit=BASE, after=IDLE_PATIENCE_S)
    assert forced.is_forced
    assert forced.allowance.pages == 1
    assert forced.words == "memory 500 MB of 400 MB: 1 page at a time"
    assert host.at(BASE + 100 * MB, under_way=1, limit=BASE, after=0.25).allowance.pages <= 1
    host.finished += 1
    assert host.at(BASE + 100 * MB, limit=BASE).allowance.pages == 0, "memory is given time to come back"


def test_pages_that_wait_for_a_tab_get_one_after_a_while() -> None:
    host = Host()
    for _ in range(5):
        host.at(2390 * MB, under_way=8)
    assert host.at(2390 * MB, under_way=8).allowance == Allowance(0, 0)
    assert host.at(2390 * MB, under_way=8, after=STUCK_PATIENCE_S).allowance == Allowance(1, 1)


def test_while_the_model_has_enough_to_do_fetching_makes_way() -> None:
    host = Host()
    slow = [host.at(BASE, under_way=8, waiting=3, cpu=0.97) for _ in range(5)]
    assert [decision.allowance for decision in slow] == [
        Allowance(2, 4), Allowance(1, 2), Allowance(1, 1), Allowance(1, 1), Allowance(1, 1),
    ]  # fmt: skip
    assert slow[0].cause == "processors"
    assert slow[0].words == "processors 97 % busy: 2 tabs, 4 pages at a time"
    quick = [host.at(BASE, under_way=1, waiting=1, cpu=1.0, after=2.0) for _ in range(4)]
    assert [decision.allowance.pages for decision in quick] == [1, 2, 4, 8]


@pytest.mark.parametrize("waiting", [0, 1])
def test_a_busy_machine_alone_holds_nothing_back(waiting: int) -> None:
    # With nothing in hand the model would wait for pages.
    host = Host()
    assert [host.at(BASE, under_way=8, waiting=waiting, cpu=1.0).cause for _ in range(5)] == [None] * 5


def test_what_a_page_takes_is_learned() -> None:
    cost = PageCost()
    cost.learn(1000 * MB, 0, 0)
    assert (cost.idle, cost.each) == (1000 * MB, FIRST_BYTES)
    cost.learn(2200 * MB, 4, 0)
    assert cost.each == 300 * MB
    cost.learn(1040 * MB, 2, 16)
    assert cost.each == 75 * MB
    cost.learn(1000 * MB, 1, 400)
    assert cost.each == LEAST_BYTES
    cost.learn(1500 * MB, 0, 400)
    assert cost.idle == 1500 * MB, "a browser that stays"
    assert cost.room(1500 * MB, 0, 1500 * MB + 10 * LEAST_BYTES) == 10
    assert cost.room(1500 * MB, 4, 1500 * MB + 10 * LEAST_BYTES) == 10, "those that are under way may grow yet"
    assert cost.room(1600 * MB, 4, 1500 * MB + 10 * LEAST_BYTES) == 7
