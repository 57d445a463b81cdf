"""Lines of examples in, a token file out and back; what does not fit is named or counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fetchly_llm.errors import RequestInvalid
from fetchly_llm.tokenizer import Tokenizer
from fetchly_llm.training.preparation import Preparation
from fetchly_llm.training.token_file import TokenExamples, read_token_files, write_token_file
from tests.support.tiny_model import make_tiny_model

SCHEMA = {"type": "object", "properties": {"a": {"type": "string", "x-verbatim": True}}, "required": ["a"]}


def line(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "id": f"p{number}",
        "set": "odd" if number % 2 else "even",
        "variant": 0,
        "structured": False,
        "prompt_ids": [5, 6, 7 + number],
        "schema": SCHEMA,
        "source": "the price is high",
        "answer": '{"a": "the price"}',
        "versions": {"format": "f1", "model": "m1"},
        **changes,
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("tiny"))


def written(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(entry) + "\n" for entry in lines), encoding="utf-8")
    return path


def test_prompts_and_answers_come_back_as_they_were(folder: Path, tmp_path: Path) -> None:
    source = written(tmp_path / "a.jsonl", [line(number) for number in range(5)])
    preparation = Preparation(folder, "m1", {})
    made = preparation.run([source])
    write_token_file(tmp_path / "t.safetensors", made)
    found = read_token_files([tmp_path / "t.safetensors"])
    assert (found.model, found.format) == ("m1", "f1")
    tokenizer = Tokenizer.load(folder)
    for number, example in zip((0, 2, 4, 1, 3), found.examples, strict=True):  # set by set
        assert example.tokens[: example.prompt].tolist() == [5, 6, 7 + number]
        answer = example.tokens[example.prompt :].tolist()
        assert tokenizer.decode(answer) == '{"a": "the price"}'
        assert not example.chosen[: example.prompt].any()
        assert example.chosen.any()
        assert example.name == f"{example.set}/p{number}#0"
    assert preparation.tally.summary()["examples"] == 5


def test_a_bound_takes_the_same_examples_of_a_set_every_time(folder: Path, tmp_path: Path) -> None:
    source = written(tmp_path / "a.jsonl", [line(number) for number in range(20)])
    taken = [example.name for example in Preparation(folder, "m1", {"odd": 3}).run([source]).examples]
    assert len([name for name in taken if name.startswith("odd/")]) == 3
    assert len([name for name in taken if name.startswith("even/")]) == 10
    assert taken == [example.name for example in Preparation(folder, "m1", {"odd": 3}).run([source]).examples]
    more = {example.name for example in Preparation(folder, "m1", {"odd": 5}).run([source]).examples}
    assert set(taken) < more


def test_an_answer_that_its_grammar_cannot_write_is_dropped_and_counted(folder: Path, tmp_path: Path) -> None:
    source = written(tmp_path / "a.jsonl", [line(0), line(1, answer='{"a": "elsewhere"}')])
    preparation = Preparation(folder, "m1", {})
    assert len(preparation.run([source]).examples) == 1
    assert preparation.tally.dropped.total() == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"versions": {"format": "f1", "model": "m2"}}, "tokens of another model"),
        ({"versions": {"format": "f2", "model": "m1"}}, "another format than f1"),
        ({"versions": {}}, "does not say 'format'"),
        ({"answer": 5}, "'answer' is int"),
        ({"prompt_ids": [3, -1]}, "'prompt_ids' is not a list of the model's token ids"),
        ({"prompt_ids": [3, 320]}, "'prompt_ids' is not a list of the model's token ids"),
        ({"prompt_ids": [3, 10**30]}, "'prompt_ids' is not a list of the model's token ids"),
    ],
)
def test_lines_that_do_not_belong_are_named(folder: Path, tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    source = written(tmp_path / "a.jsonl", [line(0), line(1, **changes)])
    with pytest.raises(RequestInvalid, match=f"a.jsonl:2.*{words}"):
        Preparation(folder, "m1", {}).run([source])


def test_an_unknown_set_is_named(folder: Path, tmp_path: Path) -> None:
    source = written(tmp_path / "a.jsonl", [line(0)])
    with pytest.raises(RequestInvalid, match="no set 'recipies'"):
        Preparation(folder, "m1", {"recipies": 3}).run([source])


def test_token_files_that_are_none_or_of_two_models(folder: Path, tmp_path: Path) -> None:
    made = Preparation(folder, "m1", {}).run([written(tmp_path / "a.jsonl", [line(0)])])
    write_token_file(tmp_path / "one.safetensors", made)
    write_token_file(tmp_path / "two.safetensors", TokenExamples("m2", "f1", made.examples))
    with pytest.raises(RequestInvalid, match="different models"):
        read_token_files([tmp_path / "one.safetensors", tmp_path / "two.safetensors"])
    with pytest.raises(FileExistsError):
        write_token_file(tmp_path / "one.safetensors", made)
    broken = tmp_path / "broken.safetensors"
    data = (tmp_path / "one.safetensors").read_bytes()
    for damaged in (b"", b"not a file", data[:-7], data.replace(b"fetchly-tokens-1", b"fetchly-tokens-2")):
        broken.write_bytes(damaged)
        with pytest.raises(RequestInvalid, match="no prepared examples"):
            read_token_files([broken])
    with pytest.raises(RequestInvalid, match="no example"):
        read_token_files([])


def test_files_without_a_line(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(RequestInvalid, match="no example to prepare"):
        Preparation(folder, "m1", {}).run([written(tmp_path / "a.jsonl", [])])


def test_lone_surrogates_are_counted_in_an_answer_and_kept_in_a_name(folder: Path, tmp_path: Path) -> None:
    source = written(tmp_path / "a.jsonl", [line(0, answer="\ud800"), line(2, id="\ud800")])
    preparation = Preparation(folder, "m1", {})
    assert [example.name for example in preparation.run([source]).examples] == ["even/\ud800#0"]
    assert preparation.tally.dropped == {"the answer has a lone surrogate, which no text has": 1}


def test_wide_vocabularies_are_kept(tmp_path: Path) -> None:
    folder = make_tiny_model(tmp_path / "wide", vocab_size=100_001)
    made = Preparation(folder, "m1", {}).run([written(tmp_path / "a.jsonl", [line(0, prompt_ids=[100_000, 2])])])
    write_token_file(tmp_path / "t.safetensors", made)
    (found,) = read_token_files([tmp_path / "t.safetensors"]).examples
    assert found.tokens.dtype == np.int32
    assert found.tokens[0] == 100_000
