"""Files of `fetchly lab examples` in; their lines out, checked to be of one format and one model's tokens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from fetchly_llm.errors import RequestInvalid
from fetchly_llm.json_lines import JsonLine, read_json_lines


@dataclass(frozen=True, slots=True)
class ExampleLine:
    """One example: `name` is set, page and variant; `format` that of its prompt."""

    name: str
    set: str
    format: str
    line: JsonLine

    def prompt(self, vocab_size: int) -> list[int]:
        """The prompt's token ids. Raises RequestInvalid where they are none."""
        prompt = self.line.get("prompt_ids", list)
        if not prompt or not all(type(token) is int and 0 <= token < vocab_size for token in prompt):
            raise RequestInvalid(f"{self.line.where}: 'prompt_ids' is not a list of the model's token ids")
        return prompt

    @property
    def schema(self) -> dict[str, Any]:
        """The decoding schema."""
        return self.line.get("schema", dict)

    @property
    def source(self) -> str:
        """The text that verbatim values are spans of."""
        return self.line.get("source", str)

    @property
    def answer(self) -> str:
        """What ought to be written."""
        return self.line.get("answer", str)


def read_examples(files: Iterable[Path], digest: str, take: Mapping[str, int]) -> list[ExampleLine]:
    """The lines of the files, set by set. `take` bounds the examples of a set: the first in the order of a hash of
    their names, in file order.

    Raises RequestInvalid, with file and line, for a line that is no example, for one of another model than `digest` or
    another format than the first, and where there is none.
    """
    by_set: dict[str, list[ExampleLine]] = {}
    first: ExampleLine | None = None
    for file in files:
        for line in read_json_lines(file):
            found = _example(line)
            by_set.setdefault(found.set, []).append(found)
            first = first or found
            if found.format != first.format:
                raise RequestInvalid(f"{line.where}: another format than {first.format}")
            if _version(line, "model") != digest:
                raise RequestInvalid(
                    f"{line.where}: the example is written in the tokens of another model",
                    hint="make the examples with the model that is to learn from them",
                )
    unknown = [name for name in take if name not in by_set]
    if unknown:
        raise RequestInvalid(f"there is no set {unknown[0]!r}", hint=f"sets: {', '.join(sorted(by_set))}")
    if not by_set:
        raise RequestInvalid("there is no example to prepare", hint="make some by `fetchly lab examples`")
    return [line for name, lines in by_set.items() for line in _sample(lines, take.get(name))]


def _example(line: JsonLine) -> ExampleLine:
    name = f"{line.get('set', str)}/{line.get('id', str)}#{line.object.get('variant', 0)}"
    return ExampleLine(name, line.get("set", str), _version(line, "format"), line)


def _sample(lines: list[ExampleLine], count: int | None) -> list[ExampleLine]:
    if count is None or count >= len(lines):
        return lines
    ranked = sorted(range(len(lines)), key=lambda number: sha256(lines[number].name.encode()).digest())
    return [lines[number] for number in sorted(ranked[:count])]


def _version(line: JsonLine, key: str) -> str:
    value = line.get("versions", dict).get(key)
    if not isinstance(value, str):
        raise RequestInvalid(f"{line.where}: 'versions' does not say {key!r}")
    return value
