"""A model's folder and a workload in; the measured rows of `bench decode`, and what went wrong, out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, runtime_checkable

from fetchly_llm.backend import Backend
from fetchly_llm.bench.arms import choose_arms
from fetchly_llm.bench.figures import DecodeRow, RunFacts, decode_rows
from fetchly_llm.bench.measurement import DecodeMeasurement, DecodeOptions, Problem
from fetchly_llm.bench.replay import ReplayBackend
from fetchly_llm.bench.workload import WorkItem
from fetchly_llm.checkpoint import read_model_config
from fetchly_llm.config import EngineConfig
from fetchly_llm.engine import Engine
from fetchly_llm.store.entry import ModelFolder
from fetchly_llm.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class DecodeReport:
    """`rows` by set and arm, then for all sets; `notes` say which arms did not run, and what is odd."""

    rows: tuple[DecodeRow, ...]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]


class DecodeBench:
    """Measures one model. Its tokenizer is loaded at once, its weights when the measurement begins.

    With `replay` the expected answers stand in for the model, and no weights are loaded.
    """

    def __init__(self, model: ModelFolder, config: EngineConfig, *, replay: bool = False) -> None:
        self._model = model
        self._config = config
        self._replay = replay

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The model's. Raises ModelMissing, ModelUnsupported."""
        return Tokenizer.load(self._model.path)

    def measure(
        self, items: Sequence[WorkItem], options: DecodeOptions, on_item: Callable[[WorkItem], None] = lambda item: None
    ) -> DecodeReport:
        """Decode every item by every arm. Raises RequestInvalid for options that cannot be, and what loading raises."""
        choose_arms(options.arms, 0, has_plain_1=False)  # an unknown name is said before anything is loaded
        backend = self._backend()
        engine = Engine(backend, self.tokenizer, self._config)
        one_row = self._one_row(engine)
        shape = backend.config
        choice = choose_arms(options.arms, backend.streams, has_plain_1=not self._replay)
        facts = RunFacts(
            model=self._model.name,
            backend=backend.identity,
            one_row_backend=one_row.identity,
            weight_bytes=backend.weight_bytes,
            stream_parameters=backend.stream_parameters,
            threads=None if self._replay else backend.threads,
            width=backend.width,
            tree_rows=engine.tree_rows,
            row_numbers=2 * shape.num_layers * shape.num_kv_heads * shape.head_dim,
            replay=self._replay,
        )
        try:
            runs = DecodeMeasurement(engine, one_row, choice.arms, options).run(items, on_item)
        finally:
            one_row.close()
            engine.close()
        problems = tuple(problem for run in runs for problem in run.problems)
        notes = (*choice.skipped, *self._foreign(items))
        return DecodeReport(decode_rows(runs, choice.arms, options, facts), problems, notes)

    def _foreign(self, items: Sequence[WorkItem]) -> list[str]:
        count = sum(item.model_digest not in (None, self._model.digest) for item in items)
        return [f"{count} prompts are in another model's tokens: right only if both share them"] if count else []

    def _backend(self) -> Backend:
        if self._replay:
            return ReplayBackend(read_model_config(self._model.path), self.tokenizer, self._config)
        from fetchly_llm.backends.registry import load_backend  # torch is loaded here, not before

        return load_backend(self._model.path, self._config)

    def _one_row(self, engine: Engine) -> Engine:
        """The engine of plain decoding's fastest form, one unpadded row: another one where steps are padded."""
        backend = engine.backend
        if self._replay or backend.width in (None, 1):
            return engine
        narrow = replace(self._config, width=1)
        if isinstance(backend, Resizable):
            return Engine(backend.with_width(1), self.tokenizer, narrow)
        from fetchly_llm.backends.registry import load_backend

        return Engine(load_backend(self._model.path, narrow), self.tokenizer, narrow)  # a second copy of the weights


@runtime_checkable
class Resizable(Protocol):
    """A back-end that can share its weights with one of another width."""

    def with_width(self, width: int) -> Backend:
        """The same model with steps of `width` rows."""
