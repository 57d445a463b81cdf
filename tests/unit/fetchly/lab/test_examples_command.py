"""`fetchly lab examples` from its arguments to its file and its summary, with a tokenizer of characters."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fetchly.cli.examples import examples
from fetchly.errors import ConfigurationError, DocumentError
from tests.unit.fetchly.lab.test_examples import Letters, dataset, gold


class LettersGenerator(Letters):
    def __init__(self, *_: Any, **__: Any) -> None:
        self.closed = False

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    monkeypatch.setattr("fetchly.extraction.local.LocalGenerator", LettersGenerator)

    def call(*datasets: Path, **options: Any) -> int:
        defaults = {"output": None, "split": "train", "limit": None, "variants": 1, "structured": 0.5, "budget": None}
        more = {
            "skip": 0,
            "silent": 0.0,
            "longest_answer": 1024,
            "seed": 0,
            "schemas": None,
            "model": None,
            "offline": True,
            "quiet": True,
        }
        return examples(list(datasets), **{**defaults, **more, **options})

    return call


def test_examples_go_to_the_file_and_the_summary_to_stderr(
    tmp_path: Path, run: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    dataset(tmp_path / "things", *(gold(number) for number in (1, 2, 3)))
    dataset(tmp_path / "others", gold(1))
    assert run(tmp_path / "things", tmp_path / "others", output=tmp_path / "x.jsonl", limit=2, variants=2) == 0
    lines = [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()]
    assert [line["set"] for line in lines] == ["things"] * 4 + ["others"] * 2
    captured = capsys.readouterr()
    assert captured.out == ""
    summary = json.loads(captured.err)
    assert (summary["pages"], summary["examples"]) == (3, 6)


def test_the_pages_after_a_sample_are_the_others(tmp_path: Path, run: Callable[..., int]) -> None:
    dataset(tmp_path / "things", *(gold(number) for number in range(1, 6)))
    taken = []
    for skip, limit in ((0, 2), (2, 2), (4, 2), (0, None), (3, None)):
        file = tmp_path / f"{skip}-{limit}.jsonl"
        assert run(tmp_path / "things", output=file, skip=skip, limit=limit) == 0
        taken.append([json.loads(line)["id"] for line in file.read_text().splitlines()])
    assert taken[0] + taken[1] + taken[2] == taken[3]
    assert len(set(taken[3])) == 5
    assert taken[4] == taken[3][3:]
    with pytest.raises(ConfigurationError, match="--skip 5 leaves no page"):
        run(tmp_path / "things", output=tmp_path / "none.jsonl", skip=5)
    assert not (tmp_path / "none.jsonl").exists()


def test_without_a_file_examples_go_to_stdout(
    tmp_path: Path, run: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    dataset(tmp_path / "things", gold(1))
    run(tmp_path / "things")
    assert json.loads(capsys.readouterr().out)["id"] == "p1"


def test_a_run_without_examples_is_an_error_and_leaves_no_file(tmp_path: Path, run: Callable[..., int]) -> None:
    dataset(tmp_path / "things", gold(1, usable=[], missing=[], expected={}))
    with pytest.raises(DocumentError, match="no field has a known answer") as caught:
        run(tmp_path / "things", output=tmp_path / "x.jsonl")
    assert caught.value.code == "NO_EXAMPLES"
    assert not (tmp_path / "x.jsonl").exists()


def test_no_set_is_taken_twice_and_no_file_overwritten(tmp_path: Path, run: Callable[..., int]) -> None:
    things = dataset(tmp_path / "things", gold(1))
    with pytest.raises(ConfigurationError, match="is named twice"):
        run(things.folder, things.folder, output=tmp_path / "x.jsonl")
    assert not (tmp_path / "x.jsonl").exists()
    run(things.folder, output=tmp_path / "x.jsonl")
    before = (tmp_path / "x.jsonl").read_bytes()
    with pytest.raises(ConfigurationError, match="exists already"):
        run(things.folder, output=tmp_path / "x.jsonl", seed=1)
    assert (tmp_path / "x.jsonl").read_bytes() == before
