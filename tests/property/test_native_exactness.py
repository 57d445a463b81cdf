"""Drafts change no byte on the native back-end either, where the number of rows is chosen step by step."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from fetchly_llm.backends.registry import load_backend
from fetchly_llm.config import EngineConfig
from fetchly_llm.cost_curve import CostCurve
from fetchly_llm.engine import Engine
from fetchly_llm.grammar.compiler import GrammarCompiler
from fetchly_llm.tokenizer import Tokenizer
from tests.support.drafters import ADVERSARIES, Drafters
from tests.support.engine_pair import SCHEMAS, page_request
from tests.support.native_kernels import needs_kernels
from tests.support.tiny_model import make_tiny_model

pytestmark = needs_kernels

# Rows cost next to nothing, so that trees grow to their full size; and a good deal, so that they are cut.
CURVES = {
    "wide": CostCurve((1, 16), (1.0, 1.05)),
    "steep": CostCurve((1, 2, 4, 8, 16), (1.0, 1.2, 1.5, 2.2, 3.6)),
}
DRAFTS = (*((name,) for name in ADVERSARIES), ("forced", "lookup"), (*ADVERSARIES, "forced", "lookup"))
TEMPERATURES = (0.0, 0.7, 2.0)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two engines over one back-end: what drafts have learnt in the one, the other does not know."""

    plain: Engine
    drafting: Engine
    drafters: Drafters


@pytest.fixture(scope="module", params=CURVES)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = make_tiny_model(tmp_path_factory.mktemp("native"), "llama", seed=5)
    config = EngineConfig(device="native", threads=2, context_length=320, prefill_chunk=32, prefix_entries=0)
    backend, tokenizer = load_backend(folder, config), Tokenizer.load(folder)
    eos = sorted({*backend.config.eos_token_ids, *tokenizer.eos_token_ids})
    vocab_size = backend.config.vocab_size
    drafters = Drafters(GrammarCompiler(tokenizer.json_text, eos, vocab_size), eos, vocab_size)
    curve = CURVES[request.param]
    drafting = Engine(backend, tokenizer, config, curve=curve, sources=drafters.makers())
    yield Pair(Engine(backend, tokenizer, config, curve=curve), drafting, drafters)
    drafting.close()


@pytest.mark.parametrize("draft", DRAFTS, ids="+".join)
def test_what_is_drafted_changes_no_token(pair: Pair, draft: tuple[str, ...]) -> None:
    lot = random.Random(f"native {draft}")
    rows = []
    for schema in SCHEMAS:
        request = page_request(
            pair.plain.tokenizer,
            schema,
            length=lot.choice((97, 119)),
            temperature=lot.choice(TEMPERATURES),
            seed=lot.randrange(3),
            draft=draft,
        )
        plain = pair.plain.generate(replace(request, draft=()))
        pair.drafters.answer = plain.token_ids
        drafted = pair.drafting.generate(request)
        assert drafted.token_ids == plain.token_ids
        assert drafted.is_complete == plain.is_complete
        assert drafted.stats.decode_steps <= plain.stats.decode_steps
        rows.append(drafted.stats.rows_per_step)
    if draft[0] in ("right", "bushy") or len(draft) > 2:
        assert max(rows) > 1.5, "the drafts were tried"


def test_what_steps_cost_on_a_machine_changes_no_token_of_rejection_sampling(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_tiny_model(tmp_path_factory.mktemp("native"), "llama", seed=5)
    config = EngineConfig(device="native", threads=1, context_length=320, prefill_chunk=32)
    backend, tokenizer = load_backend(folder, config), Tokenizer.load(folder)
    steepest = CostCurve((1, 16), (1.0, 16.0))
    found = []
    for curve in (*CURVES.values(), steepest):
        monkeypatch.setattr("fetchly_llm.engine.load_or_measure", lambda backend, curve=curve: curve)
        engine = Engine(backend, tokenizer, config)
        requests = [
            page_request(tokenizer, schema, length=119, temperature=1.0, seed=3, draft=("forced", "lookup"))
            for schema in SCHEMAS
        ]
        found.append([engine.generate(replace(request, verify="rejection")).token_ids for request in requests])
    assert found[0] == found[1] == found[2]
    backend.close()
