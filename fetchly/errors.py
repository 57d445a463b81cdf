"""The error tree of the application; imports nothing.

FetchlyError                       exit 1
├── ConfigurationError             exit 2   settings, options, command line
│   └── SchemaError                exit 2   a schema that is not usable (code, JSON pointer)
├── FetchError                     exit 1   network, time, size, HTTP status
│   └── PolicyRefused              exit 5   a private address, a forbidden scheme or port
├── DocumentError                  exit 1   nothing to read: empty, not HTML, undecodable
├── ExtractionError                exit 1   the engine failed
│   ├── RecordInvalid              exit 4   no record that satisfies the schema
│   └── ModelUnavailable           exit 6   no model and no way to get one
├── OutputError                    exit 1   the result could not be written
└── Interrupted                    exit 130
"""

from __future__ import annotations

from typing import Any


class FetchlyError(Exception):
    """Base of everything fetchly raises on purpose.

    `where` names the place (URL, file, JSON pointer); `hint` is the next thing to try; `code` is stable and
    machine-readable; `retryable` says whether the same call may succeed later; `exit_code` is the command line's.
    """

    code = "ERROR"
    exit_code = 1
    retryable = False

    def __init__(
        self,
        message: str,
        *,
        where: str | None = None,
        hint: str | None = None,
        code: str | None = None,
        retryable: bool | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint
        if code is not None:
            self.code = code
        if retryable is not None:
            self.retryable = retryable

    def __reduce__(self) -> tuple[Any, ...]:
        """Errors go from process to process; the constructors of their kinds differ."""
        return _restored, (type(self), self.args), self.__dict__

    def line(self) -> str:
        """The error in one line: code, place, what is wrong, what to do next."""
        parts = [self.code, f" {self.where}" if self.where else "", f": {self.message}"]
        if self.hint:
            parts.append(f" ({self.hint})")
        return " ".join("".join(parts).split())


class ConfigurationError(FetchlyError):
    """An option, a setting or an argument is wrong."""

    code = "CONFIGURATION"
    exit_code = 2


class SchemaError(ConfigurationError):
    """The schema cannot be used. `where` carries its name and the JSON pointer."""

    code = "SCHEMA_INVALID"

    def __init__(
        self,
        message: str,
        *,
        pointer: str = "",
        where: str | None = None,
        hint: str | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message, where=where if where is not None else (pointer or None), hint=hint, code=code)
        self.pointer = pointer


class FetchError(FetchlyError):
    """A page could not be fetched. `status` is the HTTP status where there was an answer."""

    code = "FETCH_FAILED"

    def __init__(
        self,
        message: str,
        *,
        url: str,
        status: int | None = None,
        hint: str | None = None,
        code: str | None = None,
        retryable: bool | None = None,
    ) -> None:
        super().__init__(message, where=url, hint=hint, code=code, retryable=retryable)
        self.url = url
        self.status = status


class PolicyRefused(FetchError):
    """The request was never made: policy forbids it."""

    code = "POLICY_REFUSED"
    exit_code = 5


class DocumentError(FetchlyError):
    """The page holds nothing that can be read."""

    code = "DOCUMENT_UNREADABLE"


class ExtractionError(FetchlyError):
    """The engine could not answer."""

    code = "EXTRACTION_FAILED"


class RecordInvalid(ExtractionError):
    """No record that satisfies the schema. `pointer` is the first offending place of the record."""

    code = "RECORD_INVALID"
    exit_code = 4

    def __init__(
        self,
        message: str,
        *,
        pointer: str = "",
        where: str | None = None,
        hint: str | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message, where=where, hint=hint, code=code)
        self.pointer = pointer


class ModelUnavailable(ExtractionError):
    """The model is not on this machine and could not be fetched."""

    code = "MODEL_MISSING"
    exit_code = 6


class OutputError(FetchlyError):
    """The result could not be written."""

    code = "OUTPUT_FAILED"


class Interrupted(FetchlyError):
    """The user stopped the run."""

    code = "INTERRUPTED"
    exit_code = 130


def _restored(kind: type[FetchlyError], args: tuple[Any, ...]) -> FetchlyError:
    return kind.__new__(kind, *args)
