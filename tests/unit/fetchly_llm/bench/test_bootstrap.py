"""Medians and their intervals."""

import math
import statistics

import pytest

from fetchly_llm.bench.bootstrap import Median, bootstrap_median


def test_the_same_figures_give_the_same_interval() -> None:
    for size in range(10, 60, 2):
        figures = [math.sin(number) + number**0.5 for number in range(size)]
        first = bootstrap_median(figures)
        assert first == bootstrap_median(figures)
        assert first.value == pytest.approx(statistics.median(figures))
        assert first.interval is not None
        low, high = first.interval
        assert min(figures) <= low < first.value < high <= max(figures)


def test_more_documents_give_a_narrower_interval() -> None:
    def width(figures: list[float]) -> float:
        interval = bootstrap_median(figures).interval
        assert interval is not None
        return interval[1] - interval[0]

    assert width([1.0, 2.0, 3.0, 4.0] * 25) < width([1.0, 2.0, 3.0, 4.0])


@pytest.mark.parametrize(("figures", "expected"), [([], Median(None, None)), ([3.0], Median(3.0, None))])
def test_of_one_document_or_none_no_spread_is_told(figures: list[float], expected: Median) -> None:
    assert bootstrap_median(figures) == expected
