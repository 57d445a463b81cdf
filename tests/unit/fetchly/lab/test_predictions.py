import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fetchly.errors import ConfigurationError, OutputError
from fetchly.lab.predictions import PageKey, Prediction, PredictionFile

RUN = {"model": "scripted", "budget": 1500}
FIRST = Prediction("notices", "ferry", {"title": "Fähre"}, None, 1.5, warnings=("w",), stats={"output_tokens": 3})
SECOND = Prediction("notices", "empty", None, "DOCUMENT_EMPTY: nothing", 0.25, code="DOCUMENT_EMPTY")


def write(file: Path, *predictions: Prediction, run: dict[str, Any] = RUN, resume: bool = False) -> None:
    with PredictionFile(file, run, resume) as out:
        for prediction in predictions:
            out.write(prediction)


def test_a_line_is_what_a_scorer_reads_and_stands_in_the_file_at_once(tmp_path: Path) -> None:
    file = tmp_path / "out.jsonl"
    with PredictionFile(file, RUN) as out:
        out.write(FIRST)
        line = json.loads(file.read_text("utf-8"))
    assert (line["id"], line["record"], line["error"], line["seconds"]) == ("ferry", {"title": "Fähre"}, None, 1.5)
    assert line["set"] == "notices"
    assert line["run"] == RUN


def test_a_run_goes_on_with_what_the_file_holds(tmp_path: Path) -> None:
    file = tmp_path / "out.jsonl"
    write(file, FIRST, SECOND)
    with PredictionFile(file, RUN, resume=True) as out:
        assert out.done == {PageKey("notices", "ferry"): FIRST, PageKey("notices", "empty"): SECOND}
        out.write(Prediction("notices", "third", {}, None, 0.0))
    assert [json.loads(line)["id"] for line in file.read_text("utf-8").splitlines()] == ["ferry", "empty", "third"]


@pytest.mark.parametrize("cut", [1, 7, 40])
def test_the_line_in_flight_of_a_killed_run_is_cut_off(tmp_path: Path, cut: int) -> None:
    file = tmp_path / "out.jsonl"
    write(file, FIRST, SECOND)
    file.write_bytes(file.read_bytes()[:-cut])
    with PredictionFile(file, RUN, resume=True) as out:
        assert list(out.done) == [PageKey("notices", "ferry")]
        out.write(SECOND)
    assert [json.loads(line)["id"] for line in file.read_text("utf-8").splitlines()] == ["ferry", "empty"]


def test_a_file_that_holds_something_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "out.jsonl"
    write(file, FIRST)
    before = file.read_bytes()
    with pytest.raises(ConfigurationError) as raised:
        write(file, SECOND)
    assert raised.value.code == "OUTPUT_EXISTS"
    assert "--resume" in (raised.value.hint or "")
    assert file.read_bytes() == before


def test_other_settings_are_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "out.jsonl"
    write(file, FIRST)
    before = file.read_bytes()
    with pytest.raises(ConfigurationError) as raised:
        write(file, SECOND, run={**RUN, "budget": 750}, resume=True)
    assert raised.value.code == "RUN_DIFFERS"
    assert raised.value.message == "was written with budget 1500, this run has 750"
    assert raised.value.where == f"{file}:1"
    assert file.read_bytes() == before


@pytest.mark.parametrize("line", ["", "{}", "no json", '{"id": "a", "record": null}', "\udcff"])
def test_a_file_of_something_else_is_refused_with_the_line(tmp_path: Path, line: str) -> None:
    file = tmp_path / "out.jsonl"
    write(file, FIRST)
    before = file.read_bytes() + line.encode("utf-8", "surrogateescape") + b"\n"
    file.write_bytes(before)
    with pytest.raises(ConfigurationError) as raised:
        write(file, SECOND, resume=True)
    assert raised.value.code == "PREDICTIONS_INVALID"
    assert raised.value.where == f"{file}:2"
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    "tail",
    [
        "my notes of Monday",
        "{",
        '{"name": "a"',
        '{"id": "a", "name": "b',
        '{"id": "a", "record": {}}',
        "[1, 2",
        "7",
        '{"id": "a\\',
    ],
)
def test_only_a_torn_prediction_is_cut_off(tmp_path: Path, tail: str) -> None:
    """A last line without its end that is not ours is left alone, alone in its file or after predictions."""
    ours = tail == "{" or tail.endswith("\\")
    for before in ((), (FIRST,)):
        file = tmp_path / f"{len(before)}.jsonl"
        write(file, *before)
        content = file.read_bytes() + tail.encode()
        file.write_bytes(content)
        if ours:  # what a run that was killed may leave
            write(file, SECOND, resume=True)
            assert len(file.read_bytes().splitlines()) == len(before) + 1
            continue
        with pytest.raises(ConfigurationError) as raised:
            write(file, SECOND, resume=True)
        assert (raised.value.code, raised.value.where) == ("PREDICTIONS_INVALID", f"{file}:{len(before) + 1}")
        assert file.read_bytes() == content


def test_wherever_a_line_is_torn_the_run_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "out.jsonl"
    odd = Prediction("notices", 'a"\\ü', {"title": 'x"'}, None, 0.0)
    write(file, odd)
    line = file.read_bytes()
    for length in range(len(line)):
        file.write_bytes(line[:length])
        with PredictionFile(file, RUN, resume=True) as out:
            assert out.done == {}
        assert file.read_bytes() == b""


def test_half_a_surrogate_pair_survives_the_file(tmp_path: Path) -> None:
    file = tmp_path / "out.jsonl"
    odd = Prediction("notices", "odd", {"title": "\ud83d"}, None, 0.0)
    write(file, odd)
    with PredictionFile(file, RUN, resume=True) as out:
        assert out.done[PageKey("notices", "odd")] == odd


def test_resume_needs_a_file() -> None:
    with pytest.raises(ConfigurationError, match="-o FILE"):
        PredictionFile(None, RUN, resume=True)


def test_a_folder_that_is_not_there_is_an_output_error(tmp_path: Path) -> None:
    with pytest.raises(OutputError):
        PredictionFile(tmp_path / "none" / "out.jsonl", RUN)


def test_two_runs_cannot_write_one_file(tmp_path: Path) -> None:
    file = tmp_path / "out.jsonl"
    program = (
        "import sys; from pathlib import Path; from fetchly.lab.predictions import PredictionFile\n"
        "from fetchly.errors import OutputError\n"
        "try: PredictionFile(Path(sys.argv[1]), {}, True)\n"
        "except OutputError as error: print(error.message)"
    )
    with PredictionFile(file, RUN):
        answer = subprocess.run(
            [sys.executable, "-c", program, str(file)], capture_output=True, text=True, check=True, timeout=60
        )
    assert answer.stdout.strip() == "another run is writing to it"
