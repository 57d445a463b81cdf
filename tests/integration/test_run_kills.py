"""kill -9 at any moment of a run, then resume: in every sink the very contents that an undisturbed run leaves."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.crawl_site import CrawlSite, Reply, numbered, page
from tests.support.pipelines import items, lines_of, rows_of, saved
from tests.support.postgres import postgres_server, programs

ROOT = Path(__file__).resolve().parents[2]
PAGES = 120
KILLS = 10
THREADS = 8
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'llm'}"}


def answer(path: str) -> Reply | None:
    """Numbered pages; every seventh is reached by a redirect, too, and every eleventh links to one that is missing."""
    number = path.rpartition("/")[2]
    if path.startswith("/old/"):
        return Reply(status=302, headers=(("Location", f"/p/{number}"),))
    if numbered(PAGES)(path) is None:
        return None
    n = int(number)
    more = [f"/old/{n}"] * (n % 7 == 0) + [f"/missing/{n}"] * (n % 11 == 0)
    return page(f"Item {n}", [f"/p/{m}" for m in range(n * 3 + 1, n * 3 + 4) if m < PAGES] + more)


def command(file: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "tests.support.crawl_program", "run", str(file), "-q", *more]


def pipeline_in(folder: Path, seed: str, postgres: str | None) -> Path:
    folder.mkdir()
    sinks: list[dict[str, Any]] = [
        {"jsonl": "out.jsonl"}, {"csv": {"path": "out.csv", "evidence": True}}, {"parquet": "out.parquet"},
        {"sqlite": "out.db"},
    ]  # fmt: skip
    if postgres is not None:
        sinks.append({"postgres": {"url": postgres, "table": folder.name}})
    run = {"delay": 0, "concurrency": THREADS, "error": "quarantine"}
    return saved(items(seed, sinks=sinks, run=run, transform={"set": {"shop": "Example"}}), folder)


@contextlib.contextmanager
def postgres_if_any() -> Iterator[str | None]:
    if programs() is None and os.environ.get("TEST_POSTGRES") != "required":
        yield None
        return
    with postgres_server() as url:
        yield url


def contents(folder: Path, postgres: str | None) -> dict[str, Any]:
    """Of every sink, without an order: which page is done first is chance."""
    import pyarrow.parquet

    found: dict[str, Any] = {
        "jsonl": sorted((folder / "out.jsonl").read_bytes().splitlines()),
        "csv": sorted((folder / "out.csv").read_bytes().splitlines()),
        "parquet": sorted(map(str, pyarrow.parquet.read_table(folder / "out.parquet").to_pylist())),
        "sqlite": rows_of(folder / "out.db"),
        "quarantine": sorted(line["url"] for line in lines_of(folder / "items.quarantine.jsonl")),
    }
    if postgres is not None:
        import psycopg
        from psycopg import sql

        with psycopg.connect(postgres) as connection:
            query = sql.SQL("SELECT * FROM {} ORDER BY _key").format(sql.Identifier(folder.name))
            found["postgres"] = connection.execute(query).fetchall()
    return found


def work_a_while(program: subprocess.Popen[bytes], site: CrawlSite, dice: random.Random) -> None:
    """Let a run come to some moment: its start, or so far into its work that all runs share it."""
    if dice.random() < 0.2:
        time.sleep(dice.uniform(0.0, 0.8))
        return
    asked, end = len(site.log), time.monotonic() + 60
    while len(site.log) == asked and program.poll() is None and time.monotonic() < end:
        time.sleep(0.002)
    time.sleep(dice.uniform(0.0, 0.5))


@pytest.mark.slow
def test_all_sinks_hold_the_same_whenever_a_run_is_killed(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    dice = random.Random(9)
    with postgres_if_any() as postgres, CrawlSite(answer, pause_s=0.03) as site:
        whole = pipeline_in(tmp_path / "whole", site.url(), postgres)
        assert subprocess.run(command(whole), env=ENVIRONMENT, timeout=120).returncode == 3  # some pages are missing
        site.log.clear()
        file = pipeline_in(tmp_path / "killed", site.url(), postgres)
        kills = in_the_middle = 0
        while kills < KILLS:
            program = subprocess.Popen(command(file, "--resume"), env=ENVIRONMENT)
            work_a_while(program, site, dice)
            is_alive = program.poll() is None
            program.send_signal(signal.SIGKILL)
            assert program.wait() == (-signal.SIGKILL if is_alive else 3)
            kills += is_alive
            in_the_middle += is_alive and 0 < len(set(site.paths())) < PAGES
        assert subprocess.run(command(file, "--resume"), env=ENVIRONMENT, timeout=120).returncode == 3
        undisturbed, killed = (contents(tmp_path / name, postgres) for name in ("whole", "killed"))
        pages = Counter(site.paths())
    assert in_the_middle >= KILLS // 2
    assert [len(undisturbed[name]) for name in ("jsonl", "csv", "parquet", "sqlite")] == [
        PAGES,
        PAGES + 1,
        PAGES,
        PAGES,
    ]
    assert len(undisturbed["quarantine"]) == 11
    assert killed.keys() == undisturbed.keys()
    for name, content in undisturbed.items():
        assert killed[name] == content, name
    # What a kill undoes is what was in flight; a page that was done is never asked for again.
    assert sum(pages.values()) - len(pages) <= KILLS * THREADS


@pytest.mark.parametrize("presses", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_ctrl_c_ends_a_run_that_can_be_gone_on_with(presses: int, tmp_path: Path) -> None:
    with CrawlSite(answer, pause_s=0.05) as site:
        file = pipeline_in(tmp_path / "run", site.url(), None)
        program = subprocess.Popen(command(file), env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + 60
        while len(site.paths()) < 12 and program.poll() is None and time.monotonic() < end:
            time.sleep(0.005)
        for _ in range(presses):
            program.send_signal(signal.SIGINT)
            time.sleep(0.1)  # two signals of a kind that come at once are one
        _, said = program.communicate(timeout=60)
        assert program.returncode == 130
        assert f"go on with: fetchly run {file} --resume" in said
        manifest = json.loads((tmp_path / "run" / "items.manifest.json").read_text())
        assert manifest["status"] == "interrupted"
        first = (tmp_path / "run" / "out.jsonl").read_bytes()
        assert len(first.splitlines()) == manifest["counts"]["rows"] < PAGES
        assert len(rows_of(tmp_path / "run" / "out.db")) == len(first.splitlines())
        assert not (tmp_path / "run" / "out.parquet").exists()  # it appears when the run is complete
        assert subprocess.run(command(file, "--resume"), env=ENVIRONMENT, timeout=120).returncode == 3
        assert (tmp_path / "run" / "out.jsonl").read_bytes().startswith(first)
        assert len(rows_of(tmp_path / "run" / "out.db")) == PAGES
