"""What is noticed about a schema goes in; located, worded findings come out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

Mode = Literal["strict", "check"]
Severity = Literal["error", "warning", "notice"]

INVALID = "SCHEMA_INVALID"
UNSATISFIABLE = "SCHEMA_UNSATISFIABLE"
TOO_LARGE = "SCHEMA_TOO_LARGE"
UNKNOWN_KEYWORD = "SCHEMA_UNKNOWN_KEYWORD"
NOT_ENFORCED = "SCHEMA_KEYWORD_NOT_ENFORCED"
FORMAT_ANNOTATION = "SCHEMA_FORMAT_ANNOTATION"
REFERENCE = "SCHEMA_REFERENCE"
BOUND_APPLIED = "SCHEMA_BOUND_APPLIED"
OBJECT_CLOSED = "SCHEMA_OBJECT_CLOSED"
OBJECT_OPEN = "SCHEMA_OBJECT_OPEN"
TYPE_IMPLIED = "SCHEMA_TYPE_IMPLIED"
UNSPELLABLE = "SCHEMA_UNSPELLABLE"

_SHOWN_CHARACTERS = 80


def escape(token: str) -> str:
    """One step of a JSON pointer (RFC 6901), escaped."""
    return token.replace("~", "~0").replace("/", "~1")


def pointer_to(base: str, *tokens: str | int) -> str:
    """`base` extended by unescaped tokens."""
    return base + "".join("/" + escape(str(token)) for token in tokens)


def shown(value: object) -> str:
    """A value as short JSON for a message; never raises."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=repr)
    except (ValueError, TypeError, RecursionError):
        text = f"<{type(value).__name__}>"
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"


@dataclass(frozen=True, slots=True)
class Finding:
    """One remark on a schema.

    `pointer` (RFC 6901) resolves inside the schema, "" being its root; `keyword` and `value` (short JSON) are what
    stands there, both "" when the remark is about the whole place; `hint` says how to go on.
    """

    code: str
    pointer: str
    keyword: str
    value: str
    message: str
    severity: Severity
    hint: str

    def text(self) -> str:
        """The finding on one line: code, place, keyword's value, what is wrong, how to go on."""
        place = self.pointer or "(schema root)"
        value = f" = {self.value}" if self.value else ""
        hint = f" {self.hint}" if self.hint else ""
        return f"{self.code}  {place}{value}: {self.message}{hint}"


@dataclass(frozen=True, slots=True)
class Residual:
    """A keyword that the grammar does not enforce: the finished record has to be checked against it."""

    pointer: str
    keyword: str


class Notebook:
    """Collects findings and residual keywords, each once, in the order in which they were met."""

    def __init__(self, mode: Mode) -> None:
        self.mode: Mode = mode
        self._findings: dict[tuple[str, str, str], Finding] = {}
        self._residual: dict[Residual, None] = {}

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Errors first, then warnings, then notices; each group in order of discovery."""
        rank = {"error": 0, "warning": 1, "notice": 2}
        return tuple(sorted(self._findings.values(), key=lambda finding: rank[finding.severity]))

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings for which this mode refuses the schema."""
        return tuple(finding for finding in self._findings.values() if finding.severity == "error")

    @property
    def residual(self) -> tuple[Residual, ...]:
        """Keywords left to the validator, in order of discovery."""
        return tuple(self._residual)

    def note(
        self,
        code: str,
        pointer: str,
        message: str,
        *,
        keyword: str = "",
        value: Any = None,
        severity: Severity = "error",
        hint: str = "",
    ) -> None:
        """Record a finding; the first one of a code at a place stands."""
        text = shown(value) if keyword else ""
        self._findings.setdefault(
            (code, pointer, keyword), Finding(code, pointer, keyword, text, message, severity, hint)
        )

    def not_enforced(self, pointer: str, keyword: str, value: Any, why: str = "") -> None:
        """`keyword` (at `pointer`) is beyond the grammar: an error in strict mode, a residual keyword in check mode."""
        because = f" ({why})" if why else ""
        if self.mode == "strict":
            self.note(
                NOT_ENFORCED,
                pointer,
                f"the generator cannot enforce this while writing{because}; the schema itself is in order."
                " mode=strict: refused, nothing was fetched or generated.",
                keyword=keyword,
                value=value,
                hint="Use --schema-mode=check to generate without it and re-check each record (failed records are"
                " drawn again, then reported), or drop the keyword. Supported keywords: docs/schema.md.",
            )
        else:
            self._residual.setdefault(Residual(pointer, keyword))
            self.note(
                NOT_ENFORCED,
                pointer,
                f"the generator cannot enforce this while writing{because}. mode=check: records are written without"
                " it and each finished record is checked against it.",
                keyword=keyword,
                value=value,
                severity="warning",
                hint="Expect redrawn or failed records where the model does not follow the keyword by itself.",
            )

    def leave_to_validator(self, pointer: str, keyword: str) -> None:
        """Record a residual keyword that no mode refuses (a format that only the validator knows)."""
        self._residual.setdefault(Residual(pointer, keyword))


def summary(errors: Sequence[Finding]) -> str:
    """The first error's text, and how many more there are."""
    assert errors, "a refusal needs an error"
    more = len(errors) - 1
    rest = f" (and {more} more error{'s' if more > 1 else ''}: see the lint)" if more else ""
    return errors[0].text() + rest
