"""The tokens that an answer is learnt in are those that decoding would write it in."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fetchly_llm.bench.replay import ReplayBackend
from fetchly_llm.checkpoint import read_model_config
from fetchly_llm.config import EngineConfig
from fetchly_llm.engine import Engine
from fetchly_llm.errors import RequestInvalid
from fetchly_llm.grammar.prepare import prepare
from fetchly_llm.request import GenerationRequest, SamplingParams
from fetchly_llm.tokenizer import Tokenizer
from fetchly_llm.training.answer_path import AnswerPath, answer_path
from tests.support.tiny_model import TURN_END, make_tiny_model

PAGE = "the price is 12\nein Käse aus Åre 日本\n"
RECORD = {
    "type": "object",
    "properties": {
        "price": {"type": ["string", "null"], "x-verbatim": True},
        "name": {"type": ["string", "null"], "x-verbatim": True},
        "kind": {"enum": ["the price", "a price"]},
        "count": {"type": ["integer", "null"]},
    },
    "required": ["price", "name", "kind", "count"],
    "additionalProperties": False,
}
ANSWERS: list[tuple[dict[str, Any], Any]] = [
    (RECORD, {"price": "12", "name": "Käse aus Åre 日本", "kind": "a price", "count": 3}),
    (RECORD, {"price": None, "name": "the price is", "kind": "the price", "count": None}),
    ({"type": "array", "items": {"type": "string", "x-verbatim": True}, "maxItems": 4}, ["price", "Käse"]),
    ({"type": "string"}, 'a "quoted" line\nand Ärger'),
]


@pytest.fixture(scope="module")
def replay(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    folder = make_tiny_model(tmp_path_factory.mktemp("tiny"))
    tokenizer, config = Tokenizer.load(folder), EngineConfig(width=1, prefill_chunk=16)
    return Engine(ReplayBackend(read_model_config(folder), tokenizer, config), tokenizer, config)


def walked(engine: Engine, schema: dict[str, Any], answer: str) -> AnswerPath:
    prepared = prepare(schema, mode="check")
    grammar = engine.compile(prepared.enforced, PAGE, prepared.allowed_escapes)
    return answer_path(grammar, engine.tokenizer, TURN_END, answer)


@pytest.mark.parametrize(("schema", "value"), ANSWERS)
def test_the_path_is_what_decoding_writes(replay: Engine, schema: dict[str, Any], value: Any) -> None:
    answer = json.dumps(value, ensure_ascii=False)
    path = walked(replay, schema, answer)
    prepared = prepare(schema, mode="check")
    backend = replay.backend
    assert isinstance(backend, ReplayBackend)
    backend.expect(answer)
    written = replay.generate(
        GenerationRequest(
            prompt_ids=(5, 6),
            shared_prefix=0,
            schema=prepared.enforced,
            allowed_escapes=prepared.allowed_escapes,
            source=PAGE,
            sampling=SamplingParams(max_tokens=400),
            draft=(),
        )
    )
    tokens = [token for token in path.tokens if token != TURN_END]
    assert replay.tokenizer.decode(tokens) == answer == written.text
    assert tuple(tokens) == tuple(token for token in written.token_ids if token != TURN_END)


def test_only_choices_are_learnt(replay: Engine) -> None:
    answer = json.dumps({"price": "12", "name": None, "kind": "a price", "count": 3})
    path = walked(replay, RECORD, answer)
    parts = {True: "", False: ""}
    for token, chosen in zip(path.tokens, path.chosen, strict=True):
        parts[chosen] += replay.tokenizer.decode([token])
    assert parts[False].startswith('{"price":')
    assert '"name":' in parts[False]
    assert "null" in parts[True]
    assert "count" not in parts[True]


def test_an_end_is_learnt_where_the_text_could_go_on(replay: Engine) -> None:
    number = walked(replay, {"type": "integer"}, "12")
    assert number.tokens[-1] == TURN_END
    assert number.chosen[-1]
    assert walked(replay, {"type": "boolean"}, "true").tokens[-1] != TURN_END


@pytest.mark.parametrize(
    ("schema", "answer"),
    [
        ({"type": "string", "x-verbatim": True}, '"nowhere on the page"'),
        ({"type": "boolean"}, "maybe"),
        ({"type": "object", "properties": {"a": {"type": "null"}}, "required": ["a"]}, '{"a": null'),
    ],
)
def test_an_answer_that_cannot_be_written_is_refused(replay: Engine, schema: dict[str, Any], answer: str) -> None:
    with pytest.raises(RequestInvalid, match="does not let the answer be written"):
        walked(replay, schema, answer)
