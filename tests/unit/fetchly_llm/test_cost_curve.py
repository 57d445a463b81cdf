from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchly_llm.cost_curve import CostCurve

CURVE = CostCurve((1, 2, 4, 8, 16), (10.0, 11.0, 13.0, 21.0, 60.0))


@st.composite
def curves(draw: st.DrawFn) -> CostCurve:
    rows = (1, *sorted(draw(st.sets(st.integers(2, 24), max_size=6))))
    rises = draw(st.lists(st.floats(0.0, 5.0), min_size=len(rows), max_size=len(rows)))
    return CostCurve(rows, tuple((0.5 + np.cumsum(rises)).tolist()))


def test_between_measured_points_the_cost_is_on_a_straight_line() -> None:
    assert [CURVE.cost(rows) for rows in (1, 2, 3, 4, 6, 8, 12, 16)] == [10, 11, 12, 13, 17, 21, 40.5, 60]
    assert CURVE.most == 16


@pytest.mark.parametrize("rows", [0, 17])
def test_beyond_the_measured_points_nothing_is_known(rows: int) -> None:
    with pytest.raises(AssertionError):
        CURVE.cost(rows)


@pytest.mark.parametrize(
    ("rows", "ms"),
    [
        ((), ()),
        ((2, 4), (1.0, 2.0)),
        ((1, 4, 2), (1.0, 2.0, 3.0)),
        ((1, 2, 2), (1.0, 2.0, 3.0)),
        ((1, 2), (1.0,)),
        ((1, 2), (2.0, 1.0)),
        ((1,), (0.0,)),
        ((1, 2), (1.0, inf)),
        ((1, 2), (1.0, float("nan"))),
    ],
)
def test_what_is_no_curve_is_refused(rows: tuple[int, ...], ms: tuple[float, ...]) -> None:
    with pytest.raises(AssertionError):
        CostCurve(rows, ms)


@given(curves(), st.lists(st.floats(0.0, 1.0), max_size=30), st.one_of(st.just(inf), st.floats(0.0, 20.0)))
def test_the_best_number_of_rows_is_that_of_trying_them_all(
    curve: CostCurve, chances: list[float], allowance: float
) -> None:
    probabilities = [1.0, *sorted(chances, reverse=True)]
    allowed = []
    for rows in range(1, min(len(probabilities), curve.most) + 1):
        certain = sum(chance == 1.0 for chance in probabilities[:rows])
        if rows == 1 or curve.cost(rows) - certain * curve.cost(1) <= allowance:
            allowed.append(rows)
    rates = {rows: sum(probabilities[:rows]) / curve.cost(rows) for rows in allowed}
    chosen = curve.best_rows(probabilities, allowance)
    assert chosen in allowed
    assert rates[chosen] == pytest.approx(max(rates.values()))


def test_of_equally_good_numbers_of_rows_the_smallest_is_taken() -> None:
    straight = CostCurve((1, 3), (1.0, 3.0))
    assert straight.best_rows([1.0, 1.0, 1.0]) == 1


def test_unlikely_nodes_before_likely_ones_do_not_hide_them() -> None:
    stairs = CostCurve((1, 2, 3, 4), (1.0, 1.9, 1.9, 1.9))
    assert stairs.best_rows([1.0, 0.8, 0.7, 0.6]) == 4
    assert stairs.best_rows([1.0, 0.8]) == 1


def test_certain_nodes_are_verified_whatever_may_be_lost() -> None:
    assert CURVE.best_rows([1.0, 1.0, 1.0, 1.0, 0.9, 0.9], allowance=0.0) == 6  # 17 ms, and the certain four save 40
    assert CURVE.best_rows([1.0, 0.9, 0.9, 0.9], allowance=0.0) == 1
    assert CURVE.best_rows([1.0, 0.9, 0.9, 0.9], allowance=1.0) == 2


def test_streams_cost_what_was_measured_and_nothing_where_there_are_none() -> None:
    streaming = CostCurve((1,), (10.0,), stream_ms=(4.0, 4.0, 7.0))
    assert [streaming.stream_cost(anchors) for anchors in (1, 2, 3)] == [4.0, 4.0, 7.0]
    assert [streaming.anchors_within(ms, 3) for ms in (0.0, 3.9, 4.0, 6.9, 7.0, inf)] == [0, 0, 2, 2, 3, 3]
    assert streaming.anchors_within(inf, 2) == 2
    assert CURVE.stream_cost(3) == 0.0
    assert CURVE.anchors_within(0.0, 3) == 3


@pytest.mark.parametrize("stream_ms", [(2.0, 1.0), (-1.0,), (inf,), (float("nan"),)])
def test_what_cannot_be_the_cost_of_streams_is_refused(stream_ms: tuple[float, ...]) -> None:
    with pytest.raises(AssertionError):
        CostCurve((1,), (1.0,), stream_ms)


@given(curves(), st.floats(0.0, 30.0))
def test_the_rows_within_an_allowance_are_the_most_that_cost_no_more(curve: CostCurve, allowance: float) -> None:
    within = [rows for rows in range(1, curve.most + 1) if curve.cost(rows) <= curve.cost(1) + allowance]
    assert curve.rows_within(allowance) == max(within)


@pytest.mark.parametrize("most", [1, 2, 16])
def test_a_typical_curve_knows_every_row(most: int) -> None:
    curve = CostCurve.typical(most)
    assert curve.most == most
    assert [curve.cost(rows) for rows in range(1, most + 1)] == pytest.approx([1 + 0.1 * n for n in range(most)])
    assert [curve.stream_cost(anchors) for anchors in (1, 2, 3)] == pytest.approx([0.5, 0.6, 0.7])
