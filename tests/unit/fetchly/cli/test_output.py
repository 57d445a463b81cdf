import contextlib
import csv
import io
import json
import os
import stat
from pathlib import Path

import pytest

from fetchly.cli.output import Format, RecordWriter, to_csv
from fetchly.errors import ConfigurationError, OutputError

BOOK = {"title": "Emma", "price": {"amount": 3.5, "currency": "GBP"}, "tags": ["a", "b"], "isbn": None}


def write(form: Format, file: Path | None, *records: object, append: bool = False) -> None:
    writer = RecordWriter(form, file, append)
    for record in records:
        writer.add(record)
    writer.close()


def test_json_is_the_record_alone_or_a_list_of_several(tmp_path: Path) -> None:
    write("json", tmp_path / "one.json", BOOK)
    write("json", tmp_path / "two.json", BOOK, BOOK)
    assert json.loads((tmp_path / "one.json").read_text()) == BOOK
    assert json.loads((tmp_path / "two.json").read_text()) == [BOOK, BOOK]


@pytest.mark.parametrize("records", [[], [BOOK], [BOOK, BOOK]])
def test_a_page_with_any_number_of_records_is_a_list_however_many_it_has(tmp_path: Path, records: list[object]) -> None:
    forms: list[Format] = ["json", "jsonl", "csv"]
    for form in forms:
        writer = RecordWriter(form, tmp_path / form, append=False)
        writer.add_list(records)
        writer.close()
    assert json.loads((tmp_path / "json").read_text()) == records
    assert [json.loads(line) for line in (tmp_path / "jsonl").read_text().splitlines()] == records
    assert (tmp_path / "csv").read_bytes().decode() == (to_csv(records, header=True) if records else "")


def test_lines_appear_on_stdout_as_they_come(capsys: pytest.CaptureFixture[str]) -> None:
    writer = RecordWriter("jsonl", None, append=False)
    writer.add({"a": "é"})
    assert capsys.readouterr().out == '{"a": "é"}\n'
    writer.close()
    assert capsys.readouterr().out == ""


def test_csv_flattens_objects_and_keeps_lists_in_one_cell() -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv([BOOK, {"title": "Persuasion"}], header=True))))
    assert rows[0] == {
        "title": "Emma", "price.amount": "3.5", "price.currency": "GBP", "tags": '["a", "b"]', "isbn": "",
    }  # fmt: skip
    assert rows[1]["title"] == "Persuasion"
    assert rows[1]["price.amount"] == ""


@pytest.mark.parametrize("text", ["=1+1", "@cmd", "+1", "-1", "\tx"])
def test_a_text_that_a_spreadsheet_would_run_is_defused(text: str) -> None:
    cell = next(iter(csv.reader(io.StringIO(to_csv([{"a": text}], header=False)))))[0]
    assert cell == "'" + text
    assert to_csv([{"a": -1}], header=False) == "-1\r\n"


def test_a_failed_write_leaves_the_old_file_and_no_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "out.json"
    file.write_text("old")

    def full(source: str, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OutputError, match="No space left"):
        write("json", file, BOOK)
    assert file.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.json"]


def test_a_missing_folder_is_an_output_error(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="folder does not exist"):
        write("json", tmp_path / "no" / "out.json", BOOK)


def test_append_adds_whole_lines_and_mends_a_missing_line_break(tmp_path: Path) -> None:
    file = tmp_path / "out.jsonl"
    file.write_text('{"a": 1}')
    write("jsonl", file, {"a": 2}, append=True)
    assert [json.loads(line) for line in file.read_text().splitlines()] == [{"a": 1}, {"a": 2}]


def test_append_to_csv_needs_the_same_columns(tmp_path: Path) -> None:
    file = tmp_path / "out.csv"
    write("csv", file, {"a": 1})
    write("csv", file, {"a": 2}, append=True)
    assert file.read_text() == "a\n1\n2\n"
    with pytest.raises(OutputError, match="other columns"):
        write("csv", file, {"b": 2}, append=True)


def test_append_without_lines_is_a_usage_error() -> None:
    with pytest.raises(ConfigurationError):
        RecordWriter("json", Path("x"), append=True)
    with pytest.raises(ConfigurationError):
        RecordWriter("jsonl", None, append=True)


def test_a_new_file_has_the_usual_permissions_and_no_records_write_nothing(tmp_path: Path) -> None:
    write("json", tmp_path / "out.json", BOOK)
    assert stat.S_IMODE((tmp_path / "out.json").stat().st_mode) & 0o044
    write("json", tmp_path / "none.json")
    assert not (tmp_path / "none.json").exists()


def test_a_link_is_written_through_and_a_pipe_is_written_to(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("{}")
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    write("json", tmp_path / "link.json", BOOK)
    assert (tmp_path / "link.json").is_symlink()
    assert json.loads((tmp_path / "real.json").read_text()) == BOOK

    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write("json", tmp_path / "pipe", BOOK)
    assert json.loads(os.read(reader, 10_000)) == BOOK
    os.close(reader)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_full_or_closed_standard_output_is_an_output_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/full", "w") as full:
        monkeypatch.setattr("sys.stdout", full)
        with pytest.raises(OutputError, match="No space left"):
            write("json", None, BOOK)
        monkeypatch.setattr("sys.stdout", None)
        with pytest.raises(OutputError, match="closed"):
            write("json", None, BOOK)
        monkeypatch.undo()
        with contextlib.suppress(OSError):
            full.close()
