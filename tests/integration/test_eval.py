"""`fetchly eval` and `fetchly lab recall` through the command line, with a script in place of the model."""

import importlib.util
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fetchly.extraction.local
from fetchly.cli.app import run
from fetchly.extraction.generator import GenerationTask
from tests.support.scripted_generator import ScriptedGenerator
from tests.support.shared_data import shared_path
from tests.support.tiny_dataset import FERRY, answer, build

ROOT = Path(__file__).resolve().parents[2]
IDS = {"ferry", "market", "bridge", "empty"}


def script(task: GenerationTask) -> str:
    return answer(task.prompt.page)


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


class Scripted:
    """What stands in place of the model: each command gets a generator of its own, kept in `made`."""

    def __init__(self) -> None:
        self.answer: Callable[[GenerationTask], str] = script
        self.made: list[ScriptedGenerator] = []

    def __call__(self, *arguments: Any, **options: Any) -> ScriptedGenerator:
        self.made.append(ScriptedGenerator(lambda task: self.answer(task)))
        return self.made[-1]

    @property
    def last(self) -> ScriptedGenerator:
        return self.made[-1]


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    scripted = Scripted()
    monkeypatch.setattr(fetchly.extraction.local, "LocalGenerator", scripted)
    return scripted


def lines(text: str) -> dict[str, dict[str, Any]]:
    return {line["id"]: line for line in map(json.loads, text.splitlines())}


@pytest.mark.usefixtures("scripted")
def test_one_line_for_each_page_on_stdout_and_the_report_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    build(Path("notices"))
    assert run(["eval", "notices", "--report", "report.json"]) == 0
    out, err = capsys.readouterr()
    found = lines(out)
    assert set(found) == IDS
    assert found["ferry"]["record"]["price"] == 2.5
    assert found["empty"]["record"] is None
    assert found["empty"]["code"] == "DOCUMENT_EMPTY"
    assert found["market"]["run"]["verbatim"] == "auto"
    assert "published_date" in err
    assert "failed 1 (DOCUMENT_EMPTY 1); invalid 0" in err
    report = json.loads(Path("report.json").read_text("utf-8"))
    everything = report["parts"][0]
    assert (everything["tp"], everything["fp"], everything["fn"]) == (5.5, 1.0, 3.5)
    assert everything["failed_by_code"] == {"DOCUMENT_EMPTY": 1}


def test_the_shared_scorer_counts_what_the_report_counts(scripted: Scripted, tmp_path: Path) -> None:
    shared = shared_path()
    if shared is None:
        pytest.skip("the shared scorer is not beside this checkout")
    build(Path("notices"))
    assert run(["eval", "notices", "-o", "pred.jsonl", "--report", "report.json"]) == 0
    spec = importlib.util.spec_from_file_location("shared_score", shared / "eval" / "score.py")
    assert spec is not None
    assert spec.loader is not None
    theirs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(theirs)
    predictions = {line["id"]: line for line in theirs.read_jsonl(Path("pred.jsonl"))}
    result = theirs.evaluate(
        theirs.read_jsonl(Path("notices/dev.jsonl")), predictions, Path("notices/schemas"), Path("notices/html")
    )
    ours = json.loads(Path("report.json").read_text("utf-8"))["parts"][0]
    for figure in ("n", "tp", "fp", "fn", "precision", "recall", "f1", "exact_rate", "failed", "hallucination_rate"):
        assert ours[figure] == result[figure], figure


def test_several_sets_a_limit_and_several_parts(scripted: Scripted, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("one", "two"):
        build(Path(name))
    assert run(["eval", "one", "two", "--limit", "2", "-q"]) == 0
    out, err = capsys.readouterr()
    assert [json.loads(line)["set"] for line in out.splitlines()] == ["one", "one", "two", "two"]
    assert "one, all pages: 2 pages" in err
    assert "two, all pages: 2 pages" in err


def test_a_run_goes_on_where_it_was_stopped_by_ctrl_c(scripted: Scripted, capsys: pytest.CaptureFixture[str]) -> None:
    build(Path("notices"))
    asked: list[str] = []

    def stopped_at_the_second(task: GenerationTask) -> str:
        asked.append(task.prompt.page)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return script(task)

    scripted.answer = stopped_at_the_second
    assert run(["eval", "notices", "-o", "pred.jsonl"]) == 130
    first = Path("pred.jsonl").read_text("utf-8")
    assert "--resume" in capsys.readouterr().err
    assert 0 < len(lines(first)) < 4

    scripted.answer = script
    assert run(["eval", "notices", "-o", "pred.jsonl"]) == 2
    assert Path("pred.jsonl").read_text("utf-8") == first
    assert run(["eval", "notices", "-o", "pred.jsonl", "--resume"]) == 0
    whole = Path("pred.jsonl").read_text("utf-8")
    assert whole.startswith(first)
    assert len(whole.splitlines()) == 4
    assert set(lines(whole)) == IDS
    assert len(scripted.last.tasks) == 3 - len([line for line in lines(first).values() if line["record"]])
    assert "4 pages" in capsys.readouterr().err


KILLED = """
import os, signal, sys
import fetchly.extraction.local
from fetchly.cli.app import run
from tests.support.scripted_generator import ScriptedGenerator
from tests.support.tiny_dataset import answer
asked = []
def script(task):
    asked.append(task)
    if len(asked) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return answer(task.prompt.page)
fetchly.extraction.local.LocalGenerator = lambda *a, **k: ScriptedGenerator(script)
run(sys.argv[1:])
"""


def test_a_killed_run_loses_only_the_page_at_hand(scripted: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    build(Path("notices"))
    command = ["eval", "notices", "-o", "pred.jsonl"]
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{ROOT / 'llm'}")
    killed = subprocess.run([sys.executable, "-c", KILLED, *command], capture_output=True, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    kept = Path("pred.jsonl").read_text("utf-8")
    assert len([line for line in lines(kept).values() if line["record"]]) == 2
    assert run([*command, "--resume"]) == 0
    assert Path("pred.jsonl").read_text("utf-8").startswith(kept)
    assert set(lines(Path("pred.jsonl").read_text("utf-8"))) == IDS
    assert len(scripted.last.tasks) == 1


def test_other_settings_do_not_go_on_with_a_run_and_a_longer_limit_does(
    scripted: Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    build(Path("notices"))
    command = ["eval", "notices", "-o", "pred.jsonl", "--resume"]
    assert run([*command, "--limit", "2"]) == 0
    assert run([*command, "--seed", "7"]) == 2
    assert "seed 0, this run has 7" in capsys.readouterr().err
    assert run([*command, "--verbatim", "off"]) == 2
    assert run([*command, "--strip-structured"]) == 2
    assert run(command) == 0
    found = lines(Path("pred.jsonl").read_text("utf-8"))
    assert set(found) == IDS
    assert [line["code"] for line in found.values() if line["record"] is None] == ["DOCUMENT_EMPTY"]
    assert all(generator.closed for generator in scripted.made)


def test_what_the_page_says_to_machines_is_shown_or_stripped(
    scripted: Scripted,
) -> None:
    folder = build(Path("notices"))
    (folder / "html" / "ferry.html.gz").unlink()
    marked = FERRY.replace("<title>", '<meta property="og:site_name" content="Harbour Gazette"><title>')
    (folder / "html" / "ferry.html").write_text(marked, "utf-8")
    shown: dict[bool, str] = {}
    for stripped in (False, True):
        assert run(["eval", "notices", "-q", *(["--strip-structured"] if stripped else [])]) == 0
        shown[stripped] = "\n".join(task.prompt.page for task in scripted.last.tasks)
    assert "Harbour Gazette" in shown[False]
    assert "Harbour Gazette" not in shown[True]
    assert "The ferry runs again" in shown[True]


@pytest.mark.parametrize("command", [["eval"], ["lab", "recall"]])
@pytest.mark.usefixtures("scripted")
def test_a_broken_dataset_is_said_in_one_line_before_any_work(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = build(Path("notices"))
    (folder / "html" / "bridge.html.gz").unlink()
    assert run([*command, "notices"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert "dev.jsonl:3: the page html/bridge.html.gz does not exist" in err
    assert run([*command, "nowhere"]) == 2


@pytest.mark.usefixtures("scripted")
def test_recall_prints_one_line_for_each_set_and_budget(capsys: pytest.CaptureFixture[str]) -> None:
    build(Path("one"))
    build(Path("two"))
    assert run(["lab", "recall", "one", "two", "--budget", "5", "--budget", "500", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["bench"], row["set"], row["budget"]) for row in rows] == [
        ("recall", "one", 5), ("recall", "one", 500), ("recall", "two", 5), ("recall", "two", 500),
    ]  # fmt: skip
    assert all(row["documents"] == 2 for row in rows)
    assert rows[0]["recall"] < rows[1]["recall"] == 1.0
    assert not any(row["default"] for row in rows)


@pytest.mark.usefixtures("scripted")
def test_recall_marks_the_default_budget_and_prints_what_was_lost(capsys: pytest.CaptureFixture[str]) -> None:
    build(Path("notices"))
    assert run(["lab", "recall", "notices", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {750, 1500, 3000} <= {row["budget"] for row in rows}
    assert sum(row["default"] for row in rows) == 1
    assert run(["lab", "recall", "notices", "--budget", "5", "--failures", "2"]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert len([line for line in err.splitlines() if line.startswith("lost notices")]) == 2
    assert "left out by the budget" in err
