"""What streams choose from: what a record of the page can be made of, and few tokens beside it."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchly_llm.speculation.draft_vocabulary import DraftTokens

IDS = {
    b"a": 1, b"{": 2, b" tea": 3, b"tea": 4, b" pot": 5, b"lid": 6, b" lid": 7, b'": "': 8, b'"],': 9, b" null": 10,
    b"true": 11, b"\n\n": 12, b" ": 14, b"\xff": 15, b"Tea": 16, b"nullable": 17,
}  # fmt: skip
TOKENS = DraftTokens(IDS, 24)
ALWAYS = {1, 2, 8, 9, 10, 11, 14, 15}


def test_a_sequence_of_nothing_has_json_s_own_and_every_byte() -> None:
    assert set(TOKENS.vocabulary([]).tokens.tolist()) == ALWAYS


@pytest.mark.parametrize(
    ("token", "added"),
    [(3, {3, 4}), (4, {3, 4}), (13, {13}), (5, {5}), (6, {6, 7}), (0, {0}), (12, {12}), (1, set()), (20, {20})],
)
def test_a_token_comes_with_its_other_beginning(token: int, added: set[int]) -> None:
    assert set(TOKENS.vocabulary([token]).tokens.tolist()) == ALWAYS | added


@given(st.lists(st.integers(0, 23)), st.lists(st.lists(st.integers(0, 23))))
def test_growing_is_as_beginning_with_it(prompt: list[int], texts: list[list[int]]) -> None:
    grown = TOKENS.vocabulary(prompt)
    for text in texts:
        before = grown.tokens
        grown.extend(text)
        assert set(before.tolist()) <= set(grown.tokens.tolist())
    assert grown.tokens.tolist() == TOKENS.vocabulary([*prompt, *chain.from_iterable(texts)]).tokens.tolist()
    assert grown.tokens.tolist() == sorted(set(grown.tokens.tolist()))
