from __future__ import annotations

from pathlib import Path

import pytest

from fetchly_llm.errors import WeightsMismatch
from fetchly_llm.store.model_card import CARD, ModelCard, read_card


def test_no_card_no_training(tmp_path: Path) -> None:
    assert read_card(tmp_path) is None


def test_card(tmp_path: Path) -> None:
    (tmp_path / CARD).write_text('{"format": "7", "hours": 3}')
    assert read_card(tmp_path) == ModelCard(format="7")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 7}', "\xff"])
def test_a_broken_card_is_said(tmp_path: Path, text: str) -> None:
    (tmp_path / CARD).write_text(text, encoding="latin-1")
    with pytest.raises(WeightsMismatch, match=CARD):
        read_card(tmp_path)
