"""Whether a browser is here for the tests that render pages, and what of it is still running."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from fetchly.crawler.browser import BrowserRenderer
from fetchly.crawler.chromium import BrowserMissing


def _reason() -> str:
    """Why there is nothing to test with; "" where there is, or where the lack is to fail."""
    if os.environ.get("FETCHLY_BROWSER_TESTS") == "required":
        return ""
    try:
        BrowserRenderer().check()
    except BrowserMissing as missing:
        return missing.line()
    return ""


needs_browser = pytest.mark.skipif(bool(_reason()), reason=_reason() or "-")


def processes_of(pid: int) -> list[psutil.Process]:
    """Living descendants of a process."""
    try:
        return [process for process in psutil.Process(pid).children(recursive=True) if _lives(process)]
    except psutil.NoSuchProcess:
        return []


def arguments_of(process: psutil.Process) -> str:
    """The command line of a process, its arguments parted by zero bytes; "" where it has ended."""
    try:
        return "\0".join(process.cmdline())
    except psutil.Error:
        return ""


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def gone(processes: list[psutil.Process], within_s: float = 5.0) -> bool:
    """Whether all of them end in time."""
    end = time.monotonic() + within_s
    while any(_lives(process) for process in processes):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def temporary_folders(folder: Path) -> Iterator[Path]:
    """What browsers leave in a folder for temporary files."""
    yield from folder.glob("*chrom*")
    yield from folder.glob("playwright*")
