from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from fetchly.errors import ConfigurationError, DocumentError, Interrupted, RecordInvalid, SchemaError
from fetchly.extraction.extractor import REDRAW_TEMPERATURE, ExtractionOptions, Extractor
from fetchly.extraction.format import FORMAT_VERSION
from fetchly.extraction.generator import ExtractionStats, GenerationTask, SchemaNotice
from fetchly.extraction.prompt import PAGE_BUDGET
from fetchly.extraction.schema import load_schema
from fetchly.goods import Link
from tests.support.documents import make_document, with_links
from tests.support.scripted_generator import ScriptedGenerator

DOCUMENT = make_document("Blue Kettle", "Preis: 1.234,50 €", "4,5 von 5", lang="de")
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string", "x-verbatim": True}, "price": {"type": "number"}},
    "required": ["name", "price"],
    "additionalProperties": False,
}
GOOD = json.dumps({"name": "Blue Kettle", "price": "1.234,50 €"})
BAD = json.dumps({"name": "Blue Kettle", "price": None})
UNREADABLE = json.dumps({"name": "Blue Kettle", "price": "Kettle"})


def extractor(answer: str | Callable[[GenerationTask], str], schema: Any = SCHEMA, **options: Any) -> Extractor:
    script = (lambda _: answer) if isinstance(answer, str) else answer
    return Extractor(ScriptedGenerator(script), load_schema(schema), ExtractionOptions(**options))


def tasks(of: Extractor) -> list[GenerationTask]:
    generator = of._generator
    assert isinstance(generator, ScriptedGenerator)
    return generator.tasks


def test_a_record_with_evidence() -> None:
    found = extractor(GOOD).extract(DOCUMENT)
    assert found.record.value == {"name": "Blue Kettle", "price": 1234.5}
    assert found.attempt == 1
    assert found.record.warnings == ()
    for pointer, text in (("/name", "Blue Kettle"), ("/price", "1.234,50 €")):
        evidence = found.record.evidence[pointer]
        assert DOCUMENT.text[evidence.start : evidence.end] == text
    assert found.stats.output_tokens == len(GOOD.split())


def test_redraws() -> None:
    made = extractor(lambda task: GOOD if task.attempt == 2 else UNREADABLE, seed=7)
    found = made.extract(DOCUMENT)
    assert found.attempt == 3
    assert found.stats.attempts == 3
    assert found.stats.output_tokens == len(GOOD.split()) + 2 * len(UNREADABLE.split())
    assert [(t.attempt, t.temperature, t.seed) for t in tasks(made)] == [
        (0, 0, 7),
        (1, REDRAW_TEMPERATURE, 7),
        (2, REDRAW_TEMPERATURE, 7),
    ]
    warm = extractor(BAD, temperature=0.3, attempts=2)
    with pytest.raises(RecordInvalid):
        warm.extract(DOCUMENT)
    assert [t.temperature for t in tasks(warm)] == [0.3, 0.3]


def test_giving_up_names_the_place() -> None:
    with pytest.raises(RecordInvalid) as caught:
        extractor(UNREADABLE).extract(DOCUMENT)
    error = caught.value
    assert (error.exit_code, error.code, error.pointer) == (4, "RECORD_INVALID", "/price")
    assert error.where == "https://shop.test/1"
    assert "/price: “Kettle” was read as no number, and the schema requires a value (all 3 attempts" in error.line()


def test_null_for_a_required_value_is_asked_for_once_more_and_then_believed() -> None:
    made = extractor(BAD, attempts=5)
    with pytest.raises(RecordInvalid) as caught:
        made.extract(DOCUMENT)
    assert len(tasks(made)) == 2
    assert (caught.value.code, caught.value.pointer) == ("VALUE_MISSING", "/price")
    assert "null is not of type 'number' (2 of 5 attempts agree and failed)" in caught.value.line()
    once = extractor(BAD, attempts=1)
    with pytest.raises(RecordInvalid, match="the only attempt"):
        once.extract(DOCUMENT)
    assert extractor(lambda task: GOOD if task.attempt else BAD).extract(DOCUMENT).attempt == 2


def test_draws_that_differ_are_no_agreement() -> None:
    answers = [
        json.dumps({"name": None, "price": "1"}),
        BAD,
        UNREADABLE,
        BAD,
        GOOD,
    ]
    assert extractor(lambda task: answers[task.attempt], attempts=5).extract(DOCUMENT).attempt == 5


def test_urls_come_from_the_links_that_the_prompt_shows() -> None:
    links = (Link("L1", "One", "https://x.test/1", "body>a"), Link("L2", "Two", "https://x.test/2"))
    document = with_links(make_document("Blue Kettle", "One"), *links)
    schema = {"type": "object", "properties": {"url": {"type": "string", "format": "uri"}}, "required": ["url"]}
    made = extractor(json.dumps({"url": "L1"}), schema)
    found = made.extract(document)
    assert found.record.value == {"url": "https://x.test/1"}
    evidence = found.record.evidence["/url"]
    assert (evidence.found, evidence.css_path, evidence.text, evidence.start) == (True, "body>a", "One", 12)
    assert made.prompt(document).prompt.links == ("L1",)
    assert tasks(made)[0].schema["$defs"]["page_links"] == {"enum": ["L1"]}
    made_up = extractor(json.dumps({"url": "https://invented.test/"}), schema, attempts=1)
    with pytest.raises(RecordInvalid, match="absolute URL of this page"):
        made_up.extract(document)


@pytest.mark.parametrize("answer", ["", "{", '{"name": "Blue Kettle", "name": "x", "price": null}'])
def test_unreadable_answers_are_drawn_again(answer: str) -> None:
    assert extractor(lambda task: GOOD if task.attempt else answer).extract(DOCUMENT).attempt == 2


def test_verbatim_is_held_to_the_page() -> None:
    made = extractor(json.dumps({"name": "Red Kettle", "price": "1"}), attempts=1)
    with pytest.raises(RecordInvalid) as caught:
        made.extract(DOCUMENT)
    assert (caught.value.code, caught.value.pointer) == ("NOT_VERBATIM", "/name")
    across = json.dumps({"name": "Blue Kettle\nPreis", "price": "1"})
    with pytest.raises(RecordInvalid):
        extractor(across, attempts=1).extract(DOCUMENT)


def test_auto_marks_plain_strings() -> None:
    plain = {"type": "object", "properties": {"name": {"type": "string"}}}
    answer = json.dumps({"name": "Not there"})
    assert extractor(answer, plain).extract(DOCUMENT).record.evidence["/name"].found is False
    with pytest.raises(RecordInvalid):
        extractor(answer, plain, verbatim="auto").extract(DOCUMENT)


@pytest.mark.parametrize("lines", [(), ("",), (" ", "\u00a0")])
def test_an_empty_page_never_reaches_the_generator(lines: tuple[str, ...]) -> None:
    made = extractor(GOOD)
    with pytest.raises(DocumentError):
        made.extract(make_document(*lines))
    assert tasks(made) == []


def test_the_schema_is_checked_and_compiled_once() -> None:
    notice = SchemaNotice("SCHEMA_BOUND_ADDED", "/properties/name", "at most 2000 characters")
    generator = ScriptedGenerator(lambda _: GOOD, notices=(notice,))
    made = Extractor(generator, load_schema(SCHEMA), ExtractionOptions(schema_mode="check"))
    assert made.notices == (notice,)
    made.extract(DOCUMENT)
    made.extract(DOCUMENT)
    assert generator.checked == ["check"]
    assert len(generator.prepared) == 1
    assert generator.tasks[0].schema == generator.prepared[0]
    assert generator.tasks[0].prompt.task == generator.tasks[1].prompt.task


def test_options_reach_the_task() -> None:
    stop = lambda: False  # noqa: E731
    made = extractor(GOOD, max_tokens=77, draft=("forced",), should_stop=stop)
    made.extract(DOCUMENT)
    task = tasks(made)[0]
    assert (task.max_tokens, task.draft, task.should_stop) == (77, ("forced",), stop)


def test_stopping() -> None:
    made = extractor(GOOD, should_stop=lambda: True)
    with pytest.raises(Interrupted):
        made.extract(DOCUMENT)
    assert tasks(made) == []


@pytest.mark.parametrize(
    "options", [{"attempts": 0}, {"budget": 0}, {"max_tokens": 0}, {"temperature": -1}, {"temperature": float("nan")}]
)
def test_options_that_make_no_sense(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        ExtractionOptions(**options)


def test_the_budget_gives_way_to_the_context_and_says_so() -> None:
    roomy = Extractor(ScriptedGenerator(lambda _: GOOD, context_length=5000), load_schema(SCHEMA))
    assert roomy.budget == PAGE_BUDGET
    assert roomy.extract(DOCUMENT).record.warnings == ()
    tight = Extractor(ScriptedGenerator(lambda _: GOOD, context_length=1400), load_schema(SCHEMA))
    assert tight.budget < 400
    assert "page budget" in tight.extract(DOCUMENT).record.warnings[0]
    with pytest.raises(ConfigurationError) as caught:
        Extractor(ScriptedGenerator(lambda _: GOOD, context_length=1100), load_schema(SCHEMA))
    assert caught.value.code == "CONTEXT_TOO_SMALL"


def test_what_was_left_out_is_in_the_stats() -> None:
    long = make_document("Blue Kettle", *[f"line of filler text number {i}" for i in range(100)], "Preis 1.234,50 €")
    found = extractor(GOOD, budget=70).extract(long)
    assert found.stats.left_out_blocks > 50
    assert found.stats.left_out_characters > 300


class Book(BaseModel):
    name: str
    price: float | None = None
    pages: int | None = None


def test_a_model_comes_back() -> None:
    answer = json.dumps({"name": "Blue Kettle", "price": "1.234,50 €", "pages": "many"})
    found = extractor(answer, Book).extract(DOCUMENT)
    assert found.value == Book(name="Blue Kettle", price=1234.5)
    assert found.record.warnings == ("/pages: “many” was read as no whole number; null was taken",)


def test_a_list_schema() -> None:
    found = extractor(json.dumps([{"name": "Blue Kettle", "price": "5", "pages": None}]), list[Book]).extract(DOCUMENT)
    assert found.value == [Book(name="Blue Kettle", price=5)]
    assert found.record.evidence["/0/name"].found


def test_bad_schemas_fail_when_the_extractor_is_made() -> None:
    for schema in ({"$ref": "#"}, {"type": "strang"}, {"properties": {"a": {"$ref": "#/$defs/b"}}}):
        with pytest.raises(SchemaError):
            extractor(GOOD, schema)


def test_stats_add_up() -> None:
    one = ExtractionStats(output_tokens=6, decode_steps=3, decode_ms=100, tokens_by_source={"forced": 4, "plain": 2})
    two = ExtractionStats(
        output_tokens=4, decode_steps=2, decode_ms=100, tokens_by_source={"plain": 4}, peak_memory_mb=9
    )
    both = one.plus(two)
    assert both.acceptance_length == 2
    assert both.tokens_per_second == 50
    assert both.tokens_by_source == {"forced": 4, "plain": 6}
    assert both.attempts == 2
    assert json.loads(json.dumps(both.as_dict()))["peak_memory_mb"] == 9
    assert ExtractionStats().acceptance_length == ExtractionStats().tokens_per_second == 0


def test_an_answer_without_an_end_is_drawn_again() -> None:
    def endless(task: GenerationTask) -> str:
        if task.attempt < 1:
            raise RecordInvalid("not complete after 5 tokens", code="OUTPUT_LIMIT")
        return GOOD

    found = extractor(endless).extract(DOCUMENT)
    assert (found.attempt, found.stats.attempts) == (2, 2)
    with pytest.raises(RecordInvalid, match="the only attempt failed") as caught:
        extractor(endless, attempts=1).extract(DOCUMENT)
    assert caught.value.code == "OUTPUT_LIMIT"


def test_a_model_of_another_format_is_refused() -> None:
    for trained in (None, FORMAT_VERSION):
        Extractor(ScriptedGenerator(lambda _: GOOD, trained_format=trained), load_schema(SCHEMA))
    with pytest.raises(ConfigurationError, match=r"format 0.*format") as caught:
        Extractor(ScriptedGenerator(lambda _: GOOD, trained_format="0"), load_schema(SCHEMA))
    assert caught.value.code == "MODEL_FORMAT"


def test_the_identity_is_that_of_the_answer() -> None:
    identity = extractor(GOOD).identity
    assert identity == extractor(GOOD, draft=(), should_stop=lambda: False).identity
    others = [
        extractor(GOOD, seed=1),
        extractor(GOOD, budget=100),
        extractor(GOOD, verbatim="auto"),
        extractor(GOOD, temperature=0.5),
        extractor(GOOD, {**SCHEMA, "title": "Kettle"}),
        extractor(GOOD, {**SCHEMA, "properties": dict(reversed(SCHEMA["properties"].items()))}),
    ]
    assert len({identity, *(other.identity for other in others)}) == 1 + len(others)


def test_the_identity_holds_the_format(monkeypatch: pytest.MonkeyPatch) -> None:
    before = extractor(GOOD).identity
    monkeypatch.setattr("fetchly.extraction.extractor.FORMAT_VERSION", "next")
    assert extractor(GOOD).identity != before
