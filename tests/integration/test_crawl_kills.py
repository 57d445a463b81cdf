"""kill -9 at any moment, then resume: the same records as if nothing had been, and no page asked for without need."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.support.crawl_program import SCHEMA
from tests.support.crawl_site import CrawlSite, Reply, numbered, page

ROOT = Path(__file__).resolve().parents[2]
PAGES = 300
KILLS = 20
THREADS = 8


def answer(path: str) -> Reply | None:
    """Numbered pages; every seventh is reached by a redirect, too, and every eleventh also links to a PDF."""
    number = path.rpartition("/")[2]
    if path.startswith("/old/"):
        return Reply(status=302, headers=(("Location", f"/p/{number}"),))
    if path.startswith("/pdf/"):
        return Reply(b"%PDF-1.7", content_type="application/pdf")
    plain = numbered(PAGES)(path)
    if plain is None:
        return None
    n = int(number)
    more = [f"/old/{n}"] * (n % 7 == 0) + [f"/pdf/{n}"] * (n % 11 == 0)
    return page(f"Item {n}", [f"/p/{m}" for m in range(n * 3 + 1, n * 3 + 4) if m < PAGES] + more)


def command(site: CrawlSite, *more: str) -> list[str]:
    return [
        sys.executable, "-m", "tests.support.crawl_program", "crawl", site.url(), "-s", "schema.json",
        "--allow-private", "--render", "never", "--delay", "0", "--concurrency", str(THREADS), *more,
    ]  # fmt: skip


ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'llm'}"}


def work_a_while(program: subprocess.Popen[bytes], site: CrawlSite, dice: random.Random) -> None:
    """Let a run come to some moment: its start, or so far into its work that twenty runs share it."""
    if dice.random() < 0.2:
        time.sleep(dice.uniform(0.0, 0.6))
        return
    asked, end = len(site.log), time.monotonic() + 30
    while len(site.log) == asked and program.poll() is None and time.monotonic() < end:
        time.sleep(0.002)
    time.sleep(dice.uniform(0.0, 0.25))


@pytest.mark.slow
def test_records_are_the_same_whenever_it_is_killed(tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    dice = random.Random(8)
    with CrawlSite(answer, pause_s=0.03) as site:

        def run(*more: str) -> None:
            subprocess.run(command(site, "-q", *more), env=ENVIRONMENT, cwd=tmp_path, check=True, timeout=120)

        run("-o", "undisturbed.jsonl")
        site.log.clear()
        kills = in_the_middle = 0
        while kills < KILLS:
            program = subprocess.Popen(
                command(site, "-q", "-o", "killed.jsonl", "--resume"), env=ENVIRONMENT, cwd=tmp_path
            )
            work_a_while(program, site, dice)
            is_alive = program.poll() is None
            program.send_signal(signal.SIGKILL)
            assert program.wait() == (-signal.SIGKILL if is_alive else 0)
            kills += is_alive
            in_the_middle += is_alive and 0 < len(set(site.paths())) < PAGES
        run("-o", "killed.jsonl", "--resume")
    killed = (tmp_path / "killed.jsonl").read_bytes()
    undisturbed = (tmp_path / "undisturbed.jsonl").read_bytes()
    assert in_the_middle >= KILLS // 2
    assert len(undisturbed.splitlines()) == PAGES
    assert sorted(killed.splitlines()) == sorted(undisturbed.splitlines())
    # What a kill undoes is what was in flight; a page that was done is never asked for again.
    pages = Counter(path for path in site.paths("/") if path != "/robots.txt")
    assert sum(pages.values()) - len(pages) <= KILLS * THREADS


def test_nothing_that_was_written_is_written_again(tmp_path: Path) -> None:
    """One kill in the middle of the output: a torn line, a state that is ahead of it."""
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    with CrawlSite(numbered(PAGES)) as site:
        program = subprocess.Popen(command(site, "-q", "-o", "out.jsonl"), env=ENVIRONMENT, cwd=tmp_path)
        output = tmp_path / "out.jsonl"
        end = time.monotonic() + 60
        while time.monotonic() < end and (not output.exists() or output.stat().st_size < 300):
            time.sleep(0.005)
        program.kill()
        program.wait()
        before = output.read_bytes()
        assert len(before.splitlines()) < PAGES
        output.write_bytes(before[:-5])
        subprocess.run(
            command(site, "-q", "-o", "out.jsonl", "--resume"), env=ENVIRONMENT, cwd=tmp_path, check=True, timeout=120
        )
    after = output.read_bytes()
    assert after.startswith(before)
    assert len(after.splitlines()) == len(set(after.splitlines())) == PAGES
