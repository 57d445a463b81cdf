"""The output of a crawl, written from its state again and again."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchly.crawling.output import RecordLines
from fetchly.errors import ConfigurationError, OutputError

RECORDS: list[Any] = [{"name": "Tea"}, {"name": "Käse\n"}, {"name": "half \ud83d"}, [1, 2], "x"]


def written(file: Path, records: list[Any], *, resume: bool = True) -> bytes:
    with RecordLines(file, resume=resume) as lines:
        lines.write(records)
        lines.finish()
    return file.read_bytes()


def test_a_record_a_line(tmp_path: Path) -> None:
    text = written(tmp_path / "out", RECORDS, resume=False)
    assert [json.loads(line) for line in text.decode().splitlines()] == RECORDS


def test_a_line_is_there_as_soon_as_it_is_written(tmp_path: Path) -> None:
    with RecordLines(tmp_path / "out") as lines:
        lines.write(RECORDS[:1])
        assert (tmp_path / "out").read_text() == '{"name": "Tea"}\n'


@given(st.data())
def test_wherever_a_run_was_killed_the_next_one_ends_with_the_same_file(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    file = tmp_path_factory.mktemp("lines") / "out"
    whole = written(file, RECORDS)
    file.write_bytes(whole[: data.draw(st.integers(0, len(whole)))])
    assert written(file, RECORDS) == whole


def test_a_run_that_knows_less_leaves_the_rest_until_it_is_done(tmp_path: Path) -> None:
    file = tmp_path / "out"
    whole = written(file, RECORDS)
    with RecordLines(file, resume=True) as lines:  # interrupted: no finish
        lines.write(RECORDS[:2])
    assert file.read_bytes() == whole


@pytest.mark.parametrize("foreign", [b"{}\n", b'{"name": "T"', b"\xff\xfe", b'{"name": "Tea"}\n{}\n'])
def test_what_others_wrote_is_never_touched(tmp_path: Path, foreign: bytes) -> None:
    file = tmp_path / "out"
    file.write_bytes(foreign)
    with pytest.raises(ConfigurationError) as caught:
        written(file, RECORDS[:1])
    assert caught.value.code == "OUTPUT_DIFFERS"
    assert file.read_bytes() == foreign


def test_a_new_crawl_does_not_write_into_a_full_file(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine\n")
    with pytest.raises(ConfigurationError) as caught:
        RecordLines(tmp_path / "out")
    assert caught.value.code == "OUTPUT_EXISTS"
    (tmp_path / "empty").touch()
    written(tmp_path / "empty", RECORDS, resume=False)


def test_a_device_takes_everything() -> None:
    with RecordLines(Path("/dev/null"), resume=True) as lines:
        lines.write(RECORDS)
        lines.finish()


@pytest.mark.parametrize("place", ["missing/out", ""])
def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, place: str) -> None:
    with pytest.raises(OutputError) as caught:
        RecordLines(tmp_path / place)
    assert str(tmp_path) in (caught.value.where or "")
