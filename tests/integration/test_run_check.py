"""`fetchly run FILE --check` and `--show`, and `fetchly schemas show pipeline`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from fetchly.cli.app import run
from tests.support.tiny_model import make_tiny_model

DATA = Path(__file__).parents[1] / "data" / "pipelines"


def test_a_good_file_is_sound_where_its_folders_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "books.yaml"
    file.write_bytes((DATA / "good" / "books.yaml").read_bytes())
    assert run(["run", str(file), "--check"]) == 2
    assert capsys.readouterr().err == (
        f"OUTPUT_FAILED {file}:4:19: sinks[0] cannot be written to {tmp_path}/out/books.jsonl: "
        f"its folder does not exist (mkdir -p {tmp_path}/out)\n"
    )
    (tmp_path / "out").mkdir()
    assert run(["run", str(file), "--check"]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.endswith("books.yaml: sound (1 schema, 3 sinks)\n")


def test_a_model_that_has_no_room_for_a_page_is_found_without_loading_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    make_tiny_model(tmp_path / "tiny")
    monkeypatch.setattr("fetchly_llm.engine.Engine.load", lambda *_, **__: pytest.fail("it is loaded"))
    file = tmp_path / "x.yaml"
    text = (
        "name: x\nsource: {files: '*.html'}\n"
        "extract: {schema: {type: object, properties: {a: {type: string}}}, model: ./tiny, max_tokens: %d}\n"
    )
    file.write_text(text % 4000, "utf-8")
    assert run(["run", str(file), "--check"]) == 2
    line = capsys.readouterr().err
    assert line.startswith(f"CONTEXT_TOO_SMALL {file}:3:")
    assert "the schema record: the schema takes" in line
    assert "the answer 4000 of the model's 4096: no room for a page (lower max_tokens" in line
    file.write_text(text % 64, "utf-8")
    assert run(["run", str(file), "--check"]) == 0


@pytest.mark.parametrize("model", ["fetchly-135m", "./no-such-model", "http://127.0.0.1:9/v1"])
def test_a_model_that_is_not_here_is_not_fetched(
    tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = tmp_path / "x.yaml"
    file.write_text(f"name: x\nsource: {{files: '*.html'}}\nextract: {{schema: product, model: '{model}'}}\n", "utf-8")
    assert run(["run", str(file), "--check"]) == 0
    assert capsys.readouterr().err.endswith("sound (1 schema, 0 sinks)\n")


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
