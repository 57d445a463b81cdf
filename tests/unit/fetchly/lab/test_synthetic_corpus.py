"""A corpus of invented pages is a dataset like any other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from fetchly.cli.synthesize import synthesize
from fetchly.errors import ConfigurationError, OutputError
from fetchly.lab.dataset import Dataset
from fetchly.lab.synthetic.corpus import MOST_PAGES, page_seed, write_corpus
from fetchly.lab.synthetic.pages import generate


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_corpus_is_read_as_a_dataset(tmp_path: Path) -> None:
    seen: list[str] = []
    write_corpus(tmp_path / "set", 30, 4, seen.append)
    dataset = Dataset.open(tmp_path / "set", "train")
    records = {record.id: record for record in dataset.records()}
    assert records.keys() == set(seen)
    assert len(seen) == 30
    for number, identity in enumerate(seen):
        made, record = generate(page_seed(4, number)), records[identity]
        assert dataset.page(record).body == made.html
        assert dataset.schema(record).json == made.schema
        assert record.expected == made.expected
        assert (record.url, record.lang, record.missing) == (made.url, made.lang, made.missing)
        assert record.structured == made.structured


def test_a_longer_corpus_begins_with_the_shorter_one(tmp_path: Path) -> None:
    write_corpus(tmp_path / "short", 3, 7)
    write_corpus(tmp_path / "long", 5, 7)
    short, long = files(tmp_path / "short"), files(tmp_path / "long")
    assert long.pop("train.jsonl").startswith(short.pop("train.jsonl"))
    assert short.items() <= long.items()
    assert len(long) == 10


def test_corpora_of_different_seeds_share_no_page() -> None:
    assert page_seed(0, MOST_PAGES - 1) < page_seed(1, 0)
    with pytest.raises(ConfigurationError):
        page_seed(0, MOST_PAGES)


def test_the_line_says_how_values_stand(tmp_path: Path) -> None:
    write_corpus(tmp_path / "set", 60, 1)
    lines = [json.loads(text) for text in (tmp_path / "set" / "train.jsonl").read_text("utf-8").splitlines()]
    marks = {mark for line in lines for mark in line["verbatim"].values()}
    assert marks == {"text", "html", "none"}
    for line in lines:
        assert line["verbatim"].keys() == set(line["usable"])
        assert line["complete"] is True
        for pointer, text in line["sources"].items():
            value = line["expected"]
            for step in pointer.split("/")[1:]:
                value = value[int(step)] if isinstance(value, list) else value[step]
            assert value is not None
            assert text


def test_a_corpus_is_never_overwritten(tmp_path: Path) -> None:
    write_corpus(tmp_path, 1, 0)
    before = files(tmp_path)
    with pytest.raises(ConfigurationError, match="already"):
        write_corpus(tmp_path, 2, 0)
    assert files(tmp_path) == before


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(OutputError) as caught:
        write_corpus(tmp_path / "taken", 1, 0)
    assert "taken" in caught.value.line()
    with pytest.raises(ConfigurationError):
        write_corpus(tmp_path / "none", 0, 0)
    assert not (tmp_path / "none").exists()


def test_the_command_writes_what_the_function_writes(tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(synthesize)
    result = CliRunner().invoke(app, ["-o", str(tmp_path / "one"), "--count", "3", "--seed", "5", "-q"])
    assert (result.exit_code, result.output) == (0, "")
    write_corpus(tmp_path / "two", 3, 5)
    assert files(tmp_path / "one") == files(tmp_path / "two")
