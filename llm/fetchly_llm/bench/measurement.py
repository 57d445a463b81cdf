"""An engine and items to decode in; each item decoded by every arm, side by side, out.

The arms of a document follow one another in an order that rotates from document to document, each from a fork of the
same prefilled cache: what drifts (clocks, caches, temperature) falls on all of them alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from time import perf_counter
from typing import Literal

from fetchly_llm.bench.arms import NONE, Arm
from fetchly_llm.bench.replay import ReplayBackend
from fetchly_llm.bench.workload import WorkItem
from fetchly_llm.engine import Engine
from fetchly_llm.errors import EngineError, RequestInvalid
from fetchly_llm.grammar.prepare import prepare
from fetchly_llm.request import Generation, GenerationRequest, SamplingParams, StreamMode, Verify

_WARM_UP_TOKENS = 16


@dataclass(frozen=True, slots=True)
class DecodeOptions:
    """How every arm decodes. `arms` are names; all without any. An output is cut at `max_tokens`."""

    arms: tuple[str, ...] = ()
    max_tokens: int = 96
    temperature: float = 0.0
    seed: int = 0
    verify: Verify = "match"
    stream_mode: StreamMode = "deferred"

    def compares(self, arm: Arm) -> bool:
        """Whether the arm must write the bytes of plain decoding: rejection sampling is exact in distribution alone,
        and another number of rows may have other bits."""
        return self.verify == "match" and not arm.one_row


@dataclass(frozen=True, slots=True)
class Problem:
    """What went wrong with one document: an arm wrote other tokens than plain decoding, a replay could not write the
    expected answer, or the engine refused."""

    kind: Literal["mismatch", "not replayable", "failed"]
    arm: str
    message: str


@dataclass(frozen=True, slots=True)
class DocumentRun:
    """One document. `generations` are by arm, in the order in which they ran; none where the engine refused.
    `prefill_tokens` were computed, not taken from a cache."""

    item: WorkItem
    generations: Mapping[str, Generation]
    prefill_tokens: int = 0
    prefill_ms: float = 0.0
    compile_ms: float = 0.0
    problems: tuple[Problem, ...] = ()

    @property
    def is_measured(self) -> bool:
        """Whether its figures count."""
        return all(problem.kind == "mismatch" for problem in self.problems)

    @property
    def is_cut(self) -> bool:
        """Whether plain decoding was cut by the token limit."""
        return not self.generations[NONE].is_complete


class DecodeMeasurement:
    """Decodes items by arms. `one_row` is the engine of `plain-1`: the same one where its steps are not padded.

    Errors of a document are part of the result.
    """

    def __init__(self, engine: Engine, one_row: Engine, arms: Sequence[Arm], options: DecodeOptions) -> None:
        self._engine = engine
        self._one_row = one_row
        self._arms = tuple(arms)
        self._options = options

    def run(
        self, items: Sequence[WorkItem], on_item: Callable[[WorkItem], None] = lambda item: None
    ) -> tuple[DocumentRun, ...]:
        """Every item, after a short warm-up on the first one that is not counted."""
        if items:
            self._document(items[0], 0, min(_WARM_UP_TOKENS, self._options.max_tokens))
        runs: list[DocumentRun] = []
        for turn, item in enumerate(items):
            on_item(item)
            runs.append(self._document(item, turn, self._options.max_tokens))
        return tuple(runs)

    def _document(self, item: WorkItem, turn: int, max_tokens: int) -> DocumentRun:
        arms = [arm for each in self._arms if (arm := each if item.schema is not None else each.on_free_text())]
        first = turn % len(arms)
        generations: dict[str, Generation] = {}
        place = item.name
        try:
            start = perf_counter()
            request = self._request(item, max_tokens)
            compiled = perf_counter()
            prompt = self._engine.prefill(item.prompt_ids)
            filled = perf_counter()
            apart = self._one_row is not self._engine and any(arm.one_row for arm in arms)
            one_row_prompt = self._one_row.prefill(item.prompt_ids) if apart else prompt
            for arm in (*arms[first:], *arms[:first]):
                place = f"{item.name}, arm {arm.name}"
                engine, prefilled = (self._one_row, one_row_prompt) if arm.one_row else (self._engine, prompt)
                generations[arm.name] = engine.generate(self._drafting(request, arm), prefilled)
        except EngineError as error:
            return DocumentRun(item, {}, problems=(Problem("failed", "", f"{place}: {error.code}: {error.message}"),))
        return DocumentRun(
            item,
            generations,
            prefill_tokens=len(item.prompt_ids) - 1 - prompt.cached_tokens,
            prefill_ms=1000.0 * (filled - compiled),
            compile_ms=1000.0 * (compiled - start),
            problems=tuple(self._problems(item, arms, generations)),
        )

    def _request(self, item: WorkItem, max_tokens: int) -> GenerationRequest:
        """The request of plain decoding, its grammar compiled."""
        sampling = SamplingParams(self._options.temperature, self._options.seed, max_tokens=max_tokens)
        request = GenerationRequest(item.prompt_ids, 0, None, item.source, sampling, draft=(), cut=True)
        if isinstance(self._engine.backend, ReplayBackend):
            if item.answer is None:
                raise RequestInvalid("there is no expected answer to replay")
            self._engine.backend.expect(item.answer)
        if item.schema is None:
            return request
        prepared = prepare(item.schema, mode="check")
        self._engine.compile(prepared.enforced, item.source, prepared.allowed_escapes)
        return replace(request, schema=prepared.enforced, allowed_escapes=prepared.allowed_escapes)

    def _drafting(self, request: GenerationRequest, arm: Arm) -> GenerationRequest:
        if not arm.draft:
            return request
        return replace(request, draft=arm.draft, verify=self._options.verify, stream_mode=self._options.stream_mode)

    def _problems(
        self, item: WorkItem, arms: Sequence[Arm], generations: Mapping[str, Generation]
    ) -> Iterator[Problem]:
        plain = generations[NONE]
        for arm in arms:
            tokens = generations[arm.name].token_ids
            if self._options.compares(arm) and tokens != plain.token_ids:
                place = _first_difference(tokens, plain.token_ids)
                yield Problem("mismatch", arm.name, f"{item.name}, arm {arm.name}: other tokens from token {place} on")
        if isinstance(self._engine.backend, ReplayBackend):
            assert item.answer is not None
            expected = item.answer if plain.is_complete else item.answer[: len(plain.text)]
            if plain.text != expected:
                place = _first_difference(plain.text, expected)
                found = f"{plain.text[place : place + 20]!r} for {expected[place : place + 20]!r}"
                yield Problem("not replayable", NONE, f"{item.name}: at character {place}: {found}")


def _first_difference(left: Sequence[object], right: Sequence[object]) -> int:
    pairs = enumerate(zip_longest(left, right))
    return next(place for place, (ours, theirs) in pairs if ours != theirs)
