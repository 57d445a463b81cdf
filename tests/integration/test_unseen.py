"""Ten pages of our own, of five kinds that no training schema is like: well-formed, answerable, and read soundly.

`tests/data/unseen` is a dataset as docs/eval.md has it: `fetchly eval tests/data/unseen` says how well a model does.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

import fetchly
from fetchly.document.reader import read_document
from fetchly.extraction.extractor import Extractor
from fetchly.extraction.local import LocalGenerator
from fetchly.extraction.prompt import PAGE_BUDGET
from fetchly.extraction.schema import load_schema
from fetchly.lab.dataset import Dataset, GoldRecord
from fetchly.lab.reading import SetReader
from fetchly.lab.recall import measure_recall
from fetchly.lab.scoring import is_empty, score_record
from fetchly.lab.truth import truth_of
from fetchly.lab.visible import check_texts
from tests.support.answering import answer_for
from tests.support.scripted_generator import ScriptedGenerator

SET = Dataset.open(Path(__file__).resolve().parents[1] / "data" / "unseen")
READER = SetReader(read_document)
# Little of the page is shown: what is tested is that any record is sound, not how good it is.
OPTIONS: dict[str, Any] = {"budget": 200, "max_tokens": 1500}

each_page = pytest.mark.parametrize("record", SET.records(), ids=lambda record: record.id)


def fields(record: GoldRecord) -> set[str]:
    """The fields of the page's schema as a dataset names them."""
    properties: dict[str, Any] = SET.schema(record).json["properties"]
    members = properties["items"]["items"]["properties"] if "items" in properties else {}
    return {name for name in properties if name != "items"} | {f"items.{name}" for name in members}


def test_there_are_two_pages_of_each_kind_and_three_are_not_in_english() -> None:
    assert Counter(record.vertical for record in SET.records()) == dict.fromkeys(SET.verticals(), 2)
    assert len(SET.verticals()) == 5
    assert Counter(record.lang for record in SET.records()) == {"en": 7, "de": 1, "es": 1, "fr": 1}
    assert all(record.site.endswith(".example.org") for record in SET.records())


@each_page
def test_every_field_is_said_or_truly_missing(record: GoldRecord) -> None:
    assert {*record.usable, *record.missing} == fields(record)
    assert not {*record.usable} & {*record.missing}
    for name in record.missing:
        assert is_empty(record.expected[name])


@each_page
def test_the_right_answer_can_be_written_and_is_right(record: GoldRecord) -> None:
    schema = SET.schema(record).json
    answer = answer_for(schema, READER.read(SET, record), truth_of(record))
    assert answer.lost == {}
    jsonschema_rs.validate(schema, answer.record, validate_formats=True)
    counts = score_record(record, answer.record, schema)
    assert counts.keys() == set(record.usable)
    assert all(count.flawless for count in counts.values()), counts
    assert "cut" not in answer.found, "every value of the page is written"
    page = SET.page(record)
    assert check_texts(answer.record, schema, page.body, page.url).invented == 0


BOUNDED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-verbatim": True},
        "latitude": {"type": ["number", "null"], "minimum": -90, "maximum": 90},
        "longitude": {"type": ["number", "null"], "minimum": -180, "maximum": 180},
        "stars": {"type": ["integer", "null"], "minimum": 1, "maximum": 5},
        "aftershocks": {"type": "array", "minItems": 2, "items": {"type": "number", "minimum": 0, "maximum": 10}},
    },
    "required": ["region", "latitude", "longitude", "stars", "aftershocks"],
    "additionalProperties": False,
}


def test_a_wrong_span_costs_its_field_and_not_the_record() -> None:
    page = SET.page(next(record for record in SET.records() if record.id == "quake-vellmark"))
    answer = {"region": "Vellmark", "latitude": "1908", "longitude": "11.642", "stars": "61"}
    said = ScriptedGenerator(lambda _: json.dumps({**answer, "aftershocks": ["3.2", "300 km", "2.4"]}))
    found = Extractor(said, load_schema(BOUNDED)).extract(read_document(page))
    right = {"region": "Vellmark", "latitude": None, "longitude": 11.642, "stars": None, "aftershocks": [3.2, 2.4]}
    assert (found.record.value, found.attempt) == (right, 1)
    assert found.record.warnings == (
        "/latitude: “1908”: 1908 is greater than the maximum of 90; null was taken",
        "/stars: “61”: 61 is greater than the maximum of 5; null was taken",
        "/aftershocks: “300 km”: 300 is greater than the maximum of 10; entry 2 of 3 was left out of the list, which "
        "holds its minItems of 2 without it",
    )
    assert found.record.evidence.keys() == {"/region", "/longitude", "/aftershocks/0", "/aftershocks/1"}


@pytest.fixture(scope="module")
def generator() -> Iterator[LocalGenerator]:
    loaded = LocalGenerator()
    yield loaded
    loaded.close()


@pytest.fixture(scope="module")
def client(generator: LocalGenerator) -> Iterator[fetchly.Client]:
    with fetchly.Client(generator=generator, **OPTIONS) as opened:
        yield opened


@pytest.mark.model
def test_the_model_would_be_shown_every_value_that_stands_in_the_text(generator: LocalGenerator) -> None:
    run = measure_recall(SET, [PAGE_BUDGET], READER, generator.count_tokens)
    assert run.errors == ()
    assert run.lost == ()
    assert run.rows[0].documents == len(SET.records())


def spans(schema: Any, value: Any) -> Iterator[str]:
    """The strings of a record that the schema marks as spans of the page."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield from spans(schema["properties"][name], member)
    elif isinstance(value, list):
        for item in value:
            yield from spans(schema["items"], item)
    elif isinstance(value, str) and schema.get("x-verbatim"):
        yield value


@pytest.mark.model
@each_page
def test_the_model_gives_a_valid_record_of_spans_of_the_page(client: fetchly.Client, record: GoldRecord) -> None:
    schema = SET.schema(record).json
    result = client.extract(SET.page(record), schema)
    jsonschema_rs.validate(schema, result.value, validate_formats=True)
    blocks = [block.text for block in READER.read(SET, record).blocks]
    found = list(spans(schema, result.value))
    assert found, "a page of which nothing is said shows nothing"
    for text in found:
        assert any(text in block for block in blocks), text
