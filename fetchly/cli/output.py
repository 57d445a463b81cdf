"""Results in; JSON, JSON lines or CSV on stdout or in a file out. A file is replaced whole or not at all."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from fetchly.errors import ConfigurationError, OutputError
from fetchly.sinks import csv_text

Format = Literal["json", "jsonl", "csv"]


class RecordWriter:
    """Collects records and writes them in one format.

    On stdout, JSON lines appear as they come; everything else appears at `close`. A file is written beside its final
    name and moved there at `close`; `append` adds to what the file holds (JSON lines, or CSV with the same header).
    """

    def __init__(self, form: Format, file: Path | None, append: bool) -> None:
        if append and (file is None or form == "json"):
            raise ConfigurationError("--append needs -o FILE and --format jsonl or csv")
        if file is not None:
            _check_place(file)
        self._form = form
        self._file = file
        self._append = append
        self._records: list[Any] = []
        self._is_list = False

    def add(self, record: Any) -> None:
        """Take one record."""
        self._records.append(record)
        if self._form == "jsonl" and self._file is None:
            _to_stdout(json.dumps(record, ensure_ascii=False) + "\n")

    def add_list(self, records: Sequence[Any]) -> None:
        """Take the records of a page that has any number of them, none included: as JSON they stay a list."""
        self._is_list = True
        for record in records:
            self.add(record)

    def close(self) -> None:
        """Write what has been collected. Where no page gave an answer, nothing is written."""
        if not self._records and not self._is_list:
            return
        if self._file is None:
            if self._form != "jsonl":
                _to_stdout(self._text(header=True))
            return
        try:
            self._to_file(self._file)
        except OSError as error:
            reason = error.strerror or str(error)
            raise OutputError(f"cannot be written: {reason}", where=str(self._file)) from None

    def _text(self, header: bool) -> str:
        if self._form == "csv":
            return to_csv(self._records, header)
        if self._form == "jsonl":
            return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in self._records)
        shown = self._records[0] if len(self._records) == 1 and not self._is_list else self._records
        return json.dumps(shown, ensure_ascii=False, indent=2) + "\n"

    def _to_file(self, file: Path) -> None:
        file = file.resolve()  # a link stays a link: what it leads to is replaced
        if file.exists() and not file.is_file():  # a device or a pipe is written to, never replaced
            file.write_bytes(self._text(header=True).encode("utf-8"))
            return
        before = b""
        if self._append and file.exists():
            before = file.read_bytes()
            if before and not before.endswith(b"\n"):
                before += b"\n"
        if before and self._form == "csv":
            old = next(csv.reader(io.StringIO(before.decode("utf-8", "replace"))))
            new = next(csv.reader(io.StringIO(to_csv(self._records, header=True))))
            if old != new:
                raise OutputError("holds other columns than these records", where=str(file), hint="write a new file")
        text = self._text(header=not before)
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.", suffix=".part")
        try:
            with os.fdopen(handle, "wb") as part:
                part.write(before + text.encode("utf-8"))
                part.flush()
                os.fsync(part.fileno())
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(name, file.stat().st_mode & 0o777 if file.exists() else 0o666 & ~mask)
            os.replace(name, file)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def csv_columns(records: Sequence[Any]) -> list[str]:
    """Column names of `records` in order of first appearance: object keys joined by dots; a list is one column."""
    columns: dict[str, None] = {}
    for record in records:
        columns.update(dict.fromkeys(csv_text.flat(record)))
    return list(columns)


def to_csv(records: Sequence[Any], header: bool) -> str:
    """CSV by the rules of fetchly.sinks.csv_text; a field that a record lacks is empty."""
    columns = csv_columns(records)
    lines = [csv_text.line(columns, "header")] if header and columns else []
    for number, record in enumerate(records, start=1):
        cells = csv_text.flat(record)
        lines.append(csv_text.line([cells.get(column) for column in columns], f"record {number}"))
    return "".join(lines)


def _check_place(file: Path) -> None:
    """What can be known to fail at the end is said at the start."""
    if file.is_dir():
        raise OutputError("is a folder", where=str(file), hint="name a file")
    folder = file.resolve().parent
    if not folder.is_dir():
        raise OutputError("its folder does not exist", where=str(file), hint=f"mkdir -p {folder}")


def _to_stdout(text: str) -> None:
    if sys.stdout is None:
        raise OutputError("standard output is closed", hint="name a file with -o")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"standard output cannot be written: {error.strerror or error}") from None
