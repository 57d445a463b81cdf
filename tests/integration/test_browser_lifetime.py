"""What is left of a browser after its program has ended, however it ended; and browsers that hang or die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from fetchly.crawler import browser_process
from fetchly.crawler.browser import BrowserRenderer
from fetchly.crawler.chromium import BrowserMissing
from fetchly.crawler.http import FetchPolicy
from fetchly.errors import FetchError
from tests.support.browser import gone, needs_browser, processes_of, temporary_folders
from tests.support.site import Site, Visit, answer

pytestmark = needs_browser

PROGRAM = """
import sys, time
from fetchly.crawler.browser import BrowserRenderer
from fetchly.crawler.http import FetchPolicy
renderer = BrowserRenderer(FetchPolicy(allow_private=True))
renderer.render(sys.argv[1])
print("rendered", flush=True)
sys.stdin.readline()
exec(sys.argv[2])
"""
ENDS = {
    "end": ("pass", None),
    "exception": ("raise ValueError('of the user')", None),
    "kill": ("time.sleep(30)", signal.SIGKILL),
    "terminate": ("time.sleep(30)", signal.SIGTERM),
    "Ctrl-C in a rendering": ("renderer.render(sys.argv[1] + 'silent')", signal.SIGINT),
    "kill in a rendering": ("renderer.render(sys.argv[1] + 'silent')", signal.SIGKILL),
}


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as running:
        running.routes |= {"/": answer(b"<p>hello"), "/silent": lambda visit: visit.stopped.wait(15)}  # type: ignore[dict-item]
        yield running


@pytest.mark.parametrize("end", ENDS)
def test_nothing_is_left_when_the_program_ends(site: Site, tmp_path: Path, end: str) -> None:
    statement, number = ENDS[end]
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, site.url(), statement],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert program.stdout is not None
    started: list[psutil.Process] = []
    try:
        assert program.stdout.readline() == b"rendered\n"
        started = processes_of(program.pid)
        assert len(started) > 2  # the driver, the browser, its parts
        assert list(temporary_folders(tmp_path))
        if number is None:
            _, said = program.communicate(b"\n", timeout=30)
        else:
            assert program.stdin is not None
            program.stdin.write(b"\n")
            program.stdin.flush()
            while "silent" in statement and len(site.visits) < 2:
                time.sleep(0.01)
            program.send_signal(number)
            _, said = program.communicate(timeout=30)
        assert gone(started)
        deadline = time.monotonic() + 5
        while list(temporary_folders(tmp_path)) and time.monotonic() < deadline:
            time.sleep(0.02)  # after a kill the driver tidies up by itself
        assert list(temporary_folders(tmp_path)) == []
        assert said.decode().count("Traceback") == (1 if end in ("exception", "Ctrl-C in a rendering") else 0)
    finally:
        program.kill()
        program.communicate()
        for process in started:
            if process.is_running():
                process.kill()


def test_a_deep_folder_for_temporary_files_is_no_hindrance(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.setenv("TMPDIR", str(deep))
    monkeypatch.setattr("tempfile.tempdir", None)
    with BrowserRenderer(FetchPolicy(allow_private=True)) as renderer:
        assert b"hello" in renderer.render(site.url()).body
        (running,) = process_of(renderer)._all
        profile, lock = running.folders
        assert profile.parent == deep
        assert lock.parent == Path("/tmp")
    assert not profile.exists()
    assert not lock.exists()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser_process, "CLOSE_S", 0.5)
    monkeypatch.setattr(browser_process, "TAB_S", 1.5)


def process_of(renderer: BrowserRenderer) -> browser_process.BrowserProcess:
    assert renderer._thread is not None
    assert renderer._thread._process is not None
    return renderer._thread._process


def family_of(renderer: BrowserRenderer) -> list[psutil.Process]:
    """The browser, and the processes that it has made."""
    (running,) = process_of(renderer)._all
    return [psutil.Process(running.pid), *processes_of(running.pid)]


@pytest.mark.usefixtures("impatient")
def test_a_browser_that_hangs_is_killed_and_replaced(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with BrowserRenderer(FetchPolicy(allow_private=True)) as renderer:
        renderer.render(site.url())
        first = family_of(renderer)

        def stopped() -> bool:
            if len(site.visits) > 1:
                os.killpg(first[0].pid, signal.SIGSTOP)
            return False

        with pytest.raises(FetchError) as failed:
            renderer.render(site.url("/silent"), timeout_s=2, should_stop=stopped)
        assert failed.value.code == "TIMEOUT"
        assert gone(first)
        assert b"hello" in renderer.render(site.url()).body
        second = family_of(renderer)
        os.killpg(second[0].pid, signal.SIGSTOP)
        assert b"hello" in renderer.render(site.url()).body  # between two pages: nobody is to notice
        assert gone(second)
    assert list(temporary_folders(tmp_path)) == []


def test_a_browser_that_dies_is_an_error_of_its_page_and_replaced(site: Site) -> None:
    with BrowserRenderer(FetchPolicy(allow_private=True)) as renderer:
        renderer.render(site.url())
        browser = family_of(renderer)[0]

        def killed() -> bool:
            if len(site.visits) > 1 and browser.is_running():
                browser.kill()
            return False

        with pytest.raises(FetchError) as failed:
            renderer.render(site.url("/silent"), should_stop=killed)
        assert (failed.value.code, failed.value.retryable) == ("BROWSER_CRASHED", True)
        assert b"hello" in renderer.render(site.url()).body


def test_a_driver_that_dies_is_replaced(site: Site) -> None:
    with BrowserRenderer(FetchPolicy(allow_private=True)) as renderer:
        renderer.render(site.url())
        browser = family_of(renderer)[0]
        driver = browser.parent()
        assert driver is not None
        driver.kill()
        assert gone([browser, driver])
        assert b"hello" in renderer.render(site.url()).body


def test_a_browser_that_has_worked_and_fails_is_the_trouble_of_a_page(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that is short of something for a while ends no crawl; a browser that never worked does."""

    async def nothing(*_: object) -> None:
        return None

    with BrowserRenderer(FetchPolicy(allow_private=True)) as renderer:
        renderer.render(site.url())
        with monkeypatch.context() as patch:
            patch.setattr(browser_process.BrowserProcess, "_open", nothing)
            with pytest.raises(FetchError) as failed:
                renderer.render(site.url())
            assert (failed.value.code, failed.value.retryable, failed.value.url) == (
                "BROWSER_CRASHED", True, site.url(),
            )  # fmt: skip
            with BrowserRenderer(FetchPolicy(allow_private=True)) as other, pytest.raises(BrowserMissing):
                other.render(site.url())
        assert b"hello" in renderer.render(site.url()).body


def test_a_forgotten_renderer_ends_its_browser(site: Site) -> None:
    renderer = BrowserRenderer(FetchPolicy(allow_private=True))
    renderer.render(site.url())
    started = processes_of(os.getpid())
    assert started
    del renderer
    assert gone(started)


def test_tabs_are_taken_away_and_given_back_while_pages_wait(site: Site) -> None:
    """Without a tab no page begins, and the browser gives its memory back; nothing that waits is lost."""
    release = threading.Event()

    def held(visit: Visit) -> None:
        release.wait(15)
        visit.send(answer(b"<p>held"))

    site.routes["/held"] = held
    with ThreadPoolExecutor(4) as threads, BrowserRenderer(FetchPolicy(allow_private=True), tabs=3) as renderer:
        assert renderer.pids() == ()
        assert b"hello" in renderer.render(site.url()).body
        started = processes_of(os.getpid())
        assert len(renderer.pids()) > 2  # the driver, the browser, its parts
        assert psutil.Process(renderer.pids()[0]).ppid() == os.getpid()
        assert family_of(renderer)[0].pid in renderer.pids()
        open_ones = [threads.submit(renderer.render, site.url("/held"), timeout_s=20) for _ in range(2)]
        while sum(visit.path == "/held" for visit in site.visits) < 2:
            time.sleep(0.01)
        renderer.set_tabs(1)
        waiting = threads.submit(renderer.render, site.url())
        renderer.set_tabs(0)
        release.set()
        assert all(b"held" in page.result().body for page in open_ones)
        assert gone(started)
        assert renderer.pids() == ()
        assert not waiting.done()
        assert [visit.path for visit in site.visits].count("/") == 1
        renderer.set_tabs(1)
        assert b"hello" in waiting.result().body
        assert renderer.pids()
        renderer.set_tabs(0)
        renderer.set_tabs(2)  # before, while or after it ends
        assert b"hello" in renderer.render(site.url()).body
    assert renderer.pids() == ()
