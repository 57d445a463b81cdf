from __future__ import annotations

import pytest

from fetchly.extraction.grounding import Grounder, fold
from tests.support.documents import make_document


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("Blue Kettle", "Blue Kettle"),
        ("blue  kettle", "Blue Kettle"),
        ('the "best" one', "The “best”\u00a0one"),
        ("cafe\u0301", "Café"),
        ("1/2 cup", "½ cup"),
        ("soft-hyphen", None),
        ("well known", "well\u00ad known"),
        ("日本", "日本"),
        ("Kettle The", None),
        ("cafe", None),
        ("", None),
        ("  ", None),
    ],
)
def test_places(value: str, found: str | None) -> None:
    document = make_document(
        "Blue Kettle", "The “best”\u00a0one", "Café", "½ cup", "well\u00ad known", "私は日本人です"
    )
    evidence = Grounder(document).locate(value)
    assert evidence.found is (found is not None)
    if found is not None:
        assert document.text[evidence.start : evidence.end] == found
        assert evidence.text is not None
        assert found in evidence.text


def test_whole_words_come_first() -> None:
    document = make_document("In 2024 we sold", "4 pieces")
    evidence = Grounder(document).locate("4")
    assert evidence.text == "4 pieces"
    assert evidence.css_path == "body > p:nth-of-type(2)"


def test_equal_values_get_different_places_while_there_are_some() -> None:
    document = make_document("A: 5 €", "B: 5 €")
    grounder = Grounder(document)
    places = [grounder.locate("5 €").start for _ in range(3)]
    assert places == [3, 10, 3]


def test_evidence_of_a_record() -> None:
    document = make_document("Price 1.234,50 €", "Red", "Blue")
    record = {"price": 1234.5, "colours": ["Red", "Green"], "open": True, "n~/": "Blue", "none": None}
    evidence = Grounder(document).evidence(record, {"/price": "1.234,50 €"})
    assert {k: v.found for k, v in evidence.items()} == {
        "/price": True,
        "/colours/0": True,
        "/colours/1": False,
        "/n~0~1": True,
    }
    price = evidence["/price"]
    assert document.text[price.start : price.end] == "1.234,50 €"
    assert evidence["/colours/1"].css_path is None


def test_fold_maps_back() -> None:
    folded = fold("  Ä “x”\n\ny ")
    assert folded.text == 'a\u0308 "x" y'
    assert [folded.origin[folded.text.index(c)] for c in "axy"] == [2, 5, 9]
