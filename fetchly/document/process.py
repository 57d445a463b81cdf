"""A request in, the answer of a reading process out, within a deadline: the parent's end of its pipes."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from fetchly.document.child import READY
from fetchly.document.frames import ANSWER_HEAD, MAX_ANSWER, Garbled

_START_S = 30.0
_GRACE_S = 5.0  # after the deadline a child whose parent is gone ends itself
_CHUNK = 1 << 20

# The child imports what the parent imports, from the same folders, but nothing from the current directory.
_BOOT = """
import sys
sys.path[:] = sys.argv[3:]
from fetchly.document.child import serve
serve(memory_bytes=int(sys.argv[1]), seconds=float(sys.argv[2]))
"""


class Died(Exception):
    """The child is gone in the middle of an exchange."""


class ReadingProcess:
    """A reading process and the pipes to it."""

    def __init__(self, *, memory_bytes: int, timeout_s: float) -> None:
        """Raises OSError where no process can be started; `start` tells whether it came up."""
        self.pages = 0
        self._process = subprocess.Popen(
            _command(memory_bytes, timeout_s + _GRACE_S),
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
            start_new_session=True,  # Ctrl-C and Ctrl-Z of a terminal are the parent's to answer
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._pipes = (self._process.stdin, self._process.stdout, self._process.stderr)
        for pipe in self._pipes:
            os.set_blocking(pipe.fileno(), False)

    def start(self) -> str:
        """Wait until it is ready, and return ""; where it does not get so far, its last words."""
        try:
            if self._receive(len(READY), time.monotonic() + _START_S) == READY:
                return ""
        except TimeoutError:
            return f"nothing after {_START_S:g} s"
        except Died:
            with contextlib.suppress(OSError):
                lines = os.read(self._pipes[2].fileno(), 65536).decode("utf-8", "replace").split("\n")
                return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "it ended at once")
        return "its first words make no sense"

    def lives(self) -> bool:
        """False once it has ended."""
        return self._process.poll() is None

    @property
    def status(self) -> int | None:
        """The exit status of an ended child, negative for a signal."""
        return self._process.returncode

    def ask(self, request: Iterable[bytes], deadline: float) -> bytes:
        """Send a request and wait for the answer. Raises TimeoutError and Died; the child is then of no more use."""
        self.pages += 1
        for part in request:
            self._send(part, deadline)
        (size,) = ANSWER_HEAD.unpack(self._receive(ANSWER_HEAD.size, deadline))
        if size > MAX_ANSWER:
            raise Garbled(f"{size:,} bytes")
        return self._receive(size, deadline)

    def _send(self, data: bytes, deadline: float) -> None:
        view = memoryview(data)
        descriptor = self._pipes[0].fileno()
        while view:
            _wait(descriptor, select.POLLOUT, deadline)
            try:
                view = view[os.write(descriptor, view[:_CHUNK]) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                raise Died from None

    def _receive(self, size: int, deadline: float) -> bytes:
        data = bytearray()
        descriptor = self._pipes[1].fileno()
        while len(data) < size:
            _wait(descriptor, select.POLLIN, deadline)
            try:
                part = os.read(descriptor, min(size - len(data), _CHUNK))
            except BlockingIOError:
                continue
            if not part:
                raise Died
            data += part
        return bytes(data)

    def kill(self) -> None:
        """End the process and wait for it; its pipes stay open for whoever uses them."""
        self._process.kill()
        self._process.wait()

    def end(self) -> None:
        """End the process, wait for it and close its pipes. The status of a child that has died before is kept."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            if not self._pipes[1].closed and _hung_up(self._pipes[1].fileno()):
                self._process.wait(1)  # it is dying by itself: its own status is the interesting one
        self.kill()
        self._close()

    def disown(self) -> None:
        """Close the pipes of a child that belongs to another process, which alone may wait for it."""
        self._close()
        self._process.returncode = 0

    def _close(self) -> None:
        for pipe in self._pipes:
            with contextlib.suppress(OSError):
                pipe.close()


def _command(memory_bytes: int, seconds: float) -> list[str]:
    """How a child is started. -I, -E and -s are passed on; -P: the current directory may be anybody's."""
    flags = ["-P"]
    flags += ["-I"] if sys.flags.isolated else []
    flags += ["-E"] if sys.flags.ignore_environment else []
    flags += ["-s"] if sys.flags.no_user_site else []
    path = [entry for entry in sys.path if os.path.isabs(entry)]
    here = str(Path(__file__).resolve().parents[2])
    return [sys.executable, *flags, "-c", _BOOT, str(memory_bytes), str(seconds), *path, here]


def _wait(descriptor: int, event: int, deadline: float) -> None:
    """Until a pipe is ready. What is ready is taken even after the deadline: a suspended terminal is nobody's fault."""
    poll = select.poll()
    poll.register(descriptor, event)
    if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
        raise TimeoutError


def _hung_up(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, 0)
    return bool(poll.poll(0))
