from __future__ import annotations

import numpy as np
import pytest

from fetchly.extraction.fields import wanted_fields
from fetchly.extraction.lexicon import is_unspaced, related, words_of
from fetchly.extraction.relevance import FEATURES, BoostedTrees, features, relevance
from fetchly.goods import Block
from tests.support.documents import make_document

SCHEMA = {
    "title": "Recipe",
    "type": "object",
    "properties": {
        "totalTime": {"type": ["integer", "null"], "description": "In minutes."},
        "ingredients": {"type": "array", "items": {"type": "string"}},
        "author": {"$ref": "#/$defs/Author"},
    },
    "$defs": {"Author": {"type": ["object", "null"], "properties": {"name": {"type": "string"}}}},
}


def column(name: str, *blocks: Block) -> list[float]:
    rows = features(wanted_fields(SCHEMA), blocks, [5] * len(blocks))
    return rows[:, FEATURES.index(name)].tolist()


def block(kind: str, text: str, link_share: float = 0.0) -> Block:
    line = f"# {text}" if kind == "heading" else text
    return Block(kind, text, line, "p", 0, len(text), link_share)  # type: ignore[arg-type]


def test_words() -> None:
    assert list(words_of("priceRange max_items Öffnungszeiten 12 a")) == [
        "price",
        "range",
        "max",
        "item",
        "offnungszeiten",
    ]
    assert {word for text in ("Preis", "prix", "preço", "价格") for word in words_of(text)} <= related("price")
    assert related("zebra") == {"zebra"}
    assert is_unspaced("価格")
    assert not is_unspaced("preis")


def test_fields() -> None:
    wanted = wanted_fields(SCHEMA)
    assert [field.is_list for field in wanted.fields] == [False, True, False, False]
    assert {"zutat", "zutaten", "ingrediente"} <= wanted.fields[1].words
    assert {"duration", "amount", "person", "number"} <= wanted.wants
    assert "phone" not in wanted.wants
    assert "minute" in wanted.description_words


def test_a_label_in_another_language_names_a_field() -> None:
    named = column("labelled", block("paragraph", "Zutaten: Mehl"), block("paragraph", "Das Wetter"))
    assert named[0] > 0.5
    assert named[1] == 0.0
    assert column("labelled", block("paragraph", "材料"), block("paragraph", "天気"))[0] > 0.5


def test_a_heading_speaks_for_the_list_below() -> None:
    blocks = [
        block("heading", "Ingredients"),
        block("list_item", "2 eggs"),
        block("list_item", "salt"),
        block("heading", "Weather"),
        block("list_item", "rain"),
    ]
    assert [value > 0 for value in column("list_lead_of_list", *blocks)] == [False, True, True, False, False]
    lead = [block("paragraph", "Ingredients"), *blocks[1:3], block("paragraph", "x" * 90), block("list_item", "rain")]
    assert [value > 0 for value in column("list_lead_of_list", *lead)] == [False, True, True, False, False]


def test_the_main_heading_repeats_the_title() -> None:
    blocks = [
        block("title", "Apple cake with cream | Bakery"),
        block("heading", "Bakery news"),
        block("heading", "Apple cake with cream"),
        block("paragraph", "text"),
    ]
    assert column("main_heading", *blocks) == [0, 0, 1, 0]
    assert column("before_main_heading", *blocks) == [1, 1, 0, 0]


def test_no_words_no_schema_no_matter() -> None:
    assert features(wanted_fields({}), [], []).shape == (0, len(FEATURES))
    assert np.isfinite(features(wanted_fields({}), make_document("", "…", "12").blocks, [1, 1, 1])).all()


def test_trees() -> None:
    tree = {"feature": [1, -1, 0, -1, -1], "threshold": [2.0, 0, 5.0, 0, 0], "left": [1, 0, 3, 0, 0]}
    tree |= {"right": [2, 0, 4, 0, 0], "value": [0, 1.0, 0, 2.0, -3.0]}
    model = BoostedTrees(0.5, [tree, tree])
    rows = np.array([[0.0, 2.0], [5.0, 2.1], [5.1, 2.1]])
    assert model.probability(rows) == pytest.approx(1 / (1 + np.exp(-np.array([2.5, 4.5, -5.5]))))


def test_what_is_asked_for_ranks_first() -> None:
    filler = ["The weather was fine that day and we walked for hours along the quiet river."] * 40
    blocks = make_document("Apple cake", *filler, "Total time: 45 minutes", *filler).blocks
    likely = relevance(SCHEMA, blocks, [10] * len(blocks))
    assert likely.argmax() in (0, 41)
    assert likely[41] > max(np.delete(likely, [0, 41]))
