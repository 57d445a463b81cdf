"""How the process ends: the exit code holds whatever native libraries do while the interpreter is torn down."""

import subprocess
import sys

import pytest

# An interrupt in the middle of `import torch` can leave native state whose teardown crashes.
CRASHES_IN_TEARDOWN = """
import atexit, ctypes, signal, sys
import fetchly.cli.app
from fetchly.__main__ import main

signal.signal(signal.SIGINT, signal.default_int_handler)
atexit.register(ctypes.string_at, 0)

def run(arguments):
    print("half a line", end="")
    {ends}

fetchly.cli.app.run = run
main()
"""


@pytest.mark.parametrize("ends", ["return 130", "signal.raise_signal(signal.SIGINT)"])
def test_an_interrupted_process_skips_the_teardown_and_loses_no_output(ends: str) -> None:
    script = CRASHES_IN_TEARDOWN.format(ends=ends)
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 130, ended.stderr
    assert ended.stdout == "half a line"
    assert "Traceback" not in ended.stderr


def test_an_interrupt_that_comes_when_all_is_done_changes_nothing() -> None:
    script = """
import atexit, fetchly.cli.app, signal
from fetchly.__main__ import main

signal.signal(signal.SIGINT, signal.default_int_handler)
atexit.register(signal.raise_signal, signal.SIGINT)
fetchly.cli.app.run = lambda arguments: 4
main()
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 4, ended.stderr
    assert ended.stderr == ""
