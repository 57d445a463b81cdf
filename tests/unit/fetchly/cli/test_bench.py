"""`fetchly bench decode` through the command line on a tiny model: what it prints, writes and refuses."""

import json
from pathlib import Path
from typing import Any

import pytest

from fetchly.cli.app import run
from tests.support.native_kernels import needs_kernels
from tests.support.tiny_dataset import build
from tests.support.tiny_model import make_tiny_model

SCHEMA = {"type": "object", "properties": {"kind": {"enum": ["teapot", "teacup"]}}, "required": ["kind"]}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("FETCHLY_MODEL", str(model))
    monkeypatch.setenv("FETCHLY_THREADS", "1")
    monkeypatch.setenv("FETCHLY_DEVICE", "cpu")


def example(name: str, set_: str = "toys", answer: str = '{"kind": "teacup"}') -> dict[str, Any]:
    return {
        "id": name,
        "set": set_,
        "variant": 0,
        "prompt_ids": list(range(10, 30)),
        "schema": SCHEMA,
        "source": "A teacup",
        "answer": answer,
        "versions": {"model": "another"},
    }


def write(name: str, *lines: dict[str, Any]) -> str:
    Path(name).write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return name


def test_lines_go_to_stdout_and_to_a_file_and_the_table_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    prompts = write("questions.jsonl", {"question": "How many?"}, {"question": "How long?"})
    examples = write("x.jsonl", example("1"), example("2"))
    command = ["bench", "decode", "--prompts", prompts, "--examples", examples, "--max-tokens", "20", "--arm", "lookup"]
    assert run([*command, "--json", "-o", "rows.jsonl", "--plot", "p.png", "--width", "4", "-q"]) == 0
    out, err = capsys.readouterr()
    lines = [json.loads(line) for line in out.splitlines()]
    assert Path("rows.jsonl").read_text("utf-8") == out
    assert [(line["set"], line["arm"]) for line in lines] == [
        (name, arm) for name in ("questions", "toys", "all") for arm in ("none", "plain-1", "lookup")
    ]
    assert lines[-1]["documents"] == 4
    assert [line["mismatches"] for line in lines[-3:]] == [0, None, 0]
    assert lines[-1]["ratio_to_fastest_plain"] > 0
    assert lines[-1]["tokens_per_s"] > 0
    assert (lines[-1]["width"], lines[-2]["width"], lines[-1]["threads"]) == (4, 1, 1)
    assert lines[0]["acceptance_structure"] is None
    assert "plain-1" in err
    assert "2 prompts are in another model's tokens" in err
    assert Path("p.png").read_bytes().startswith(b"\x89PNG")


def test_without_json_stdout_stays_empty(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "decode", "--examples", write("x.jsonl", example("1")), "--replay", "-q"]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "forced+lookup" in err


def test_a_replay_counts_what_it_cannot_write(capsys: pytest.CaptureFixture[str]) -> None:
    examples = write("x.jsonl", example("1"), example("2", answer='{"kind": "kettle"}'))
    assert run(["bench", "decode", "--examples", examples, "--replay", "--json", "-q"]) == 0
    out, err = capsys.readouterr()
    last = json.loads(out.splitlines()[-1])
    assert (last["arm"], last["documents"], last["not_replayable"]) == ("forced+lookup", 1, 1)
    assert (last["replay"], last["width"], last["max_tokens"]) == (True, 12, 1024)
    assert last["tokens_per_step"] > 1.0
    assert last["tokens_per_s"] is None
    assert "not replayable: toys/2: at character 10: " in err


def test_documents_are_taken_from_the_sets_in_turn(capsys: pytest.CaptureFixture[str]) -> None:
    examples = write("x.jsonl", *(example(str(n)) for n in range(5)), example("6", "two"), example("7", "two"))
    assert run(["bench", "decode", "--examples", examples, "--replay", "--limit", "5", "--json", "-q"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {line["set"]: line["documents"] for line in lines} == {"toys": 3, "two": 2, "all": 5}


def test_pages_become_examples_and_those_that_cannot_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("one", "two"):
        build(Path("data") / name)
    command = ["bench", "decode", "--data", "data", "--replay", "--json", "-q"]
    assert run(command) == 0
    out, err = capsys.readouterr()
    lines = [json.loads(line) for line in out.splitlines()]
    assert {line["set"] for line in lines} == {"one", "two", "all"}
    assert lines[-1]["mismatches"] == 0
    assert "dropped" in err
    assert "DOCUMENT_EMPTY" in err
    assert run([*command, "--set", "two", "--limit", "1", "--strip-structured"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {line["set"]: line["documents"] for line in lines} == {"two": 1, "all": 1}


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "nothing to decode"),
        (["--prompts", "missing.jsonl"], 1, "FILE_MISSING missing.jsonl"),
        (["--examples", "missing.jsonl"], 1, "FILE_MISSING missing.jsonl"),
        (["--examples", "x.jsonl", "--arm", "psychic"], 2, "unknown arm 'psychic'"),
        (["--examples", "empty.jsonl"], 1, "NO_EXAMPLES"),
        (["--examples", "bad.jsonl"], 2, "bad.jsonl:1: 'prompt_ids' is missing"),
        (["--prompts", "bad.jsonl"], 2, "bad.jsonl:1: no known shape"),
        (["--prompts", "surrogate.jsonl"], 2, "surrogate.jsonl:1: character 3 of a text is a lone surrogate"),
        (["--data", "nowhere"], 2, "no dataset here"),
        (["--data", "data", "--set", "three"], 2, "there is no set 'three' (sets: one)"),
        (["--examples", "x.jsonl", "--set", "one"], 2, "choose among pages"),
        (["--examples", "x.jsonl", "--strip-structured"], 2, "choose among pages"),
        (["--prompts", "x.jsonl", "--replay"], 2, "no --prompts"),
        (["--examples", "x.jsonl", "--replay", "--verify", "rejection"], 2, "verified by match"),
        (["--examples", "x.jsonl", "--verify", "hope"], 2, "USAGE"),
        (["--examples", "x.jsonl", "--plot", "p.svg"], 2, "a plot is a .png file"),
        (["--examples", "x.jsonl", "--plot", "no/p.png"], 1, "folder does not exist"),
        (["--examples", "x.jsonl", "-o", "no/rows.jsonl"], 1, "folder does not exist"),
        (["--examples", "long.jsonl", "-q"], 1, "NOTHING_MEASURED"),
        (["--examples", "mixed.jsonl", "-q", "--arm", "forced"], 3, "failed: toys/long: CONTEXT_TOO_SMALL"),
    ],
)
def test_what_cannot_be_is_said_with_the_right_exit_code(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, words: str
) -> None:
    build(Path("data") / "one")
    write("x.jsonl", example("1"))
    write("empty.jsonl")
    write("surrogate.jsonl", {"prompt": "no \ud800"})
    write("bad.jsonl", {"id": "1", "set": "s"})
    too_long = {**example("long"), "prompt_ids": [9] * 5000}
    write("long.jsonl", too_long)
    write("mixed.jsonl", example("1"), too_long)
    assert run(["bench", "decode", *arguments]) == code
    out, err = capsys.readouterr()
    assert words in " ".join(err.split())
    assert out == ""


def test_a_file_that_cannot_be_written_costs_no_measurement(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["bench", "decode", "--examples", write("x.jsonl", example("1")), "--replay", "-q"]
    assert run([*command, "--json", "-o", "/dev/full"]) == 1
    out, err = capsys.readouterr()
    assert "forced+lookup" in err
    assert len(out.splitlines()) == 8


@needs_kernels
def test_a_width_without_effect_is_said_or_refused(capsys: pytest.CaptureFixture[str]) -> None:
    examples = write("x.jsonl", example("1"))
    command = ["bench", "decode", "--examples", examples, "--device", "native", "--arm", "forced", "-q"]
    assert run(command) == 0
    assert "--width" not in capsys.readouterr().err
    assert run([*command, "--width", "4"]) == 0
    assert "--width changes nothing here" in capsys.readouterr().err
    assert run(["bench", "step", "--device", "native", "--context", "20", "--width", "4", "-q"]) == 2
    assert "--width changes nothing here" in capsys.readouterr().err


def test_other_bytes_are_exit_code_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from dataclasses import replace

    from fetchly_llm.engine import Engine

    honest = Engine.generate

    def lying(self: Engine, request: Any, prefilled: Any = None) -> Any:
        generation = honest(self, request, prefilled)
        return replace(generation, token_ids=(5,)) if "lookup" in request.draft else generation

    monkeypatch.setattr(Engine, "generate", lying)
    examples = write("x.jsonl", example("1"))
    assert run(["bench", "decode", "--examples", examples, "--arm", "lookup", "--json", "-q"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out.splitlines()[-1])["mismatches"] == 1
    assert "mismatch: toys/1, arm lookup: other tokens from token 0 on" in err


def test_a_missing_matplotlib_is_said_before_the_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("fetchly_llm.bench.plot.find_spec", lambda name: None)
    assert run(["bench", "decode", "--examples", write("x.jsonl", example("1")), "--plot", "p.png"]) == 2
    assert "fetchly[bench]" in capsys.readouterr().err
