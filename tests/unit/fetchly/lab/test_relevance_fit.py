from __future__ import annotations

import json

import numpy as np
import pytest

from fetchly.errors import ConfigurationError
from fetchly.extraction.relevance import FEATURES, BoostedTrees
from fetchly.lab.recall import WantedValue
from fetchly.lab.relevance_fit import LabelledPage, as_text, block_shares, fit
from tests.support.documents import make_document


def pages(count: int) -> list[LabelledPage]:
    """Blocks are right where the third feature is above 1."""
    generator = np.random.default_rng(7)
    made = []
    for _ in range(count):
        rows = generator.uniform(0, 2, size=(40, len(FEATURES)))
        right = rows[:, 2] > 1
        made.append(LabelledPage(rows, right, np.full(40, 1 / 40)))
    return made


def test_what_is_written_is_what_was_fitted() -> None:
    stored = json.loads(as_text(fit(pages(30))))
    assert stored["features"] == list(FEATURES)
    assert stored["pages"] == 30
    model = BoostedTrees(stored["bias"], stored["trees"])
    (page,) = pages(1)
    likely = model.probability(page.rows)
    assert ((likely > 0.5) == page.right).mean() > 0.95


def test_few_pages_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="too few"):
        fit(pages(3))


def test_shares_of_blocks() -> None:
    blocks = make_document("Apple cake", "2 eggs", "100 g flour", "Apple cake", "nothing").blocks
    title = WantedValue("title", "string", False, "Apple cake", 1.0)
    ingredients = WantedValue("ingredients", "string", True, ["2 eggs", "100 g flour"], 1.0)
    shares = block_shares([title, ingredients], blocks, "en")
    assert shares == pytest.approx([2**-0.5, 0.5, 0.5, 2**-0.5, 0.0])
