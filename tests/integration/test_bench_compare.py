"""`fetchly bench compare` through the command line on a tiny model and small pages, with a stand-in for llama.cpp."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fetchly.cli.app import run
from fetchly.cli.compare_pages import PageComparison
from fetchly.lab.evaluation import Evaluation
from fetchly.lab.reading import SetReader
from fetchly_llm.bench.compare import CompareBench
from fetchly_llm.tokenizer import Tokenizer
from tests.support.llama_stand_in import Grammar, LlamaStandIn
from tests.support.tiny_dataset import build
from tests.support.tiny_model import make_tiny_model

ANSWER = '{ "title": "Bridge closed", "published_date": null, "price": null, "topics": null }'
MEASURES = ("prefill", "decode", "decode+grammar", "record", "page")


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
    monkeypatch.setattr("fetchly_llm.bench.compare.os.getloadavg", lambda: (0.1, 0.0, 0.0))
    Path("m.gguf").write_bytes(b"weights")
    build(Path("notices"))


@pytest.fixture
def library(model: Path, monkeypatch: pytest.MonkeyPatch) -> LlamaStandIn:
    tokenizer = Tokenizer.load(model)

    def script(prompt: list[int], grammar: Grammar | None) -> list[int]:
        return tokenizer.encode(ANSWER if grammar else "Some words that are no record at all.")

    stand_in = LlamaStandIn(script, tokenizer.encode, tokenizer.decode_bytes)
    monkeypatch.setitem(sys.modules, "llama_cpp", stand_in)  # type: ignore[arg-type]
    return stand_in


@pytest.fixture
def markdown(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The converters that were made."""
    made: list[Any] = []

    class Html2Text:
        def __init__(self, bodywidth: int) -> None:
            made.append(self)

        def handle(self, html: str) -> str:
            return "# Bridge closed" if "Bridge" in html else "# Another page"

    monkeypatch.setitem(sys.modules, "html2text", SimpleNamespace(HTML2Text=Html2Text))  # type: ignore[arg-type]
    return made


Measured = Callable[..., dict[Any, dict[str, Any]]]


@pytest.fixture
def measured(capsys: pytest.CaptureFixture[str]) -> Measured:
    def rows(*arguments: str) -> dict[Any, dict[str, Any]]:
        short = ["--decode-tokens", "8", "--max-tokens", "120", "--gguf", "m.gguf", "-q"]
        assert run(["bench", "compare", "notices", "--json", *short, *arguments]) == 0
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        return {(line["measure"], line["set"]): line for line in lines}

    return rows


def test_both_sides_are_measured_on_every_page(measured: Measured, library: LlamaStandIn, markdown: list[Any]) -> None:
    rows = measured("-o", "rows.jsonl")
    assert list(rows) == [(measure, name) for measure in MEASURES for name in ("notices", "all")]
    assert [json.loads(line) for line in Path("rows.jsonl").read_text("utf-8").splitlines()] == list(rows.values())
    for line in rows.values():
        assert line["documents"] == 3  # the fourth holds no text
        assert line["ratio"] > 0.0
        assert (line["rival_name"], line["rival_version"], line["rival_same_weights"]) == ("llama.cpp", "0.0.0", None)
    assert rows["record", "all"]["rival"]["cut"] == 0
    page = rows["page", "all"]
    # The stand-in gives every page the answer of one: of eight scored fields one is right, two titles are wrong.
    assert page["rival"]["f1"] == pytest.approx(2 * 1 / (2 * 1 + 2 + 7), abs=1e-4)
    assert page["rival"]["failed"] == 0
    assert page["own"]["f1"] is not None
    assert page["ratio_same_tokens"] is None or page["ratio_same_tokens"] > 0.0
    assert rows["record", "all"]["own"]["f1"] is None
    assert library.open_models == 0
    assert all(converter.ignore_links and converter.ignore_images for converter in markdown)


def test_the_rival_is_shown_the_page_and_the_schema(library: LlamaStandIn, markdown: list[Any], model: Path) -> None:
    command = ["bench", "compare", "notices", "--measure", "page", "--max-tokens", "60", "--gguf", "m.gguf", "-q"]
    assert run(command) == 0
    tokenizer = Tokenizer.load(model)
    prompts = [tokenizer.decode(call[2]) for call in library.calls if call[0] == "generate"][-3:]
    assert sum("# Bridge closed" in prompt for prompt in prompts) == 1
    for prompt in prompts:
        assert '"published_date"' in prompt.split("<|im_start|>user")[0]
        assert "JSON Schema" in prompt


def test_a_record_starts_from_what_all_pages_of_the_schema_share(
    measured: Measured, library: LlamaStandIn, model: Path
) -> None:
    measured("--measure", "record")
    tokenizer = Tokenizer.load(model)
    records = list(zip(library.calls[-6::2], library.calls[-5::2], strict=True))
    assert len({shared[2] for shared, _ in records}) == 1
    for (kind, _, shared), (_, held, prompt) in records:
        assert kind == "eval"
        assert tokenizer.decode(shared).endswith("\n\nPage:\n")
        assert held == len(shared)
        assert tokenizer.decode(prompt).endswith("<|im_start|>assistant\n")


def test_a_schema_is_met_once_before_its_pages_count_and_the_sides_take_turns(
    measured: Measured, library: LlamaStandIn, markdown: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    predict, theirs = Evaluation.predict, PageComparison._theirs
    monkeypatch.setattr(Evaluation, "predict", lambda *a: [order.append("own"), predict(*a)][1])
    monkeypatch.setattr(PageComparison, "_theirs", lambda *a: [order.append("rival"), theirs(*a)][1])
    measured("--measure", "page")
    assert order == ["own", "own", "rival", "rival", "own", "own", "rival"]


def test_pages_can_be_cut_shorter_and_stripped(
    measured: Measured, library: LlamaStandIn, markdown: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    budgets, structured, verbatim = set(), set(), set()
    answer, read, options = CompareBench.answer, SetReader.__init__, Evaluation.__init__

    def answered(self: Any, *given: Any) -> Any:
        budgets.add(given[-1])
        return answer(self, *given)

    def made_reader(self: Any, reading: Any, marks: bool = True) -> None:
        structured.add(marks)
        read(self, reading, marks)

    def made_evaluation(self: Any, *given: Any) -> None:
        verbatim.add(given[2].verbatim)
        options(self, *given)

    monkeypatch.setattr(CompareBench, "answer", answered)
    monkeypatch.setattr(SetReader, "__init__", made_reader)
    monkeypatch.setattr(Evaluation, "__init__", made_evaluation)
    measured("--measure", "page", "--rival-budget", "64", "--strip-structured", "--limit", "1")
    assert (budgets, structured, verbatim) == ({64}, {False}, {"auto"})
    measured("--measure", "page", "--limit", "1")
    assert (budgets, structured) == ({64, None}, {False, True})


def test_a_text_that_comes_to_no_end_or_is_no_json_is_a_failure_of_its_side(
    measured: Measured, library: LlamaStandIn, markdown: list[Any]
) -> None:
    honest = library.script
    library.script = lambda prompt, grammar: honest(prompt, grammar) * 9
    rows = measured("--measure", "record", "--measure", "page")
    assert rows["record", "all"]["rival"]["cut"] == rows["page", "all"]["rival"]["cut"] == 3
    assert rows["record", "all"]["ratio_complete"] is None
    assert rows["page", "all"]["rival"]["f1"] == 0.0
    library.script = lambda prompt, grammar: honest(prompt, None)
    assert measured("--measure", "page")["page", "all"]["rival"]["failed"] == 3


def test_without_llama_cpp_our_side_is_measured_and_one_line_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "llama_cpp", None)  # type: ignore[arg-type]
    command = ["bench", "compare", "notices", "--json", "--limit", "1", "--max-tokens", "40", "--decode-tokens", "8"]
    assert run([*command, "-q"]) == 0
    out, err = capsys.readouterr()
    lines = [json.loads(line) for line in out.splitlines()]
    assert {line["measure"] for line in lines} == set(MEASURES)
    assert all(line["rival"] is None and line["ratio"] is None and line["own"]["ms"] > 0.0 for line in lines)
    said = [line for line in err.splitlines() if "llama" in line]
    assert len(said) == 1
    assert "llama-cpp-python is not installed (pip install 'fetchly[compare]'" in said[0]


def test_without_html2text_only_pages_lack_the_rival(
    measured: Measured, library: LlamaStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "html2text", None)  # type: ignore[arg-type]
    rows = measured("--measure", "record", "--measure", "page", "--limit", "1")
    assert rows["record", "all"]["rival"] is not None
    assert rows["page", "all"]["rival"] is None


def test_a_busy_machine_is_said(
    library: LlamaStandIn, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["bench", "compare", "notices", "--measure", "prefill", "--gguf", "m.gguf", "-q"]
    assert run(command) == 0
    assert "other work" not in capsys.readouterr().err
    monkeypatch.setattr("fetchly_llm.bench.compare.os.getloadavg", lambda: (1.7, 0.0, 0.0))
    assert run(command) == 0
    assert "this machine had other work (load 1.7)" in capsys.readouterr().err


@pytest.mark.parametrize(("refused", "code"), [("Markt", 3), ("", 1)])
def test_a_page_that_llama_cpp_refuses_is_named(
    library: LlamaStandIn, model: Path, capsys: pytest.CaptureFixture[str], refused: str, code: int
) -> None:
    honest, tokenizer = library.script, Tokenizer.load(model)

    def script(prompt: list[int], grammar: Grammar | None) -> list[int]:
        if grammar is not None and refused in tokenizer.decode(prompt):
            raise RuntimeError("llama_decode returned 1")
        return honest(prompt, grammar)

    library.script = script
    command = ["bench", "compare", "notices", "--measure", "record", "--max-tokens", "60", "--gguf", "m.gguf", "-q"]
    assert run([*command, "--json"]) == code
    out, err = capsys.readouterr()
    assert "refused: notices/market: REQUEST_INVALID: llama.cpp: RuntimeError: llama_decode returned 1" in err
    if code == 3:
        assert [(line["documents"], line["refused"]) for line in map(json.loads, out.splitlines())] == [(2, 1)] * 2
    else:
        assert "NOTHING_MEASURED" in err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["notices", "--measure", "smell"], 2, "unknown measure 'smell' (known: prefill, decode"),
        (["notices", "--gguf", "gone.gguf"], 1, "FILE_MISSING gone.gguf"),
        (["nowhere"], 2, "DATASET_INVALID"),
        (["notices", "notices"], 2, "named twice"),
        (["notices", "-o", "no/rows.jsonl"], 1, "folder does not exist"),
    ],
)
def test_what_cannot_be_is_said_with_the_right_exit_code(
    library: LlamaStandIn, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, words: str
) -> None:
    assert run(["bench", "compare", *arguments, "-q"]) == code
    assert words in " ".join(capsys.readouterr().err.split())
