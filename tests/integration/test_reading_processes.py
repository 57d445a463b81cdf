"""Reading processes under programs as people write them: no main guard, a fork, closed descriptors, a sudden death."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from fetchly.document.worker import DocumentReader
from fetchly.goods import Page

READ = """
import os, sys
from fetchly.document.worker import DocumentReader
from fetchly.goods import Page
def text(reader, body):
    return reader.read(Page("-", None, None, (), body)).text
"""


def run(tmp_path: Path, program: str, *arguments: str, shell: str = "") -> subprocess.CompletedProcess[str]:
    script = tmp_path / "script.py"
    script.write_text(READ + program)
    command = [sys.executable, *arguments, str(script)]
    if shell:
        command = ["sh", "-c", f'exec "$@" {shell}', "sh", *command]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False)


def test_a_script_without_a_main_guard_runs_once(tmp_path: Path) -> None:
    done = run(tmp_path, 'print("start")\nwith DocumentReader() as reader: print(text(reader, b"<p>fine"))')
    assert (done.stdout, done.stderr) == ("start\nfine\n", "")


@pytest.mark.parametrize("arguments", [["-I"], ["-E", "-s"], ["-P"], ["-W", "error", "-X", "dev"]])
def test_the_switches_of_the_interpreter_hold_for_the_child(tmp_path: Path, arguments: list[str]) -> None:
    done = run(tmp_path, 'with DocumentReader() as reader: print(text(reader, b"<p>fine"))', *arguments)
    assert (done.stdout, done.stderr) == ("fine\n", "")


@pytest.mark.parametrize("closed", [">&-", "<&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_descriptors_do_no_harm(tmp_path: Path, closed: str) -> None:
    program = """
with DocumentReader() as reader:
    right = text(reader, b"<p>fine") == "fine"
os._exit(7 if right else 1)
"""
    assert run(tmp_path, program, shell=closed).returncode == 7


def test_a_forked_process_has_children_of_its_own(tmp_path: Path) -> None:
    program = """
import psutil
with DocumentReader() as reader:
    text(reader, b"<p>x")
    mine = {child.pid for child in psutil.Process().children()}
    pid = os.fork()
    if pid == 0:
        right = text(reader, b"<p>forked") == "forked"
        right = right and not mine & {child.pid for child in psutil.Process().children()}
        reader.close()
        os._exit(7 if right and not psutil.Process().children() else 1)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    print(text(reader, b"<p>parent"), mine == {child.pid for child in psutil.Process().children()})
"""
    done = run(tmp_path, program)
    assert (done.stdout, done.stderr) == ("7\nparent True\n", "")


@pytest.mark.parametrize("busy", [False, True])
def test_children_do_not_outlive_a_parent_that_is_killed(tmp_path: Path, busy: bool) -> None:
    program = """
import psutil, signal, threading, time
from fetchly.document import process
process._GRACE_S = 0.1
reader = DocumentReader(timeout_s=1)
text(reader, b"<p>x")
print(psutil.Process().children()[0].pid, flush=True)
if BUSY:
    body = ("<html><p " + " ".join(f"a{i}" for i in range(300_000)) + ">x").encode()
    threading.Thread(target=text, args=(reader, body), daemon=True).start()
    time.sleep(0.3)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = run(tmp_path, f"BUSY = {busy}" + program)
    assert done.returncode == -signal.SIGKILL
    child = int(done.stdout)
    end = time.monotonic() + 10
    while psutil.pid_exists(child) and psutil.Process(child).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < end, "the child lives on"
        time.sleep(0.05)


def test_an_end_without_close_leaves_no_process(tmp_path: Path) -> None:
    program = """
import psutil
reader = DocumentReader()
text(reader, b"<p>x")
print(psutil.Process().children()[0].pid)
"""
    child = int(run(tmp_path, program).stdout)
    end = time.monotonic() + 10
    while psutil.pid_exists(child) and psutil.Process(child).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < end, "the child lives on"
        time.sleep(0.05)
    assert os.getpid() != child


@pytest.mark.slow
def test_a_page_of_twenty_megabytes_is_read() -> None:
    line = "<p>A line of <b>honest</b> text, number {} of many, that goes on for a while and tells of bees</p>\n"
    body = "".join(line.format(number) for number in range(210_000)).encode()
    assert len(body) > 20_000_000
    with DocumentReader() as reader:
        document = reader.read(Page("-", None, None, (), body))
    assert len(document.blocks) == 210_000
    assert document.blocks[-1].text.startswith("A line of honest text, number 209999 of many")
