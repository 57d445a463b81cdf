from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchly_llm.stream_mask import row_positions, stream_mask


@st.composite
def layouts(draw: st.DrawFn) -> tuple[int, list[int], int]:
    length = draw(st.integers(1, 9))
    anchors = draw(st.lists(st.integers(0, length - 1), max_size=6))
    return length, anchors, draw(st.integers(1, 4))


def described(length: int, anchors: list[int], gamma: int) -> list[tuple[int | None, int, int]]:
    """(group, position, stream) of every row: main rows have no group and are stream 0."""
    main: list[tuple[int | None, int, int]] = [(None, position, 0) for position in range(length)]
    streams = [(group, at, j) for group, at in enumerate(anchors) for j in range(1, gamma + 1)]
    return main + streams


@given(layouts())
def test_every_entry_is_as_defined(layout: tuple[int, list[int], int]) -> None:
    mask, rows = stream_mask(*layout), described(*layout)
    assert mask.shape == (len(rows), len(rows))
    for q, (group, at, stream) in enumerate(rows):
        for k, (other_group, other_at, other_stream) in enumerate(rows):
            if other_stream == 0:
                sees = other_at <= at
            else:
                sees = stream > 0 and group == other_group and other_stream <= stream
            assert mask[q, k] == sees


@given(layouts())
def test_positions_of_rows(layout: tuple[int, list[int], int]) -> None:
    assert row_positions(*layout).tolist() == [at + stream for _, at, stream in described(*layout)]


@given(layouts(), st.integers(0, 2**32))
def test_main_rows_do_not_depend_on_streams(layout: tuple[int, list[int], int], seed: int) -> None:
    length, anchors, gamma = layout
    random = np.random.default_rng(seed)
    mask = stream_mask(length, anchors, gamma)
    scores = random.standard_normal(mask.shape)
    values = random.standard_normal((len(mask), 3))

    def attend(values: np.ndarray, scores: np.ndarray) -> np.ndarray:
        weights = np.where(mask, np.exp(scores), 0.0)
        return (weights / weights.sum(-1, keepdims=True)) @ values

    first = attend(values, scores)[:length]
    values[length:] = 1e6
    scores[:length, length:] = 20.0
    assert np.allclose(attend(values, scores)[:length], first, rtol=0, atol=1e-12)


def test_the_picture_of_the_documentation() -> None:
    drawn = (stream_mask.__doc__ or "").split("1 2    1 2    1 2\n")[1]
    cells = [[mark == "x" for mark in line.split() if mark in ("x", ".")] for line in drawn.strip().splitlines()]
    assert cells[:9] == stream_mask(3, range(3), 2).tolist()


def test_anchors_lie_in_the_sequence() -> None:
    for anchor in (-1, 3):
        with pytest.raises(AssertionError, match="positions of the sequence"):
            stream_mask(3, [anchor], 1)
