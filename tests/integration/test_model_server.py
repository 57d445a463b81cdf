"""The extraction over a model server: what it is asked, and what becomes of whatever it sends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import fetchly
from fetchly.cli.app import run
from fetchly.errors import (
    ConfigurationError,
    ModelUnavailable,
    PolicyRefused,
    RecordInvalid,
    SchemaError,
)
from fetchly.extraction import server_connection
from fetchly.extraction.extractor import ExtractionOptions, Extractor
from fetchly.extraction.prompt import SYSTEM
from fetchly.extraction.schema import load_schema
from fetchly.extraction.server import ASSUMED_CONTEXT, ServerGenerator
from tests.support.kettle import GOOD, KEY, PAGE, RECORD, SCHEMA, extracted
from tests.support.model_server import ModelServer, Reply, completion, json_answer, refused
from tests.support.site import answer


@pytest.fixture(autouse=True)
def _without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_connection, "FIRST_WAIT_S", 0.0)


def test_a_page_and_a_schema_give_a_valid_record() -> None:
    usage = {"prompt_tokens": 120, "completion_tokens": 21, "prompt_tokens_details": {"cached_tokens": 96}}
    with ModelServer([completion(GOOD, usage=usage)]) as server:
        found = extracted(ServerGenerator(server.url))
    assert found.record.value == RECORD
    assert found.attempt == 1
    assert found.record.evidence["/price"].text == "Price: 1,234.50 €"
    assert (found.stats.prompt_tokens, found.stats.cached_prompt_tokens, found.stats.output_tokens) == (120, 96, 21)
    assert found.stats.decode_ms > 0


def test_what_is_sent() -> None:
    with ModelServer([completion(GOOD)]) as server:
        extracted(ServerGenerator(server.url, api_key=KEY), temperature=0.25, seed=7, max_tokens=300)
        (asked,) = [one for one in server.asked if one.path == "/v1/chat/completions"]
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.headers["content-type"] == "application/json"
    assert asked.body == {
        "model": "tiny",
        "messages": [
            {"role": "system", "content": SYSTEM},
            {
                "role": "user",
                "content": "Kettle\nFields:\n- name (text)\n- price (number): in euros\n- url (id of a link)\n\nPage:\n"
                "Blue Kettle [L1]\nPrice: 1,234.50 €\nRated 4.5 of 5",
            },
        ],
        "response_format": {
            "type": "json_schema",
            "json_schema": {
                "name": "record",
                "strict": True,
                "schema": {
                    "type": "object",
                    "properties": {
                        "name": {"type": ["string", "null"], "maxLength": 1000},
                        "price": {"type": ["string", "null"], "maxLength": 64},
                        "url": {"anyOf": [{"$ref": "#/$defs/page_links"}, {"type": "null"}]},
                    },
                    "required": ["name", "price", "url"],
                    "additionalProperties": False,
                    "$defs": {"page_links": {"enum": ["L1"]}},
                },
            },
        },
        "temperature": 0.25,
        "seed": 7,
        "max_tokens": 300,
        "stream": False,
    }


def test_without_a_key_none_is_sent() -> None:
    with ModelServer([completion(GOOD)]) as server:
        extracted(ServerGenerator(server.url))
        assert all("authorization" not in asked.headers for asked in server.asked)


def test_json_without_a_schema_is_asked_for_by_choice_alone() -> None:
    with ModelServer([completion(f"```json\n{GOOD}\n```")]) as server:
        assert extracted(ServerGenerator(f"{server.url}?format=json_object")).record.value == RECORD
        assert server.bodies()[0]["response_format"] == {"type": "json_object"}


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (completion("There is no kettle."), "ANSWER_UNREADABLE"),
        (completion(GOOD[:-9], finish="length"), "ANSWER_CUT"),
        (completion("<think>A kettle", finish="length"), "ANSWER_CUT"),
        (completion(None, refusal="I may not"), "ANSWER_REFUSED"),
        (completion(""), "ANSWER_EMPTY"),
        (completion(None, reasoning_content="A kettle"), "ANSWER_EMPTY"),
        (completion('{"name": "Blue Kettle", "price": NaN, "url": null}'), "ANSWER_UNREADABLE"),
        (completion('{"name": "Red Kettle", "price": "1,234.50 €", "url": null}'), "NOT_VERBATIM"),
        (completion('{"name": "Blue Kettle", "price": "many", "url": null}'), "RECORD_INVALID"),
        (completion('{"nonsense": true}'), "RECORD_INVALID"),
    ],
)
def test_an_answer_that_does_not_hold_is_drawn_again(bad: bytes, code: str) -> None:
    with ModelServer([bad, completion(f"<think>A kettle.</think>\n\n{GOOD}")]) as server:
        found = extracted(ServerGenerator(server.url), seed=7)
        assert found.record.value == RECORD
        assert found.attempt == 2
        first, second = server.bodies()
    assert (first["temperature"], first["seed"]) == (0.0, 7)
    assert second["temperature"] > 0
    assert second["seed"] != 7
    with ModelServer([bad]) as server, pytest.raises(RecordInvalid) as caught:
        extracted(ServerGenerator(server.url), attempts=1)
    assert caught.value.code == code or (code == "RECORD_INVALID" and caught.value.exit_code == 4)


def test_seeds_of_any_size_fit_a_server() -> None:
    with ModelServer([completion(GOOD)]) as server:
        extracted(ServerGenerator(server.url), seed=10**30)
        assert 0 <= server.bodies()[0]["seed"] < 2**31


def test_the_sdk_takes_an_address_for_a_model_and_pages_stay_public() -> None:
    with ModelServer([completion(GOOD.replace('"L1"', "null"))]) as server, fetchly.Client(server.url) as client:
        result = client.extract(PAGE, SCHEMA)
        assert result.value == {**RECORD, "url": None}
        assert result.identity
        before = len(server.asked)
        with pytest.raises(PolicyRefused):
            client.extract(server.url, SCHEMA)
        assert len(server.asked) == before


def test_what_has_no_meaning_for_a_server_is_said_and_defaults_are_not() -> None:
    def codes(**options: Any) -> list[tuple[str, str]]:
        with fetchly.Client("http://127.0.0.1:9/v1", **options) as client:
            return [(notice.code, notice.message) for notice in client.check(SCHEMA) if notice.warning]

    assert codes() == codes(draft=("auto",), verify="match", device="auto") == []
    (notice,) = codes(draft=(), device="cpu", threads=2, verify="rejection")
    assert notice[0] == "SERVER_OPTION"
    assert "device, threads, draft, verify" in notice[1]


def test_what_is_checked_later_is_told() -> None:
    schema = {"type": "array", "items": {"type": "string", "x-verbatim": True}}
    (notice,) = ServerGenerator("http://127.0.0.1:9/v1").check_schema(schema, "strict")[-1:]
    assert (notice.code, notice.warning) == ("SERVER_CHECKED_LATER", False)
    assert "x-verbatim" in notice.message
    with pytest.raises(SchemaError):
        ServerGenerator("http://127.0.0.1:9/v1").check_schema({"type": "strin"}, "strict")


# Which model, and what it is.


def test_one_of_several_models_is_named() -> None:
    models = [{"id": "org/small"}, {"id": "llama3:latest"}]
    with ModelServer([completion(GOOD)], models) as server:
        for name, served in (("org/small", "org/small"), ("llama3", "llama3:latest")):
            extracted(ServerGenerator(f"{server.url}#{name}"))
            assert server.bodies()[-1]["model"] == served
        extracted(ServerGenerator(server.url, model="org/small"))
        assert server.bodies()[-1]["model"] == "org/small"
        with pytest.raises(ConfigurationError, match="2 models: org/small, llama3:latest") as ambiguous:
            extracted(ServerGenerator(server.url))
        assert "#NAME" in str(ambiguous.value.hint)
        with pytest.raises(ModelUnavailable) as unknown:
            extracted(ServerGenerator(f"{server.url}#org/smal"))
        assert unknown.value.hint == "did you mean org/small?"
    with ModelServer(models=[]) as server, pytest.raises(ModelUnavailable, match="no model loaded"):
        extracted(ServerGenerator(server.url))


def test_a_server_that_lists_no_models_is_believed_the_name() -> None:
    with ModelServer([completion(GOOD)], extra={"/v1/models": refused("404 Not Found", "no")}) as server:
        assert extracted(ServerGenerator(f"{server.url}#m")).record.value == RECORD
        with pytest.raises(ConfigurationError) as caught:
            extracted(ServerGenerator(server.url))
    assert "/v1?" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("entry", "query", "props", "context"),
    [
        ({"max_model_len": 2048}, "", None, 2048),
        ({"max_model_len": 2048}, "?context=1024", None, 1024),
        ({"context_length": 3000}, "", None, 3000),
        ({}, "", None, ASSUMED_CONTEXT),
        ({"meta": {"n_ctx_train": 9000}}, "", None, 9000),
        ({"meta": {"n_ctx_train": 9000}}, "", {"default_generation_settings": {"n_ctx": 4000}}, 4000),
        ({"meta": {"n_ctx_train": 9000}}, "", {"default_generation_settings": {}}, 9000),
    ],
)
def test_the_context_is_what_the_address_or_the_server_says(
    entry: dict[str, Any], query: str, props: Any, context: int
) -> None:
    extra: dict[str, Reply] = {} if props is None else {"/props": json_answer(props)}
    with ModelServer(models=[{"id": "m", **entry}], extra=extra) as server:
        generator = ServerGenerator(server.url + query)
        assert generator.context_length == context
        described = generator.describe()
        assert described["context_length"] == context
        assert described["context_length_is"] == ("assumed" if not entry else "known")


def test_the_page_fits_the_context_that_is_left() -> None:
    with ModelServer([completion(GOOD)], [{"id": "m", "max_model_len": 700}], words=True) as server:
        made = Extractor(ServerGenerator(server.url), load_schema(SCHEMA), ExtractionOptions(max_tokens=400))
        assert made.budget < 300
        with pytest.raises(ConfigurationError) as caught:
            extracted(ServerGenerator(server.url), max_tokens=690)
    assert caught.value.code == "CONTEXT_TOO_SMALL"


def test_the_identity_tells_models_and_contexts_apart_and_holds_no_secret() -> None:
    def identity(entry: dict[str, Any], query: str = "") -> str:
        server.models = [entry]
        return ServerGenerator(server.url + query, api_key=KEY).identity

    with ModelServer() as server:
        seen = [
            identity({"id": "m"}),
            identity({"id": "n"}),
            identity({"id": "m", "root": "/models/two"}),
            identity({"id": "m", "max_model_len": 9000}),
            identity({"id": "m"}, "?format=json_object"),
        ]
        assert len(set(seen)) == len(seen)
        assert identity({"id": "m"}) == seen[0]
        assert identity({"id": "m", "created": 5}) == seen[0]
        assert KEY not in identity({"id": KEY, "root": f"/models/{KEY}"})


# Tokens.


def test_tokens_are_counted_by_the_server_in_one_question() -> None:
    with ModelServer(words=True) as server:
        generator = ServerGenerator(server.url)
        assert generator.count_tokens(["one two three"]) == [3]
        assert generator.count_tokens(["one two three", ""]) == [3, 0]
        counts = generator.count_tokens(["a few words here", "1,234.50", "x " * 40])
        assert sum(counts) >= 45
        assert len(counts) == 3
        assert len(server.bodies("/tokenize")) == 3
        assert generator.count_tokens(["one two three"]) == [3]
        assert len(server.bodies("/tokenize")) == 3
        assert generator.describe()["tokens_are"] == "counted"


@pytest.mark.parametrize(
    "reply",
    [
        refused("404 Not Found", "no"),
        refused("401 Unauthorized", "no"),
        json_answer({"error": "Unexpected endpoint"}),
        json_answer({"count": 10**30}),
        answer(b"<h1>Welcome</h1>"),
    ],
)
def test_without_a_count_the_estimate_is_on_the_safe_side_and_asked_for_once(reply: bytes) -> None:
    with ModelServer(extra={"/tokenize": reply}) as server:
        generator = ServerGenerator(server.url)
        (count,) = generator.count_tokens(["Rated 4.5 of 5"])
        assert count == generator.count_tokens(["Rated 4.5 of 5"])[0] == 9
        assert len(server.bodies("/tokenize")) == 1
        assert generator.describe()["tokens_are"] == "estimated"


# The command line.


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("FETCHLY_API_KEY", KEY)
    (tmp_path / "kettle.html").write_bytes(PAGE)
    (tmp_path / "kettle.json").write_text(json.dumps(SCHEMA))
    return ["extract", "kettle.html", "--schema", "kettle.json", "--render", "never"]


def test_extract_with_a_server(page: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with ModelServer([completion(GOOD.replace('"L1"', "null"))]) as server:
        assert run([*page, "--model", server.url]) == 0
        streams = capsys.readouterr()
        assert json.loads(streams.out) == {**RECORD, "url": None}
        assert streams.err == ""
        assert server.asked[-1].headers["authorization"] == f"Bearer {KEY}"
        assert run([*page, "--model", server.url, "--draft", "none"]) == 0
        assert "draft: this is the model server's affair" in capsys.readouterr().err


def test_a_server_that_wants_another_key(page: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with ModelServer(extra={"/v1/models": refused("401 Unauthorized", f"{KEY} is wrong")}) as server:
        assert run([*page, "--model", server.url]) == 2
    said = capsys.readouterr().err
    assert "FETCHLY_API_KEY" in said
    assert KEY not in said


@pytest.mark.parametrize("command", [["models", "show"], ["doctor", "--model"]])
def test_what_a_server_is(page: list[str], command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with ModelServer() as server:
        assert run([*command, server.url]) == 0
        said = capsys.readouterr().out
        assert server.url in said
        assert "tiny" in said
        assert "8192" in said
    assert run([*command, server.url]) == 6
