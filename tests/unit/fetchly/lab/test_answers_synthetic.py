"""Invented pages, whose values are all known: nothing is lost, the mask allows the answer, it converts back."""

from __future__ import annotations

from typing import Any

import pytest

from fetchly.document.reader import ReadOptions, read_document
from fetchly.extraction.decoding import asks_for_links, decoding_schema
from fetchly.goods import Page
from fetchly.lab.folding import fold
from fetchly.lab.synthetic.pages import generate
from fetchly.lab.truth import Truth
from tests.support.answering import answer_for


def same_record(found: Any, right: Any) -> bool:
    """Equal but for case, space and quotes of texts, and for null members that a schema lets away."""
    if isinstance(right, dict):
        return isinstance(found, dict) and all(same_record(found.get(key), value) for key, value in right.items())
    if isinstance(right, list):
        return (
            isinstance(found, list)
            and len(found) == len(right)
            and all(any(same_record(f, r) for f in found) for r in right)
        )
    if isinstance(right, str):
        return isinstance(found, str) and fold(found) == fold(right)
    return bool(found == right)


@pytest.mark.parametrize("seed", range(12))
def test_the_answer_of_an_invented_page_is_its_record(seed: int) -> None:
    page = generate(seed)
    schema = decoding_schema(page.schema).user
    document = read_document(
        Page("page", page.url, 200, (), page.html, "text/html"), ReadOptions(link_marks=asks_for_links(schema))
    )
    truth = Truth(page.expected, stated=frozenset(page.usable), complete=True, sources=page.sources)
    answer = answer_for(schema, document, truth)
    assert answer.text is not None, answer.lost
    assert same_record(answer.record, page.expected)
