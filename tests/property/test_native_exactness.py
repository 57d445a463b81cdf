"""Drafts change no byte on the native back-end either, where the number of rows is chosen step by step."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from fetchly_llm.backends.registry import load_backend
from fetchly_llm.config import EngineConfig
from fetchly_llm.cost_curve import CostCurve
from fetchly_llm.engine import Engine
from fetchly_llm.grammar.compiler import GrammarCompiler
from fetchly_llm.request import StreamMode
from fetchly_llm.tokenizer import Tokenizer
from tests.support.drafters import ADVERSARIES, Drafters
from tests.support.engine_pair import SCHEMAS, page_request
from tests.support.native_kernels import needs_kernels
from tests.support.tiny_model import make_tiny_model
from tests.support.tiny_streams import make_fixed_streams, make_tiny_streams, tiny_stream_config

pytestmark = needs_kernels

# Rows and streams cost next to nothing, so that trees grow to their full size; and a good deal, so that they are cut.
CURVES = {
    "wide": CostCurve((1, 16), (1.0, 1.05), (0.01, 0.02, 0.03)),
    "steep": CostCurve((1, 2, 4, 8, 16), (1.0, 1.2, 1.5, 2.2, 3.6), (0.6, 0.7, 1.0)),
}
BUILT_IN = ("forced", "lookup", "streams")
DRAFTS = (*((name,) for name in ADVERSARIES), ("forced", "lookup"), ("streams",), BUILT_IN, (*ADVERSARIES, *BUILT_IN))
TEMPERATURES = (0.0, 0.7, 2.0)
MODES = ("deferred", "fused")


@dataclass(frozen=True, slots=True)
class Pair:
    """The same model without streams and with them; what drafts have learnt in the one, the other does not know."""

    plain: Engine
    drafting: Engine
    drafters: Drafters


@pytest.fixture(scope="module", params=CURVES)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = make_tiny_model(tmp_path_factory.mktemp("native"), "llama", seed=5)
    config = EngineConfig(device="native", threads=2, context_length=320, prefill_chunk=32, prefix_entries=0)
    plain, tokenizer = load_backend(folder, config), Tokenizer.load(folder)
    make_tiny_streams(folder, config=tiny_stream_config(gamma=4))
    backend = load_backend(folder, config)
    assert (plain.streams, backend.streams) == (0, 4)
    eos = sorted({*backend.config.eos_token_ids, *tokenizer.eos_token_ids})
    vocab_size = backend.config.vocab_size
    drafters = Drafters(GrammarCompiler(tokenizer.json_text, eos, vocab_size), eos, vocab_size)
    curve = CURVES[request.param]
    drafting = Engine(backend, tokenizer, config, curve=curve, sources=drafters.makers())
    plain_engine = Engine(plain, tokenizer, config, curve=curve)
    yield Pair(plain_engine, drafting, drafters)
    plain_engine.close()
    drafting.close()


@pytest.mark.parametrize("draft", DRAFTS, ids="+".join)
def test_what_is_drafted_changes_no_token(pair: Pair, draft: tuple[str, ...]) -> None:
    lot = random.Random(f"native {draft}")
    rows, passes = [], 0
    for schema in SCHEMAS:
        request = page_request(
            pair.plain.tokenizer,
            schema,
            length=lot.choice((97, 119)),
            temperature=lot.choice(TEMPERATURES),
            seed=lot.randrange(3),
            draft=draft,
            stream_mode=lot.choice(MODES),
        )
        plain = pair.plain.generate(replace(request, draft=()))
        pair.drafters.answer = plain.token_ids
        drafted = pair.drafting.generate(request)
        assert drafted.token_ids == plain.token_ids
        assert drafted.is_complete == plain.is_complete
        assert drafted.stats.decode_steps <= plain.stats.decode_steps
        rows.append(drafted.stats.rows_per_step)
        passes += drafted.stats.stream_passes
    assert (passes > 0) == ("streams" in draft)
    if draft[0] in ("right", "bushy") or len(draft) > 2:
        assert max(rows) > 1.5, "the drafts were tried"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_streams_and_all_other_sources_change_no_token(pair: Pair, temperature: float, mode: StreamMode) -> None:
    for seed, schema in enumerate(SCHEMAS):
        request = page_request(
            pair.plain.tokenizer,
            schema,
            length=119,
            temperature=temperature,
            seed=seed,
            draft=(*ADVERSARIES, *BUILT_IN),
            stream_mode=mode,
        )
        plain = pair.plain.generate(replace(request, draft=()))
        pair.drafters.answer = plain.token_ids
        drafted = pair.drafting.generate(request)
        assert drafted.token_ids == plain.token_ids
        assert drafted.text == plain.text


@pytest.mark.parametrize("mode", MODES)
def test_tokens_that_streams_propose_are_accepted(tmp_path: Path, mode: StreamMode) -> None:
    """Streams by hand, which name the model's own tokens: what they gain is counted as theirs."""
    folder = make_tiny_model(tmp_path, "llama-untied", seed=5)
    config = EngineConfig(device="native", threads=1, context_length=320, prefill_chunk=32)
    tokenizer = Tokenizer.load(folder)
    request = page_request(tokenizer, "text", length=97, max_tokens=24)
    curve = CURVES["wide"]
    answer = Engine(load_backend(folder, config), tokenizer, config, curve=curve).generate(request).token_ids
    common = max(set(answer), key=answer.count)
    make_fixed_streams(folder, [common] * 4)
    engine = Engine(load_backend(folder, config), tokenizer, config, curve=curve)
    drafted = engine.generate(replace(request, draft=("streams",), stream_mode=mode))
    assert drafted.token_ids == answer
    assert drafted.stats.stream_passes > 0
    assert drafted.stats.tokens_by_source["streams"] > 0
    engine.close()


def test_what_steps_cost_on_a_machine_changes_no_token_of_rejection_sampling(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_tiny_model(tmp_path_factory.mktemp("native"), "llama", seed=5)
    make_tiny_streams(folder)
    config = EngineConfig(device="native", threads=1, context_length=320, prefill_chunk=32)
    backend, tokenizer = load_backend(folder, config), Tokenizer.load(folder)
    steepest = CostCurve((1, 16), (1.0, 16.0), (9.0, 9.0, 9.0))
    found = []
    for curve in (*CURVES.values(), steepest):
        monkeypatch.setattr("fetchly_llm.engine.load_or_measure", lambda backend, curve=curve: curve)
        engine = Engine(backend, tokenizer, config)
        requests = [
            page_request(tokenizer, schema, length=119, temperature=1.0, seed=3, draft=BUILT_IN, stream_mode=mode)
            for schema in SCHEMAS
            for mode in MODES
        ]
        found.append([engine.generate(replace(request, verify="rejection")).token_ids for request in requests])
    assert found[0] == found[1] == found[2]
    backend.close()
