"""A Page in, its Document out, read by child processes: a parser that crashes, hangs or eats memory takes only its
child down.

Not a sandbox: a child has the rights of its parent. It is started as a program of its own and not by `multiprocessing`,
which would import the user's main module again.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
import weakref
from types import TracebackType

from fetchly.document.child import OUT_OF_MEMORY
from fetchly.document.frames import Failure, Garbled, Request, pack_request, unpack_answer
from fetchly.document.process import Died, ReadingProcess
from fetchly.document.reader import ReadOptions
from fetchly.errors import ConfigurationError, DocumentError
from fetchly.goods import Document, Page

TIMEOUT_S = 60.0  # a page of 32 MB of dense mark-up takes some 20 s
MEMORY_BYTES = 2 * 1024**3  # and 1.4 GB
# A child that has read a page larger than this, or so many pages, is replaced: it keeps the memory it once needed.
LARGE_PAGE = 4 * 1024**2
PAGES_PER_CHILD = 1000
_PLAINLY = ReadOptions()


class DocumentReader:
    """Reads pages in up to `workers` child processes, side by side. Safe to share between threads; works inside an
    event loop (it blocks), in notebooks and after a fork.

    A child is started when it is first needed (some 0.1 s), reused, and replaced after it died. `timeout_s` is the wall
    time of one page, without the wait for a free child; `memory_bytes` bounds a child's address space. POSIX only.
    """

    def __init__(self, workers: int = 1, timeout_s: float = TIMEOUT_S, memory_bytes: int = MEMORY_BYTES) -> None:
        for name, value in (("workers", workers), ("timeout_s", timeout_s), ("memory_bytes", memory_bytes)):
            if not value > 0:
                raise ConfigurationError(f"{name} must be greater than 0", where=name)
        self.workers = workers
        self.timeout_s = timeout_s
        self.memory_bytes = memory_bytes
        self._closed = False
        self._prepare()
        _READERS.add(self)

    def _prepare(self) -> None:
        self._lock = threading.RLock()  # a signal handler may call close in the middle of anything
        self._free = threading.BoundedSemaphore(self.workers)
        self._children: set[ReadingProcess] = set()
        self._idle: list[ReadingProcess] = []

    def __enter__(self) -> DocumentReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End every child, also one that is reading: its `read` raises ConfigurationError. Idempotent."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            busy = self._children.difference(idle)
            self._children = busy.copy()
        for child in idle:
            child.end()
        for child in busy:
            child.kill()

    def read(self, page: Page, options: ReadOptions = _PLAINLY) -> Document:
        """`read_document` in a child process.

        Raises what `read_document` raises, and DocumentError with one of these codes: PARSER_CRASHED, PARSER_TIMEOUT,
        PARSER_MEMORY, PARSER_UNAVAILABLE (no child can be started).
        """
        request = pack_request(Request(page, options))
        place = page.url or page.requested
        with self._free:
            child = self._waiting() or self._start(place)
            try:
                return self._read(child, request, page)
            except Died:
                if child.pages == 1:
                    raise _crashed(child, place) from None
            # What an earlier page broke in that child is not this page's fault.
            child = self._start(place)
            try:
                return self._read(child, request, page)
            except Died:
                raise _crashed(child, place) from None

    def _read(self, child: ReadingProcess, request: list[bytes], page: Page) -> Document:
        """One exchange with a child, which is put back or ended whatever happens."""
        place = page.url or page.requested
        keep = False
        try:
            answer = unpack_answer(child.ask(request, time.monotonic() + self.timeout_s))
            keep = len(page.body) <= LARGE_PAGE and child.pages < PAGES_PER_CHILD
            if isinstance(answer, Failure):
                raise DocumentError(
                    f"reading this page failed: {answer.reason}",
                    where=place,
                    code="PARSER_CRASHED",
                    hint="a bug of fetchly: please report it with the page",
                )
            if isinstance(answer, DocumentError):
                raise answer
            return answer
        except TimeoutError:
            raise _late(self.timeout_s, place) from None
        except Garbled as error:
            raise DocumentError(
                f"the reader of this page gave a garbled answer ({error})", where=place, code="PARSER_CRASHED"
            ) from error
        finally:
            self._put(child, keep)

    def _waiting(self) -> ReadingProcess | None:
        """An idle child that is still alive, None where there is none."""
        while True:
            with self._lock:
                if self._closed:
                    raise _closed()
                if not self._idle:
                    return None
                child = self._idle.pop()
            if child.lives():
                return child
            self._put(child, keep=False)

    def _start(self, place: str) -> ReadingProcess:
        try:
            child = ReadingProcess(memory_bytes=self.memory_bytes, timeout_s=self.timeout_s)
        except OSError as error:
            raise _unavailable(error.strerror or str(error), place) from error
        with self._lock:
            self._children.add(child)
        words = child.start()
        if words or self._closed:
            self._put(child, keep=False)
            raise _unavailable(words, place)
        return child

    def _put(self, child: ReadingProcess, keep: bool) -> None:
        with self._lock:
            keep = keep and not self._closed
            if keep:
                self._idle.append(child)
            else:
                self._children.discard(child)
        if not keep:
            child.end()
        if self._closed:
            raise _closed()

    def _forget(self) -> None:
        """In a forked process: the children are the parent's, and so must be the only open ends of their pipes."""
        for child in self._children:
            child.disown()
        self._prepare()


_READERS: weakref.WeakSet[DocumentReader] = weakref.WeakSet()


def _forget_children() -> None:
    for reader in list(_READERS):
        reader._forget()


os.register_at_fork(after_in_child=_forget_children)


def _closed() -> ConfigurationError:
    return ConfigurationError("the reader is closed", hint="open a new one")


def _late(timeout_s: float, place: str) -> DocumentError:
    return DocumentError(
        f"the page was not read within {timeout_s:g} s",
        where=place,
        code="PARSER_TIMEOUT",
        hint="its mark-up holds up the parser: cut the page down first",
    )


def _crashed(child: ReadingProcess, place: str) -> DocumentError:
    status = child.status
    if status == OUT_OF_MEMORY:
        return DocumentError(
            "the page needs more memory than a reader may take",
            where=place,
            code="PARSER_MEMORY",
            hint="cut the page down first",
        )
    how = f"status {status}"
    if status is not None and status < 0:
        with contextlib.suppress(ValueError):
            how = signal.Signals(-status).name
    return DocumentError(
        f"the page brings its reader down ({how})",
        where=place,
        code="PARSER_CRASHED",
        hint="other pages are not affected; please report this one",
    )


def _unavailable(reason: str, place: str) -> DocumentError:
    return DocumentError(
        f"the process that reads pages does not start: {reason}",
        where=place,
        code="PARSER_UNAVAILABLE",
        hint=f"does {sys.executable or 'Python'} run, and does it find fetchly?",
    )
