"""A replay writes the expected answer, whatever is drafted, and refuses what a back-end refuses."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fetchly_llm.bench.replay import ReplayBackend
from fetchly_llm.checkpoint import read_model_config
from fetchly_llm.config import EngineConfig
from fetchly_llm.engine import Engine
from fetchly_llm.errors import CapacityExceeded, RequestInvalid
from fetchly_llm.grammar.prepare import prepare
from fetchly_llm.request import Generation, GenerationRequest, SamplingParams
from fetchly_llm.tokenizer import Tokenizer
from fetchly_llm.tree import DraftTree
from tests.support.tiny_model import TURN_END, make_tiny_model

CONFIG = EngineConfig(width=8, context_length=512, prefill_chunk=16)
CHOICE = {"type": "object", "properties": {"a": {"enum": ["x", "y"]}}, "required": ["a"]}
SOURCE = "The price is 12\nGrüße aus 東京"
PAGE = {
    "type": "object",
    "properties": {
        "price": {"type": ["string", "null"], "x-verbatim": True, "maxLength": 40},
        "note": {"type": "string", "maxLength": 30},
        "tags": {"type": "array", "items": {"type": "string", "x-verbatim": True, "maxLength": 9}, "maxItems": 3},
    },
    "required": ["price", "note", "tags"],
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    folder = make_tiny_model(tmp_path_factory.mktemp("model"))
    tokenizer = Tokenizer.load(folder)
    return Engine(ReplayBackend(read_model_config(folder), tokenizer, CONFIG), tokenizer, CONFIG)


def backend_of(engine: Engine) -> ReplayBackend:
    assert isinstance(engine.backend, ReplayBackend)
    return engine.backend


def replay(engine: Engine, answer: str, schema: dict[str, Any] | None, *draft: str, **sampling: Any) -> Generation:
    backend_of(engine).expect(answer)
    prepared = prepare(schema, mode="check") if schema is not None else None
    return engine.generate(
        GenerationRequest(
            prompt_ids=tuple(engine.tokenizer.encode("The price is 12 and the price is 13")),
            shared_prefix=0,
            schema=prepared.enforced if prepared else None,
            source=SOURCE,
            sampling=SamplingParams(**{"max_tokens": 200, **sampling}),
            allowed_escapes=prepared.allowed_escapes if prepared else None,
            draft=draft,
            cut=True,
        )
    )


@pytest.mark.parametrize("draft", [(), ("forced",), ("lookup",), ("forced", "lookup")])
@pytest.mark.parametrize("temperature", [0.0, 2.0])
@pytest.mark.parametrize(
    ("schema", "answer"),
    [
        (PAGE, '{"price": "12", "note": "naïve \\"東\\" 🫖", "tags": ["Grüße", "aus", "東京"]}'),
        (PAGE, '{"price": null, "note": "", "tags": []}'),
        ({"type": "integer", "minimum": 0, "maximum": 99}, "12"),
        (None, "The price is 12, and that of 東京 is 13.\n"),
    ],
)
def test_an_answer_is_written_to_the_byte_by_every_drafter(
    engine: Engine, schema: dict[str, Any] | None, answer: str, draft: tuple[str, ...], temperature: float
) -> None:
    generation = replay(engine, answer, schema, *draft, temperature=temperature, seed=3)
    assert generation.text == answer
    assert generation.is_complete
    assert generation.token_ids == replay(engine, answer, schema).token_ids


def test_steps_are_those_that_can_be_counted_by_hand(engine: Engine) -> None:
    # { " a ": ' "' are forced, x is a choice, " } are forced again: eight tokens.
    plain = replay(engine, '{"a": "x"}', CHOICE)
    assert [engine.tokenizer.decode([token]) for token in plain.token_ids] == ["{", '"', "a", '":', ' "', "x", '"', "}"]
    assert plain.stats.decode_steps == 8
    # Five drafted tokens and x as the bonus token; then the last two.
    forced = replay(engine, '{"a": "x"}', CHOICE, "forced")
    assert forced.stats.decode_steps == 2
    assert forced.stats.rows == (1 + 5) + (1 + 2)
    assert forced.stats.tokens_by_source == {"forced": 7, "plain": 1}


def test_an_answer_that_the_grammar_forbids_is_not_written(engine: Engine) -> None:
    generation = replay(engine, '{"a": "z"}', CHOICE)
    assert generation.text in ('{"a": "x"}', '{"a": "y"}')


def test_logits_follow_each_path_and_end_where_nothing_is_left(engine: Engine) -> None:
    backend = backend_of(engine)
    backend.expect('":x')
    colon, quote, letter, other = (engine.tokenizer.encode(text)[0] for text in ('":', '"', "x", "y"))
    cache = backend.new_cache(64)
    backend.prefill(cache, [7, 8])
    tree = DraftTree((9, colon, letter, other, quote), (-1, 0, 1, 1, 0), ("plain",) * 5)
    logits = backend.step(cache, tree, (0, 1, 2, 3, 4)).logits
    assert logits.shape == (5, 320)
    best = logits.argmax(axis=1)
    assert best[0] == colon  # the tokenizer's own first token ...
    assert np.argsort(logits[0])[-2] == quote  # ... before the shorter one that also fits
    assert best[1] == letter
    assert logits[2, TURN_END] == logits[2].max() > logits[2, letter]
    assert np.ptp(logits[3]) == 0.0  # off the path anything will do
    assert engine.tokenizer.decode([int(best[4])]) == ":"

    backend.commit(cache, (0, 1))
    fork = backend.fork(cache)
    assert cache.length == fork.length == 4
    assert backend.step(fork, DraftTree.root(letter), (0,)).logits[0].argmax() in (0, TURN_END)
    backend.truncate(fork, 2)
    assert backend.step(fork, DraftTree.root(9), (0,)).logits[0].argmax() == colon
    assert backend.step(cache, DraftTree.root(letter), ()).logits.shape == (0, 320)


def test_of_the_tokens_that_fit_the_tokenizers_own_comes_first_then_longer_ones(engine: Engine) -> None:
    backend = backend_of(engine)
    cache = backend.new_cache(8)

    def ranked(answer: str) -> list[str]:
        backend.expect(answer)
        logits = backend.step(cache, DraftTree.root(9), (0,)).logits[0]
        fitting = np.flatnonzero(logits > logits.min())
        return [engine.tokenizer.decode([int(token)]) for token in fitting[np.argsort(-logits[fitting])]]

    assert ranked("price") == ["price", "pric", "pr", "p"]
    assert ranked('": "') == ['":', '": ', '"']  # a pre-tokenizer splits before the space


def test_what_a_back_end_refuses_is_refused(engine: Engine) -> None:
    backend = backend_of(engine)
    cache = backend.new_cache(4)
    backend.prefill(cache, [1, 2, 3])
    with pytest.raises(RequestInvalid, match="wider"):
        backend.step(cache, DraftTree.chain([1] * 9, "forced"), (0,))
    with pytest.raises(CapacityExceeded):
        backend.step(cache, DraftTree.chain([1, 1], "forced"), (0,))
    with pytest.raises(RequestInvalid, match="no streams"):
        backend.speculate(cache, [])
    with pytest.raises(RequestInvalid, match="width"):
        ReplayBackend(backend.config, engine.tokenizer, EngineConfig(width=0))


def test_no_weights_are_read(tmp_path: Path) -> None:
    folder = make_tiny_model(tmp_path)
    (folder / "model.safetensors").unlink()
    tokenizer = Tokenizer.load(folder)
    engine = Engine(ReplayBackend(read_model_config(folder), tokenizer, CONFIG), tokenizer, CONFIG)
    assert replay(engine, '{"a": "y"}', CHOICE).text == '{"a": "y"}'
