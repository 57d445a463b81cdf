"""The command line in this process over a scripted generator: streams, formats, exit codes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fetchly.cli.app import run
from fetchly.errors import ModelUnavailable, RecordInvalid
from fetchly.extraction.generator import GenerationTask
from tests.support.scripted_generator import ScriptedGenerator

EXAMPLE = str(Path(__file__).resolve().parents[2] / "examples" / "pages" / "teapot.html")
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "x-verbatim": True}, "price": {"type": ["number", "null"]}},
    "required": ["name", "price"],
    "additionalProperties": False,
}
ANSWER = '{"name": "Hazel stoneware teapot, 1.2 l", "price": "£48.50"}'


@pytest.fixture
def schema(tmp_path: Path) -> str:
    file = tmp_path / "teapot.json"
    file.write_text(json.dumps(SCHEMA))
    return str(file)


@pytest.fixture(autouse=True)
def _away_from_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[GenerationTask], str]], list[dict[str, Any]]]:
    """Put a script in place of the embedded engine; returns the options that each generator was made with."""

    def use(answer: Callable[[GenerationTask], str]) -> list[dict[str, Any]]:
        made: list[dict[str, Any]] = []

        def make(model: str, **options: Any) -> ScriptedGenerator:
            made.append({"model": model, **options})
            return ScriptedGenerator(answer)

        monkeypatch.setattr("fetchly.sdk.LocalGenerator", make)
        return made

    return use


def test_the_record_alone_is_on_stdout(answering: Any, schema: str, capsys: pytest.CaptureFixture[str]) -> None:
    answering(lambda task: ANSWER)
    assert run(["extract", EXAMPLE, "--schema", schema]) == 0
    streams = capsys.readouterr()
    assert json.loads(streams.out) == {"name": "Hazel stoneware teapot, 1.2 l", "price": 48.5}
    assert streams.err == ""


def test_evidence_wraps_the_record(answering: Any, schema: str, capsys: pytest.CaptureFixture[str]) -> None:
    answering(lambda task: ANSWER)
    assert run(["extract", EXAMPLE, "-s", schema, "--evidence"]) == 0
    wrapped = json.loads(capsys.readouterr().out)
    assert wrapped["record"]["price"] == 48.5
    assert wrapped["evidence"]["/name"]["found"] is True
    assert "css_path" in wrapped["evidence"]["/price"]
    assert wrapped["target"] == EXAMPLE
    assert (wrapped["status"], wrapped["redirects"], wrapped["rendered"]) == (None, [], False)


def test_stats_go_to_stderr_and_to_a_file(
    answering: Any, schema: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answering(lambda task: ANSWER)
    file = tmp_path / "stats.json"
    assert run(["extract", EXAMPLE, "-s", schema, "--stats", "--stats-json", str(file), "-o", "out.json"]) == 0
    streams = capsys.readouterr()
    assert streams.out == ""
    assert "acceptance length" in streams.err
    assert "rendered" in streams.err
    row = json.loads(file.read_text())[0]
    assert row["output_tokens"] > 0
    assert row["fetch_ms"] > 0
    assert (row["status"], row["redirects"], row["rendered"]) == (None, [], False)
    assert json.loads(Path("out.json").read_text())["price"] == 48.5


def test_several_targets_go_on_after_a_failure_and_say_so(
    answering: Any, schema: str, capsys: pytest.CaptureFixture[str]
) -> None:
    answering(lambda task: ANSWER)
    assert run(["extract", EXAMPLE, "missing.html", EXAMPLE, "-s", schema]) == 3
    streams = capsys.readouterr()
    assert len(streams.out.splitlines()) == 2
    assert streams.err.count("missing.html") >= 1
    assert len(streams.err.splitlines()) == 1


def test_a_list_schema_gives_one_record_a_line(
    answering: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "list.json"
    file.write_text(json.dumps({"type": "array", "items": SCHEMA}))
    answering(lambda task: f"[{ANSWER}, {ANSWER}]")
    assert run(["extract", EXAMPLE, "-s", str(file), "--format", "jsonl"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_csv(answering: Any, schema: str, capsys: pytest.CaptureFixture[str]) -> None:
    answering(lambda task: ANSWER)
    assert run(["extract", EXAMPLE, "-s", schema, "--format", "csv"]) == 0
    assert capsys.readouterr().out.splitlines() == ["name,price", '"Hazel stoneware teapot, 1.2 l",48.5']


def raising(error: BaseException) -> Callable[[GenerationTask], str]:
    def answer(task: GenerationTask) -> str:
        raise error

    return answer


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RecordInvalid("too long", code="OUTPUT_LIMIT"), 4),
        (ModelUnavailable("no model", hint="fetchly models pull"), 6),
        (KeyboardInterrupt(), 130),
        (ZeroDivisionError("a bug"), 1),
    ],
)
def test_an_error_is_one_line_without_a_traceback_and_writes_nothing(
    answering: Any, schema: str, capsys: pytest.CaptureFixture[str], error: BaseException, code: int
) -> None:
    answering(raising(error))
    assert run(["extract", EXAMPLE, "-s", schema, "-o", "out.json"]) == code
    streams = capsys.readouterr()
    assert streams.out == ""
    assert len(streams.err.splitlines()) == 1
    assert "Traceback" not in streams.err
    assert not Path("out.json").exists()
    assert not list(Path().glob(".out.json*"))


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (["extract", EXAMPLE], 2, "--schema"),
        (["extract", "-s", "product"], 2, "targets"),
        (["extract", EXAMPLE, "-s", "prodct"], 2, "product"),
        (["extract", EXAMPLE, "-s", "nowhere.json"], 2, "nowhere.json"),
        (["extract", EXAMPLE, "-s", "product", "--append"], 2, "--append"),
        (["extract", EXAMPLE, "-s", "product", "--temperature", "-1"], 2, "temperature"),
        (["extract", "missing.html", "-s", "product"], 1, "missing.html"),
        (["extract", "ftp://example.org/", "-s", "product"], 5, "ftp"),
        (["extract", "http://127.0.0.1:8080/", "-s", "product"], 5, "--allow-private"),
        (["exract"], 2, "exract"),
    ],
)
def test_a_wrong_line_is_one_line_and_the_right_code(
    arguments: list[str], code: int, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == code
    streams = capsys.readouterr()
    assert streams.out == ""
    assert word in streams.err
    assert len(streams.err.splitlines()) == 1


def test_flags_beat_settings_and_reach_the_engine(
    answering: Any, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fetchly.yaml").write_text("model: from-file\nthreads: 2\nseed: 1\n")
    monkeypatch.setenv("FETCHLY_SEED", "2")
    tasks: list[GenerationTask] = []

    def answer(task: GenerationTask) -> str:
        tasks.append(task)
        return ANSWER

    made = answering(answer)
    assert run(["extract", EXAMPLE, "-s", schema, "-q"]) == 0
    assert run(["extract", EXAMPLE, "-s", schema, "-q", "--model", "m", "--seed", "3", "--draft", "none"]) == 0
    assert [entry["model"] for entry in made] == ["from-file", "m"]
    assert made[0]["threads"] == 2
    assert [task.seed for task in tasks] == [2, 3]
    assert [task.draft for task in tasks] == [("auto",), ()]


def test_schemas_are_listed_shown_and_linted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schemas", "list"]) == 0
    assert {"product", "article", "recipe"} <= {line.split()[0] for line in capsys.readouterr().out.splitlines()}
    assert run(["schemas", "show", "product"]) == 0
    assert "name" in json.loads(capsys.readouterr().out)["properties"]
    bad = tmp_path / "bad.json"
    bad.write_text('{"type": "object", "properties": {}, "requried": []}')
    assert run(["schemas", "lint", str(bad)]) == 2
    assert "required" in capsys.readouterr().out
    assert run(["schemas", "lint", "product", "--json"]) == 0
    assert isinstance(json.loads(capsys.readouterr().out), list)


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    assert "extract" in capsys.readouterr().out
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("fetchly ")


@pytest.mark.parametrize("text", ["raise RuntimeError('import boom\\nand more')", "def f(:", "import sys; sys.exit(7)"])
def test_a_module_that_cannot_be_imported_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (tmp_path / f"broken_{abs(hash(text))}.py").write_text(text)
    assert run(["extract", EXAMPLE, "-s", f"broken_{abs(hash(text))}:X"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_bug_of_ours_is_one_line_too(answering: Any, schema: str, capsys: pytest.CaptureFixture[str]) -> None:
    answering(raising(RuntimeError("two\nlines")))
    assert run(["extract", EXAMPLE, "-s", schema]) == 1
    assert capsys.readouterr().err == "INTERNAL: RuntimeError: two lines (a bug; run again with --debug)\n"


def test_a_place_that_cannot_be_written_is_said_before_anything_is_read(
    schema: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for option in ("-o", "--stats-json"):
        assert run(["extract", "missing.html", "-s", schema, option, "nowhere/out.json"]) == 1
        assert "mkdir -p" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["[tool]\nfetchly = 3\n", "tool = 3\n"])
def test_a_project_file_of_another_shape(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str) -> None:
    (tmp_path / "pyproject.toml").write_text(content)
    assert run(["extract", "missing.html", "-s", "product"]) == (2 if "fetchly" in content else 1)
    assert "INTERNAL" not in capsys.readouterr().err


def test_rendering_is_asked_for_by_flag_or_setting_and_a_missing_browser_is_said(
    schema: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FETCHLY_BROWSER_PATH", "/nowhere/chromium")
    assert run(["extract", EXAMPLE, "-s", schema, "--render", "always"]) == 2
    assert capsys.readouterr().err.startswith("BROWSER_MISSING browser_path /nowhere/chromium: ")
    monkeypatch.setenv("FETCHLY_RENDER", "always")
    assert run(["extract", EXAMPLE, "-s", schema]) == 2
    assert run(["extract", EXAMPLE, "-s", schema, "--render", "sometimes"]) == 2


def test_what_a_page_hides_is_read_where_asked(
    answering: Any, schema: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answering(lambda task: ANSWER)
    (tmp_path / "page.html").write_text("<h1>Teapot</h1><p hidden>Unseen words</p>")
    assert run(["extract", "page.html", "-s", schema, "--show-document"]) == 0
    assert "Unseen" not in capsys.readouterr().out
    assert run(["extract", "page.html", "-s", schema, "--show-document", "--keep-hidden"]) == 0
    assert "Unseen" in capsys.readouterr().out


def test_a_target_that_fails_does_not_keep_the_others_from_being_shown(
    answering: Any, schema: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answering(lambda task: ANSWER)
    (tmp_path / "page.html").write_text("<h1>Teapot</h1>")
    assert run(["extract", "missing.html", "page.html", "-s", schema, "--show-document"]) == 3
    shown = capsys.readouterr()
    assert "Teapot" in shown.out
    assert [line for line in shown.err.splitlines() if line.startswith("FILE_MISSING missing.html: ")]
    assert run(["extract", "missing.html", "-s", schema, "--show-document"]) == 1
    assert run(["extract", "ftp://a.example/", "-s", schema, "--show-document"]) == 5
    assert run(["extract", "page.html", "page.html", "-s", schema, "--show-document"]) == 0
    assert capsys.readouterr().out.count("Teapot") == 2
