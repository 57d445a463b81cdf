"""`python -m fetchly` and the console script: arguments in, exit code out."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import NoReturn

_INTERRUPTED = 130


def main() -> None:
    """Run the command line and leave with its exit code."""
    try:
        from fetchly.cli.app import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # before `run` could say it itself
        print("INTERRUPTED: stopped", file=sys.stderr)
        code = _INTERRUPTED
    _leave(code)


def _leave(code: int) -> NoReturn:
    """End the process. What was decided is not undone by a Ctrl-C that comes while it ends.

    An interrupt may have struck in the middle of a native library's start, and tearing down what is half there can
    crash. Everything of ours is closed by now, as the interrupt has passed through the context managers; so an
    interrupted process does not tear down.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if code != _INTERRUPTED:
        sys.exit(code)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # closed, or its reader has gone: nobody is left to tell
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
