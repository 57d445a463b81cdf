"""What goes wrong in a run: pages, rows, sinks, disks, and two runs at once; and the files that go on with it."""

import itertools
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fetchly.cli.app import run
from fetchly.errors import ConfigurationError, FetchError, OutputError, PolicyRefused, RecordInvalid
from fetchly.extraction.generator import GenerationTask
from fetchly.pipeline.opened_client import RunOptions
from fetchly.pipeline.pipeline import Pipeline
from fetchly.pipeline.runner import PipelineRun
from tests.support.crawl_program import SCHEMA, name_of
from tests.support.crawl_site import CrawlSite, Reply, numbered, page
from tests.support.pipelines import items, lines_of, names_of, ran, rows_of, saved
from tests.support.scripted_generator import ScriptedGenerator


@pytest.fixture(autouse=True)
def _script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fetchly.sdk.LocalGenerator", lambda *_, **__: ScriptedGenerator(name_of))
    monkeypatch.setattr("fetchly.reading._READERS", 1)  # each takes its time to start


@pytest.fixture
def site() -> Iterator[CrawlSite]:
    """Twelve pages, of which /p/3 is not there."""
    with CrawlSite(numbered(12, fan=11), {"/p/3": Reply(b"gone", 404)}) as site:
        yield site


def without(*numbers: int) -> list[str]:
    return sorted(f"Item {number}" for number in range(12) if number not in numbers)


def test_a_page_that_fails_is_skipped_and_counted(
    site: CrawlSite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["run", str(saved(items(site.url()), tmp_path)), "-q"]) == 3
    assert capsys.readouterr().err.startswith(f"HTTP_STATUS {site.url('/p/3')}: ")
    assert names_of(tmp_path / "out.jsonl") == without(3)
    assert not (tmp_path / "items.quarantine.jsonl").exists()


def test_quarantine_holds_what_failed_and_can_be_run_again(site: CrawlSite, tmp_path: Path) -> None:
    pipeline = items(site.url(), run={"error": "quarantine"})
    summary = ran(pipeline, tmp_path)
    assert summary.quarantined == 1
    (line,) = lines_of(tmp_path / "items.quarantine.jsonl")
    assert (line["url"], line["code"], line["attempts"]) == (site.url("/p/3"), "HTTP_STATUS", 1)
    assert line["message"]
    assert site.url("/p/3") not in line["message"]

    again = {"seeds": None, "urls": {"file": "items.quarantine.jsonl"}}
    other = ran(items("", name="again", source=again, sinks=[{"jsonl": "again.jsonl"}]), tmp_path)
    assert other.crawl.failed == {"HTTP_STATUS": 1}

    del site.fixed["/p/3"]
    assert ran(pipeline, tmp_path, resume=True).quarantined == 1  # it is not asked for again by itself
    assert ran(pipeline, tmp_path, resume=True, failed=True).quarantined == 0
    assert lines_of(tmp_path / "items.quarantine.jsonl") == []
    assert names_of(tmp_path / "out.jsonl") == without()


def test_stop_ends_with_the_pages_error_and_can_be_gone_on_with(
    site: CrawlSite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = saved(items(site.url(), run={"error": "stop", "concurrency": 1}), tmp_path)
    assert run(["run", str(file), "-q"]) == FetchError.exit_code
    captured = capsys.readouterr()
    assert captured.err.startswith(f"HTTP_STATUS {site.url('/p/3')}: ")
    assert captured.err.count("\n") == 1
    manifest = json.loads((tmp_path / "items.manifest.json").read_text())
    assert manifest["status"] == "failed"
    assert manifest["error"].startswith("HTTP_STATUS ")
    done = names_of(tmp_path / "out.jsonl")
    assert 1 <= len(done) == manifest["crawl"]["done"] < 11
    del site.fixed["/p/3"]
    assert run(["run", str(file), "-q", "--resume", "--failed"]) == 0
    assert names_of(tmp_path / "out.jsonl") == without()
    pages = site.paths()
    assert len(pages) == len(set(pages)) + 1  # the one that failed


def test_what_is_not_even_asked_for_ends_a_run_that_stops(site: CrawlSite, tmp_path: Path) -> None:
    pipeline = items(site.url(), source={"allow_private": False}, run={"error": "stop"})
    with pytest.raises(PolicyRefused) as caught:
        ran(pipeline, tmp_path)
    assert caught.value.line().count(site.url()) == 1
    assert not site.log


@pytest.mark.parametrize("change", [{}, {"exclude": ["/p/3"]}])
def test_a_run_that_was_refused_everything_is_not_in_the_way_of_the_next(
    site: CrawlSite, tmp_path: Path, change: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    sinks = [{"jsonl": "out.jsonl"}, {"csv": "out.csv"}, {"sqlite": "out.db"}]
    refused = saved(items(site.url(), source={"allow_private": False}, sinks=sinks), tmp_path)
    assert run(["run", str(refused), "-q"]) == PolicyRefused.exit_code
    line = capsys.readouterr().err
    assert line.startswith(f"{site.url()}: ADDRESS_REFUSED ")
    assert "allow_private: true under source" in line
    pipeline = items(site.url(), source=change, sinks=sinks)
    assert ran(pipeline, tmp_path).rows == 11
    assert names_of(tmp_path / "out.jsonl") == without(3)
    assert len(rows_of(tmp_path / "out.db")) == 11
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 12
    with pytest.raises(ConfigurationError, match="there is the state") as caught:
        ran(pipeline, tmp_path)
    assert caught.value.hint == "add --resume to go on with it; to begin anew, delete it, or name another file"


def test_a_record_that_is_none_ends_a_run_that_stops(site: CrawlSite, tmp_path: Path) -> None:
    schema = {**SCHEMA, "properties": {"name": {"type": "string", "minLength": 3}}}
    wrong = {"extract": {"schema": schema, "attempts": 1}, "run": {"error": "stop"}}

    def short(task: GenerationTask) -> str:
        return '{"name": "x"}' if task.prompt.source.startswith("Item 5") else name_of(task)

    with pytest.raises(RecordInvalid):
        ran(items(site.url("/p/0"), source={"exclude": ["/p/3"]}, **wrong), tmp_path, short)


def test_an_open_record_whose_field_is_taken_goes_the_same_way(site: CrawlSite, tmp_path: Path) -> None:
    schema = {key: value for key, value in SCHEMA.items() if key != "additionalProperties"}
    schema["additionalProperties"] = True

    def answer(task: GenerationTask) -> str:
        record = json.loads(name_of(task))
        return json.dumps({**record, "shop": "mine"} if record["name"] == "Item 4" else record)

    sections: dict[str, Any] = {
        "source": {"exclude": ["/p/3"]}, "extract": {"schema": schema, "schema_mode": "check"},
        "transform": {"set": {"shop": "ours"}},
    }  # fmt: skip
    summary = ran(items(site.url(), run={"error": "quarantine"}, **sections), tmp_path, answer)
    assert (summary.rows, summary.rejected, summary.quarantined) == (10, 1, 1)
    (line,) = lines_of(tmp_path / "items.quarantine.jsonl")
    assert (line["url"], line["code"], line["sink"]) == (site.url("/p/4"), "FIELD_TAKEN", None)
    assert names_of(tmp_path / "out.jsonl") == without(3, 4)
    stopping = items(site.url(), name="stopping", run={"error": "stop"}, **sections)
    stopping["sinks"] = [{"jsonl": "stopping.jsonl"}]
    with pytest.raises(RecordInvalid, match="shop"):
        ran(stopping, tmp_path, answer)
    assert json.loads((tmp_path / "stopping.manifest.json").read_text())["status"] == "failed"


def constrained(file: Path) -> None:
    with closing(sqlite3.connect(file)) as database:
        database.execute(
            "CREATE TABLE records (name TEXT CHECK (name != 'Item 7'), _key TEXT NOT NULL PRIMARY KEY, _rest TEXT)"
        )


def unconstrained(file: Path) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as database:
        database.execute("ALTER TABLE records RENAME TO old")
        database.execute("CREATE TABLE records (name TEXT, _key TEXT NOT NULL PRIMARY KEY, _rest TEXT)")
        database.execute("INSERT INTO records SELECT * FROM old")
        database.execute("DROP TABLE old")


def test_a_row_that_the_users_table_refuses_is_quarantined_and_tried_again(site: CrawlSite, tmp_path: Path) -> None:
    constrained(tmp_path / "out.db")
    pipeline = items(
        site.url(), source={"exclude": ["/p/3"]}, run={"error": "quarantine"},
        sinks=[{"sqlite": "out.db"}, {"jsonl": "out.jsonl"}],
    )  # fmt: skip
    said: list[str] = []
    summary = ran(pipeline, tmp_path, report=said.append)
    assert [use.rows for use in summary.sinks] == [10, 11]
    assert sorted(name for name, *_ in rows_of(tmp_path / "out.db")) == without(3, 7)
    assert names_of(tmp_path / "out.jsonl") == without(3)
    (line,) = lines_of(tmp_path / "items.quarantine.jsonl")
    assert (line["url"], line["row"]) == (site.url("/p/7"), f"{site.url('/p/7')}#0")
    assert line["sink"].endswith("out.db table records")
    assert "CHECK constraint failed" in line["message"]
    assert [text for text in said if "/p/7" in text and "is not in" in text]

    summary = ran(pipeline, tmp_path, resume=True)  # as it is, it stays so
    assert (summary.rejected, summary.quarantined) == (1, 1)
    summary = ran(pipeline, tmp_path, resume=True, failed=True)
    assert (summary.rejected, summary.quarantined) == (1, 1)
    unconstrained(tmp_path / "out.db")
    summary = ran(pipeline, tmp_path, resume=True, failed=True)
    assert (summary.rejected, summary.quarantined) == (0, 0)
    assert [use.rows for use in summary.sinks] == [11, 11]
    assert sorted(name for name, *_ in rows_of(tmp_path / "out.db")) == without(3)
    assert names_of(tmp_path / "out.jsonl") == without(3)


def test_a_row_that_the_users_table_refuses_ends_a_run_that_stops(site: CrawlSite, tmp_path: Path) -> None:
    constrained(tmp_path / "out.db")
    pipeline = items(
        site.url(), source={"exclude": ["/p/3"]}, run={"error": "stop"},
        sinks=[{"sqlite": "out.db"}, {"jsonl": "out.jsonl"}],
    )  # fmt: skip
    with pytest.raises(OutputError, match="CHECK constraint failed"):
        ran(pipeline, tmp_path)
    with pytest.raises(OutputError, match="CHECK constraint failed"):
        ran(pipeline, tmp_path, resume=True)
    unconstrained(tmp_path / "out.db")
    assert ran(pipeline, tmp_path, resume=True).rows == 11
    assert sorted(name for name, *_ in rows_of(tmp_path / "out.db")) == without(3)
    assert names_of(tmp_path / "out.jsonl") == without(3)


def test_a_row_that_standard_output_cannot_hold_is_left_out_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fetchly.pipeline.outlets.BATCH_PAGES", 1)
    for number in range(3):
        (tmp_path / f"{number}.html").write_bytes(page(f"Item {number}", []).body)

    def answer(task: GenerationTask) -> str:
        found = json.loads(name_of(task))
        return json.dumps({**found, "_url": "taken"} if next(asked) == 1 else found)

    asked = itertools.count()
    source = {"seeds": None, "files": "*.html", "allow_private": False}
    extract = {"schema": {**SCHEMA, "additionalProperties": True}}
    pipeline = items("", source=source, extract=extract, sinks=[{"stdout": {"evidence": True}}])
    summary = ran(pipeline, tmp_path, answer)
    assert summary.rejected == 1
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_an_unreachable_database_is_told_before_any_page(site: CrawlSite, tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    url = "postgresql://me:s3cr3t@127.0.0.1:9/shop"  # the discard port, which nobody serves
    pipeline = items(site.url(), sinks=[{"csv": "out.csv"}, {"postgres": url}])
    with pytest.raises(OutputError) as caught:
        ran(pipeline, tmp_path)
    assert caught.value.code == "SINK_UNREACHABLE"
    assert "127.0.0.1:9" in str(caught.value.where)
    assert "s3cr3t" not in caught.value.line()
    assert not site.paths()
    # Nothing was begun: the same command works once the database is there.
    pipeline["sinks"] = [{"csv": "out.csv"}]
    assert ran(pipeline, tmp_path).rows == 11


def test_a_full_disk_ends_the_run_with_the_place_and_loses_nothing(
    site: CrawlSite, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from fetchly.sinks.journal import Journal

    put = Journal._put

    def full(journal: Journal, content: bytes) -> None:
        if journal.file.name == "full.jsonl" and b"Item" in content:
            raise OSError(28, "No space left on device")
        put(journal, content)

    monkeypatch.setattr(Journal, "_put", full)
    sinks = [{"jsonl": "full.jsonl"}, {"jsonl": "out.jsonl"}, {"sqlite": "out.db"}]
    file = saved(items(site.url(), source={"exclude": ["/p/3"]}, sinks=sinks), tmp_path)
    assert run(["run", str(file), "-q"]) == 1
    captured = capsys.readouterr()
    assert captured.err == f"OUTPUT_FAILED {tmp_path}/full.jsonl: cannot be written: No space left on device\n"
    assert json.loads((tmp_path / "items.manifest.json").read_text())["status"] == "failed"
    assert (tmp_path / "full.jsonl").read_bytes() == b""
    monkeypatch.undo()
    monkeypatch.setattr("fetchly.sdk.LocalGenerator", lambda *_, **__: ScriptedGenerator(name_of))
    assert run(["run", str(file), "-q", "--resume"]) == 0
    assert (tmp_path / "full.jsonl").read_bytes() == (tmp_path / "out.jsonl").read_bytes()
    assert names_of(tmp_path / "full.jsonl") == without(3)
    assert len(rows_of(tmp_path / "out.db")) == 11


def test_two_runs_on_one_state_are_told_apart(site: CrawlSite, tmp_path: Path) -> None:
    pipeline = Pipeline.from_dict(items(site.url()), folder=tmp_path)
    with PipelineRun(pipeline, RunOptions(), generator=ScriptedGenerator(name_of)) as first:
        manifest = (tmp_path / "items.manifest.json").read_bytes()
        with pytest.raises(ConfigurationError) as caught:
            ran(items(site.url()), tmp_path, resume=True)
        assert caught.value.code == "STATE_IN_USE"
        assert caught.value.where == str(tmp_path / "items.state")
        assert (tmp_path / "items.manifest.json").read_bytes() == manifest
        while first.wait():
            first.take()
        assert first.end().rows == 11


def test_a_list_that_has_grown_is_read_on(site: CrawlSite, tmp_path: Path) -> None:
    (tmp_path / "urls.txt").write_text(f"{site.url('/p/1')}\n")
    pipeline = items("", source={"seeds": None, "urls": {"file": "urls.txt"}})
    assert ran(pipeline, tmp_path).rows == 1
    (tmp_path / "urls.txt").write_text(f"{site.url('/p/1')}\n{site.url('/p/2')}\n")
    assert ran(pipeline, tmp_path, resume=True).rows == 2
    assert names_of(tmp_path / "out.jsonl") == ["Item 1", "Item 2"]
    assert len(site.paths()) == 2


def test_what_is_excluded_of_a_list_is_counted(site: CrawlSite, tmp_path: Path) -> None:
    (tmp_path / "urls.txt").write_text("".join(f"{site.url(f'/p/{number}')}\n" for number in (1, 3, 4)))
    said: list[str] = []
    source = {"seeds": None, "urls": {"file": "urls.txt"}, "exclude": ["/p/3", "/p/4"]}
    assert ran(items("", source=source), tmp_path, report=said.append).rows == 1
    assert "EXCLUDED urls.txt: exclude leaves out 2 of its URLs" in said


def test_a_missing_list_and_a_missing_folder_are_located(site: CrawlSite, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="the list cannot be read") as caught:
        ran(items("", source={"seeds": None, "urls": {"file": "urls.txt"}}), tmp_path)
    assert "/source/urls" in str(caught.value.where)
    outputs: list[dict[str, Any]] = [
        {"sinks": [{"jsonl": "no/out.jsonl"}]},
        {"run": {"error": "quarantine", "quarantine": "no/failed.jsonl"}},
        {"run": {"manifest": "no/manifest.json"}},
        {"run": {"state": "no/state"}},
    ]
    for sections in outputs:
        with pytest.raises(ConfigurationError, match="its folder does not exist") as caught:
            ran(items(site.url(), **sections), tmp_path)
        (section,) = sections
        assert f"/{section}" in str(caught.value.where)
        assert caught.value.hint == f"mkdir -p {tmp_path / 'no'}"
    assert not site.log
    assert ran(items(site.url()), tmp_path).rows == 11  # and nothing is in the way of the next run
