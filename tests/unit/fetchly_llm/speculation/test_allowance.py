import pytest

from fetchly_llm.cost_curve import CostCurve
from fetchly_llm.speculation.allowance import Allowance

CURVE = CostCurve((1, 2, 16), (10.0, 14.0, 70.0), stream_ms=(5.0, 6.0, 30.0))


def test_at_first_two_plain_steps_may_be_lost_and_every_token_adds_a_fiftieth() -> None:
    allowance = Allowance(CURVE)
    assert allowance.left == 20.0
    allowance.end_step(rows=1, tokens=1)
    assert allowance.left == pytest.approx(20.2)


def test_a_wrong_draft_is_paid_for_and_a_right_one_pays() -> None:
    allowance = Allowance(CURVE)
    allowance.end_step(rows=2, tokens=1)
    assert allowance.left == pytest.approx(20.0 - 4.0 + 0.2)
    allowance.end_step(rows=2, tokens=2)
    assert allowance.left == pytest.approx(16.2 + 6.0 + 0.4)


def test_what_good_drafts_have_gained_is_not_saved_up_without_end() -> None:
    allowance = Allowance(CURVE)
    for _ in range(50):
        allowance.end_step(rows=16, tokens=16)
    assert allowance.left == 80.0


def test_a_step_within_the_allowance_never_leaves_less_than_nothing() -> None:
    allowance = Allowance(CURVE)
    for _ in range(200):
        rows = CURVE.rows_within(allowance.left)
        allowance.end_step(rows, tokens=1)
        assert allowance.left >= 0.0


def test_a_pass_of_streams_is_paid_for_at_once() -> None:
    allowance = Allowance(CURVE)
    assert allowance.charge(2) == pytest.approx(0.6)
    assert allowance.left == pytest.approx(14.0)


def test_beside_a_step_as_many_streams_run_as_what_it_may_leave_affords() -> None:
    allowance = Allowance(CURVE)
    assert allowance.anchors_after(rows=1, tokens=1, most=3) == 2
    assert allowance.anchors_after(rows=2, tokens=1, most=3) == 2
    assert allowance.anchors_after(rows=2, tokens=1, most=1) == 1
    assert allowance.anchors_after(rows=2, tokens=2, most=3) == 2
    assert allowance.anchors_after(rows=2, tokens=3, most=3) == 3  # 20 + 30.6 - 14 ms
    allowance.charge(1)
    allowance.charge(2)
    assert allowance.anchors_after(rows=2, tokens=1, most=3) == 1
    assert allowance.anchors_after(rows=16, tokens=1, most=3) == 0


def test_streams_within_the_allowance_never_leave_less_than_nothing() -> None:
    allowance = Allowance(CURVE)
    passes = 0
    for step in range(600):
        rows = CURVE.rows_within(allowance.left) if step % 100 == 99 else 1
        anchors = allowance.anchors_after(rows, tokens=1, most=3)
        if anchors:
            allowance.charge(anchors)
            passes += 1
        allowance.end_step(rows, tokens=1)
        assert allowance.left >= 0.0
    assert passes > 10
