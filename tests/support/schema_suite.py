"""Schemas and instances of the JSON Schema test suite, and a byte-level matcher that judges texts by the grammar."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from llguidance import LLMatcher, LLTokenizer

METASCHEMAS = {
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
    "draft7": "http://json-schema.org/draft-07/schema#",
}
_LAYOUT: Any = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": ", "lenient": False}
_TOKENIZER = LLTokenizer("byte")


@dataclass(frozen=True, slots=True)
class Example:
    """One instance of a case and the suite's verdict on it."""

    description: str
    instance: Any
    valid: bool


@dataclass(frozen=True, slots=True)
class Case:
    """One schema of the suite with its instances; the dialect is written into it where the file implies it."""

    name: str
    schema: dict[str, Any] | bool
    examples: tuple[Example, ...]


def cases(suite: Path, draft: str, folder: str = "") -> Iterator[Case]:
    """The cases of `tests/<draft>/<folder>`, subfolders left out."""
    for path in sorted((suite / "tests" / draft / folder).glob("*.json")):
        for group in json.loads(path.read_text(encoding="utf-8")):
            schema = group["schema"]
            if isinstance(schema, dict) and "$schema" not in schema:
                schema = {"$schema": METASCHEMAS[draft], **schema}
            examples = tuple(Example(test["description"], test["data"], test["valid"]) for test in group["tests"])
            yield Case(f"{draft}/{folder}{path.stem}: {group['description']}", schema, examples)


class ByteMatcher:
    """llguidance over single bytes; `refusal` tells why it did not compile the schema, "" when it did."""

    def __init__(self, schema: dict[str, Any], allowed_escapes: str) -> None:
        options: Any = {**_LAYOUT, "json_allowed_escapes": allowed_escapes}
        grammar = LLMatcher.grammar_from_json_schema(json.dumps(schema), overrides=options)
        self._matcher = LLMatcher(_TOKENIZER, grammar, log_level=0)
        if not self._matcher.is_error():
            self._matcher.compute_bitmask()
        self.refusal = self._matcher.get_error() if self._matcher.is_error() else ""

    def allowed_bytes(self) -> list[int]:
        """The bytes that may come next; [] when the text is complete and nothing may follow."""
        if self._matcher.is_stopped():
            return []
        mask = np.frombuffer(self._matcher.compute_bitmask(), dtype=np.uint8)
        assert not self._matcher.is_error(), self._matcher.get_error()
        return [int(byte) for byte in np.unpackbits(mask, bitorder="little")[:256].nonzero()[0]]

    def write(self, byte: int) -> None:
        """Go on by one allowed byte."""
        assert self._matcher.consume_token(byte), self._matcher.get_error()

    def is_complete(self) -> bool:
        """Whether the bytes written so far are a whole text."""
        return bool(self._matcher.is_accepting())

    def restart(self) -> None:
        """Back to the empty text."""
        self._matcher.reset()

    def accepts(self, instance: object) -> bool:
        """Whether the instance, written in the fixed layout, is a whole text of the grammar."""
        return self.accepts_text(json.dumps(instance, ensure_ascii=False))

    def accepts_text(self, text: str) -> bool:
        """Whether `text` is a whole text of the grammar."""
        tokens = _TOKENIZER.tokenize_bytes(text.encode("utf-8", "surrogatepass"))
        try:
            return self._matcher.try_consume_tokens(tokens) == len(tokens) and self._matcher.is_accepting()
        finally:
            assert not self._matcher.is_error(), self._matcher.get_error()
            self._matcher.reset()


def resolves(schema: object, pointer: str) -> bool:
    """Whether a JSON pointer leads somewhere in the schema (RFC 6901)."""
    here: Any = schema
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(here, dict) and name in here:
            here = here[name]
        elif isinstance(here, list) and name.isdigit() and int(name) < len(here):
            here = here[int(name)]
        else:
            return False
    return True
