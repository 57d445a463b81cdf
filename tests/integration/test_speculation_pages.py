"""The embedded model on real pages: whatever is drafted, it writes what plain decoding writes, token by token."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from safetensors.numpy import save_file

from fetchly.document.worker import DocumentReader
from fetchly.extraction.local import LocalGenerator
from fetchly.lab.dataset import Dataset
from fetchly.lab.examples import Example, ExampleMaker, ExampleOptions
from fetchly_llm.backends.native.library import available
from fetchly_llm.backends.registry import load_backend
from fetchly_llm.checkpoint import read_model_config
from fetchly_llm.config import EngineConfig
from fetchly_llm.engine import Engine
from fetchly_llm.grammar.compiler import GrammarCompiler
from fetchly_llm.grammar.prepare import prepare
from fetchly_llm.prefix_cache import PrefilledPrompt
from fetchly_llm.request import Generation, GenerationRequest, SamplingParams, StreamMode
from fetchly_llm.store.model_store import ModelStore
from fetchly_llm.stream_config import STREAMS_FILE, StreamConfig, stream_metadata
from fetchly_llm.tokenizer import Tokenizer
from tests.support.drafters import Drafters
from tests.support.shared_data import shared_path
from tests.support.tiny_streams import random_tensors

pytestmark = pytest.mark.model

SETS = ("recipes", "articles", "products")
TEMPERATURES = (0.0, 0.7)
ARMS = (
    ("forced",),
    ("forced", "lookup"),
    ("random", "wrong", "late"),
    ("forced", "lookup", "streams"),
    ("forced", "lookup", "streams", "random", "illegal", "ends", "deep"),
)
STREAMS = StreamConfig(gamma=4, first_layer=20, taps=(5, 12), insertion_rank=8, lora_rank=4, lora_alpha=4.0, top=32)
OUTPUT = 48


@dataclass(frozen=True, slots=True)
class Loaded:
    """The model, and adversaries that know its grammars."""

    engine: Engine
    drafters: Drafters


@pytest.fixture(scope="module", params=["cpu", "native"])
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loaded]:
    folder = ModelStore().resolve("fetchly-135m").path
    model = read_model_config(folder)
    streams = tmp_path_factory.mktemp("streams") / STREAMS_FILE
    save_file(random_tensors(STREAMS, model), streams, metadata=stream_metadata(STREAMS, model))
    if request.param == "native" and (obstacle := available()) is not None:
        pytest.skip(f"no native kernels: {obstacle}")
    config = EngineConfig(
        device=request.param,
        context_length=2048,
        prefix_entries=0,
        streams_file=streams if request.param == "cpu" else None,
    )
    backend, tokenizer = load_backend(folder, config), Tokenizer.load(folder)
    eos = sorted({*backend.config.eos_token_ids, *tokenizer.eos_token_ids})
    vocab_size = backend.config.vocab_size
    drafters = Drafters(GrammarCompiler(tokenizer.json_text, eos, vocab_size), eos, vocab_size)
    engine = Engine(backend, tokenizer, config, sources=drafters.makers())
    yield Loaded(engine, drafters)
    engine.close()


@pytest.fixture(scope="module")
def examples() -> dict[str, Example]:
    """By set, the first dev page that there is an example of."""
    shared = shared_path()
    if shared is None:
        pytest.skip("the shared pages are not beside this checkout")
    generator = LocalGenerator()
    try:
        with DocumentReader() as reader:
            maker = ExampleMaker(generator, reader.read, ExampleOptions(budget=300))
            return {name: _first(maker, Dataset.open(shared / "data" / name, "dev")) for name in SETS}
    finally:
        generator.close()


def _first(maker: ExampleMaker, dataset: Dataset) -> Example:
    return next(example for record in dataset.records() for example in maker.of(dataset, record))


def asked(example: Example, temperature: float) -> GenerationRequest:
    """As an extraction asks, but for the cut."""
    prepared = prepare(example.schema, mode="check")
    return GenerationRequest(
        prompt_ids=example.prompt_ids,
        shared_prefix=0,
        schema=prepared.enforced,
        allowed_escapes=prepared.allowed_escapes,
        source=example.source,
        sampling=SamplingParams(temperature, seed=3, max_tokens=OUTPUT),
        draft=(),
        cut=True,
    )


@pytest.mark.parametrize("name", SETS)
def test_drafts_change_no_token_of_a_real_page(loaded: Loaded, examples: dict[str, Example], name: str) -> None:
    prefilled: PrefilledPrompt = loaded.engine.prefill(examples[name].prompt_ids)
    moved = 0
    for temperature in TEMPERATURES:
        request = asked(examples[name], temperature)
        plain = loaded.engine.generate(request, prefilled)
        assert plain.stats.acceptance_length <= 1
        loaded.drafters.answer = plain.token_ids
        mode: StreamMode = "fused" if temperature else "deferred"
        for draft in (arm for arm in ARMS if "streams" not in arm or loaded.engine.backend.streams):
            drafted = loaded.engine.generate(replace(request, draft=draft, stream_mode=mode), prefilled)
            assert_same(drafted, plain, draft)
            assert bool(drafted.stats.stream_passes) == ("streams" in draft)
            moved += drafted.stats.moved_rows
    assert moved > 0


def assert_same(drafted: Generation, plain: Generation, draft: tuple[str, ...]) -> None:
    """The same tokens in fewer steps."""
    assert drafted.token_ids == plain.token_ids, draft
    assert drafted.is_complete == plain.is_complete
    assert sum(drafted.stats.tokens_by_source.values()) == len(plain.token_ids)
    assert drafted.stats.decode_steps < plain.stats.decode_steps
    assert sum(drafted.stats.proposed_by_source.values()) > 0
