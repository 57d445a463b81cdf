"""The step loop on a tiny random model: valid, repeatable, independent of drafts and of the prefix cache."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fetchly_llm.backends.registry import load_backend
from fetchly_llm.config import EngineConfig
from fetchly_llm.cost_curve import CostCurve
from fetchly_llm.draft_choice import Pace, StreamGain, choose
from fetchly_llm.engine import Engine
from fetchly_llm.errors import Cancelled, CapacityExceeded, OutputLimit, RequestInvalid
from fetchly_llm.grammar.prepare import prepare
from fetchly_llm.request import Generation, GenerationRequest, Message, SamplingParams
from fetchly_llm.tokenizer import Tokenizer
from tests.support.tiny_model import make_tiny_model
from tests.support.tiny_streams import make_tiny_streams

SOURCE = "Hazel teapot\nOnly 48.50 today\nby Orla Finch"
SCHEMA = {
    "type": "object",
    "properties": {
        "product_name": {"type": ["string", "null"], "x-verbatim": True, "maxLength": 40},
        "kind": {"enum": ["teapot", "teacup", None]},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 6}, "maxItems": 3},
        "in_stock": {"type": "boolean"},
    },
    "required": ["product_name", "kind", "tags", "in_stock"],
}
CONFIG = EngineConfig(device="cpu", threads=1, context_length=512, width=4, prefill_chunk=16, prefix_entries=2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def engine(folder: Path) -> Iterator[Engine]:
    loaded = Engine.load(folder, CONFIG)
    yield loaded
    loaded.close()


def request(engine: Engine, page: str = SOURCE, schema: dict[str, Any] = SCHEMA, **changes: Any) -> GenerationRequest:
    task = "Fields: " + ", ".join(schema.get("properties", {"value": None}))
    prompt = engine.tokenizer.chat([Message("system", ("Extract.",)), Message("user", (task, page))])
    sampling = {name: changes.pop(name) for name in ("temperature", "seed", "attempt", "max_tokens") if name in changes}
    return GenerationRequest(
        prompt_ids=prompt.ids,
        shared_prefix=prompt.segment_ends[1],
        schema=prepare(schema, mode="strict").enforced,
        source=page,
        sampling=SamplingParams(**{"max_tokens": 300, **sampling}),
        **changes,
    )


def complete(generation: Generation) -> dict[str, Any]:
    value = json.loads(generation.text)
    assert list(value) == list(SCHEMA["properties"])  # type: ignore[call-overload]
    assert value["product_name"] is None or any(value["product_name"] in line for line in SOURCE.splitlines())
    assert generation.stats.output_tokens == len(generation.token_ids)
    return dict(value)


@pytest.mark.parametrize("temperature", [0.0, 0.7, 2.0])
def test_a_record_is_complete_in_our_layout_and_the_same_with_and_without_drafts(
    engine: Engine, temperature: float
) -> None:
    for seed in range(4):
        drafted = engine.generate(request(engine, temperature=temperature, seed=seed))
        plain = engine.generate(request(engine, temperature=temperature, seed=seed, draft=()))
        value = complete(drafted)
        assert drafted.text == json.dumps(value, ensure_ascii=False)
        assert drafted.token_ids == plain.token_ids
        assert plain.stats.decode_steps == plain.stats.output_tokens
        assert drafted.stats.decode_steps < plain.stats.decode_steps
        assert drafted.stats.tokens_by_source["forced"] > 0


def test_the_same_request_gives_the_same_bytes_and_another_seed_or_attempt_others(engine: Engine) -> None:
    def text(**changes: Any) -> str:
        return engine.generate(request(engine, temperature=2.0, **changes)).text

    first = text(seed=1)
    assert text(seed=1) == first
    assert len({first, text(seed=2), text(seed=3), text(seed=1, attempt=1), text(seed=1, attempt=2)}) > 1


def test_cold_warm_and_foreign_prefixes_give_the_same_bytes(folder: Path) -> None:
    other_schema = {"type": "object", "properties": {"x": {"type": "boolean"}}, "required": ["x"]}

    def run(engine: Engine) -> Generation:
        return engine.generate(request(engine, temperature=1.0, seed=5))

    cold = Engine.load(folder, CONFIG)
    first, warm = run(cold), run(cold)
    assert first.stats.cached_prompt_tokens == 0
    assert warm.stats.cached_prompt_tokens >= CONFIG.prefill_chunk
    assert warm.stats.cached_prompt_tokens % CONFIG.prefill_chunk == 0

    foreign = Engine.load(folder, CONFIG)
    foreign.generate(request(foreign, schema=other_schema))
    after_foreign = run(foreign)
    uncached = Engine.load(folder, EngineConfig(**{**_as_dict(CONFIG), "prefix_entries": 0}))
    assert first.token_ids == warm.token_ids == after_foreign.token_ids == run(uncached).token_ids
    assert run(uncached).stats.cached_prompt_tokens == 0


def _as_dict(config: EngineConfig) -> dict[str, Any]:
    return {name: getattr(config, name) for name in EngineConfig.__dataclass_fields__}


def test_a_top_level_number_ends_by_the_end_of_sequence(engine: Engine) -> None:
    schema = {"type": "integer", "minimum": 0, "maximum": 99}
    for seed in range(5):
        generation = engine.generate(request(engine, schema=schema, temperature=2.0, seed=seed))
        plain = engine.generate(request(engine, schema=schema, temperature=2.0, seed=seed, draft=()))
        assert 0 <= json.loads(generation.text) <= 99
        assert generation.token_ids == plain.token_ids


def test_the_token_limit_is_an_error_and_the_same_one_whatever_is_drafted(engine: Engine) -> None:
    needed = engine.generate(request(engine)).stats.output_tokens
    for draft in ((), ("forced",)):
        assert engine.generate(request(engine, max_tokens=needed, draft=draft)).stats.output_tokens == needed
        with pytest.raises(OutputLimit, match=f"{needed - 1} tokens"):
            engine.generate(request(engine, max_tokens=needed - 1, draft=draft))


def test_a_prompt_that_leaves_no_room_is_refused_before_and_during_writing(engine: Engine) -> None:
    with pytest.raises(CapacityExceeded):
        engine.generate(request(engine, page="word " * 600))
    fits = request(engine)
    padded = (*fits.prompt_ids[:-1], *fits.prompt_ids[:-1], *fits.prompt_ids)
    long = (padded * 4)[: engine.context_length - 5]
    with pytest.raises(CapacityExceeded, match="fill the context"):
        engine.generate(
            GenerationRequest(long, 0, fits.schema, fits.source, SamplingParams(max_tokens=300), fits.allowed_escapes)
        )


def test_a_request_can_be_withdrawn(engine: Engine) -> None:
    asked = iter([False, False, True])
    with pytest.raises(Cancelled):
        engine.generate(request(engine, should_stop=lambda: next(asked)))
    complete(engine.generate(request(engine)))


def test_every_token_is_reported_as_it_is_written(engine: Engine) -> None:
    heard: list[int] = []
    generation = engine.generate(request(engine, on_token=heard.append))
    assert tuple(heard) == generation.token_ids


@pytest.mark.parametrize(
    "changes",
    [{"draft": ("psychic",)}, {"draft": ("auto", "lookup")}, {"temperature": -1.0}, {"seed": -1}, {"max_tokens": 0}],
)
def test_a_request_that_makes_no_sense_is_refused(engine: Engine, changes: dict[str, Any]) -> None:
    with pytest.raises(RequestInvalid):
        engine.generate(request(engine, **changes))


def test_a_closed_engine_refuses_and_closes_twice(folder: Path) -> None:
    engine = Engine.load(folder, CONFIG)
    asked = request(engine)
    engine.close()
    engine.close()
    with pytest.raises(RequestInvalid, match="closed"):
        engine.generate(asked)


def test_other_widths_and_chunks_still_write_complete_records(folder: Path) -> None:
    for width, chunk in ((1, 8), (9, 32)):
        config = EngineConfig(**{**_as_dict(CONFIG), "width": width, "prefill_chunk": chunk})
        engine = Engine(load_backend(folder, config), Tokenizer.load(folder), config)
        complete(engine.generate(request(engine)))


@pytest.mark.parametrize("changes", [{"verify": "rejektion"}, {"stream_mode": "melted"}, {"draft": ("streams",)}])
def test_a_way_of_drafting_that_is_not_there_is_refused_and_not_replaced(
    engine: Engine, changes: dict[str, Any]
) -> None:
    with pytest.raises(RequestInvalid):
        engine.generate(request(engine, **changes))


def test_rejection_sampling_gives_the_same_text_for_the_same_seed_whatever_came_before(engine: Engine) -> None:
    def text() -> tuple[int, ...]:
        asked = request(engine, temperature=1.0, seed=4, verify="rejection", draft=("forced", "lookup"))
        return engine.generate(asked).token_ids

    first = text()
    for seed in range(3):
        engine.generate(request(engine, temperature=1.0, seed=seed, draft=("forced", "lookup")))
    assert text() == first


@pytest.mark.parametrize(("pass_ms", "sources"), [(0.1, {"forced", "lookup", "streams"}), (9.0, {"forced", "lookup"})])
def test_auto_drafts_by_what_pays_and_writes_the_same(
    folder: Path, tmp_path: Path, pass_ms: float, sources: set[str]
) -> None:
    config = EngineConfig(
        **{**_as_dict(CONFIG), "streams_file": make_tiny_streams(Path(shutil.copytree(folder, tmp_path / "m")))}
    )
    curve = CostCurve((1, 2, 4), (1.0, 1.1, 1.3), (pass_ms, pass_ms))
    gain = StreamGain(Pace(2.0, 3.0), Pace(3.0, 3.0, 0.5), 5)
    engine = Engine(load_backend(folder, config), Tokenizer.load(folder), config, curve=curve, gain=gain)
    # Here steps have a width and no curve; what counts is what the choice is made of.
    engine.draft_choice = choose(engine.backend.streams, gain, curve)
    assert set(engine.draft_choice.sources) == sources
    drafted = engine.generate(request(engine, draft=("auto",)))
    assert (drafted.stats.stream_passes > 0) == ("streams" in sources)
    assert drafted.token_ids == engine.generate(request(engine, draft=())).token_ids
    again = [
        engine.generate(request(engine, draft=draft, temperature=0.8, verify="rejection")).token_ids
        for draft in (("auto",), ("forced", "lookup"))
    ]
    assert again[0] == again[1]  # whatever pays here
    engine.close()


def test_auto_on_steps_of_a_width_is_forced_and_lookup(engine: Engine) -> None:
    assert engine.draft_choice.sources == ("forced", "lookup")
    asked = engine.generate(request(engine, draft=("auto",)))
    named = engine.generate(request(engine, draft=("forced", "lookup")))
    assert asked.stats.tokens_by_source == named.stats.tokens_by_source
