"""What both sides of a comparison did with one document in; one pair of times for each measure out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from fetchly_llm.bench.writing import Writing

T = TypeVar("T")

Measure = Literal["prefill", "decode", "decode+grammar", "record", "page"]
"""What is compared: a prompt computed; free text written; text written under a grammar; a record written for one and
the same prompt; a record made of a page by all that each side needs for it."""

CUT = "OUTPUT_LIMIT"
"""The failure of a text that reached the token limit."""


@dataclass(frozen=True, slots=True)
class Sides(Generic[T]):
    """The same of both; `rival` is None where none was measured."""

    own: T
    rival: T | None


@dataclass(frozen=True, slots=True)
class ComparedDocument:
    """One page as both sides are given it. The first `shared_prefix` ids of the prompt are those of every page of its
    schema. `schema` is the decoding schema, whose verbatim values are spans of `source`; `user_schema` is what the
    rival makes its grammar of."""

    id: str
    set: str
    prompt_ids: tuple[int, ...]
    shared_prefix: int
    schema: Mapping[str, Any]
    source: str
    user_schema: Mapping[str, Any]

    @property
    def name(self) -> str:
        """As reports name it."""
        return f"{self.set}/{self.id}"


@dataclass(frozen=True, slots=True)
class Trial:
    """One side's work in one measure: `ms` were spent on `tokens` (of the prompt in "prefill", else of the output).

    `head_ms` is the time to the token up to which both sides wrote as many; None where tokens were not timed. `failure`
    is a code: CUT, or why there is no record.
    """

    ms: float
    tokens: int
    prompt_tokens: int
    head_ms: float | None = None
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """Both sides' trials of one document in one measure."""

    measure: Measure
    set: str
    document: str
    trials: Sides[Trial]

    @property
    def is_whole(self) -> bool:
        """Whether neither side failed."""
        return all(trial is None or trial.failure is None for trial in (self.trials.own, self.trials.rival))


@dataclass(frozen=True, slots=True)
class Score:
    """How right one side's records are: F1, and the 95 % interval that other sites would put it in."""

    f1: float
    interval: tuple[float, float] | None


def prefill_trials(ms: Sides[float], tokens: int) -> Sides[Trial]:
    """Both sides' times for the same tokens."""
    return Sides(Trial(ms.own, tokens, tokens), None if ms.rival is None else Trial(ms.rival, tokens, tokens))


def decode_trials(writings: Sides[Writing]) -> Sides[Trial] | None:
    """From the first token to the last one that both have; None where a side wrote fewer than two."""
    tokens = _common(writings)
    if tokens < 2:
        return None

    def trial(writing: Writing) -> Trial:
        return Trial(writing.decode_ms(tokens), tokens - 1, writing.prompt_tokens)

    return Sides(trial(writings.own), None if writings.rival is None else trial(writings.rival))


def record_trials(writings: Sides[Writing]) -> Sides[Trial]:
    """From the request to the end of the record."""
    tokens = _common(writings)

    def trial(writing: Writing) -> Trial:
        return Trial(
            ms=writing.total_ms,
            tokens=len(writing.token_ms),
            prompt_tokens=writing.prompt_tokens,
            head_ms=writing.token_ms[tokens - 1] if tokens else None,
            failure=None if writing.is_complete else CUT,
        )

    return Sides(trial(writings.own), None if writings.rival is None else trial(writings.rival))


def _common(writings: Sides[Writing]) -> int:
    """How many tokens both wrote."""
    return min(len(each.token_ms) for each in (writings.own, writings.rival) if each is not None)
