"""What a caller asks of the engine, and what comes back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How tokens are drawn. `temperature` 0 is greedy; `attempt` separates redraws of the same request."""

    temperature: float = 0.0
    seed: int = 0
    attempt: int = 0
    max_tokens: int = 1024


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation. `segments` are tokenised one by one, so that a shared prefix stays a prefix.

    Text is data: a special token's spelling inside it is never read as that token.
    """

    role: str
    segments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One sequence to write.

    `prompt_ids` is the whole prompt; its first `shared_prefix` tokens are common to many requests and worth keeping.
    `schema` is the enforced decoding schema (`grammar.prepare`); `allowed_escapes` are the letters that may follow a
    backslash in its strings (None for all); `source` is the text that `x-verbatim` values are spans of.
    `should_stop` is asked before every step and raises Cancelled when it answers True; `on_token` hears each token.
    """

    prompt_ids: tuple[int, ...]
    shared_prefix: int
    schema: Mapping[str, Any]
    source: str
    sampling: SamplingParams = SamplingParams()
    allowed_escapes: str | None = None
    draft: tuple[str, ...] = ("forced",)
    should_stop: Callable[[], bool] | None = None
    on_token: Callable[[int], None] | None = None


@dataclass(frozen=True, slots=True)
class GenerationStats:
    """Counts and milliseconds of one generation. `acceptance_length` is output tokens per decode step."""

    prompt_tokens: int = 0
    cached_prompt_tokens: int = 0
    output_tokens: int = 0
    decode_steps: int = 0
    tokens_by_source: Mapping[str, int] = field(default_factory=dict)
    compile_ms: float = 0.0
    prefill_ms: float = 0.0
    decode_ms: float = 0.0
    mask_ms: float = 0.0
    draft_ms: float = 0.0
    forward_ms: float = 0.0

    @property
    def acceptance_length(self) -> float:
        """Mean tokens gained per target pass, the bonus token included."""
        return self.output_tokens / self.decode_steps if self.decode_steps else 0.0

    @property
    def tokens_per_second(self) -> float:
        """Output tokens per second of decoding."""
        return 1000.0 * self.output_tokens / self.decode_ms if self.decode_ms else 0.0


@dataclass(frozen=True, slots=True)
class Generation:
    """A finished sequence: always complete under its grammar."""

    text: str
    token_ids: tuple[int, ...]
    stats: GenerationStats
