"""The engine's error tree; imports nothing.

EngineError
├── RequestInvalid            the caller asked for something that cannot be
├── SchemaRefused             a schema that the grammar cannot or must not take (findings attached)
├── GrammarStateLimit         the matcher ran into one of its limits while writing
├── OutputLimit               the token limit was reached before the record was complete
├── CapacityExceeded          the prompt does not fit the context
├── Cancelled                 the caller withdrew the request
├── ModelMissing              the model is not here and could not be fetched
├── ModelUnsupported          an architecture or a file that no back-end can run
└── WeightsMismatch           a checkpoint whose names, shapes or checksum are not what they must be
"""

from __future__ import annotations


class EngineError(Exception):
    """Base of everything the engine raises on purpose.

    `code` is stable and machine-readable; `hint` names the next thing to try; `retryable` says whether the
    same call may succeed later.
    """

    code = "ENGINE_ERROR"
    retryable = False

    def __init__(self, message: str, *, hint: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if code is not None:
            self.code = code


class RequestInvalid(EngineError):
    """The request contradicts itself or the engine's configuration."""

    code = "REQUEST_INVALID"


class SchemaRefused(EngineError):
    """The schema cannot be compiled, or must not be in the chosen mode.

    `pointer` is the JSON pointer of the first offending place ("" is the root).
    """

    code = "SCHEMA_INVALID"

    def __init__(self, message: str, *, pointer: str = "", hint: str | None = None, code: str | None = None) -> None:
        super().__init__(message, hint=hint, code=code)
        self.pointer = pointer


class GrammarStateLimit(EngineError):
    """The matcher hit a limit of its own (states, items, fuel); the text so far is not a record."""

    code = "GRAMMAR_STATE_LIMIT"


class OutputLimit(EngineError):
    """`max_tokens` were written and the record is still open."""

    code = "OUTPUT_LIMIT"


class CapacityExceeded(EngineError):
    """Prompt and answer do not fit the model's context."""

    code = "CONTEXT_TOO_SMALL"


class Cancelled(EngineError):
    """The caller withdrew the request."""

    code = "CANCELLED"


class ModelMissing(EngineError):
    """The model is not in the store and could not be fetched."""

    code = "MODEL_MISSING"
    retryable = True


class ModelUnsupported(EngineError):
    """No back-end can run this architecture or file."""

    code = "MODEL_UNSUPPORTED"


class WeightsMismatch(EngineError):
    """A file's checksum, or a checkpoint's tensor names or shapes, are not what they must be."""

    code = "WEIGHTS_MISMATCH"
