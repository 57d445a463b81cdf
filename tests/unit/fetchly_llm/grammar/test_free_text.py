from pathlib import Path

import numpy as np
import pytest

from fetchly_llm.grammar import bitmask
from fetchly_llm.grammar.compiler import GrammarCompiler
from fetchly_llm.grammar.free_text import FreeText
from fetchly_llm.tokenizer import Tokenizer
from tests.support.tiny_model import END_OF_TEXT, TURN_END, TURN_START, make_tiny_model


@pytest.fixture
def text(tmp_path: Path) -> FreeText:
    tokenizer = Tokenizer.load(make_tiny_model(tmp_path))
    return GrammarCompiler(tokenizer.json_text, (TURN_END, END_OF_TEXT), 320).free_text()


def test_any_text_is_legal_and_so_is_its_end_but_no_other_special_token(text: FreeText) -> None:
    row = bitmask.allocate(1, 320)[0]
    text.fill_bitmask(row)
    legal = set(bitmask.legal_tokens(row).tolist())
    assert {TURN_END, END_OF_TEXT, 3, 100} <= legal
    assert TURN_START not in legal
    assert all(text.is_legal(token) == (token in legal) for token in range(-1, 330))
    assert text.forced_tokens() == ()


def test_the_end_terminates_and_is_forgotten_by_a_rollback(text: FreeText) -> None:
    text.accept(10)
    text.accept(11)
    text.accept(TURN_END)
    assert text.is_terminated
    assert not text.is_legal(10)
    assert text.tokens == (10, 11)
    text.rollback(1)
    assert not text.is_terminated
    assert text.tokens == (10,)
    text.rollback(0)
    assert text.tokens == (10,)
    with pytest.raises(AssertionError):
        text.rollback(2)
    with pytest.raises(AssertionError):
        text.accept(TURN_START)


def test_a_mask_can_be_changed_without_changing_the_next(text: FreeText) -> None:
    row = bitmask.allocate(1, 320)[0]
    text.fill_bitmask(row)
    first = row.copy()
    row[:] = 0
    text.fill_bitmask(row)
    assert np.array_equal(row, first)
