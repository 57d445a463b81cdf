"""What is said of a crawl while it goes on."""

import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fetchly.cli.crawl_progress import LINE_EVERY_S, CrawlDisplay, told
from fetchly.crawler.frontier import FrontierCounts
from fetchly.crawler.politeness import HostState
from fetchly.crawling.queues import QueueUse
from fetchly.crawling.summary import CrawlProgress

HOST = HostState("a.example", "paused", 12.0, 0, 3, 1, 1.0, ())
PROGRESS = CrawlProgress(
    counts=FrontierCounts(5, 2, 40, {"TIMEOUT": 3, "HTTP_STATUS": 1}, {"ROBOTS_DISALLOWED": 2}, 44),
    seconds=10.0,
    tokens_per_s=31.6,
    waiting=4,
    busy=2,
    hosts=(HOST,),
)
CRAWL = cast(Any, SimpleNamespace(progress=PROGRESS))


def test_the_figures_in_words() -> None:
    assert ", ".join(told(PROGRESS)) == (
        "40 pages, 44 records, 5 queued, 2 being fetched, 4 waiting for the model, "
        "4 failed (TIMEOUT 3, HTTP_STATUS 1), 2 skipped, 32 tokens/s"
    )


def test_what_waits_for_the_model_and_what_is_held_back() -> None:
    queues = {"model_tokens": QueueUse(7_900, 12_000, 16_000)}
    parts = told(replace(PROGRESS, queues=queues, held_back="memory 1.8 GB of 2.0 GB: 1 tab"))
    assert parts[4] == "4 waiting for the model (7,900 of 16,000 tokens)"
    assert parts[-1] == "memory 1.8 GB of 2.0 GB: 1 tab"


def test_off_a_terminal_it_is_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    with CrawlDisplay(quiet=False) as display:
        display.show(CRAWL)
        assert not display.tick()
        assert capsys.readouterr().err == ""
        now[0] += LINE_EVERY_S + 1
        display.tick()
        display.tick()
        assert capsys.readouterr().err.count("40 pages") == 1
        display.say("TIMEOUT a page")
        display.note("stopping")
        assert capsys.readouterr().err == "TIMEOUT a page\n"
        display.tick()
        assert capsys.readouterr().err == "stopping\n"


def test_a_quiet_one_says_what_failed_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with CrawlDisplay(quiet=True) as display:
        display.show(CRAWL)
        display.say("TIMEOUT a page")
        display.note("stopping")
        display.tick()
        assert capsys.readouterr().err == ""
        display.fail("TIMEOUT a page")
        assert capsys.readouterr().err == "TIMEOUT a page\n"


def test_on_a_terminal_there_is_a_picture_with_the_hosts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "xterm")
    with CrawlDisplay(quiet=False) as display:
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        display.show(CRAWL)
        display.say("TIMEOUT [bold]a page[/bold]")
        display._live.refresh()
    said = capsys.readouterr().err
    assert "TIMEOUT [bold]a page[/bold]" in said
    assert "a.example: paused for 12 s, 3 requests" in said
