"""Public reports about extracted values: what must hold here, each with the report that it comes from."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from pydantic import BaseModel, RootModel

from fetchly.errors import RecordInvalid
from fetchly.extraction.decoding import bind_links, decoding_schema
from fetchly.extraction.extractor import ExtractionOptions, Extractor
from fetchly.extraction.page_context import page_context
from fetchly.extraction.schema import load_schema
from fetchly.extraction.values import convert
from fetchly.goods import Document, Link
from tests.support.documents import make_document, with_links
from tests.support.scripted_generator import ScriptedGenerator


def extract(schema: Any, answer: Any, document: Document, **options: Any) -> Any:
    generator = ScriptedGenerator(lambda _: json.dumps(answer))
    return Extractor(generator, load_schema(schema), ExtractionOptions(**options)).extract(document)


# aws IDP#782
def test_a_required_number_that_the_page_lacks_is_never_made_up() -> None:
    schema = {"type": "object", "properties": {"price": {"type": "number"}}, "required": ["price"]}
    validator = jsonschema_rs.validator_for(decoding_schema(schema).schema, offline=True)
    assert validator.is_valid({"price": None}), "the model can say that there is none"
    assert not validator.is_valid({"price": 0.0}), "and cannot write a number of its own"
    with pytest.raises(RecordInvalid) as caught:
        extract(schema, {"price": None}, make_document("A kettle, price on request"))
    assert (caught.value.pointer, caught.value.code) == ("/price", "VALUE_MISSING")
    for word in ("free", "price on request", "—"):
        with pytest.raises(RecordInvalid):
            extract(schema, {"price": word}, make_document(f"A kettle: {word}"), attempts=1)


# Scrapegraph-ai#544, #637
@pytest.mark.parametrize("made_up", ["https://example.com/item", "/item/1", "https://shop.test/item", "L9", "1"])
def test_a_url_is_one_of_the_page_s_links_or_nothing(made_up: str) -> None:
    links = (Link("L1", "Item", "https://shop.test/item/1"), Link("L2", "More", "https://shop.test/item/2?a=b"))
    document = with_links(make_document("Item", "More"), *links)
    schema = {"type": "object", "properties": {"url": {"type": ["string", "null"], "format": "uri"}}}
    bound = jsonschema_rs.validator_for(bind_links(decoding_schema(schema), ["L1", "L2"]), offline=True)
    assert not bound.is_valid({"url": made_up})
    found = extract(schema, {"url": made_up}, document)
    assert found.record.value == {"url": None}
    assert made_up in found.record.warnings[0]
    assert extract(schema, {"url": "L2"}, document).record.value == {"url": "https://shop.test/item/2?a=b"}


DATES = {"type": "array", "items": {"type": "string", "format": "date"}}


# dateparser#539, #1099
def test_one_page_writes_day_and_month_in_one_order() -> None:
    written = ["15/4/2019", "2/5/2019", "10/5/2019"]
    found = convert(DATES, written, page_context(make_document(*written)))
    assert found.value == ["2019-04-15", "2019-05-02", "2019-05-10"]
    assert found.warnings == ()
    american = [f"4/{day}/2019" for day in (2, 9, 16)]
    assert convert(DATES, american, page_context(make_document(*american))).value == [
        "2019-04-02",
        "2019-04-09",
        "2019-04-16",
    ]


# dateparser#608
def test_an_order_that_nothing_decides_is_told() -> None:
    found = convert(DATES, ["2/5/2019"], page_context(make_document("2/5/2019")))
    assert found.value == ["2019-02-05"]
    assert "/0: “2/5/2019”: day and month may be the other way round" in found.warnings[0]


class Comment(BaseModel):
    text: str
    replies: list[Comment] = []


class Names(RootModel[list[str]]):
    pass


# pydantic-ai#2466, outlines#1908
def test_recursive_models_come_back_whole() -> None:
    answer = {"text": "a", "replies": [{"text": "b", "replies": [{"text": "c", "replies": []}]}]}
    found = extract(Comment, answer, make_document("a", "b", "c"))
    assert found.value == Comment(text="a", replies=[Comment(text="b", replies=[Comment(text="c")])])
    assert found.record.evidence["/replies/0/replies/0/text"].text == "c"


# firecrawl#1400
def test_a_list_of_strings_at_the_root() -> None:
    found = extract(Names, ["Ada", "Alan"], make_document("Ada", "Alan"))
    assert found.value == Names(["Ada", "Alan"])
    assert found.record.evidence["/1"].text == "Alan"


# firecrawl#2491
@pytest.mark.parametrize("answer", [True, False])
def test_a_schema_of_one_boolean(answer: bool) -> None:
    schema = {"type": "object", "properties": {"open": {"type": "boolean"}}, "required": ["open"]}
    found = extract(schema, {"open": answer}, make_document("We are open"))
    assert found.record.value == {"open": answer}
    assert found.record.evidence["/open"].found is False
