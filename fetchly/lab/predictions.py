"""Predictions in, lines of a file (or of stdout) out, and back: so that a run that was cut short can go on.

A line is written and flushed when its page is done: a run that is killed loses at most the line in flight.
"""

from __future__ import annotations

import fcntl
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from fetchly.errors import ConfigurationError, OutputError

# What a line begins with, whatever page it is of.
_HEAD, _NEXT = b'{"id": "', b'", "record": '
_STRING = re.compile(rb'(?:[^"\\]|\\.?)*', re.DOTALL)


@dataclass(frozen=True, slots=True)
class PageKey:
    """A page of a run: its set's name and its id in the set."""

    set: str
    id: str


@dataclass(frozen=True, slots=True)
class Prediction:
    """What became of one page: a record, or an error with its code. `seconds` is the wall time of reading the page and
    writing its record; `stats` are the figures of the extraction, empty for a page that failed."""

    set: str
    id: str
    record: Any
    error: str | None
    seconds: float
    code: str | None = None
    warnings: tuple[str, ...] = ()
    stats: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> PageKey:
        """The page that this is about."""
        return PageKey(self.set, self.id)


class _Line(BaseModel):
    """A line as it is read back."""

    model_config = ConfigDict(extra="forbid", strict=True)

    id: str
    record: Any
    error: str | None
    seconds: float
    set: str
    code: str | None
    warnings: list[str]
    stats: dict[str, Any]
    run: dict[str, Any]


class PredictionFile:
    """Where predictions go. `run` are the settings that a prediction depends on; they stand in every line.

    Without a file, lines go to stdout. A file that holds something is only continued, with `resume` and the same
    settings: a torn last line is cut off, and `done` holds what the others say. One process at a time.

    Errors: ConfigurationError (OUTPUT_EXISTS, RUN_DIFFERS, PREDICTIONS_INVALID), OutputError.
    """

    def __init__(self, file: Path | None, run: Mapping[str, Any], resume: bool = False) -> None:
        if resume and file is None:
            raise ConfigurationError("--resume needs the file to continue: -o FILE")
        self._file = file
        self._run: dict[str, Any] = json.loads(json.dumps(run))
        self._stream: BinaryIO | None = None
        self.done: dict[PageKey, Prediction] = {}
        if file is None:
            return
        try:
            self._stream = _opened(file)
            if file.is_file():  # a device or a pipe has nothing to go on from
                self._continue(file, self._stream, resume)
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                reason = error.strerror or str(error)
                raise OutputError(f"cannot be written: {reason}", where=str(file)) from None
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def path(self) -> str | None:
        """The file's path; None for stdout."""
        return str(self._file) if self._file is not None else None

    def write(self, prediction: Prediction) -> None:
        """Write one line, at once."""
        value = asdict(prediction)
        ordered = {key: value.pop(key) for key in ("id", "record", "error", "seconds")}
        text = json.dumps({**ordered, **value, "run": self._run}, ensure_ascii=False) + "\n"
        line = text.encode("utf-8", "backslashreplace")  # half of a surrogate pair has no UTF-8, but a JSON escape
        if self._stream is None:
            sys.stdout.write(line.decode("utf-8"))
            sys.stdout.flush()
            return
        try:
            self._stream.write(line)
            self._stream.flush()
        except OSError as error:
            reason = error.strerror or str(error)
            raise OutputError(f"cannot be written: {reason}", where=str(self._file)) from None

    def close(self) -> None:
        """Close the file."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _continue(self, file: Path, stream: BinaryIO, resume: bool) -> None:
        """Take over what the file holds. Nothing of it is cut before all of it was seen to be ours."""
        content = file.read_bytes()
        if content and not resume:
            raise ConfigurationError(
                "the file holds predictions already",
                where=str(file),
                hint="add --resume to go on with them, or name another file",
                code="OUTPUT_EXISTS",
            )
        whole = content[: content.rfind(b"\n") + 1]
        for number, line in enumerate(whole.split(b"\n")[:-1], 1):
            prediction = self._read(line, f"{file}:{number}")
            self.done[prediction.key] = prediction
        tail = content[len(whole) :]
        if tail and not _is_torn(tail):
            self._read(tail, f"{file}:{len(self.done) + 1}")  # whole but for its end: it must be ours
        stream.truncate(len(whole))  # the line in flight when the run before was killed
        stream.seek(0, 2)

    def _read(self, line: bytes, place: str) -> Prediction:
        try:
            read = _Line.model_validate(json.loads(line))
        except (ValidationError, ValueError) as error:
            raise ConfigurationError(
                f"no prediction of this command: {_reason(error)}",
                where=place,
                hint="remove the line, or name another file",
                code="PREDICTIONS_INVALID",
            ) from None
        for name in {**self._run, **read.run}:
            there, here = read.run.get(name), self._run.get(name)
            if there != here:
                raise ConfigurationError(
                    f"was written with {name} {_short(there)}, this run has {_short(here)}",
                    where=place,
                    hint="give the same settings, or name another file",
                    code="RUN_DIFFERS",
                )
        values = read.model_dump(exclude={"run", "warnings"})
        return Prediction(**values, warnings=tuple(read.warnings))


def _is_torn(tail: bytes) -> bool:
    """Whether a last line without an end begins as predictions do and breaks off; that of a foreign file does not."""
    try:
        json.loads(tail)
        return False
    except ValueError:
        pass
    if not tail.startswith(_HEAD):
        return _HEAD.startswith(tail)
    page_id = _STRING.match(tail, len(_HEAD))
    assert page_id is not None, "it may be empty"
    rest = tail[page_id.end() :]
    return rest.startswith(_NEXT) or _NEXT.startswith(rest)


def _opened(file: Path) -> BinaryIO:
    stream = file.open("ab")
    try:
        if file.is_file():
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        stream.close()
        raise OutputError("another run is writing to it", where=str(file)) from None
    return stream


def _reason(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc'])) or 'the line'}: {first['msg']}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."
