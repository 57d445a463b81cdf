"""`fetchly bench decode --replay` with the embedded model's own tokenizer on a small dataset: exact, and no weights."""

import json
from pathlib import Path

import pytest

from fetchly.cli.app import run
from tests.support.tiny_dataset import build

pytestmark = pytest.mark.model


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def test_answers_are_replayed_to_the_byte_in_fewer_steps(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("fetchly_llm.backends.registry.load_backend", None)  # no weights are loaded
    build(Path("notices"))
    assert run(["bench", "decode", "--data", "notices", "--replay", "--json"]) == 0
    out, err = capsys.readouterr()
    rows = {(row["set"], row["arm"]): row for row in map(json.loads, out.splitlines())}
    arms = ("none", "forced", "lookup", "forced+lookup")
    assert list(rows) == [(name, arm) for name in ("notices", "all") for arm in arms]
    assert {row["documents"] for row in rows.values()} == {3}
    assert not any(row["mismatches"] or row["not_replayable"] or row["failed"] or row["cut"] for row in rows.values())
    steps = {arm: rows["all", arm]["decode_steps"] for arm in arms}
    assert steps["none"] == rows["all", "none"]["output_tokens"]
    assert steps["forced+lookup"] < steps["forced"] < steps["none"]
    assert steps["lookup"] < steps["none"]
    assert rows["all", "forced"]["tokens_per_s"] is None
    assert "DOCUMENT_EMPTY" in err


def test_examples_that_lab_writes_are_decoded_as_pages_are(capsys: pytest.CaptureFixture[str]) -> None:
    build(Path("notices"))
    assert run(["lab", "examples", "notices", "--split", "dev", "--structured", "1", "-o", "x.jsonl.gz", "-q"]) == 0
    assert run(["bench", "decode", "--examples", "x.jsonl.gz", "--replay", "--json", "-q"]) == 0
    from_file = capsys.readouterr().out
    assert run(["bench", "decode", "--data", "notices", "--replay", "--json", "-q"]) == 0

    def counts(text: str) -> list[tuple[str, str, int]]:
        return [(row["set"], row["arm"], row["decode_steps"]) for row in map(json.loads, text.splitlines())]

    assert counts(from_file) == counts(capsys.readouterr().out)
