"""The embedded engine as a Generator: the one room of the application that knows the engine and words its errors."""

from __future__ import annotations

import json
import resource
import sys
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from fetchly.errors import (
    ConfigurationError,
    ExtractionError,
    FetchlyError,
    Interrupted,
    ModelUnavailable,
    RecordInvalid,
    SchemaError,
)
from fetchly.extraction.generator import ExtractionStats, Generated, GenerationTask, SchemaMode, SchemaNotice
from fetchly.goods import Prompt
from fetchly_llm import errors as engine_errors
from fetchly_llm.metrics import GenerationStats
from fetchly_llm.request import GenerationRequest, Message, SamplingParams

if TYPE_CHECKING:
    from fetchly_llm.engine import Engine
    from fetchly_llm.grammar.prepare import PreparedSchema
    from fetchly_llm.store.entry import ModelFolder, Progress
    from fetchly_llm.tokenizer import Tokenizer


# Stands for any page where a schema is only tried: enough spans, and long enough ones, for what schemas demand.
_SOME_PAGE = " ".join(f"word{number}" for number in range(400))
PREPARED_SCHEMAS = 16
"""Schemas that are kept ready: one with URL fields is another for every page."""


class LocalGenerator:
    """A model of this machine, loaded when the first answer (or token count) is asked for.

    `model` is any reference that the store understands. One sequence at a time; calls from several threads take turns.
    """

    def __init__(
        self,
        model: str = "fetchly-135m",
        *,
        device: Literal["auto", "native", "cpu", "cuda"] = "auto",
        threads: int | None = None,
        offline: bool = False,
        progress: Progress | None = None,
    ) -> None:
        self._model = model
        self._device: Literal["auto", "native", "cpu", "cuda"] = device
        self._threads = threads
        self._offline = offline
        self._progress = progress
        self._engine: Engine | None = None
        self._tokenizer: Tokenizer | None = None
        self._folder: ModelFolder | None = None
        self._prepared: OrderedDict[str, PreparedSchema] = OrderedDict()
        self._loading = threading.Lock()
        self._preparing = threading.Lock()

    @property
    def identity(self) -> str:
        """Model digest and back-end. Loads the model."""
        engine = self._loaded()
        return f"{self.model_digest} {engine.identity}"

    @property
    def model_digest(self) -> str:
        """The content identity of the model's files. Fetches the model where it is not here."""
        with self._loading, _worded():
            return self._resolved().digest

    @property
    def context_length(self) -> int:
        """Tokens that prompt and answer may have together. Loads the model."""
        return self._loaded().context_length

    @property
    def trained_format(self) -> str | None:
        """What the model's card says; None without one. Fetches the model where it is not here."""
        from fetchly_llm.store.model_card import read_card

        with self._loading, _worded():
            card = read_card(self._resolved().path)
        return card.format if card else None

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text alone. Loads the tokenizer, not the weights."""
        tokenizer = self._tokenizer_only()
        with _worded():
            return [len(tokenizer.encode(text)) for text in texts]

    def prompt_ids(self, prompt: Prompt) -> tuple[int, ...]:
        """The whole prompt as the model is given it, its answer's opening included. Loads the tokenizer alone."""
        tokenizer = self._tokenizer_only()
        with _worded():
            return tokenizer.chat(_messages(prompt)).ids

    def token_ids(self, text: str) -> tuple[int, ...]:
        """The ids of an answer's text, tokenised as data, without an end of sequence. Loads the tokenizer alone."""
        tokenizer = self._tokenizer_only()
        with _worded():
            return tuple(tokenizer.encode(text))

    def check_schema(self, user_schema: Mapping[str, Any], mode: SchemaMode) -> tuple[SchemaNotice, ...]:
        """Lint a user's schema without loading the model. Errors: SchemaError at the first error found."""
        from fetchly_llm.grammar.lint import lint

        findings = lint(user_schema, mode)
        errors = [finding for finding in findings if finding.severity == "error"]
        if errors:
            first = errors[0]
            more = f" (and {len(errors) - 1} more: fetchly schemas lint)" if len(errors) > 1 else ""
            value = f" = {first.value}" if first.value else ""
            raise SchemaError(
                f"{value.strip()}{': ' if value else ''}{first.message}{more}",
                pointer=first.pointer,
                where=first.pointer or "(schema root)",
                hint=first.hint or None,
                code=first.code,
            )
        return tuple(
            SchemaNotice(finding.code, finding.pointer, finding.text(), finding.severity == "warning")
            for finding in findings
        )

    def prepare(self, decoding_schema: Mapping[str, Any]) -> None:
        """Compile now what `generate` will need. Errors: SchemaError."""
        engine = self._loaded()
        with _worded():
            prepared = self._enforced(decoding_schema)
            engine.compile(prepared.enforced, _SOME_PAGE, prepared.allowed_escapes)

    def generate(self, task: GenerationTask) -> Generated:
        """Write one answer."""
        engine = self._loaded()
        with _worded():
            prepared = self._enforced(task.schema)
            prompt = engine.tokenizer.chat(_messages(task.prompt))
            generation = engine.generate(
                GenerationRequest(
                    prompt_ids=prompt.ids,
                    shared_prefix=prompt.segment_ends[1],
                    schema=prepared.enforced,
                    allowed_escapes=prepared.allowed_escapes,
                    source=task.prompt.source,
                    sampling=SamplingParams(task.temperature, task.seed, task.attempt, task.max_tokens),
                    draft=task.draft,
                    verify=task.verify,
                    should_stop=task.should_stop,
                )
            )
        return Generated(generation.text, _stats(generation.stats))

    def close(self) -> None:
        """Free the model."""
        with self._loading:
            if self._engine is not None:
                self._engine.close()
                self._engine = None

    def _loaded(self) -> Engine:
        with self._loading:
            if self._engine is None:
                with _worded():
                    self._load()
            assert self._engine is not None
            return self._engine

    def _load(self) -> None:
        from fetchly_llm.config import EngineConfig
        from fetchly_llm.engine import Engine

        config = EngineConfig(device=self._device, threads=self._threads)
        self._engine = Engine.load(self._resolved().path, config)
        self._tokenizer = self._engine.tokenizer

    def _tokenizer_only(self) -> Tokenizer:
        """Without torch: prompts are measured and written long before, and often without, an answer."""
        from fetchly_llm.tokenizer import Tokenizer

        with self._loading:
            if self._tokenizer is None:
                with _worded():
                    self._tokenizer = Tokenizer.load(self._resolved().path)
            return self._tokenizer

    def _resolved(self) -> ModelFolder:
        from fetchly_llm.store.model_store import ModelStore

        if self._folder is None:
            self._folder = ModelStore().resolve(self._model, progress=self._progress, offline=self._offline)
        return self._folder

    def _enforced(self, decoding_schema: Mapping[str, Any]) -> PreparedSchema:
        from fetchly_llm.grammar.prepare import prepare

        key = json.dumps(decoding_schema, sort_keys=False)
        with self._preparing:
            if key not in self._prepared:
                # Residual keywords were refused or accepted on the user's own schema; here the validator sees to them.
                self._prepared[key] = prepare(decoding_schema, mode="check")
            self._prepared.move_to_end(key)
            if len(self._prepared) > PREPARED_SCHEMAS:
                self._prepared.popitem(last=False)
            return self._prepared[key]


def _messages(prompt: Prompt) -> tuple[Message, Message]:
    """`system` and `task` are alike for every page of a schema: their tokens are kept between pages."""
    return Message("system", (prompt.system,)), Message("user", (prompt.task, prompt.page))


def span_chunks(source: str) -> tuple[str, ...]:
    """The pieces of a source that spans are runs of; white space and line breaks are pieces of their own."""
    from fetchly_llm.grammar.spans import SpanIndex

    return tuple(SpanIndex(source).chunks)


def translate(error: engine_errors.EngineError) -> FetchlyError:
    """The application's word for an engine error."""
    message, hint, code = error.message, error.hint, error.code
    match error:
        case engine_errors.SchemaRefused():
            where = error.pointer or "(schema root)"
            return SchemaError(message, pointer=error.pointer, where=where, hint=hint, code=code)
        case engine_errors.OutputLimit():
            return RecordInvalid(message, hint=hint, code=code)
        case engine_errors.Cancelled():
            return Interrupted(message, hint=hint)
        case engine_errors.ModelMissing():
            return ModelUnavailable(message, hint=hint, code=code)
        case engine_errors.RequestInvalid() | engine_errors.ModelUnsupported():
            return ConfigurationError(message, hint=hint, code=code)
    return ExtractionError(message, hint=hint, code=code, retryable=error.retryable)


@contextmanager
def _worded() -> Iterator[None]:
    try:
        yield
    except engine_errors.EngineError as error:
        raise translate(error) from error


def _stats(stats: GenerationStats) -> ExtractionStats:
    return ExtractionStats(
        prompt_tokens=stats.prompt_tokens,
        cached_prompt_tokens=stats.cached_prompt_tokens,
        output_tokens=stats.output_tokens,
        decode_steps=stats.decode_steps,
        tokens_by_source=stats.tokens_by_source,
        compile_ms=stats.compile_ms,
        prefill_ms=stats.prefill_ms,
        decode_ms=stats.decode_ms,
        draft_ms=stats.draft_ms + stats.stream_ms,
        forward_ms=stats.forward_ms,
        mask_ms=stats.mask_ms,
        verify_ms=stats.verify_ms,
        commit_ms=stats.commit_ms,
        ttft_ms=stats.ttft_ms,
        peak_memory_mb=_peak_memory_mb(),
    )


def _peak_memory_mb() -> float:
    # Kibibytes on Linux, bytes on macOS (getrusage(2)).
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
