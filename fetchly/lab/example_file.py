"""Examples in, lines of a file or of stdout out: JSON lines, compressed where the name ends in .gz.

A file appears whole, under its name, when everything is written: training never reads half of one.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from fetchly.errors import ConfigurationError, OutputError
from fetchly.lab.examples import Example


class ExampleFile:
    """Where examples go; stdout without a file. Use as a context manager: after an error nothing is left behind.

    Errors: ConfigurationError for a name in a folder that does not exist and for one that holds something already
    (OUTPUT_EXISTS), OutputError where writing fails.
    """

    def __init__(self, file: Path | None) -> None:
        if file is not None and not file.resolve().parent.is_dir():
            raise ConfigurationError("its folder does not exist", where=str(file))
        if file is not None and file.is_dir():
            raise ConfigurationError("is a folder", where=str(file), hint="name a file")
        if file is not None and file.exists() and not (file.is_file() and file.stat().st_size == 0):
            raise ConfigurationError(
                "exists already", where=str(file), hint="name another file, or remove it", code="OUTPUT_EXISTS"
            )
        self._file = file.resolve() if file is not None else None
        self._part = ""
        self._stream: IO[bytes] | None = None
        self._raw: IO[bytes] | None = None

    def __enter__(self) -> Self:
        if self._file is not None:
            try:
                handle, self._part = tempfile.mkstemp(dir=self._file.parent, prefix=f".{self._file.name}.")
            except OSError as error:
                raise self._failed(error) from None
            self._raw = os.fdopen(handle, "wb")
            # No time and no name inside: the same examples are the same bytes.
            packed = self._file.suffix == ".gz"
            self._stream = gzip.GzipFile("", "wb", 6, self._raw, mtime=0) if packed else self._raw  # type: ignore[assignment]
        return self

    def add(self, example: Example) -> None:
        """Write one example."""
        line = json.dumps(example.line(), ensure_ascii=False, separators=(",", ":")) + "\n"
        try:
            if self._stream is not None:
                self._stream.write(line.encode())
            else:
                sys.stdout.write(line)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise self._failed(error) from None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is None:
            if kind is None:
                sys.stdout.flush()
            return
        assert self._stream is not None
        assert self._raw is not None
        try:
            if kind is None:
                self._finish(self._file)
        except OSError as failure:
            raise self._failed(failure) from None
        finally:
            self._raw.close()
            Path(self._part).unlink(missing_ok=True)

    def _finish(self, file: Path) -> None:
        assert self._stream is not None
        assert self._raw is not None
        if self._stream is not self._raw:
            self._stream.close()
        self._raw.flush()
        os.fsync(self._raw.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(self._part, 0o666 & ~mask)
        os.replace(self._part, file)

    def _failed(self, error: OSError) -> OutputError:
        place = str(self._file) if self._file is not None else "standard output"
        return OutputError(f"cannot be written: {error.strerror or error}", where=place)
