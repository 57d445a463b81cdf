"""Wrong input through the real command line: one line on stderr, the right exit code, nothing written."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.site import Site, Visit, answer

EXAMPLE = str(Path(__file__).resolve().parents[2] / "examples" / "pages" / "teapot.html")
FETCHLY = [sys.executable, "-m", "fetchly"]


def environment(tmp_path: Path, **changes: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FETCHLY_")}
    return {**kept, "XDG_CONFIG_HOME": str(tmp_path / "config"), **changes}


def run(tmp_path: Path, *arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*FETCHLY, "extract", *arguments, "-o", "record.json"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment(tmp_path, FETCHLY_MODELS=str(tmp_path / "no-models"), **changes),
        timeout=120,
    )


def assert_refused(answer: subprocess.CompletedProcess[str], code: int, *words: str, folder: Path) -> None:
    assert answer.returncode == code, answer.stderr
    assert answer.stdout == ""
    assert len(answer.stderr.splitlines()) == 1, answer.stderr
    for word in words:
        assert word in answer.stderr
    assert not [entry for entry in folder.iterdir() if "record" in entry.name]


BAD_SCHEMAS: dict[str, tuple[Any, str, str]] = {
    "misspelt keyword": (
        {"type": "object", "properties": {"a": {"type": "string"}}, "requried": ["a"]},
        "SCHEMA_UNKNOWN_KEYWORD /requried",
        "required",
    ),
    "circle of references": (
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        "SCHEMA_REFERENCE",
        "$defs",
    ),
    "unsatisfiable": (
        {"type": "object", "properties": {"a": {"type": "string", "minLength": 5, "maxLength": 2}}, "required": ["a"]},
        "SCHEMA_UNSATISFIABLE",
        "/properties/a",
    ),
    "not a schema": ({"type": "strin"}, "SCHEMA_INVALID", "/type"),
    "not enforceable": (
        {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        "SCHEMA_KEYWORD_NOT_ENFORCED /uniqueItems",
        "--schema-mode=check",
    ),
    "another document": ({"$ref": "https://example.org/x.json"}, "SCHEMA_REFERENCE", "nothing is fetched"),
}


@pytest.mark.parametrize("name", BAD_SCHEMAS)
def test_a_schema_is_refused_before_anything_is_fetched(tmp_path: Path, name: str) -> None:
    schema, code, word = BAD_SCHEMAS[name]
    (tmp_path / "bad.json").write_text(json.dumps(schema))
    # The page does not exist either: it is the schema that is complained about.
    assert_refused(run(tmp_path, "missing.html", "-s", "bad.json"), 2, code, word, folder=tmp_path)


@pytest.mark.parametrize(
    ("text", "word"), [("{", "bad.json:1:2"), ('{"a": 1, "a": 2}', "'a'"), ("[]", "object"), ("", "bad.json:1:1")]
)
def test_a_schema_file_that_is_not_json_is_located(tmp_path: Path, text: str, word: str) -> None:
    (tmp_path / "bad.json").write_text(text)
    assert_refused(run(tmp_path, EXAMPLE, "-s", "bad.json"), 2, "bad.json", word, folder=tmp_path)


def test_an_unknown_schema_names_the_shipped_ones(tmp_path: Path) -> None:
    assert_refused(run(tmp_path, EXAMPLE, "-s", "prodct"), 2, "SCHEMA_UNKNOWN", "product", folder=tmp_path)


PDF = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n<<>>\nendobj\n"
BAD_FILES = {
    "empty": (b"", "DOCUMENT_EMPTY"),
    "white space": (b" \n\t ", "DOCUMENT_EMPTY"),
    "only scripts": (b"<html><body><script>render()</script></body></html>", "DOCUMENT_EMPTY"),
    "pdf": (PDF, "DOCUMENT_NOT_HTML"),
    "zip": (b"PK\x03\x04" + bytes(40), "DOCUMENT_NOT_HTML"),
    "json": (b'{"a": 1}', "DOCUMENT_NOT_HTML"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_without_a_readable_page(tmp_path: Path, name: str) -> None:
    body, code = BAD_FILES[name]
    (tmp_path / "page.html").write_bytes(body)
    assert_refused(run(tmp_path, "page.html", "-s", "product"), 1, code, "page.html", folder=tmp_path)


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    assert_refused(run(tmp_path, "missing.html", "-s", "product"), 1, "missing.html", folder=tmp_path)
    assert_refused(run(tmp_path, ".", "-s", "product"), 1, "NOT_A_FILE", folder=tmp_path)


def not_found(visit: Visit) -> None:
    visit.send(answer(b"<h1>gone</h1>", status="404 Not Found"))


def nothing(visit: Visit) -> None:
    visit.send(answer(b""))


def document(visit: Visit) -> None:
    visit.send(answer(PDF, headers=[("Content-Type", "application/pdf")]))


def test_answers_of_a_server_that_hold_no_page(tmp_path: Path) -> None:
    with Site({"/404": not_found, "/empty": nothing, "/pdf": document}) as site:
        for path, code, word in (("/404", 1, "404"), ("/empty", 1, "DOCUMENT_EMPTY"), ("/pdf", 1, "PDF")):
            refused = run(tmp_path, site.url(path), "-s", "product", "--allow-private")
            assert_refused(refused, code, word, folder=tmp_path)
        private = run(tmp_path, site.url("/404"), "-s", "product")
        assert_refused(private, 5, "--allow-private", folder=tmp_path)


def test_no_model_and_no_network(tmp_path: Path) -> None:
    unreachable = "http://127.0.0.1:1/simple/"
    for options in ((), ("--offline",)):
        refused = run(tmp_path, EXAMPLE, "-s", "product", "-q", *options, PIP_INDEX_URL=unreachable)
        assert_refused(refused, 6, "MODEL_MISSING", "fetchly models pull", folder=tmp_path)


def with_model(tmp_path: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*FETCHLY, "extract", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**environment(tmp_path), **{k: v for k, v in os.environ.items() if k == "FETCHLY_MODELS"}},
        # A shell starts its background jobs with Ctrl-C ignored, and so would be everything that the tests start.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


@pytest.mark.model
@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--max-tokens", "5"), 4, ("OUTPUT_LIMIT", "5 tokens")),
        (("--draft", "psychic"), 2, ("psychic", "forced")),
    ],
    ids=["an output limit never cuts a record", "an unknown draft source is named"],
)
def test_what_only_the_engine_can_refuse(
    tmp_path: Path, options: tuple[str, ...], code: int, words: tuple[str, ...]
) -> None:
    process = with_model(tmp_path, EXAMPLE, "-s", "product", *options, "-o", "record.json")
    out, err = process.communicate(timeout=300)
    refused = subprocess.CompletedProcess([], process.returncode, out, err)
    assert_refused(refused, code, *words, folder=tmp_path)


@pytest.mark.model
def test_ctrl_c_ends_at_once_with_130_and_leaves_nothing(tmp_path: Path) -> None:
    # More than fits: three draws up to the limit take far longer than the wait below on any machine.
    words = {"type": "array", "items": {"type": "string", "maxLength": 30}, "minItems": 1500}
    endless = {"type": "object", "properties": {"words": words}, "required": ["words"]}
    (tmp_path / "endless.json").write_text(json.dumps(endless))
    options = ("-s", "endless.json", "--max-tokens", "3000", "--temperature", "1.5", "--draft", "none")
    process = with_model(tmp_path, EXAMPLE, "-v", *options, "-o", "record.json")
    assert process.stderr is not None
    line = ""
    while "reading" not in line:
        line = process.stderr.readline()
    time.sleep(3)  # somewhere between loading and writing
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == ""
    assert err.splitlines()[-1].startswith("INTERRUPTED")
    assert "Traceback" not in err
    assert not [entry for entry in tmp_path.iterdir() if "record" in entry.name]


@pytest.mark.model
@pytest.mark.parametrize("name", ["nested", "large"])
def test_a_hostile_page_is_read_or_refused_in_bounded_time(tmp_path: Path, name: str) -> None:
    body = {
        "nested": b"<div>" * 5000 + b"<h1>Deep teapot</h1>" + b"</div>" * 5000,
        "large": b"<h1>Large teapot</h1>" + b"<p>A paragraph about pots and kettles.</p>" * 50_000,
    }[name]
    (tmp_path / "page.html").write_bytes(body)
    process = with_model(tmp_path, "page.html", "-s", "product", "--show-document", "-q")
    out, err = process.communicate(timeout=120)
    assert process.returncode in (0, 1)
    assert "Traceback" not in err
    assert ("teapot" in out) == (process.returncode == 0)
    if process.returncode == 1:
        assert len(err.splitlines()) == 1
