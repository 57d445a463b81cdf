from __future__ import annotations

import json
from typing import Any

import pytest

from fetchly.errors import ConfigurationError, ExtractionError, FetchlyError, RecordInvalid, SchemaError
from fetchly.extraction.server_answers import answer_text, generated, json_of, refusal_of, served_models
from fetchly.extraction.server_connection import ServerAnswer, ServerConnection
from fetchly.extraction.server_reference import ServerReference

URL = "http://h/v1/chat/completions"
KEY = "sk-very-secret"
CONNECTION = ServerConnection(ServerReference("http://h/v1"), KEY)


def answered(status: int, body: Any, media_type: str = "application/json") -> ServerAnswer:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return ServerAnswer(status, media_type, data, None, None)


def chat(content: Any, finish: Any = "stop", **more: Any) -> dict[str, Any]:
    message = {key: more.pop(key) for key in ("refusal", "reasoning_content", "reasoning") if key in more}
    return {"choices": [{"message": {"content": content, **message}, "finish_reason": finish}], **more}


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ('{"a": 1}', '{"a": 1}'),
        (' \n{"a": 1}\n', '{"a": 1}'),
        ('<think>hm {"a": 0}</think>\n\n{"a": 1}', '{"a": 1}'),
        ('<think></think>{"a": 1}', '{"a": 1}'),
        ('so it is</think>{"a": 1}', '{"a": 1}'),
        ('<think>x</think>```json\n{"a": 1}\n```', '{"a": 1}'),
        ('```\n{"a": 1}\n```', '{"a": 1}'),
        ('```JSON\n{"a": 1}```', '{"a": 1}'),
        ('{"a": "</think> and ```json\\n1\\n```"}', '{"a": "</think> and ```json\\n1\\n```"}'),
        ('Here it is: {"a": 1}', 'Here it is: {"a": 1}'),
        ('```json\n{"a": 1}\n```\nor\n```json\n{"a": 2}\n```', '```json\n{"a": 1}\n```\nor\n```json\n{"a": 2}\n```'),
        ('```json\n{"a": 1}\n``` as you asked', '```json\n{"a": 1}\n``` as you asked'),
        ("<think>and then", "<think>and then"),
        ("", ""),
    ],
)
def test_the_answer_of_a_message(content: str, text: str) -> None:
    assert answer_text(content) == text


@pytest.mark.parametrize(
    ("value", "code", "said"),
    [
        (chat('{"a": 1', "length"), "ANSWER_CUT", "cut at max_tokens"),
        (chat(None, "length", reasoning_content="hm"), "ANSWER_CUT", "done thinking"),
        (chat("<think>hm", "length"), "ANSWER_CUT", "done thinking"),
        (chat(None), "ANSWER_EMPTY", "wrote nothing"),
        (chat(" \n"), "ANSWER_EMPTY", "wrote nothing"),
        (chat("", reasoning="hm"), "ANSWER_EMPTY", "but thoughts"),
        (chat("<think>hm"), "ANSWER_EMPTY", "but thoughts"),
        (chat(None, refusal="I will not"), "ANSWER_REFUSED", "I will not"),
        (chat("{}", "content_filter"), "ANSWER_REFUSED", "withheld"),
        (chat("{}", "abort"), "ANSWER_CUT", "'abort'"),
        (chat(None, refusal=f"I will not, {KEY}\x1b[31m"), "ANSWER_REFUSED", "I will not, ***"),
    ],
)
def test_an_answer_that_is_none_is_another_attempt(value: dict[str, Any], code: str, said: str) -> None:
    with pytest.raises(RecordInvalid) as caught:
        generated(value, URL, CONNECTION, 1.0)
    assert caught.value.code == code
    assert said in caught.value.line()
    assert caught.value.line().isprintable()


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"choices": []},
        {"choices": {}},
        {"choices": [1]},
        {"choices": [{"message": None}]},
        {"choices": [{"message": {"content": ["x"]}}]},
    ],
)
def test_what_is_no_completion_is_the_servers_fault(value: dict[str, Any]) -> None:
    with pytest.raises(ExtractionError) as caught:
        generated(value, URL, CONNECTION, 1.0)
    assert caught.value.code == "SERVER_ANSWER"
    assert not isinstance(caught.value, RecordInvalid)


def test_counts_and_times_are_those_that_the_server_says() -> None:
    usage = {"prompt_tokens": 90, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 64}}
    stats = generated(chat("{}", usage=usage), URL, CONNECTION, 12.5).stats
    assert (stats.prompt_tokens, stats.cached_prompt_tokens, stats.output_tokens) == (90, 64, 7)
    assert (stats.prefill_ms, stats.decode_ms) == (0.0, 12.5)
    timings = {"prompt_ms": 3.5, "predicted_ms": 8}
    stats = generated(chat("{}", usage=usage, timings=timings), URL, CONNECTION, 12.5).stats
    assert (stats.prefill_ms, stats.decode_ms) == (3.5, 8.0)


@pytest.mark.parametrize(
    "nonsense", [None, [], "x", {"prompt_tokens": 10**400}, {"prompt_tokens": -1}, {"prompt_tokens": 1e99}]
)
def test_counts_that_are_none_are_not_counted(nonsense: Any) -> None:
    stats = generated(chat("{}", usage=nonsense, timings=nonsense), URL, CONNECTION, 1.0).stats
    assert (stats.prompt_tokens, stats.output_tokens, stats.decode_ms) == (0, 0, 1.0)


@pytest.mark.parametrize(
    ("body", "media_type", "said"),
    [
        (b"<html>", "text/html", "answers with text/html"),
        (b"{}", "", "nothing that is named"),
        (b"{", "application/json", "not JSON"),
        (b"\xff\xfe", "application/json", "not JSON"),
        (b"[" * 100_000, "application/json", "not JSON"),
        (b'{"n": ' + b"9" * 10_000 + b"}", "application/json", "not JSON"),
        (b"[]", "application/json", "no object"),
    ],
)
def test_answers_that_cannot_be_read(body: bytes, media_type: str, said: str) -> None:
    with pytest.raises(ExtractionError, match=said) as caught:
        json_of(answered(200, body, media_type), URL, CONNECTION)
    assert caught.value.where == URL


def test_what_servers_say_of_their_models() -> None:
    value = {
        "data": [
            {"id": "a", "max_model_len": 32768, "root": "/models/a", "parent": None, "created": 1},
            {"id": "b", "context_length": 131072},
            {"id": "c", "meta": {"n_ctx_train": 8192, "n_params": 135_000_000, "size": 99, "vocab_type": 2}},
            {"id": "d", "object": "model"},
        ]
    }
    a, b, c, d = served_models(value, URL)
    assert (a.context_length, b.context_length, c.context_length, d.context_length) == (32768, 131072, None, None)
    assert (a.details, b.details, d.details) == ({"root": "/models/a"}, {}, {})
    assert (c.trained_length, c.details) == (8192, {"n_params": 135_000_000, "size": 99})


@pytest.mark.parametrize("tokens", [0, -1, 10**400, 1e5, True, "8192", [1]])
def test_a_context_length_that_is_none_is_told(tokens: Any) -> None:
    with pytest.raises(ExtractionError, match="context length") as caught:
        served_models({"data": [{"id": "a", "max_model_len": tokens}]}, URL)
    assert "?context=TOKENS" in str(caught.value.hint)


@pytest.mark.parametrize("data", [None, {}, ["a"], [{"id": 1}]])
def test_a_list_of_models_that_is_none(data: Any) -> None:
    with pytest.raises(ExtractionError, match="list of models"):
        served_models({"data": data}, URL)


SCHEMA = {"type": "object", "properties": {"code": {"type": "string", "pattern": "^a$"}}}


@pytest.mark.parametrize(
    ("status", "body", "kind", "code", "said"),
    [
        (401, {"error": {"message": f"Incorrect API key provided: {KEY}"}}, ConfigurationError, "SERVER_KEY", "***"),
        (403, {}, ConfigurationError, "SERVER_KEY", "FETCHLY_API_KEY"),
        (404, {"message": "The model `m` does not exist."}, ConfigurationError, "SERVER_UNKNOWN", "one of its models?"),
        (
            400,
            {"error": {"message": "This model's maximum context length is 2048 tokens."}},
            ExtractionError,
            "CONTEXT_TOO_SMALL",
            "?context=TOKENS",
        ),
        (
            400,
            {"error": {"message": "request (9000 tokens) exceeds the available context size"}},
            ExtractionError,
            "CONTEXT_TOO_SMALL",
            "9000 tokens",
        ),
        (
            400,
            {"object": "error", "message": "Invalid grammar: 'pattern' is not supported"},
            SchemaError,
            "SERVER_SCHEMA",
            "/properties/code/pattern",
        ),
        (422, {"detail": [{"msg": "bad response_format"}]}, SchemaError, "SERVER_SCHEMA", "?format=json_object"),
        (400, {"error": "seed must be positive"}, ExtractionError, "SERVER_REFUSED", "seed must be positive"),
        (400, {"a": {"b": 1}}, ExtractionError, "SERVER_REFUSED", '{"a": {"b": 1}}'),
        (413, b"<h1>Too\x00 large</h1>" * 9999, ExtractionError, "SERVER_REFUSED", "Too large"),
        (500, b"", ExtractionError, "SERVER_FAILED", "HTTP 500"),
    ],
)
def test_an_error_status_has_a_meaning(status: int, body: Any, kind: type[FetchlyError], code: str, said: str) -> None:
    error = refusal_of(answered(status, body), URL, CONNECTION, "m", SCHEMA)
    assert type(error) is kind
    assert error.code == code
    assert said in error.line()
    assert error.retryable is (status >= 500)
    assert KEY not in error.line()
    assert error.line().isprintable()
    assert len(error.line()) < 700
