"""A task in, the answer that it got before out, or the generator's own: a Generator around another one.

What is kept is the text that the model wrote, under everything that the text depends on: the prompt with the part of
the page that the model is shown, the decoding schema, the draw (temperature, seed, attempt, longest answer), the model
and its back-end. The address of the page is no part of it. Values, evidence and warnings are made from the text and the
page at hand every time, as after a fresh answer: they are of this page, by this version of the program, to the byte.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from fetchly.disk_cache import DiskCache
from fetchly.errors import RecordInvalid
from fetchly.extraction.format import FORMAT_VERSION
from fetchly.extraction.generator import (
    ExtractionStats,
    Generated,
    GenerationTask,
    Generator,
    RecalledFailure,
    SchemaMode,
    SchemaNotice,
)

_NO_END = "OUTPUT_LIMIT"
"""The code of the only failure that comes again. A server that cut an answer, or held it back, may write it next time:
once it is told not to think, for one, of which its identity knows nothing."""


class AnswerCache:
    """A Generator that asks another one only for what it has not answered before. As thread-safe as that one.

    That an answer came to no end within `max_tokens` is remembered, too: it would come to none again. Answers by
    rejection sampling are not: they keep the distribution, not the bytes, so there is no one answer to give again. At
    temperature 0 it has one.
    """

    def __init__(self, generator: Generator, store: DiskCache) -> None:
        self._generator = generator
        self._store = store

    @property
    def identity(self) -> str:
        """That of the generator: what is recalled is what it would write."""
        return self._generator.identity

    @property
    def trained_format(self) -> str | None:
        """The generator's."""
        return self._generator.trained_format

    @property
    def context_length(self) -> int:
        """The generator's."""
        return self._generator.context_length

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """The generator's."""
        return self._generator.count_tokens(texts)

    def check_schema(self, user_schema: Mapping[str, Any], mode: SchemaMode) -> tuple[SchemaNotice, ...]:
        """The generator's."""
        return self._generator.check_schema(user_schema, mode)

    def prepare(self, decoding_schema: Mapping[str, Any]) -> None:
        """The generator's."""
        self._generator.prepare(decoding_schema)

    def generate(self, task: GenerationTask) -> Generated:
        """The answer that was kept, at no cost, or a new one. Errors: those of the generator."""
        if task.verify == "rejection" and task.temperature > 0:
            return self._generator.generate(task)
        key = self._key(task)
        kept = self._store.get(key)
        if kept is not None:
            return _recalled(json.loads(kept))
        try:
            generated = self._generator.generate(task)
        except RecordInvalid as error:
            if error.code != _NO_END:
                raise
            told = {"message": error.message, "pointer": error.pointer, "hint": error.hint, "code": error.code}
            self._store.put(key, json.dumps({"failure": told}).encode("ascii"))
            raise
        self._store.put(key, json.dumps({"text": generated.text}).encode("ascii"))
        return generated

    def close(self) -> None:
        """Close the generator. What is kept stays."""
        self._generator.close()

    def _key(self, task: GenerationTask) -> bytes:
        """Draft sources are no part of it, nor is `verify`, where every token is the one of plain decoding."""
        draw = [task.temperature, task.seed, task.attempt, task.max_tokens]
        parts = ["answer", FORMAT_VERSION, self._generator.identity, asdict(task.prompt), task.schema, draw]
        return json.dumps(parts).encode("ascii")


def _recalled(kept: Mapping[str, Any]) -> Generated:
    if "failure" in kept:
        raise RecalledFailure(**kept["failure"])
    return Generated(kept["text"], ExtractionStats(cached_answers=1))
