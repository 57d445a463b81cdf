"""What counts as a process of a browser."""

from __future__ import annotations

import subprocess
import sys

import psutil

from fetchly.crawler.browser_process import BrowserProcess
from fetchly.egress import EgressGate


def test_a_driver_that_has_ended_and_was_not_waited_for_is_none() -> None:
    browser = BrowserProcess(EgressGate(), None)
    assert browser.pids() == ()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as driver:
        browser._driver_pid = driver.pid
        assert browser.pids() == (driver.pid,)
        assert driver.stdin is not None
        driver.stdin.close()
        while psutil.Process(driver.pid).status() != psutil.STATUS_ZOMBIE:
            pass
        assert browser.pids() == ()
    assert browser.pids() == ()
