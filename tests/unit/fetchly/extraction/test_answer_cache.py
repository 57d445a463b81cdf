"""Answers that are given again: exactly where everything that they depend on is the same."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fetchly.disk_cache import DiskCache
from fetchly.errors import Interrupted, RecordInvalid
from fetchly.extraction.answer_cache import AnswerCache
from fetchly.extraction.extractor import ExtractionOptions, Extractor
from fetchly.extraction.generator import GenerationTask
from fetchly.extraction.schema import load_schema
from fetchly.goods import Block, Document, Link, Prompt
from tests.support.scripted_generator import ScriptedGenerator

TASK = GenerationTask(Prompt("system", "task", "page", "source", ("L1",)), {"type": "object"}, temperature=0.5, seed=3)


@pytest.fixture
def store(tmp_path: Path) -> DiskCache:
    return DiskCache(tmp_path, 1_000_000)


def cached(store: DiskCache, answer: Any = lambda task: '{"a": 1}') -> tuple[AnswerCache, ScriptedGenerator]:
    scripted = ScriptedGenerator(answer)
    return AnswerCache(scripted, store), scripted


def test_an_answer_is_written_once(store: DiskCache) -> None:
    cache, scripted = cached(store, lambda task: '{"a": "\udc80 ü"}')
    first = cache.generate(TASK)
    again = cached(store)[0].generate(TASK)
    assert first.text == again.text == '{"a": "\udc80 ü"}'
    assert len(scripted.tasks) == 1
    assert first.stats.cached_answers == 0
    assert first.stats.output_tokens > 0
    work = {"prompt_tokens", "output_tokens", "decode_steps", "decode_ms", "forward_ms", "ttft_ms", "acceptance_length"}
    assert {again.stats.as_dict()[name] for name in work} == {0}
    assert again.stats.cached


@pytest.mark.parametrize(
    "change",
    [
        {"prompt": replace(TASK.prompt, page="another page")},
        {"prompt": replace(TASK.prompt, source="another source")},
        {"prompt": replace(TASK.prompt, task="another task")},
        {"prompt": replace(TASK.prompt, links=("L2",))},
        {"schema": {"type": "array"}},
        {"temperature": 0.6},
        {"seed": 4},
        {"attempt": 1},
        {"max_tokens": 5},
    ],
)
def test_whatever_changes_the_answer_makes_a_new_one(store: DiskCache, change: dict[str, Any]) -> None:
    cache, scripted = cached(store)
    cache.generate(TASK)
    cache.generate(replace(TASK, **change))
    assert len(scripted.tasks) == 2


def test_another_model_writes_its_own_answer(store: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    cached(store)[0].generate(TASK)
    monkeypatch.setattr(ScriptedGenerator, "identity", "another model")
    cache, scripted = cached(store)
    cache.generate(TASK)
    assert len(scripted.tasks) == 1


@pytest.mark.parametrize("change", [{"draft": ("forced",)}, {"should_stop": lambda: False}])
def test_what_changes_no_answer_asks_for_none(store: DiskCache, change: dict[str, Any]) -> None:
    cache, scripted = cached(store)
    cache.generate(TASK)
    cache.generate(replace(TASK, **change))
    assert len(scripted.tasks) == 1


def test_rejection_sampling_is_never_recalled_but_where_it_is_greedy(store: DiskCache) -> None:
    cache, scripted = cached(store)
    cache.generate(TASK)
    for _ in range(2):
        cache.generate(replace(TASK, verify="rejection"))
    assert len(scripted.tasks) == 3
    greedy = replace(TASK, temperature=0.0)
    for verify in ("match", "rejection", "match"):
        cache.generate(replace(greedy, verify=verify))
    assert len(scripted.tasks) == 4


def test_an_interrupted_answer_is_not_kept(store: DiskCache) -> None:
    def stopped(task: GenerationTask) -> str:
        raise Interrupted("stopped")

    with pytest.raises(Interrupted):
        cached(store, stopped)[0].generate(TASK)
    assert cached(store)[0].generate(TASK).text == '{"a": 1}'


def test_a_damaged_answer_is_written_anew(store: DiskCache, tmp_path: Path) -> None:
    cache, scripted = cached(store)
    cache.generate(TASK)
    for file in tmp_path.rglob("*"):
        if file.is_file():
            file.write_bytes(file.read_bytes().replace(b"1", b"2"))
    assert cache.generate(TASK).text == '{"a": 1}'
    assert len(scripted.tasks) == 2


SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "x-verbatim": True}, "day": {"type": "string", "format": "date"}},
    "required": ["name", "day"],
}


def page(url: str, name: str = "Honey", *, before: str = "") -> Document:
    texts = [text for text in (before, name, "3/4/2024") if text]
    blocks, start = [], 0
    for number, text in enumerate(texts):
        kind: Any = "other" if text == before else "paragraph"
        blocks.append(Block(kind, text, text, f"p:nth-child({number + 1})", start, start + len(text)))
        start += len(text) + 1
    return Document(url, name, "en", "\n".join(texts), tuple(blocks), (Link("L1", "x", f"{url}/x"),))


def answering(task: GenerationTask) -> str:
    lines = task.prompt.source.split("\n")
    return json.dumps({"name": lines[-2], "day": lines[-1]})


def test_a_record_from_a_recalled_answer_is_that_of_a_fresh_one(store: DiskCache) -> None:
    cache, scripted = cached(store, answering)
    loaded = load_schema(SCHEMA)
    document = page("https://example.com/a")
    fresh = Extractor(ScriptedGenerator(answering), loaded).extract(document)
    filled = Extractor(cache, loaded).extract(document)
    hit = Extractor(cache, loaded).extract(document)
    assert len(scripted.tasks) == 1
    assert fresh.record == filled.record == hit.record
    assert json.dumps(hit.record.value) == json.dumps(fresh.record.value)
    assert (hit.attempt, hit.value) == (fresh.attempt, fresh.value)
    assert (filled.stats.cached, hit.stats.cached) == (False, True)
    assert Extractor(cache, loaded).identity == Extractor(ScriptedGenerator(answering), loaded).identity


def test_values_are_read_by_the_page_at_hand_and_not_by_the_one_before(store: DiskCache) -> None:
    """The model is shown the same on both pages; how their dates are written is another matter."""
    cache, scripted = cached(store, answering)
    loaded = load_schema(SCHEMA)
    british = Extractor(cache, loaded).extract(page("https://example.co.uk/a"))
    american = Extractor(cache, loaded).extract(page("https://example.us/a"))
    assert len(scripted.tasks) == 1
    assert (british.record.value["day"], american.record.value["day"]) == ("2024-04-03", "2024-03-04")


def test_an_answer_without_end_is_remembered_with_the_redraw_that_held(store: DiskCache) -> None:
    def answer(task: GenerationTask) -> str:
        if task.attempt == 0:
            raise RecordInvalid("no end within 1024 tokens", hint="raise max_tokens", code="OUTPUT_LIMIT")
        return answering(task)

    cache, scripted = cached(store, answer)
    loaded = load_schema(SCHEMA)
    first = Extractor(cache, loaded).extract(page("https://example.com/a"))
    again = Extractor(cache, loaded).extract(page("https://example.com/a"))
    assert len(scripted.tasks) == 2
    assert (first.record, first.attempt) == (again.record, again.attempt)
    assert (again.attempt, again.stats.attempts, again.stats.cached_answers, again.stats.cached) == (2, 2, 2, True)


def test_a_page_without_a_record_fails_alike_from_the_cache(store: DiskCache) -> None:
    def answer(task: GenerationTask) -> str:
        raise RecordInvalid("no end within 1024 tokens", hint="raise max_tokens", code="OUTPUT_LIMIT")

    cache, scripted = cached(store, answer)
    lines = []
    for generator in (ScriptedGenerator(answer), cache, cache):
        with pytest.raises(RecordInvalid) as failed:
            Extractor(generator, load_schema(SCHEMA), ExtractionOptions(attempts=2)).extract(page("https://e.com/"))
        lines.append(failed.value.line())
    assert len(set(lines)) == 1
    assert len(scripted.tasks) == 2


@pytest.mark.parametrize("code", ["ANSWER_CUT", "ANSWER_EMPTY", "ANSWER_REFUSED"])
def test_what_a_server_failed_at_is_asked_of_it_again(store: DiskCache, code: str) -> None:
    def answer(task: GenerationTask) -> str:
        raise RecordInvalid("nothing but thoughts", hint="turn the model's thinking off at the server", code=code)

    with pytest.raises(RecordInvalid):
        cached(store, answer)[0].generate(TASK)
    assert cached(store)[0].generate(TASK).text == '{"a": 1}'


def test_everything_else_is_the_generators_own(store: DiskCache) -> None:
    cache, scripted = cached(store)
    assert cache.count_tokens(["a b"]) == [2]
    assert cache.context_length == scripted.context_length
    assert cache.trained_format is None
    assert cache.check_schema({}, "check") == ()
    cache.prepare({"type": "object"})
    cache.close()
    assert (scripted.checked, scripted.prepared, scripted.closed) == (["check"], [{"type": "object"}], True)
