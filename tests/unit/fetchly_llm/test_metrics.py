import pytest

from fetchly_llm.metrics import Clock, GenerationStats, Share, StepTally
from fetchly_llm.tree import DraftTree


def test_walks_are_counted_by_depth_moved_rows_and_proposals_by_source() -> None:
    #        0
    #      1   2
    #     3   4 5
    tree = DraftTree((9, 1, 2, 3, 4, 5), (-1, 0, 0, 1, 2, 2), ("plain", "lookup", "streams", "forced", "lookup", "x"))
    tally = StepTally()
    tally.add_step(tree, (0, 2, 5), (True, True, False), ("streams", "x", "plain"))
    tally.add_step(tree, (0,), (True,), ("plain",))
    tally.add_step(DraftTree.root(9), (0,), (False,), ("plain",))
    ended = StepTally()
    ended.add_step(tree, (0,), (True,), ("lookup",))  # the drafted token completes the text
    assert ended.by_depth == [Share(1, 1)]
    assert tally.by_depth == [Share(1, 2), Share(1, 1)]
    assert tally.moved_rows == 2
    assert (tally.steps, tally.rows) == (3, 13)
    assert tally.proposed == {"lookup": 4, "streams": 2, "forced": 2, "x": 2}


def test_rates_of_nothing_are_zero() -> None:
    empty = GenerationStats()
    assert (empty.acceptance_length, empty.rows_per_step, empty.tokens_per_second, empty.tpot_ms) == (0, 0, 0, 0)
    assert Share().ratio == 0.0
    assert Share(1, 2) + Share(2, 3) == Share(3, 5)


def test_time_per_token_leaves_out_the_first() -> None:
    stats = GenerationStats(output_tokens=5, compile_ms=1.0, prefill_ms=9.0, ttft_ms=12.0, decode_ms=22.0)
    assert stats.tpot_ms == pytest.approx((1.0 + 9.0 + 22.0 - 12.0) / 4)


def test_a_clock_adds_up_and_marks_the_first_token_once() -> None:
    clock = Clock()
    for _ in range(2):
        with clock.measure("a"):
            pass
    with pytest.raises(KeyError), clock.measure("b"):
        raise KeyError
    assert clock["a"] > 0.0
    assert clock["b"] > 0.0
    assert clock["never"] == 0.0
    clock.mark_first_token()
    first = clock.first_token_ms
    clock.mark_first_token()
    assert clock.first_token_ms == first > 0.0
