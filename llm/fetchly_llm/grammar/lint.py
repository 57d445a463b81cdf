"""Any value that wants to be a schema goes in; all findings about it, located by JSON pointer, come out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fetchly_llm.grammar.findings import Finding, Mode
from fetchly_llm.grammar.prepare import examine


def lint(schema: Mapping[str, Any] | bool, mode: Mode = "strict") -> tuple[Finding, ...]:
    """Everything worth saying about `schema`: errors, then warnings, then notices. Never raises."""
    return examine(schema, mode)[1].findings
