"""A varied schema asks for the same values: what was right stays right, under other names."""

from __future__ import annotations

import json
import random
from typing import Any

from fetchly.lab.truth import Truth
from fetchly.lab.variants import OTHER_NAMES, TYPED, varied
from tests.support.answering import TEXT, TEXTS, answer_for, list_of, record_schema, stated
from tests.support.documents import make_document

SCHEMA = record_schema(
    title={**TEXT, "description": "Name of the page."}, published_date=TEXT, price=TEXT, tags=TEXTS, site_name=TEXT,
    items=list_of(case_names=TEXT, case_dates=TEXT),
)  # fmt: skip
VALUE = {
    "title": "Blue Jug",
    "published_date": "2024-03-05",
    "price": "1056.74",
    "tags": ["blue", "glazed"],
    "items": [{"case_names": "Doe v. Roe", "case_dates": "2023-01-31"}, {"case_names": "In re X", "case_dates": None}],
}
PAGE = make_document(
    "Blue Jug", "5 March 2024", "$1,056.74", "blue", "glazed", "Doe v. Roe", "Jan. 31, 2023", "In re X"
)


def drawn(count: int = 60) -> list[tuple[dict[str, Any], Truth]]:
    variants = [varied(SCHEMA, stated(VALUE, "site_name"), random.Random(seed)) for seed in range(count)]
    return [(variant.schema, variant.truth) for variant in variants]


def test_every_variant_has_the_right_answer() -> None:
    for schema, truth in drawn(25):
        answer = answer_for(schema, PAGE, truth)
        assert answer.text is not None, (schema, answer.lost)
        assert list(json.loads(answer.text)) == list(schema["properties"])


def test_names_order_choice_types_and_descriptions_vary() -> None:
    orders, texts = set(), []
    for schema, _ in drawn():
        orders.add(tuple(schema["properties"]))
        texts.append(json.dumps(schema))
    joined = "\n".join(texts)
    assert len(orders) > 40
    assert all(name in joined for name in (*OTHER_NAMES["title"], "publishedDate", "siteName"))
    assert any('"format": "date"' in text for text in texts)
    assert any('"number"' in text for text in texts)
    assert 0 < sum("Name of the page." in text for text in texts) < len(texts)
    assert {len(order) for order in orders} >= {3, 4, 5, 6}


def test_the_scorer_is_asked_by_its_own_names() -> None:
    for schema, truth in drawn(20):
        assert set(truth.scored_as) >= set(schema["properties"])
        assert {truth.scorer_name(name) for name in schema["properties"]} <= set(SCHEMA["properties"])


def test_the_same_seed_gives_the_same_variant() -> None:
    assert drawn(5) == drawn(5)


def test_no_two_fields_get_one_name() -> None:
    schema = record_schema(**{name: TEXT for name in OTHER_NAMES})
    for seed in range(60):
        changed = varied(schema, Truth({}), random.Random(seed)).schema
        assert len(changed["required"]) == len(set(changed["required"])) == len(changed["properties"])


def test_typed_fields_are_fields_of_the_sets() -> None:
    assert set(TYPED) <= set(OTHER_NAMES)


def test_a_text_that_is_no_date_stays_a_text() -> None:
    schema = record_schema(published_date=TEXT, price=TEXT)
    truth = stated({"published_date": "June 2009", "price": ["from 5", "6"]})
    assert all("format" not in json.dumps(varied(schema, truth, random.Random(seed)).schema) for seed in range(20))
    assert all("number" not in json.dumps(varied(schema, truth, random.Random(seed)).schema) for seed in range(20))
