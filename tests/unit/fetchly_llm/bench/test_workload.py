"""Files of examples and prompts, each known shape, and what is wrong with other ones."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from fetchly_llm.bench.workload import WorkItem, example_item, read_examples, read_prompts
from fetchly_llm.errors import RequestInvalid
from fetchly_llm.request import Message
from fetchly_llm.tokenizer import Tokenizer
from tests.support.tiny_model import make_tiny_model

EXAMPLE: dict[str, Any] = {
    "id": "p1",
    "set": "things",
    "variant": 0,
    "structured": True,
    "prompt_ids": [1, 2, 3],
    "schema": {"type": "boolean"},
    "source": "a page",
    "answer": "true",
    "versions": {"format": "9", "model": "abc"},
}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return Tokenizer.load(make_tiny_model(tmp_path_factory.mktemp("model")))


def write(file: Path, *lines: object) -> Path:
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    file.write_bytes(gzip.compress(text.encode(), mtime=0) if file.suffix == ".gz" else text.encode())
    return file


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz"])
def test_examples_are_items_of_their_set(tmp_path: Path, name: str) -> None:
    file = write(tmp_path / name, EXAMPLE, "", {**EXAMPLE, "variant": 2})
    first, second = read_examples(file)
    assert first == WorkItem("p1", "things", (1, 2, 3), {"type": "boolean"}, "a page", "true", "abc")
    assert second.id == "p1#2"
    assert example_item(EXAMPLE) == first


@pytest.mark.parametrize(
    ("line", "id_", "text"),
    [
        ({"question_id": 81, "category": "writing", "turns": ["First.", "Second."]}, "81", "First."),
        ({"task_id": "HumanEval/0", "prompt": "def f():\n", "test": "x"}, "HumanEval/0", "def f():\n"),
        ({"question": "How many?", "answer": "2"}, "1", "How many?"),
        ({"prompt": "Say it."}, "1", "Say it."),
        ({"prompt": "Say it.", "id": "mine"}, "mine", "Say it."),
    ],
)
def test_every_known_shape_of_prompt_is_one_user_turn_of_a_chat(
    tmp_path: Path, tokenizer: Tokenizer, line: dict[str, Any], id_: str, text: str
) -> None:
    (item,) = read_prompts(write(tmp_path / "some_prompts.jsonl.gz", line), tokenizer)
    assert item == WorkItem(id_, "some_prompts", tokenizer.chat([Message("user", (text,))]).ids)
    assert text in tokenizer.decode(item.prompt_ids)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"text": "Hello"}, r"no known shape of prompt \(keys: text\)"),
        ({"question_id": 1, "turns": []}, "empty or no text"),
        ({"question_id": 1, "turns": [3]}, "empty or no text"),
        ({"question_id": 1, "turns": "Hello"}, "'turns' is str, not list"),
        ({"prompt": " "}, "empty or no text"),
        ({"prompt": 7}, "'prompt' is int, not str"),
        ("[1]", "not a JSON object"),
        ("{", "not JSON"),
    ],
)
def test_a_prompt_that_cannot_be_read_is_named_with_file_and_line(
    tmp_path: Path, tokenizer: Tokenizer, line: object, message: str
) -> None:
    file = write(tmp_path / "p.jsonl", {"prompt": "fine"}, line)
    with pytest.raises(RequestInvalid, match=message) as caught:
        list(read_prompts(file, tokenizer))
    assert f"{file}:2: " in caught.value.message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompt_ids": []}, "'prompt_ids'"),
        ({"prompt_ids": [1, "2"]}, "'prompt_ids'"),
        ({"prompt_ids": [True]}, "'prompt_ids'"),
        ({"schema": None}, "'schema' is NoneType, not dict"),
        ({"answer": 3}, "'answer' is int, not str"),
    ],
)
def test_an_example_that_is_none_is_named_with_file_and_line(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    file = write(tmp_path / "x.jsonl", {**EXAMPLE, **change})
    with pytest.raises(RequestInvalid, match=message) as caught:
        list(read_examples(file))
    assert f"{file}:1: " in caught.value.message
    missing = {key: value for key, value in EXAMPLE.items() if key not in change}
    with pytest.raises(RequestInvalid, match="is missing"):
        example_item(missing)


def test_a_file_that_is_no_gzip_or_ends_early_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl.gz").write_bytes(b"plain")
    with pytest.raises(RequestInvalid, match=r"x\.jsonl\.gz: cannot be read after line 0"):
        list(read_examples(tmp_path / "x.jsonl.gz"))
    whole = gzip.compress((json.dumps(EXAMPLE) + "\n").encode(), mtime=0)
    (tmp_path / "x.jsonl.gz").write_bytes(whole[:-10])
    with pytest.raises(RequestInvalid, match="cannot be read"):
        list(read_examples(tmp_path / "x.jsonl.gz"))
