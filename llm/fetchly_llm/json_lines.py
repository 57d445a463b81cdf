"""A file of JSON objects, one a line, in (.jsonl or .jsonl.gz); checked objects that know where they stand out."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from fetchly_llm.errors import RequestInvalid

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class JsonLine:
    """One object. `where` is file and line, as errors name them."""

    where: str
    number: int
    object: Mapping[str, Any]

    def get(self, key: str, kind: type[T]) -> T:
        """The value of `key`, which must be there and of that type. Raises RequestInvalid."""
        value = self.object.get(key)
        if not isinstance(value, kind):
            found = f"is {type(value).__name__}, not {kind.__name__}" if key in self.object else "is missing"
            raise RequestInvalid(f"{self.where}: {key!r} {found}")
        return value


def read_json_lines(file: Path) -> Iterator[JsonLine]:
    """Every line that is not blank. Raises RequestInvalid with file and line for what is not a JSON object."""
    number = 0
    try:
        with gzip.open(file, "rb") if file.suffix == ".gz" else file.open("rb") as stream:
            for number, line in enumerate(stream, 1):
                if line.strip():
                    yield _parsed(line, f"{file}:{number}", number)
    except (OSError, EOFError, zlib.error) as error:
        raise RequestInvalid(f"{file}: cannot be read after line {number}: {error}") from error


def set_name(file: Path) -> str:
    """The file's name without .jsonl and .gz."""
    return file.name.removesuffix(".gz").removesuffix(".jsonl")


def _parsed(line: bytes, where: str, number: int) -> JsonLine:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RequestInvalid(f"{where}: not JSON: {error}") from error
    if not isinstance(value, dict):
        raise RequestInvalid(f"{where}: not a JSON object")
    return JsonLine(where, number, value)
