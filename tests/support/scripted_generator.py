"""A generator that answers from a function of the task: no model, no grammar; it keeps every task it was given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fetchly.extraction.generator import ExtractionStats, Generated, GenerationTask, SchemaMode, SchemaNotice


class ScriptedGenerator:
    """`answer` writes the JSON text of a task. A token is a word, so that budgets are easy to reason about."""

    def __init__(
        self,
        answer: Callable[[GenerationTask], str],
        *,
        context_length: int = 100_000,
        notices: tuple[SchemaNotice, ...] = (),
        trained_format: str | None = None,
    ) -> None:
        self.trained_format = trained_format
        self._answer = answer
        self._context_length = context_length
        self._notices = notices
        self.tasks: list[GenerationTask] = []
        self.prepared: list[Mapping[str, Any]] = []
        self.checked: list[SchemaMode] = []
        self.closed = False

    @property
    def identity(self) -> str:
        return "scripted"

    @property
    def context_length(self) -> int:
        return self._context_length

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]

    def check_schema(self, user_schema: Mapping[str, Any], mode: SchemaMode) -> tuple[SchemaNotice, ...]:
        self.checked.append(mode)
        return self._notices

    def prepare(self, decoding_schema: Mapping[str, Any]) -> None:
        self.prepared.append(decoding_schema)

    def generate(self, task: GenerationTask) -> Generated:
        assert not self.closed, "a closed generator was asked"
        self.tasks.append(task)
        text = self._answer(task)
        words = len(text.split())
        stats = ExtractionStats(
            prompt_tokens=len(task.prompt.page.split()),
            output_tokens=words,
            decode_steps=words,
            tokens_by_source={"plain": words},
        )
        return Generated(text, stats)

    def close(self) -> None:
        self.closed = True
