"""The schema of a table of several kinds of rows, whole files, quarantined pages, and what doubles are known by."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from fetchly.crawler.failed_pages import failed_pages
from fetchly.crawler.fingerprint import address_of
from fetchly.crawler.frontier import Frontier
from fetchly.crawling.failures import failure_of
from fetchly.crawling.results import PageResult
from fetchly.errors import FetchError, OutputError
from fetchly.extraction.generator import ExtractionStats
from fetchly.pipeline.pipeline import Pipeline
from fetchly.pipeline.rows import RowMaker
from fetchly.pipeline.table_schema import table_schema
from fetchly.pipeline.whole_file import write_whole
from tests.support.pipelines import items

URL = "http://a.example/"


def of(kind: str) -> dict[str, Any]:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"value": {"$ref": "#/$defs/value"}, "word": {"const": {"$ref": "#/$defs/value"}}},
        "required": ["value"],
        "$defs": {"value": {"anyOf": [{"type": kind}, {"$ref": "#/$defs/none"}]}, "none": {"type": "null"}},
    }


def test_one_schema_is_as_it_is() -> None:
    schema = of("string")
    assert table_schema({"a": schema}) is schema


def test_definitions_of_one_name_do_not_meet() -> None:
    valid = jsonschema_rs.validator_for(table_schema({"a": of("string"), "b": of("integer")}))
    for value in ("x", 1, None):
        assert valid.is_valid({"value": value})
    assert not valid.is_valid({"value": 1.5})
    assert valid.is_valid({"value": 1, "word": {"$ref": "#/$defs/value"}})  # what is data stays data


def test_a_file_is_there_whole_or_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "x"
    write_whole(file, ["a\n", "ü\n"])
    assert file.read_text("utf-8") == "a\nü\n"
    assert stat.S_IMODE(file.stat().st_mode) & 0o600 == 0o600

    def broken() -> Any:
        yield "b\n"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_whole(file, broken())
    assert file.read_text("utf-8") == "a\nü\n"
    assert list(tmp_path.iterdir()) == [file]
    with pytest.raises(OutputError, match="cannot be written"):
        write_whole(tmp_path / "no" / "x", ["a"])


def test_a_failed_page_is_told_apart_from_its_message(tmp_path: Path) -> None:
    frontier = Frontier(tmp_path / "state", {})
    error = FetchError("it is gone (for good)", url=URL, hint="look  elsewhere", code="GONE", retryable=True)
    with frontier.transaction():
        frontier.add([address_of(URL)], 0)
        page = frontier.peek("a.example")
        assert page is not None
        frontier.take(page)
        frontier.fail(page, failure_of(error))
    frontier.close()
    (failed,) = failed_pages(tmp_path / "state")
    assert (failed.url, failed.code, failed.message) == (URL, "GONE", "it is gone (for good)")
    assert (failed.attempts, failed.retryable, failed.hint) == (1, True, "look  elsewhere")


def test_a_state_that_is_not_there_is_not_made_to_look_for_failures(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="the state is gone") as caught:
        list(failed_pages(tmp_path / "no #state?"))
    assert caught.value.where == str(tmp_path / "no #state?")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_under_what_doubles_are_known_by_is_said(tmp_path: Path) -> None:
    maker = RowMaker(Pipeline.from_dict(items(URL, transform={"deduplicate": "name"}), folder=tmp_path))
    assert maker._seen is not None
    maker._seen.execute("PRAGMA max_page_count = 2")
    values = [{"name": f"Item {number}"} for number in range(1000)]
    results = (
        PageResult(URL, URL, 200, (), False, value, {}, (), 1, "", ExtractionStats(), "item") for value in values
    )
    with pytest.raises(OutputError, match="full") as caught:
        list(map(maker.rows_of, results))
    assert "TMPDIR" in str(caught.value.hint)
    maker.close()
