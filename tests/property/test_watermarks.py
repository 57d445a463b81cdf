"""Laws of holding back, for every sequence of readings."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from fetchly.governing.decisions import (
    MEMORY_MARKS,
    STUCK_PATIENCE_S,
    Allowance,
    Decider,
    Load,
    Reading,
    cpu_steps,
    memory_steps,
)
from fetchly.governing.watermarks import Marks, Watermarks

MARKS = Marks(high=0.8, low=0.5, settle_s=3.0)
DEEPEST = 4
SHARES = st.one_of(st.floats(0, 2), st.sampled_from([0.0, 0.5, 0.8, float("inf")]))
GAPS = st.floats(0.01, 10)


@dataclass(frozen=True, slots=True)
class Told:
    """A reading: its moment, its share, and the level that came of it."""

    at: float
    share: float
    level: int


def told(readings: list[tuple[float, float]]) -> list[Told]:
    """What comes of readings, each with the time since the last."""
    marks, now, answers = Watermarks(MARKS, DEEPEST), 0.0, []
    for gap, share in readings:
        now += gap
        answers.append(Told(now, share, marks.step(share, now)))
    return answers


@given(st.lists(st.tuples(GAPS, SHARES), max_size=60))
def test_a_step_at_a_time_and_for_a_reason(readings: list[tuple[float, float]]) -> None:
    for before, after in itertools.pairwise([Told(0.0, 0.0, 0), *told(readings)]):
        assert 0 <= after.level <= DEEPEST
        if after.share > MARKS.high:
            assert after.level == min(DEEPEST, before.level + 1)
        elif after.share > MARKS.low:
            assert after.level == before.level
        else:
            assert before.level - 1 <= after.level <= before.level


@given(st.lists(st.tuples(GAPS, SHARES), max_size=60))
def test_nothing_is_given_back_soon_after_it_was_taken(readings: list[tuple[float, float]]) -> None:
    """So that no more than one reversal from closing to opening falls into a period."""
    answers = told(readings)
    for index, (before, after) in enumerate(itertools.pairwise(answers), start=1):
        if after.level < before.level:
            recent = [seen for seen in answers[:index] if seen.at > after.at - MARKS.settle_s]
            assert all(seen.share <= MARKS.low for seen in recent)
            assert len({seen.level for seen in recent}) <= 1, "two steps within a period"


@given(st.lists(st.tuples(GAPS, SHARES, st.floats(0, 1)), max_size=60))
def test_more_load_never_means_a_lower_level(readings: list[tuple[float, float, float]]) -> None:
    low = told([(gap, share) for gap, share, _ in readings])
    high = told([(gap, share + more) for gap, share, more in readings])
    assert all(one.level <= other.level for one, other in zip(low, high, strict=True))


@given(st.lists(st.tuples(GAPS, SHARES), max_size=30), st.floats(0.05, 3.0))
def test_it_always_opens_again_when_the_load_is_gone(readings: list[tuple[float, float]], gap: float) -> None:
    calm = int(DEEPEST * (MARKS.settle_s / gap + 1)) + 2
    assert told([*readings, *[(gap, 0.0)] * calm])[-1].level == 0


@given(st.integers(0, 64), st.integers(1, 64))
def test_tabs_go_before_pages_and_a_processor_keeps_one_page(tabs: int, pages: int) -> None:
    for_memory, for_cpu = memory_steps(tabs, pages), cpu_steps(tabs, pages)
    for steps in (for_memory, for_cpu):
        assert steps[0] == Allowance(tabs, pages)
        for before, after in itertools.pairwise(steps):
            assert after != before
            assert after.tabs <= before.tabs
            assert after.pages <= before.pages
    assert for_memory[-1] == Allowance(0, 0)
    assert all(step.pages == pages for step in for_memory[:-1]), "tabs first, all of them"
    assert for_memory[-2].tabs == 0
    assert for_cpu[-1] == Allowance(min(tabs, 1), 1)


MB = 1_000_000
LOADS = st.tuples(
    GAPS, st.integers(0, 3000), st.integers(0, 3000), st.floats(0, 1), st.integers(0, 8), st.integers(0, 9)
)


@given(st.integers(0, 4), st.integers(1, 8), st.lists(LOADS, max_size=40), st.booleans())
def test_a_crawl_is_never_locked_up(tabs: int, pages: int, history: list[tuple[float, ...]], is_full: bool) -> None:
    """Whatever came before, and though others keep all memory: what waits for a tab, or to begin at all, goes on."""
    decider, now, finished = Decider(tabs, pages), 0.0, 0
    for gap, used, limit, cpu, under_way, waiting in history:
        now += gap
        finished += int(under_way)
        reading = Reading(int(used) * MB, int(limit) * MB, cpu)
        decision = decider.decide(reading, Load(int(under_way), int(waiting), finished), now)
        assert 0 <= decision.allowance.pages <= pages
        assert 0 <= decision.allowance.tabs <= tabs
        assert bool(decision.words) == bool(decision.cause) == (decision.allowance != decider.all)
    stuck = Load(pages if tabs and is_full else 0, 0, finished)
    for _ in range(100):
        now += 0.25
        decision = decider.decide(Reading(2000 * MB, 1000 * MB, 1.0), stuck, now)
    assert STUCK_PATIENCE_S < 100 * 0.25
    assert decision.allowance.pages >= 1
    assert decision.allowance.tabs >= min(1, tabs)
    for _ in range(200):
        now += MEMORY_MARKS.settle_s
        finished += 1
        decision = decider.decide(Reading(100 * MB, 4000 * MB, 0.1), Load(0, 0, finished), now)
    assert decision.allowance == decider.all
    assert decision.words == ""
