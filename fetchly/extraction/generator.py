"""A prompt and a decoding schema in, a JSON text out: what the extraction asks of whatever writes the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

from fetchly.errors import RecordInvalid
from fetchly.goods import CacheUse, Prompt

SchemaMode = Literal["strict", "check"]
"""strict refuses a schema with keywords that cannot be enforced while writing; check re-checks and draws again."""

Verify = Literal["match", "rejection"]
"""match takes a draft where it is the token that plain decoding would draw; rejection where the odds allow it."""


@dataclass(frozen=True, slots=True)
class SchemaNotice:
    """What a user should know about an accepted schema: a keyword that is only re-checked, a bound that was added.

    `message` is complete in itself; `warning` tells what may spoil records from what is merely good to know.
    """

    code: str
    pointer: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class ExtractionStats:
    """Counts and milliseconds of one extraction, all attempts together.

    `decode_steps` are forward passes over the model after the prompt's; `tokens_by_source` counts output tokens by
    the drafter that proposed them. `ttft_ms` runs to the first token of the first attempt. `fetch_ms` includes
    rendering; `fetch_ms` and `read_ms` are the page's, not the generator's. `left_out_blocks` and
    `left_out_characters` are what the page had beyond the budget, `left_out_data` the values of its structured data
    that stand in no block, `hidden_characters` what it hides from its reader. `cached_answers` of the attempts were
    answered from the cache, without any work; `page_from_cache` is the page's `from_cache`.
    """

    prompt_tokens: int = 0
    cached_prompt_tokens: int = 0
    output_tokens: int = 0
    decode_steps: int = 0
    tokens_by_source: Mapping[str, int] = field(default_factory=dict)
    fetch_ms: float = 0.0
    read_ms: float = 0.0
    compile_ms: float = 0.0
    prefill_ms: float = 0.0
    decode_ms: float = 0.0
    draft_ms: float = 0.0
    forward_ms: float = 0.0
    mask_ms: float = 0.0
    verify_ms: float = 0.0
    commit_ms: float = 0.0
    ttft_ms: float = 0.0
    peak_memory_mb: float = 0.0
    left_out_blocks: int = 0
    left_out_characters: int = 0
    left_out_data: int = 0
    hidden_characters: int = 0
    attempts: int = 1
    cached_answers: int = 0
    page_from_cache: CacheUse = "no"

    @property
    def cached(self) -> bool:
        """Whether the model had nothing to do: every attempt was answered from the cache."""
        return 0 < self.attempts == self.cached_answers

    @property
    def acceptance_length(self) -> float:
        """Mean output tokens per decode step, the bonus token included; 0 without a step."""
        return self.output_tokens / self.decode_steps if self.decode_steps else 0.0

    @property
    def tokens_per_second(self) -> float:
        """Output tokens per second of decoding; 0 where no time was measured."""
        return 1000.0 * self.output_tokens / self.decode_ms if self.decode_ms else 0.0

    def as_dict(self) -> dict[str, Any]:
        """All figures by name, derived ones included, for JSON."""
        derived = {"acceptance_length": self.acceptance_length, "tokens_per_second": self.tokens_per_second}
        return {**asdict(self), **derived, "cached": self.cached}

    def plus(self, other: ExtractionStats) -> ExtractionStats:
        """Both attempts' work together; what was left out of the page is the same for both."""
        sources = dict(self.tokens_by_source)
        for source, count in other.tokens_by_source.items():
            sources[source] = sources.get(source, 0) + count
        return ExtractionStats(
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            cached_prompt_tokens=self.cached_prompt_tokens + other.cached_prompt_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            decode_steps=self.decode_steps + other.decode_steps,
            tokens_by_source=sources,
            fetch_ms=self.fetch_ms + other.fetch_ms,
            read_ms=self.read_ms + other.read_ms,
            compile_ms=self.compile_ms + other.compile_ms,
            prefill_ms=self.prefill_ms + other.prefill_ms,
            decode_ms=self.decode_ms + other.decode_ms,
            draft_ms=self.draft_ms + other.draft_ms,
            forward_ms=self.forward_ms + other.forward_ms,
            mask_ms=self.mask_ms + other.mask_ms,
            verify_ms=self.verify_ms + other.verify_ms,
            commit_ms=self.commit_ms + other.commit_ms,
            ttft_ms=self.ttft_ms or other.ttft_ms,
            peak_memory_mb=max(self.peak_memory_mb, other.peak_memory_mb),
            left_out_blocks=other.left_out_blocks,
            left_out_characters=other.left_out_characters,
            left_out_data=max(self.left_out_data, other.left_out_data),
            hidden_characters=max(self.hidden_characters, other.hidden_characters),
            attempts=self.attempts + other.attempts,
            cached_answers=self.cached_answers + other.cached_answers,
            page_from_cache=self.page_from_cache,
        )


@dataclass(frozen=True, slots=True)
class GenerationTask:
    """One answer to write. `schema` is the decoding schema; `draft` names the sources of speculation, empty for none;
    `verify` "rejection" keeps the answer's distribution, "match" its every byte as well.

    `should_stop` is asked before every step; where it answers True the generator raises Interrupted.
    """

    prompt: Prompt
    schema: Mapping[str, Any]
    temperature: float = 0.0
    seed: int = 0
    attempt: int = 0
    max_tokens: int = 1024
    draft: tuple[str, ...] = ()
    verify: Verify = "match"
    should_stop: Callable[[], bool] | None = None


@dataclass(frozen=True, slots=True)
class Generated:
    """A finished answer, complete under the decoding schema, and what it cost."""

    text: str
    stats: ExtractionStats = ExtractionStats()


class RecalledFailure(RecordInvalid):
    """An answer that came to no end, as it did before: it cost nothing to find out."""


class Generator(Protocol):
    """Whatever writes JSON: the embedded engine, a server, a script in a test."""

    @property
    def identity(self) -> str:
        """Everything besides the task that the output depends on: model, back-end, versions."""

    @property
    def trained_format(self) -> str | None:
        """The prompt format that the model was trained for; None where nobody says."""

    @property
    def context_length(self) -> int:
        """Tokens that prompt and answer may have together."""

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text alone."""

    def check_schema(self, user_schema: Mapping[str, Any], mode: SchemaMode) -> tuple[SchemaNotice, ...]:
        """Lint a user's schema. Errors: SchemaError where it is invalid, or cannot be enforced in this mode."""

    def prepare(self, decoding_schema: Mapping[str, Any]) -> None:
        """Compile now what `generate` will need. Errors: SchemaError."""

    def generate(self, task: GenerationTask) -> Generated:
        """Write one answer. Errors: ExtractionError and its kinds, Interrupted."""

    def close(self) -> None:
        """Give everything back; a second call does nothing."""
