"""`fetchly run FILE --check` and `--show`, and `fetchly schemas show pipeline`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from fetchly.cli.app import run

DATA = Path(__file__).parents[1] / "data" / "pipelines"


def test_a_good_file_is_sound(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", str(DATA / "good" / "books.yaml"), "--check"]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.endswith("books.yaml: sound (1 schema, 3 sinks)\n")


def test_what_the_generator_refuses_is_said_with_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x.yaml"
    schema = "{type: object, properties: {a: {type: array, contains: {type: string}}}}"
    file.write_text(f"name: x\nsource: {{files: '*.html'}}\nextract:\n  schema: {schema}\n", "utf-8")
    assert run(["run", str(file), "--check"]) == 2
    line = capsys.readouterr().err
    assert line.startswith(f"SCHEMA_INVALID {file}:4:11: the schema record cannot be used: ")
    assert line.count("\n") == 1


def test_a_bad_file_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", str(DATA / "bad" / "unknown_key.yaml"), "--check"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "unknown_key.yaml:2:41: unknown key 'limt' (did you mean limit?)" in captured.err


def test_what_is_shown_can_be_read_and_holds_no_secret(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://u:hunter2@db.example.org/news")
    assert run(["run", str(DATA / "good" / "news.yaml"), "--show"]) == 0
    captured = capsys.readouterr()
    assert "hunter2" not in captured.out + captured.err
    shown = yaml.safe_load(captured.out)
    assert shown["run"]["state"] == str(DATA / "good" / "news.state")
    assert shown["sinks"][0]["postgres"]["url"] == "${DATABASE_URL}"


def test_the_schema_of_the_file_is_published(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schemas", "show", "pipeline"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["title"] == "fetchly pipeline"
    assert {"source", "extract", "transform", "sinks", "run", "include"} <= shown["properties"].keys()


def test_loading_a_pipeline_imports_nothing_heavy() -> None:
    program = (
        "import sys\nfrom fetchly.pipeline.pipeline import Pipeline\n"
        f"Pipeline.from_yaml({str(DATA / 'good' / 'events.yaml')!r})\nprint(*sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in answer.stdout.split()}
    assert not loaded & {
        "torch",
        "playwright",
        "selectolax",
        "llguidance",
        "pyarrow",
        "psycopg",
        "fsspec",
        "numpy",
        "babel",
    }
