"""Threads in, one of them at a time out; in a fork of a process that was at work, a clear answer instead of a wait."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from fetchly_llm.errors import RequestInvalid


class Turns:
    """Who may use `what`. A fork copies the lock but not the thread that would release it: its turns are refused."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._lock = threading.Lock()
        self._worker = 0  # the process whose thread has the lock

    @contextmanager
    def take(self) -> Iterator[None]:
        """Wait for the turn and have it. Raises RequestInvalid where nothing could ever end the wait."""
        if self._worker not in (0, os.getpid()):
            raise RequestInvalid(
                f"the process was forked while another of its threads was using {self._what}",
                hint="open another one in the fork",
            )
        with self._lock:
            self._worker = os.getpid()
            try:
                yield
            finally:
                self._worker = 0
