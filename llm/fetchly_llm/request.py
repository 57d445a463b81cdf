"""What a caller asks of the engine, and what comes back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fetchly_llm.metrics import GenerationStats


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


Verify = Literal["match", "rejection"]
"""How drafts are verified: by equality with the target's own token, or by rejection sampling."""

StreamMode = Literal["deferred", "fused"]
"""When streams run: after acceptance from the one accepted node, or beside the verification from the likeliest ones."""


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One sequence to write.

    `prompt_ids` is the whole prompt; its first `shared_prefix` tokens are common to many requests and worth keeping.
    `schema` is the enforced decoding schema (`grammar.prepare`), None for free text, which ends with an end-of-sequence
    token; `allowed_escapes` are the letters that may follow a backslash in its strings (None for all); `source` is the
    text that `x-verbatim` values are spans of. `draft` names the draft sources. With `cut`, the token limit ends the
    text instead of being an error: for measurements, never for a record. `should_stop` is asked before every step and
    raises Cancelled when it answers True; `on_token` hears each token.
    """

    prompt_ids: tuple[int, ...]
    shared_prefix: int
    schema: Mapping[str, Any] | None
    source: str
    sampling: SamplingParams = SamplingParams()
    allowed_escapes: str | None = None
    draft: tuple[str, ...] = ("forced",)
    verify: Verify = "match"
    stream_mode: StreamMode = "deferred"
    cut: bool = False
    should_stop: Callable[[], bool] | None = None
    on_token: Callable[[int], None] | None = None


@dataclass(frozen=True, slots=True)
class Generation:
    """A finished sequence: complete under its grammar, unless the request allowed a cut and `is_complete` says no."""

    text: str
    token_ids: tuple[int, ...]
    stats: GenerationStats
    is_complete: bool = True
