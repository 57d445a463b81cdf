"""Arms side by side on a tiny model: in rotating order, compared byte for byte, cut where the limit is."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fetchly_llm.backends.registry import load_backend
from fetchly_llm.bench.arms import ARMS, choose_arms
from fetchly_llm.bench.measurement import DecodeMeasurement, DecodeOptions, DocumentRun
from fetchly_llm.bench.replay import ReplayBackend
from fetchly_llm.bench.workload import WorkItem
from fetchly_llm.checkpoint import read_model_config
from fetchly_llm.config import EngineConfig
from fetchly_llm.engine import Engine
from fetchly_llm.prefix_cache import PrefilledPrompt
from fetchly_llm.request import Generation, GenerationRequest
from fetchly_llm.tokenizer import Tokenizer
from tests.support.tiny_model import make_tiny_model
from tests.support.tiny_streams import make_tiny_streams

CONFIG = EngineConfig(device="cpu", threads=1, context_length=256, width=4, prefill_chunk=16)
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"kind": {"enum": ["teapot", "teacup", None]}, "in_stock": {"type": "boolean"}},
    "required": ["kind", "in_stock"],
    "additionalProperties": False,
}
TEXT = {"type": "object", "properties": {"note": {"type": "string", "maxLength": 200}}, "required": ["note"]}
DRAFTING = choose_arms(("forced", "lookup", "forced+lookup"), 0, True).arms


class RecordingEngine(Engine):
    """Keeps what it was asked. `lie` changes the tokens of an answer that was drafted from these sources."""

    lie: tuple[str, ...] | None = None

    def generate(self, request: GenerationRequest, prefilled: PrefilledPrompt | None = None) -> Generation:
        self.asked = [*getattr(self, "asked", []), request]
        generation = super().generate(request, prefilled)
        if request.draft == self.lie:
            return replace(generation, token_ids=(*generation.token_ids[:3], 77, *generation.token_ids[4:]))
        return generation


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def engine(folder: Path) -> RecordingEngine:
    return RecordingEngine(load_backend(folder, CONFIG), Tokenizer.load(folder), CONFIG)


def item(engine: Engine, name: str = "1", schema: dict[str, Any] | None = SCHEMA, **more: Any) -> WorkItem:
    prompt = engine.tokenizer.encode(f"Teapot {name}, in stock, as JSON: ")
    return WorkItem(name, "toys", tuple(prompt), schema, "Teapot, in stock", **more)


def measure(
    engine: Engine, items: Sequence[WorkItem], *, one_row: Engine | None = None, arms: Any = DRAFTING, **options: Any
) -> tuple[DocumentRun, ...]:
    return DecodeMeasurement(engine, one_row or engine, arms, DecodeOptions(**options)).run(items)


def test_the_order_of_arms_rotates_and_all_start_from_one_prefill(engine: RecordingEngine) -> None:
    seen: list[str] = []
    measurement = DecodeMeasurement(engine, engine, DRAFTING, DecodeOptions())
    items = [item(engine, str(number)) for number in range(5)]
    runs = measurement.run(items, lambda begun: seen.append(begun.id))
    assert seen == ["0", "1", "2", "3", "4"]
    names = [arm.name for arm in DRAFTING]
    assert [list(run.generations) for run in runs] == [names[k % 5 :] + names[: k % 5] for k in range(5)]
    for run in runs:
        assert run.prefill_tokens == len(run.item.prompt_ids) - 1
        assert all(g.stats.cached_prompt_tokens == run.prefill_tokens for g in run.generations.values())
        assert json.loads(run.generations["none"].text)["kind"] in ("teapot", "teacup", None)
        assert not run.problems


def test_the_warm_up_is_short_and_not_counted(engine: RecordingEngine) -> None:
    runs = measure(engine, [item(engine, schema=TEXT)], max_tokens=40)
    limits = [request.sampling.max_tokens for request in engine.asked]
    assert len(runs) == 1
    assert limits == [16] * len(DRAFTING) + [40] * len(DRAFTING)


def test_an_arm_that_writes_other_tokens_is_found_and_named(engine: RecordingEngine) -> None:
    engine.lie = ("lookup",)
    (run,) = measure(engine, [item(engine, "17")])
    (problem,) = run.problems
    assert (problem.kind, problem.arm) == ("mismatch", "lookup")
    assert problem.message == "toys/17, arm lookup: other tokens from token 3 on"
    assert run.is_measured


def test_rejection_sampling_is_not_compared_and_only_asked_of_drafting_arms(engine: RecordingEngine) -> None:
    engine.lie = ("lookup",)
    (run,) = measure(engine, [item(engine)], verify="rejection", temperature=0.7)
    assert not run.problems
    assert {request.verify for request in engine.asked if request.draft} == {"rejection"}
    assert {request.verify for request in engine.asked if not request.draft} == {"match"}


def test_plain_1_runs_on_its_own_engine_and_is_not_compared(folder: Path, engine: RecordingEngine) -> None:
    narrow = replace(CONFIG, width=1)
    one_row = RecordingEngine(load_backend(folder, narrow), engine.tokenizer, narrow)
    one_row.lie = ()
    (run,) = measure(engine, [item(engine)], one_row=one_row)
    assert [request.draft for request in one_row.asked] == [(), ()]
    assert run.generations["plain-1"].token_ids != run.generations["none"].token_ids
    assert not run.problems


def test_documents_that_come_to_no_end_are_told_apart(engine: RecordingEngine) -> None:
    whole, cut = measure(engine, [item(engine), item(engine, "2", TEXT)], max_tokens=60)
    assert not whole.is_cut
    assert cut.is_cut
    assert {len(generation.token_ids) for generation in cut.generations.values()} == {60}


def test_free_text_has_no_grammar_and_no_forced_arms(engine: RecordingEngine) -> None:
    (run,) = measure(engine, [item(engine, schema=None)], max_tokens=12)
    assert set(run.generations) == {"none", "plain-1", "lookup"}
    assert not run.problems


def test_a_document_that_does_not_fit_is_part_of_the_result(engine: RecordingEngine) -> None:
    long = WorkItem("long", "toys", tuple(range(4, 260)), SCHEMA, "")
    refused, fine = measure(engine, [long, item(engine)])
    (problem,) = refused.problems
    assert problem.kind == "failed"
    assert problem.message.startswith("toys/long: CONTEXT_TOO_SMALL: the prompt has 256 tokens")
    assert not refused.is_measured
    assert fine.is_measured


@pytest.mark.parametrize("stream_mode", ["deferred", "fused"])
@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_streams_change_no_byte(tmp_path: Path, stream_mode: str, temperature: float) -> None:
    folder = make_tiny_model(tmp_path)
    make_tiny_streams(folder)
    engine = RecordingEngine(load_backend(folder, CONFIG), Tokenizer.load(folder), CONFIG)
    (run,) = measure(
        engine, [item(engine, schema=TEXT)], arms=ARMS, stream_mode=stream_mode, temperature=temperature, max_tokens=30
    )
    assert set(run.generations) == {arm.name for arm in ARMS}
    assert not run.problems
    assert run.generations["streams"].stats.proposed_by_source["streams"] > 0
    assert {request.stream_mode for request in engine.asked if request.draft} == {stream_mode}


def test_a_replay_names_the_first_difference_and_does_not_count_the_document(folder: Path) -> None:
    tokenizer = Tokenizer.load(folder)
    config = replace(CONFIG, width=12)
    engine = Engine(ReplayBackend(read_model_config(folder), tokenizer, config), tokenizer, config)
    right, wrong = '{"kind": "teacup", "in_stock": true}', '{"kind": "kettle", "in_stock": true}'
    items = [item(engine, "1", answer=right), item(engine, "2", answer=wrong), item(engine, "3")]
    arms = choose_arms((), 0, has_plain_1=False).arms
    good, bad, without = measure(engine, items, arms=arms)
    assert good.generations["forced+lookup"].text == right
    assert good.is_measured
    (problem,) = bad.problems
    assert problem.kind == "not replayable"
    assert problem.message.startswith("toys/2: at character 10: ")
    assert problem.message.endswith('for \'kettle", "in_stock":\'')
    assert not bad.is_measured
    assert "no expected answer" in without.problems[0].message

    number = {"type": "integer", "minimum": 0, "maximum": 99}
    (early,) = measure(engine, [item(engine, "4", number, answer="123")], arms=arms)
    assert early.generations["none"].text == "12"
    assert early.problems[0].message == "toys/4: at character 2: '' for '3'"

    (cut,) = measure(engine, items[:1], arms=arms, max_tokens=5)
    assert cut.is_cut
    assert not cut.problems
