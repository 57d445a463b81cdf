"""Rows as bytes in; a file that they are appended to, and that survives a kill, out.

The file's length and sum at each flush stand in the ledger, so that a torn end is cut off, and a file that somebody has
changed is told from one that a kill has torn. A row whose id comes again is appended like any other; at the end the
file is written anew without the earlier one.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from fetchly.errors import ConfigurationError, OutputError
from fetchly.sinks.ledger import Ledger, Mark

_CHUNK = 1 << 20


class Journal:
    """An open file and its ledger. Errors of all: OutputError with the file's name."""

    def __init__(self, file: Path, ledger: Ledger, header: bytes) -> None:
        self.file = file
        self._ledger = ledger
        self._header = header
        self._stream: BinaryIO | None = None
        self._end = Mark(0, 0, 0)

    def begin(self, facts: Mapping[str, Any]) -> None:
        """A new file, with its header; what it held before is gone."""
        with self._saying_where():
            self._ledger.reset(facts)  # first: what a kill leaves then is known to be this run's
            self._begin()

    def go_on(self) -> int:
        """The last page result that the file holds whole; what is torn is cut off, and a lost file is begun anew.

        Errors: ConfigurationError OUTPUT_DIFFERS for a file that something else has changed.
        """
        with self._saying_where():
            mark = None
            if self.file.is_file() and self._ledger.marks():
                self._end_compaction()
                mark = self._last_whole()
            if mark is None:
                self._ledger.go_back(Mark(-1, 0, 0))
                self._begin()
                return 0
            self._open()
            self._cut(mark.length)
            self._ledger.go_back(mark)
            self._end = mark
            return mark.position

    def append(self, rows: Iterable[tuple[str, bytes]]) -> None:
        """Rows (id, bytes), for every reader to see, durable after the next mark."""
        with self._saying_where():
            length, content = self._end.length, []
            for row_id, line in rows:
                self._ledger.add(row_id, length)
                length += len(line)
                content.append(line)
            added = b"".join(content)
            self._put(added)
            self._end = Mark(self._end.position, length, zlib.crc32(added, self._end.sum))

    def mark(self, position: int) -> None:
        """What was appended is on disk, and holds the page results up to `position`."""
        with self._saying_where():
            self._sync()
            self._end = Mark(position, self._end.length, self._end.sum)
            self._ledger.mark(self._end)

    def compact(self) -> None:
        """Of rows with one id keep the last, at its place. Follows a mark."""
        if not self._ledger.has_repeated():
            return
        with self._saying_where():
            length, total = 0, 0
            with self._part.open("wb") as part, self.file.open("rb") as whole:
                shutil.copymode(self.file, self._part)
                for start, stop in self._kept():
                    whole.seek(start)
                    for chunk in _chunks(whole, stop - start):
                        part.write(chunk)
                        length, total = length + len(chunk), zlib.crc32(chunk, total)
                part.flush()
                os.fsync(part.fileno())
            # Between the two a kill leaves the one file or the other: this tells which.
            self._ledger.note(compacting=[self._end.position, length, total])
            os.replace(self._part, self.file)
            _sync_folder(self.file.parent)
            self._end_compaction()
            self._open()
            self._cut(length)
            self._end = Mark(self._end.position, length, total)

    def close(self) -> None:
        """Let go of the file and the ledger."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        self._ledger.close()

    def _begin(self) -> None:
        self._open()
        self._cut(0)
        self._put(self._header)
        self._sync()
        self._end = Mark(0, len(self._header), zlib.crc32(self._header))
        self._ledger.mark(self._end)

    def _kept(self) -> Iterator[tuple[int, int]]:
        yield 0, len(self._header)
        for span in self._ledger.spans(self._end.length):
            if span.is_last:
                yield span.start, span.stop

    def _end_compaction(self) -> None:
        """Where the file is the compacted one, the ledger says so; else it has not been."""
        noted = self._ledger.fact("compacting")
        if noted is None:
            return
        compacted = Mark(*noted)
        if self._sums_to(compacted):
            self._ledger.replace_rows(self._moved(), compacted, compacting=None)
        else:
            self._ledger.note(compacting=None)
            self._part.unlink(missing_ok=True)

    def _moved(self) -> Iterator[tuple[bytes, int]]:
        start = len(self._header)
        for span in self._ledger.spans(self._ledger.marks()[-1].length):
            if span.is_last:
                yield span.id, start
                start += span.stop - span.start

    def _sums_to(self, mark: Mark) -> bool:
        total = 0
        with self.file.open("rb") as stream:
            for chunk in _chunks(stream, mark.length + 1):
                total = zlib.crc32(chunk, total)
        return self.file.stat().st_size == mark.length and total == mark.sum

    def _last_whole(self) -> Mark | None:
        """The last mark that the file reaches; None where it is the beginning of a header."""
        whole, at, total = None, 0, 0
        with self.file.open("rb") as stream:
            is_ours = self._header.startswith(stream.read(len(self._header)))
            stream.seek(0)
            for mark in self._ledger.marks():
                for chunk in _chunks(stream, mark.length - at):
                    at, total = at + len(chunk), zlib.crc32(chunk, total)
                if at < mark.length:
                    break  # torn, or cut short
                is_ours = is_ours and total == mark.sum
                whole = mark
        if is_ours:
            return whole
        raise ConfigurationError(
            "the file is not as this run has left it",
            where=str(self.file),
            hint="move it away, and it is written anew; or name another file",
            code="OUTPUT_DIFFERS",
        )

    @property
    def _part(self) -> Path:
        return self.file.with_name(f".{self.file.name}.part")

    def _open(self) -> None:
        if self._stream is not None:
            self._stream.close()
        self._stream = os.fdopen(os.open(self.file, os.O_RDWR | os.O_CREAT, 0o666), "r+b", buffering=0)
        try:
            fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigurationError(
                "another run is writing this file",
                where=str(self.file),
                hint="wait for it, or stop it",
                code="SINK_IN_USE",
            ) from None

    def _cut(self, length: int) -> None:
        assert self._stream is not None
        self._stream.truncate(length)
        self._stream.seek(length)

    def _put(self, content: bytes) -> None:
        assert self._stream is not None
        rest = memoryview(content)
        while rest:
            rest = rest[self._stream.write(rest) :]

    def _sync(self) -> None:
        assert self._stream is not None
        os.fsync(self._stream.fileno())

    @contextlib.contextmanager
    def _saying_where(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OutputError(f"cannot be written: {error.strerror or error}", where=str(self.file)) from None


def _chunks(stream: BinaryIO, length: int) -> Iterator[bytes]:
    """The next `length` bytes, or what there is of them."""
    while length > 0 and (chunk := stream.read(min(length, _CHUNK))):
        length -= len(chunk)
        yield chunk


def _sync_folder(folder: Path) -> None:
    """A file's new name is on disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
