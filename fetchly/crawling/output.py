"""Records in the order in which a state holds them in; the lines of a JSON lines file, or of stdout, out.

The state is the truth, and the file is written from it, from the beginning in every run: what stands there already is
compared and kept, a line that a kill has torn is written whole.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from fetchly.errors import ConfigurationError, OutputError


class RecordLines:
    """Writes records as JSON lines, each at once. Without a file, or into a device or a pipe, every record is written;
    a file that holds something is only gone on with, after `resume`.

    Errors: ConfigurationError (OUTPUT_EXISTS, OUTPUT_DIFFERS), OutputError.
    """

    def __init__(self, file: Path | None, *, resume: bool = False) -> None:
        self._file = file
        self._stream: BinaryIO | None = None
        self._has_more = False  # of an earlier run, not compared yet
        if file is None:
            return
        try:
            is_new = not file.exists()
            self._stream = file.open("w+b" if is_new else "r+b" if file.is_file() else "wb")
            self._has_more = not is_new and file.is_file() and file.stat().st_size > 0
        except OSError as error:
            raise self._unwritable(error) from None
        if self._has_more and not resume:
            self._stream.close()
            raise ConfigurationError(
                "the file holds something already",
                where=str(file),
                hint="add --resume to go on with the crawl that wrote it, or name another file",
                code="OUTPUT_EXISTS",
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stream is not None:
            self._stream.close()

    def write(self, records: Iterable[Any]) -> None:
        """The records of one page."""
        for record in records:
            text = json.dumps(record, ensure_ascii=False) + "\n"
            self._write(text.encode("utf-8", "backslashreplace"))  # half of a surrogate pair: a JSON escape

    def finish(self) -> None:
        """There are no more records. Raises OUTPUT_DIFFERS where the file holds more than these."""
        if self._has_more and self._stream is not None and self._stream.read(1):
            raise self._differs("holds lines after those of this crawl")

    def _write(self, line: bytes) -> None:
        try:
            if self._stream is None:
                _to_stdout(line)
            elif not self._has_more or not self._is_there(self._stream, line):
                self._stream.write(line)
                self._stream.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise self._unwritable(error) from None

    def _is_there(self, stream: BinaryIO, line: bytes) -> bool:
        """Whether an earlier run has written this line. The last one may be torn, where a kill struck."""
        at = stream.tell()
        old = stream.readline()
        if old == line:
            return True
        if not line.startswith(old):
            raise self._differs("holds other lines than this crawl has written")
        self._has_more = False
        stream.seek(at)  # what is torn is the beginning of this line, and is written over
        return False

    def _differs(self, message: str) -> ConfigurationError:
        return ConfigurationError(
            message, where=str(self._file), hint="move it away: --resume writes it anew", code="OUTPUT_DIFFERS"
        )

    def _unwritable(self, error: OSError) -> OutputError:
        return OutputError(f"cannot be written: {error.strerror or error}", where=str(self._file or "stdout"))


def _to_stdout(line: bytes) -> None:
    if sys.stdout is None:
        raise OutputError("standard output is closed", hint="name a file with -o")
    sys.stdout.write(line.decode("utf-8"))
    sys.stdout.flush()
