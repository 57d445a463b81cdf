"""Memory and processor time of this process and of what it starts."""

import mmap
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fetchly.document.reader import ReadOptions
from fetchly.document.worker import DocumentReader
from fetchly.goods import Page
from fetchly.governing.process_tree import ProcessTree, pss_of

ROLLUP = """55a5c2c00000-7ffc3a5f2000 ---p 00000000 00:00 0                          [rollup]
Rss:               18932 kB
Pss:               11514 kB
Pss_Dirty:          9816 kB
Pss_Anon:           9816 kB
SwapPss:               0 kB
"""
MB = 1_000_000
has_pss = pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="the kernel gives no PSS here")


def test_the_proportional_share_in_a_rollup() -> None:
    assert pss_of(ROLLUP) == 11514 * 1024


@pytest.mark.parametrize("text", ["", "Pss: many kB\n", "Pss_Anon: 12 kB\n", "Pss: 12 MB\n"])
def test_no_share_is_none(text: str) -> None:
    assert pss_of(text) is None


@contextmanager
def child(program: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has done what the program says, and waits."""
    command = [sys.executable, "-c", f"{program}\nprint(flush=True)\ninput()"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdout.readline()
        yield process
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait()


@has_pss
def test_a_child_counts_while_it_lives_and_its_time_after() -> None:
    tree = ProcessTree()
    before = tree.read()
    assert before.memory["fetchly"] > 10 * MB
    with child("held = b'x' * 50_000_000\nfor _ in range(3_000_000): pass"):
        during = tree.read()
    after = tree.read()
    assert during.memory["other"] - before.memory.get("other", 0) > 50 * MB
    assert during.total == sum(during.memory.values())
    assert during.processes == before.processes + 1
    assert after.processes == before.processes
    assert after.memory.get("other", 0) == before.memory.get("other", 0)
    assert after.cpu_s["other"] >= during.cpu_s["other"] > 0
    assert not during.by_rss


@has_pss
def test_what_grows_is_seen_and_what_is_shared_counts_once() -> None:
    tree = ProcessTree()
    before = tree.read().memory["fetchly"]
    with mmap.mmap(-1, 40 * MB) as held:  # an allocator may have that much left from before
        held.write(b"x" * 40 * MB)
        grown = tree.read().memory["fetchly"]
    fork = "import os\nheld = b'x' * 60_000_000\n" + "if not os.fork():\n    input()\n    os._exit(0)\n"
    with child(fork):
        both = tree.read()
    assert grown - before > 35 * MB
    assert 55 * MB < both.memory["other"] < 110 * MB  # two processes that share 60 MB


def test_the_reading_processes_are_told_by_their_program() -> None:
    page = Page(requested="x", url="http://x.example/", status=200, headers=(), body=b"<p>A page")
    with DocumentReader() as reader:
        reader.read(page, ReadOptions())
        assert ProcessTree().read().memory["readers"] > 1 * MB


def test_the_browser_is_the_driver_and_what_is_below_it(tmp_path: Path) -> None:
    package = tmp_path / "playwright"
    package.mkdir()
    inner = f"import subprocess, sys\nsubprocess.run([{sys.executable!r}, '-c', 'input()'])"
    (package / "cli.py").write_text(f"print(flush=True)\n{inner}")
    command = [sys.executable, str(package / "cli.py"), "run-driver"]
    driver = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert driver.stdin is not None
    assert driver.stdout is not None
    try:
        driver.stdout.readline()
        tree = ProcessTree()
        while "chromium" not in (reading := tree.read()).memory:
            assert driver.poll() is None
        assert {"fetchly", "driver", "chromium"} <= set(reading.memory)
    finally:
        driver.stdin.close()
        driver.stdout.close()
        driver.wait()


def test_processes_that_left_the_tree_are_named_by_the_browser() -> None:
    with child("") as process:
        tree = ProcessTree(process.pid, others=lambda: (os.getpid(), 2**22 + 1))
        reading = tree.read()
    assert set(reading.memory) == {"fetchly", "chromium"}
    assert reading.processes == 2


def test_where_there_is_no_share_the_resident_set_is_taken_and_said(tmp_path: Path) -> None:
    reading = ProcessTree(proc=tmp_path).read()
    assert "fetchly" in reading.by_rss
    assert reading.memory["fetchly"] > 10 * MB


def test_a_process_whose_memory_stays_is_not_walked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    # Walking a browser's pages takes milliseconds of each of its dozen processes.
    with child("") as process:
        tree = ProcessTree(process.pid)
        walks: list[int] = []
        real = ProcessTree._pss
        monkeypatch.setattr(ProcessTree, "_pss", lambda self, pid: walks.append(pid) or real(self, pid))  # type: ignore[func-returns-value]
        readings = [tree.read() for _ in range(9)]
    assert len(walks) == 1
    assert len({reading.total for reading in readings}) == 1


@has_pss
def test_what_has_ended_and_was_not_waited_for_holds_nothing() -> None:
    # The kernel gives no PSS of it, which is no reason to say that Chromium's could not be read.
    ended = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    with child("") as process:
        reading = ProcessTree(process.pid, others=lambda: (ended.pid,)).read()
    ended.wait()
    assert (reading.processes, reading.memory["chromium"], reading.by_rss) == (2, 0, frozenset())
