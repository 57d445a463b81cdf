"""Which examples a step learns from, and the rectangles that they are run in."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fetchly_llm.training.batches import PADDING, Batches, micro_batches
from fetchly_llm.training.schedule import Schedule
from fetchly_llm.training.token_file import TokenExample


def example(number: int, length: int) -> TokenExample:
    chosen = np.zeros(length, np.bool_)
    chosen[-1] = True
    return TokenExample(str(number), "a", np.arange(1, length + 1, dtype=np.int32) + 100 * number, 1, chosen)


@given(count=st.integers(1, 30), size=st.integers(1, 9), seed=st.integers(0, 5))
def test_every_example_once_an_epoch_and_each_step_by_its_number_alone(count: int, size: int, seed: int) -> None:
    batches = Batches([example(number, 2) for number in range(count)], size, seed)
    steps = [[part.name for part in batches.step(number)] for number in range(3 * count)]
    flat = [name for step in steps for name in step]
    for epoch in range(len(flat) // count):
        assert Counter(flat[epoch * count : (epoch + 1) * count]) == Counter(map(str, range(count)))
    again = Batches([example(number, 2) for number in range(count)], size, seed)
    for number in reversed(range(len(steps))):
        assert [part.name for part in again.step(number)] == steps[number]


@given(lengths=st.lists(st.integers(2, 40), min_size=1, max_size=20), most=st.integers(1, 120))
def test_rectangles_hold_every_choice_with_the_place_before_it(lengths: list[int], most: int) -> None:
    examples = [example(number, length) for number, length in enumerate(lengths)]
    found: Counter[tuple[int, int]] = Counter()
    for batch in micro_batches(examples, most):
        rows, longest = batch.tokens.shape
        assert rows == 1 or rows * longest <= most
        flat = batch.tokens.reshape(-1)
        for row, target in zip(batch.rows, batch.targets, strict=True):
            assert flat[row] == target - 1  # the tokens of an example count upwards
            found[int(flat[row]), int(target)] += 1
        assert sum(int((line != PADDING).sum()) for line in batch.tokens) <= sum(lengths)
    expected = Counter((100 * number + length - 1, 100 * number + length) for number, length in enumerate(lengths))
    assert found == expected


def test_the_rate_rises_stays_and_falls() -> None:
    schedule = Schedule(steps=100, warmup=10, decay=0.3)
    shares = [schedule.share(step) for step in range(100)]
    assert shares[0] == 0.1
    assert set(shares[9:70]) == {1.0}
    assert all(left > right > 0 for left, right in pairwise(shares[69:]))
    longer = Schedule(steps=200, warmup=10, decay=0.3)
    assert [longer.share(step) for step in range(70)] == shares[:70]
