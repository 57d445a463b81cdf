"""Both sides on a tiny model and a stand-in: the same prompts, turn by turn, warm where records are written."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fetchly_llm.backends.registry import load_backend
from fetchly_llm.bench.compare import CompareBench
from fetchly_llm.bench.comparison import Compared, CompareOptions, Comparison
from fetchly_llm.bench.own_side import OwnSide
from fetchly_llm.bench.rival import Rival, RivalSettings, rival_library
from fetchly_llm.bench.rival_program import NoRival, RivalProgram
from fetchly_llm.bench.sides import ComparedDocument
from fetchly_llm.config import EngineConfig
from fetchly_llm.engine import Engine
from fetchly_llm.errors import RequestInvalid
from fetchly_llm.prefix_cache import PrefilledPrompt
from fetchly_llm.request import Generation, GenerationRequest
from fetchly_llm.store.entry import ModelFolder
from fetchly_llm.store.model_store import ModelStore
from fetchly_llm.tokenizer import Tokenizer
from tests.support.llama_stand_in import Grammar, LlamaStandIn
from tests.support.tiny_gguf import TinyModel
from tests.support.tiny_model import make_tiny_model

CONFIG = EngineConfig(device="cpu", threads=1, context_length=256, width=4, prefill_chunk=16)
SETTINGS = RivalSettings(256, 1, 1, flash_attention=False)
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"kind": {"enum": ["teapot", "teacup"]}},
    "required": ["kind"],
    "additionalProperties": False,
}
USER_SCHEMA = {**SCHEMA, "title": "Kind"}
SHARED = 32


class RecordingEngine(Engine):
    """Keeps what it was asked."""

    def generate(self, request: GenerationRequest, prefilled: PrefilledPrompt | None = None) -> Generation:
        generation = super().generate(request, prefilled)
        self.asked = [*getattr(self, "asked", []), request]
        self.cached = [*getattr(self, "cached", []), generation.stats.cached_prompt_tokens]
        return generation


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def engine(folder: Path) -> RecordingEngine:
    return RecordingEngine(load_backend(folder, CONFIG), Tokenizer.load(folder), CONFIG)


@pytest.fixture
def library(engine: Engine) -> LlamaStandIn:
    def script(prompt: list[int], grammar: Grammar | None) -> list[int]:
        return engine.tokenizer.encode('{ "kind": "teapot" }' if grammar else "Some words that end after a while.")

    return LlamaStandIn(script, engine.tokenizer.encode, engine.tokenizer.decode_bytes)


def document(name: str, length: int = 48, **more: Any) -> ComparedDocument:
    ids = (*range(10, 10 + SHARED), *(10 + (7 * k + len(name)) % 200 for k in range(length - SHARED)))
    return ComparedDocument(name, "toys", ids, SHARED, SCHEMA, "A teacup", **{"user_schema": USER_SCHEMA, **more})


def run(engine: Engine, library: LlamaStandIn | None, documents: Sequence[ComparedDocument], **more: Any) -> Compared:
    rival = None if library is None else Rival(library, Path("m.gguf"), SETTINGS)
    return Comparison(OwnSide(engine), rival, CompareOptions(**more)).run(documents)


def test_each_measure_gives_a_pair_for_each_document(engine: RecordingEngine, library: LlamaStandIn) -> None:
    compared = run(engine, library, [document("1"), document("22")], decode_tokens=12, max_tokens=40)
    measures = ("prefill", "decode", "decode+grammar", "record")
    assert [(pair.document, pair.measure) for pair in compared.pairs] == [(d, m) for d in ("1", "22") for m in measures]
    assert compared.refusals == ()
    for pair in compared.pairs:
        own, rival = pair.trials.own, pair.trials.rival
        assert rival is not None
        assert own.ms > 0.0
        assert rival.ms > 0.0
        assert own.prompt_tokens == rival.prompt_tokens == 48
        if pair.measure.startswith("decode"):
            assert own.tokens == rival.tokens <= 11
        if pair.measure == "prefill":
            assert own.tokens == rival.tokens == 48
    assert compared.pairs[-1].is_whole


def test_ours_is_plain_where_decoding_is_measured_and_drafts_where_records_are(
    engine: RecordingEngine, library: LlamaStandIn
) -> None:
    run(engine, library, [document("1")], decode_tokens=12, max_tokens=40)
    asked = [(request.schema is None, request.draft, request.sampling.max_tokens) for request in engine.asked]
    assert asked[3:] == [(True, (), 12), (False, (), 12), (False, ("forced", "lookup"), 40)]
    assert {limit for *_, limit in asked[:3]} == {16}  # the warm-up is short


def test_both_prompts_are_the_same_and_a_record_starts_from_what_all_pages_share(
    engine: RecordingEngine, library: LlamaStandIn
) -> None:
    page = document("1")
    run(engine, library, [page], measures=("record",), max_tokens=40)
    assert engine.cached == [SHARED, SHARED]
    assert library.calls == [("eval", 0, page.prompt_ids[:SHARED]), ("generate", SHARED, page.prompt_ids)] * 2


def test_the_sides_take_turns(engine: RecordingEngine, library: LlamaStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    own, rival = OwnSide.prefill, Rival.prefill
    monkeypatch.setattr(OwnSide, "prefill", lambda *a: [order.append("own"), own(*a)][1])
    monkeypatch.setattr(Rival, "prefill", lambda *a: [order.append("rival"), rival(*a)][1])
    run(engine, library, [document("1"), document("22"), document("333")], measures=("prefill",))
    assert order[2:] == ["own", "rival", "rival", "own", "own", "rival"]


def test_the_rival_gets_the_schema_of_the_user(engine: RecordingEngine, library: LlamaStandIn) -> None:
    schemas: list[Any] = []

    def script(prompt: list[int], grammar: Grammar | None) -> list[int]:
        schemas.append(json.loads(grammar.schema) if grammar else None)
        return [50, 51]

    library.script = script
    run(engine, library, [document("1")], measures=("decode", "decode+grammar"))
    assert schemas[2:] == [None, USER_SCHEMA]


def test_what_one_side_refuses_is_part_of_the_result(engine: RecordingEngine, library: LlamaStandIn) -> None:
    refused = document("1", user_schema={"title": "refused"})
    compared = run(engine, library, [document("22"), refused, document("4", length=300)], measures=("record",))
    assert [pair.document for pair in compared.pairs] == ["22"]
    first, second = compared.refusals
    assert first.message == "toys/1: REQUEST_INVALID: llama.cpp: ValueError: no such grammar"
    assert second.message.startswith("toys/4: CONTEXT_TOO_SMALL: the prompt has 300 tokens")


def test_our_side_can_be_measured_alone(engine: RecordingEngine) -> None:
    compared = run(engine, None, [document("1")], decode_tokens=12, max_tokens=40)
    assert len(compared.pairs) == 4
    assert all(pair.trials.rival is None for pair in compared.pairs)


def bench(folder: Path, program: Any) -> CompareBench:
    return CompareBench(ModelFolder("tiny", folder, "digest", str(folder)), CONFIG, program)


def test_a_bench_opens_the_rival_once_it_knows_its_settings_and_closes_it(
    folder: Path, library: LlamaStandIn, tmp_path: Path
) -> None:
    gguf = tmp_path / "m.gguf"
    gguf.write_bytes(b"weights")
    both = bench(folder, RivalProgram(library, gguf, True))
    compared = both.measure([document("1")], CompareOptions(("record",), max_tokens=40))
    (_, total) = both.rows(compared)
    assert library.open_models == 1
    assert {made["n_ctx"] for made in library.made} == {256}
    assert total.facts.rival is not None
    assert total.facts.rival.gguf_sha256 == hashlib.sha256(b"weights").hexdigest()
    assert total.ratio is not None
    both.close()
    assert library.open_models == 0


def test_a_page_is_cut_to_what_the_context_leaves(folder: Path, library: LlamaStandIn, tmp_path: Path) -> None:
    gguf = tmp_path / "m.gguf"
    gguf.touch()
    both = bench(folder, RivalProgram(library, gguf, True))
    both.measure([document("1")], CompareOptions((), max_tokens=40))
    both.warm("Answer in JSON.")
    writing = both.answer("Answer in JSON.", "teacup " * 500, SCHEMA, 40)
    (_, held, prompt) = library.calls[-1]
    assert writing.prompt_tokens == len(prompt) == 256 - 40
    text = both.tokenizer.decode(prompt)
    head = "<|im_start|>system\nAnswer in JSON.<|im_end|>\n<|im_start|>user\n"
    assert text.startswith(head + "teacup teacup")
    assert text.endswith("<|im_end|>\n<|im_start|>assistant\n")
    assert held == len(library.calls[-2][2])
    assert both.tokenizer.decode(library.calls[-2][2]) == head
    frame = both.answer("Answer in JSON.", "", SCHEMA, 40).prompt_tokens
    assert both.answer("Answer in JSON.", "teacup " * 500, SCHEMA, 40, budget=30).prompt_tokens == frame + 30
    with pytest.raises(RequestInvalid, match="take 4"):
        both.answer("Answer in JSON.", "teacup", SCHEMA, 250)


def test_a_file_of_another_model_is_refused(folder: Path, library: LlamaStandIn, tmp_path: Path) -> None:
    gguf = tmp_path / "m.gguf"
    gguf.touch()
    library.encode = lambda text: [1, 2, 3]
    with pytest.raises(RequestInvalid, match="other tokens than tiny"):
        bench(folder, RivalProgram(library, gguf, None)).measure([document("1")], CompareOptions(()))


def test_a_bench_without_a_rival_says_why_and_frees_our_model(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[Engine] = []
    monkeypatch.setattr(Engine, "close", lambda engine: closed.append(engine))
    alone = bench(folder, NoRival("it is not here"))
    assert alone.skipped == "it is not here"
    rows = alone.rows(alone.measure([document("1")], CompareOptions(("prefill",))))
    assert len(closed) == 1
    assert [row.rival for row in rows] == [None, None]
    assert "rival_name" not in rows[0].line()


@pytest.mark.filterwarnings("default")  # the library leaves files open
def test_the_real_llama_cpp_runs_beside_the_same_tiny_model(tmp_path: Path) -> None:
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed: pip install 'fetchly[compare]'")
    gguf = TinyModel().write(tmp_path / "tiny.gguf")
    model = ModelStore(tmp_path / "store").resolve(str(gguf))
    both = CompareBench(model, CONFIG, RivalProgram(rival_library(), gguf, True))
    try:
        compared = both.measure([document("1"), document("22")], CompareOptions(decode_tokens=12, max_tokens=60))
        assert compared.refusals == ()
        rows = {row.measure: row for row in both.rows(compared) if row.set == "all"}
        assert list(rows) == ["prefill", "decode", "decode+grammar", "record"]
        assert all(row.ratio is not None and row.ratio > 0.0 for row in rows.values())
        assert rows["record"].complete == 2
    finally:
        both.close()
