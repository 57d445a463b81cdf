"""`fetchly crawl` over a script in place of the model: streams, files, exit codes, Ctrl-C."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fetchly.cli.app import run
from fetchly.extraction.generator import GenerationTask
from tests.support.crawl_program import SCHEMA, name_of
from tests.support.crawl_site import CrawlSite, Reply, numbered
from tests.support.scripted_generator import ScriptedGenerator

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _script_and_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr("fetchly.sdk.LocalGenerator", lambda *_, **__: ScriptedGenerator(name_of))
    Path("schema.json").write_text(json.dumps(SCHEMA))


@pytest.fixture
def site() -> Iterator[CrawlSite]:
    with CrawlSite(numbered(12)) as site:
        yield site


def options(*more: str) -> list[str]:
    return ["-s", "schema.json", "--allow-private", "--render", "never", "--delay", "0", *more]


def crawl(site: CrawlSite, *more: str) -> int:
    return run(["crawl", site.url(), *options(*more)])


def lines_of(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def test_records_are_on_stdout_and_the_summary_is_on_stderr(
    site: CrawlSite, capsys: pytest.CaptureFixture[str]
) -> None:
    assert crawl(site) == 0
    streams = capsys.readouterr()
    assert sorted(record["name"] for record in lines_of(streams.out)) == sorted(f"Item {n}" for n in range(12))
    (said,) = lines_of(streams.err)
    assert said["crawl"]["done"] == said["crawl"]["records"] == 12
    assert list(Path().glob("*crawl*")) == []  # no state is left where none was asked for


def test_a_file_is_written_as_records_come_and_gone_on_with(
    site: CrawlSite, capsys: pytest.CaptureFixture[str]
) -> None:
    assert crawl(site, "-o", "out.jsonl", "--limit", "5", "-q") == 0
    first = Path("out.jsonl").read_text()
    assert len(lines_of(first)) == 5
    assert crawl(site, "-o", "out.jsonl", "-q") == 2
    assert "OUTPUT_EXISTS" in capsys.readouterr().err
    assert crawl(site, "-o", "out.jsonl", "-q", "--resume") == 0
    whole = Path("out.jsonl").read_text()
    assert whole.startswith(first)
    assert len(lines_of(whole)) == 12
    assert len(site.paths()) == 12
    assert crawl(site, "-o", "out.jsonl", "-q", "--resume") == 0
    assert Path("out.jsonl").read_text() == whole
    assert sorted(file.name for file in Path().iterdir()) == ["out.jsonl", "out.jsonl.crawl", "schema.json"]


def test_a_torn_line_is_written_whole_and_a_lost_file_anew(site: CrawlSite) -> None:
    assert crawl(site, "-o", "out.jsonl", "-q") == 0
    whole = Path("out.jsonl").read_text()
    Path("out.jsonl").write_text(whole[: len(whole) // 2])
    assert crawl(site, "-o", "out.jsonl", "-q", "--resume") == 0
    assert Path("out.jsonl").read_text() == whole
    Path("out.jsonl").unlink()
    assert crawl(site, "-o", "out.jsonl", "-q", "--resume") == 0
    assert Path("out.jsonl").read_text() == whole


@pytest.mark.parametrize("change", [lambda text: "{}\n" + text, lambda text: text + "{}\n", lambda text: "x" + text])
def test_a_file_that_is_not_this_crawls_is_left_alone(
    site: CrawlSite, change: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert crawl(site, "-o", "out.jsonl", "-q") == 0
    changed = change(Path("out.jsonl").read_text())
    Path("out.jsonl").write_text(changed)
    assert crawl(site, "-o", "out.jsonl", "-q", "--resume") == 2
    assert "OUTPUT_DIFFERS" in capsys.readouterr().err
    assert Path("out.jsonl").read_text() == changed


def test_stdout_of_a_resumed_crawl_is_all_of_it(site: CrawlSite, capsys: pytest.CaptureFixture[str]) -> None:
    assert crawl(site, "--state", "mine", "--limit", "5", "-q") == 0
    first = capsys.readouterr().out
    assert crawl(site, "--state", "mine", "--resume", "-q") == 0
    second = capsys.readouterr().out
    assert second.startswith(first)
    assert len(second.splitlines()) == 12


def test_json_and_csv_are_written_whole(site: CrawlSite) -> None:
    assert crawl(site, "-o", "out.json", "--format", "json", "-q") == 0
    assert len(json.loads(Path("out.json").read_text())) == 12
    assert crawl(site, "-o", "out.csv", "--format", "csv", "-q", "--limit", "3") == 0
    assert len(list(csv.DictReader(Path("out.csv").read_text().splitlines()))) == 3
    assert crawl(site, "-o", "out.csv", "--format", "csv", "-q", "--resume") == 0
    assert len(list(csv.DictReader(Path("out.csv").read_text().splitlines()))) == 12


def test_evidence_wraps_each_record(site: CrawlSite, capsys: pytest.CaptureFixture[str]) -> None:
    assert crawl(site, "--evidence", "--limit", "1") == 0
    (wrapped,) = lines_of(capsys.readouterr().out)
    assert wrapped["record"] == {"name": "Item 0"}
    assert wrapped["target"] == wrapped["url"] == site.url()
    assert wrapped["evidence"]["/name"]["found"] is True


def test_a_list_gives_a_line_a_record(
    site: CrawlSite, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def two(task: GenerationTask) -> str:
        record = name_of(task)
        return f"[{record}, {record}]" if "Item 1" in record else "[]"

    monkeypatch.setattr("fetchly.sdk.LocalGenerator", lambda *_, **__: ScriptedGenerator(two))
    Path("schema.json").write_text(json.dumps({"type": "array", "items": SCHEMA}))
    assert crawl(site, "-o", "out.jsonl", "--limit", "2") == 0
    assert [record["name"] for record in lines_of(Path("out.jsonl").read_text())] == ["Item 1", "Item 1"]
    assert lines_of(capsys.readouterr().err)[-1]["crawl"]["records"] == 2


def test_the_summary_goes_to_a_file_and_a_table(site: CrawlSite, capsys: pytest.CaptureFixture[str]) -> None:
    assert crawl(site, "--stats", "--stats-json", "stats.json", "-o", "out.jsonl") == 0
    assert json.loads(Path("stats.json").read_text())["done"] == 12
    said = capsys.readouterr().err
    assert "done                     12" in said
    assert "of 16,000 tokens waiting" in said
    assert "fetchly (processors)" in said
    assert "{" not in said


def test_a_memory_limit_is_checked_before_anything_is_fetched(
    site: CrawlSite, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert crawl(site, "--memory-limit", "much") == 2
    assert "memory_limit is 'much', not an amount of memory (write 2GB, 75% or off)" in capsys.readouterr().err
    monkeypatch.setenv("FETCHLY_MEMORY_LIMIT", "5MB")
    assert crawl(site) == 2
    assert "the limit is 5 MB, and fetchly with its model holds" in capsys.readouterr().err
    assert not site.log
    assert crawl(site, "--memory-limit", "off", "-o", "out.jsonl", "--stats-json", "stats.json") == 0
    assert json.loads(Path("stats.json").read_text())["host"]["held_back"] == {}


def test_exit_codes(site: CrawlSite, capsys: pytest.CaptureFixture[str]) -> None:
    site.fixed["/p/1"] = Reply(b"gone", 410)
    assert crawl(site, "-o", "out.jsonl", "-q") == 3
    assert "HTTP_STATUS" in capsys.readouterr().err
    del site.fixed["/p/1"]
    assert crawl(site, "-o", "out.jsonl", "--resume", "--failed") == 0
    assert run(["crawl", site.url("/none"), *options()]) == 1
    assert run(["crawl", site.url(), "-s", "schema.json"]) == 5
    site.fixed["/robots.txt"] = Reply(b"User-agent: *\nDisallow: /\n", content_type="text/plain")
    assert crawl(site) == 5
    assert run(["crawl", "ftp://example.org/", *options()]) == 5
    assert run(["crawl", "example.org", *options()]) == 1
    assert crawl(site, "--resume") == 2
    assert crawl(site, "--follow", "p/*") == 2
    assert crawl(site, "-o", "missing/out.jsonl") == 1


def test_globs_that_are_like_no_page_are_said(site: CrawlSite, capsys: pytest.CaptureFixture[str]) -> None:
    assert crawl(site, "--follow", "/shop/**", "-q") == 1
    assert "NO_MATCH: no page that was read is like --follow /shop/**" in capsys.readouterr().err
    assert crawl(site, "--follow", "/p/*", "-q") == 0
    assert "NO_MATCH" not in capsys.readouterr().err


def started(site: CrawlSite, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.support.crawl_program", "crawl", site.url(), *options(*more)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'llm'}"}
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


def wait_for(site: CrawlSite, count: int) -> None:
    end = time.monotonic() + 30
    while len(site.paths()) < count and time.monotonic() < end:
        time.sleep(0.01)


def test_ctrl_c_finishes_what_is_under_way() -> None:
    with CrawlSite(numbered(400), pause_s=0.02) as site:
        program = started(site, "-o", "out.jsonl")
        wait_for(site, 10)
        program.send_signal(signal.SIGINT)
        _, said = program.communicate(timeout=30)
        assert program.returncode == 130
        assert "INTERRUPTED" in said
        assert "--resume" in said
        assert len(lines_of(Path("out.jsonl").read_text())) == len(site.paths()) < 400
        assert crawl(site, "-o", "out.jsonl", "--resume", "-q") == 0
        assert len(site.paths()) == 400


def test_a_second_ctrl_c_stops_at_once() -> None:
    with CrawlSite(numbered(400), pause_s=0.02) as site:
        program = started(site, "-o", "out.jsonl", "--delay", "0.01")
        wait_for(site, 10)
        site.pause_s = 20.0  # what is under way from now on takes longer than anybody waits
        time.sleep(0.2)
        program.send_signal(signal.SIGINT)
        time.sleep(0.3)
        program.send_signal(signal.SIGINT)
        program.communicate(timeout=15)
        assert program.returncode == 130
        site.pause_s = 0.0
        assert crawl(site, "-o", "out.jsonl", "--resume", "-q") == 0
        names = [record["name"] for record in lines_of(Path("out.jsonl").read_text())]
        assert len(names) == len(set(names)) == 400
