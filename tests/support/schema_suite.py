"""Schemas and instances of the JSON Schema test suite, and a matcher of bytes that judges texts by the grammar."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from fetchly_llm.errors import SchemaRefused
from fetchly_llm.grammar.compiler import GrammarCompiler
from tests.support.grammar_walks import legal

METASCHEMAS = {
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
    "draft7": "http://json-schema.org/draft-07/schema#",
}


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
    """The compiled grammar over single bytes; `refusal` tells why the schema was not compiled, "" when it was."""

    def __init__(self, schema: dict[str, Any], allowed_escapes: str) -> None:
        self.refusal = ""
        try:
            grammar = _byte_compiler().compile(schema, allowed_escapes=allowed_escapes)
        except SchemaRefused as refused:
            self.refusal = refused.message
            return
        self._start = grammar.matcher()
        self._matcher = self._start.fork()

    def allowed_bytes(self) -> list[int]:
        """The bytes that may come next; [] when the text is complete and nothing may follow."""
        return [self._matcher.spelling(token)[0] for token in legal(self._matcher) if self._matcher.spelling(token)]

    def write(self, byte: int) -> None:
        """Go on by one allowed byte."""
        self._matcher.accept(_token_of_byte()[byte])

    def is_complete(self) -> bool:
        """Whether the bytes written so far are a whole text."""
        return self._matcher.is_accepting

    def restart(self) -> None:
        """Back to the empty text."""
        self._matcher = self._start.fork()

    def accepts(self, instance: object) -> bool:
        """Whether the instance, written in the fixed layout, is a whole text of the grammar."""
        return self.accepts_text(json.dumps(instance, ensure_ascii=False))

    def accepts_text(self, text: str) -> bool:
        """Whether `text` is a whole text of the grammar."""
        self.restart()
        for byte in text.encode("utf-8", "surrogatepass"):
            token = _token_of_byte()[byte]
            if not self._matcher.is_legal(token):
                return False
            self._matcher.accept(token)
        return self._matcher.is_accepting


@cache
def _byte_tokenizer() -> Tokenizer:
    tokens = ["<|end|>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE({token: number for number, token in enumerate(tokens)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|end|>"])
    return tokenizer


@cache
def _byte_compiler() -> GrammarCompiler:
    return GrammarCompiler(_byte_tokenizer().to_str(), [0], 257)


@cache
def _token_of_byte() -> dict[int, int]:
    matcher = _byte_compiler().compile({"type": "null"}).matcher()
    return {matcher.spelling(token)[0]: token for token in range(257) if matcher.spelling(token)}


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
