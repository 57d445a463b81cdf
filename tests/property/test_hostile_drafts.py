"""Drafts of any kind, illegal and beyond the vocabulary too: the state after every step is that of a fresh start.

The second half is the list of bugs of other engines, one test for each that could occur here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fetchly_llm.engine import Engine
from fetchly_llm.errors import CapacityExceeded, OutputLimit
from fetchly_llm.grammar import bitmask
from fetchly_llm.grammar.free_text import FreeText
from fetchly_llm.grammar.matcher import Matcher
from fetchly_llm.request import GenerationRequest, SamplingParams
from fetchly_llm.sampling import check_finite, sample_token
from fetchly_llm.speculation.source import Candidate
from tests.support.toy_backend import (
    EOS_IDS,
    VOCAB_SIZE,
    Law,
    ToyBackend,
    ToyStreams,
    straight_curve,
    table_law,
    toy_engine,
    toy_tokenizer,
)

TOKENIZER = toy_tokenizer()
TEXT_TOKENS = (*TOKENIZER.encode("abcd"), EOS_IDS[1])
SCHEMA = {
    "type": "object",
    "properties": {
        "word": {"enum": ["hello", "held", "hell", "world"]},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 4}, "maxItems": 2},
        "count": {"type": "integer", "minimum": 0, "maximum": 120},
    },
    "required": ["word", "tags", "count"],
    "additionalProperties": False,
}
PROMPT = tuple(TOKENIZER.encode('abcd {"word": "hello", "tags": ["ab", "cd"], "count": 12} abba'))
CURVE = straight_curve(0.05)

Habit = Literal["right", "wrong", "any", "beyond", "end", "negative", "twice"]


@dataclass(slots=True)
class Hostile:
    """Proposes by its `habits`, in turn: what comes next in `truth`, anything else, ids that spell nothing or exist
    nowhere, ends of sequence, the same token twice."""

    truth: tuple[int, ...]
    habits: tuple[Habit, ...]
    estimate: float = 0.9
    name: str = "hostile"
    written: int = 0
    asked: int = field(default=0)

    def extend(self, tokens: Sequence[int]) -> None:
        self.written += len(tokens)

    def propose(self, path: Sequence[int]) -> Sequence[Candidate]:
        place = self.written + len(path)
        found: list[Candidate] = []
        for habit in self.habits:
            self.asked += 1
            right = self.truth[place] if place < len(self.truth) else EOS_IDS[0]
            token = {
                "right": right,
                "wrong": (right + 1 + self.asked % 7) % 267,
                "any": (self.asked * 7919) % 267,
                "beyond": (267, 271, VOCAB_SIZE, VOCAB_SIZE + 40, 10**9)[self.asked % 5],
                "end": EOS_IDS[self.asked % 2],
                "negative": -1 - self.asked % 3,
                "twice": right,
            }[habit]
            found += [Candidate(token, self.estimate, self.asked % 3)] * (2 if habit == "twice" else 1)
        return found


class Watched(Engine):
    """An engine whose matcher and cache are compared, before every step and at the end, with fresh ones."""

    def watch(self, request: GenerationRequest) -> tuple[int, ...]:
        heard: list[int] = []

        def check() -> bool:
            self._check_matcher(request, heard)
            if heard:
                self._check_cache(request, heard[:-1])
            return False

        generation = self.generate(replace(request, should_stop=check, on_token=heard.append))
        assert tuple(heard) == generation.token_ids
        self._check_matcher(request, heard)
        # A drawn end of sequence is no output: the step that drew it has committed the last token that is.
        by_eos = generation.is_complete and not self.matcher.is_terminated
        self._check_cache(request, heard if by_eos else heard[:-1])
        return generation.token_ids

    def _matcher(self, request: GenerationRequest) -> Any:
        self.matcher = super()._matcher(request)
        return self.matcher

    def _check_cache(self, request: GenerationRequest, written: Sequence[int]) -> None:
        assert isinstance(self.backend, ToyBackend)
        assert self.backend.cache is not None
        assert self.backend.cache.committed == [*request.prompt_ids, *written]

    def _check_matcher(self, request: GenerationRequest, heard: Sequence[int]) -> None:
        fresh = super()._matcher(request)
        for token in heard:
            fresh.accept(token)
        assert self.matcher.tokens == fresh.tokens == tuple(heard)
        assert self.matcher.is_terminated == fresh.is_terminated
        assert self.matcher.forced_tokens() == fresh.forced_tokens()
        assert (mask_of(self.matcher) == mask_of(fresh)).all()


def mask_of(matcher: Any) -> NDArray[np.int32]:
    row = bitmask.allocate(1, VOCAB_SIZE)[0]
    if not matcher.is_terminated:
        matcher.fill_bitmask(row)
    return row


def asked(schema: dict[str, Any] | None, seed: int, temperature: float = 1.0, **more: Any) -> GenerationRequest:
    sampling = SamplingParams(temperature, seed, max_tokens=150)
    return GenerationRequest(PROMPT, 0, schema, "", sampling, draft=more.pop("draft", ()), **more)


def toy_law(schema: dict[str, Any] | None) -> Law:
    """Any token for a record; for a text four letters, and an end that is late."""
    table = table_law(2, TEXT_TOKENS if schema is None else None)
    late_end = np.zeros(VOCAB_SIZE, dtype=np.float32)
    late_end[EOS_IDS[1]] = -2.0 if schema is None else 0.0
    return lambda before, last: table(before, last) + late_end


def plain(request: GenerationRequest) -> tuple[int, ...]:
    backend = ToyBackend(toy_law(request.schema), width=1)
    return toy_engine(backend).generate(replace(request, draft=(), verify="match")).token_ids


habits = st.lists(
    st.sampled_from(["right", "wrong", "any", "beyond", "end", "negative", "twice"]), min_size=1, max_size=4
).map(tuple)


@settings(max_examples=120)
@given(
    schema=st.sampled_from([None, SCHEMA]),
    habits=habits,
    estimate=st.sampled_from([0.05, 0.5, 1.0]),
    width=st.sampled_from([1, 2, 3, 5, 8, 16, None]),
    branching=st.booleans(),
    draft=st.sampled_from([(), ("forced",), ("lookup",), ("forced", "lookup", "streams")]),
    verify=st.sampled_from(["match", "rejection"]),
    mode=st.sampled_from(["deferred", "fused"]),
    seed=st.integers(0, 2**64 - 1),
    temperature=st.sampled_from([0.0, 1.0, 2.0]),
)
def test_after_every_step_matcher_and_cache_are_those_of_a_fresh_start(
    schema: dict[str, Any] | None,
    habits: tuple[Habit, ...],
    estimate: float,
    width: int | None,
    branching: bool,
    draft: tuple[str, ...],
    verify: Literal["match", "rejection"],
    mode: Literal["deferred", "fused"],
    seed: int,
    temperature: float,
) -> None:
    request = asked(schema, seed, temperature, verify=verify, stream_mode=mode, cut=True)
    truth = plain(request)
    backend = ToyBackend(toy_law(schema), width=width, branching=branching, streams=ToyStreams(likeness=0.7))
    engine = toy_engine(backend, CURVE, kind=Watched, sources={"hostile": lambda _: Hostile(truth, habits, estimate)})
    written = engine.watch(replace(request, draft=(*draft, "hostile")))
    if verify == "match" or temperature == 0.0:
        assert written == truth


ALL_HABITS: tuple[Habit, ...] = ("right", "wrong", "any", "beyond", "end", "negative", "twice")


def hostile(request: GenerationRequest, *habits: Habit, width: int | None = 8) -> Watched:
    """An engine whose source "hostile" knows what plain decoding answers to `request`."""
    truth = plain(request)
    backend = ToyBackend(toy_law(request.schema), width=width)
    return toy_engine(backend, CURVE, kind=Watched, sources={"hostile": lambda _: Hostile(truth, habits or ALL_HABITS)})


def drafted(request: GenerationRequest) -> GenerationRequest:
    return replace(request, draft=("forced", "hostile"))


seeds = pytest.mark.parametrize("seed", range(5))
either_kind = pytest.mark.parametrize("schema", [None, SCHEMA], ids=["text", "record"])


@seeds
@either_kind
def test_illegal_drafts_and_ends_of_sequence_never_become_nodes(schema: dict[str, Any] | None, seed: int) -> None:
    """vLLM #15554, #11484, #51660: the engine dies of a draft that the grammar does not take."""
    request = asked(schema, seed)
    engine = hostile(request)
    backend = engine.backend
    assert isinstance(backend, ToyBackend)
    written: list[int] = []
    lengths: list[int] = []

    def note() -> bool:
        lengths.append(len(written))
        return False

    engine.generate(replace(drafted(request), should_stop=note, on_token=written.append))
    assert len(lengths) == len(backend.trees)
    assert any(len(tree) > 2 for tree in backend.trees)
    for length, tree in zip(lengths, backend.trees, strict=True):
        assert EOS_IDS[0] not in tree.tokens[1:]
        assert EOS_IDS[1] not in tree.tokens[1:]
        assert len(set(zip(tree.parents, tree.tokens, strict=True))) == len(tree), "one node for what two propose"
        for node in range(1, len(tree)):
            fresh = engine._matcher(request)
            for token in (*written[:length], *(tree.tokens[each] for each in tree.path(node)[1:])):
                fresh.accept(token)  # raises where it is not legal


@seeds
@either_kind
def test_a_mask_is_never_asked_of_a_terminated_matcher(
    schema: dict[str, Any] | None, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SGLang #15373, #15050."""
    asked_for = 0
    for kind in (Matcher, FreeText):
        fill = kind.fill_bitmask

        def guarded(matcher: Any, row: NDArray[np.int32], fill: Any = fill) -> None:
            nonlocal asked_for
            asked_for += 1
            assert not matcher.is_terminated
            fill(matcher, row)

        monkeypatch.setattr(kind, "fill_bitmask", guarded)
    request = asked(schema, seed)
    for verify in ("match", "rejection"):
        hostile(request).generate(replace(drafted(request), verify=verify))
    assert asked_for > 0


@seeds
def test_an_end_of_sequence_inside_a_draft_ends_nothing_before_its_time(seed: int) -> None:
    """SGLang #21723; a top-level integer may end, and may go on."""
    for schema in (None, {"type": "integer", "minimum": 0, "maximum": 1200}):
        request = asked(schema, seed, temperature=2.0)
        truth = plain(request)
        generation = hostile(request, "end", "right").generate(drafted(request))
        assert generation.token_ids == truth
        assert generation.is_complete


@seeds
@either_kind
def test_a_text_goes_on_after_a_mismatch(schema: dict[str, Any] | None, seed: int) -> None:
    """SGLang #9187: the output ends where the first draft is wrong."""
    request = asked(schema, seed)
    truth = plain(request)
    wrong = hostile(request, "wrong").generate(drafted(request))
    assert wrong.token_ids == truth
    assert schema is not None or wrong.stats.proposed_by_source["hostile"] > 0
    mixed = hostile(request, "right", "wrong").generate(drafted(request))
    assert mixed.token_ids == truth
    assert mixed.stats.decode_steps <= wrong.stats.decode_steps


@either_kind
def test_ids_beyond_the_text_are_neither_drafted_nor_drawn(schema: dict[str, Any] | None) -> None:
    """The logits are wider than the tokenizer's vocabulary, and those ids the likeliest: padding must not be taken."""
    likely = table_law(2, None if schema else TEXT_TOKENS[:4])

    def law(before: int, last: int) -> NDArray[np.float32]:
        row = likely(before, last).copy()
        row[TOKENIZER.vocab_size :] = 50.0
        return row

    for verify in ("match", "rejection"):
        streams = ToyStreams(likeness=1.0)
        sources = {"hostile": lambda _: Hostile((), ("beyond", "negative"))}
        engine = toy_engine(ToyBackend(law, streams=streams), sources=sources)
        request = asked(schema, 4, verify=verify, draft=("hostile", "streams", "lookup"), cut=True)
        generation = engine.generate(request)
        assert generation.token_ids
        assert max(generation.token_ids) < TOKENIZER.vocab_size
        assert "hostile" not in generation.stats.proposed_by_source


def test_a_mask_of_zeros_is_an_error_and_no_nan() -> None:
    """TensorRT-LLM guards against it: the softmax over nothing is not a number."""
    scores, nothing = np.zeros(0, dtype=np.float32), np.zeros(0, dtype=np.int64)
    with pytest.raises(AssertionError, match="at least one"):
        sample_token(scores, nothing, 0.0, 0, lambda position: np.zeros(8))
    with pytest.raises(AssertionError, match="at least one"):
        check_finite(scores, 0)


@seeds
@pytest.mark.parametrize("width", [2, 5, 16, None])
def test_a_grammar_that_ends_inside_the_tree_ends_the_text(seed: int, width: int | None) -> None:
    request = asked(SCHEMA, seed)
    truth = plain(request)
    engine = hostile(request, "right", "any", width=width)
    assert engine.watch(drafted(request)) == truth
    assert isinstance(engine.backend, ToyBackend)
    last_tree = engine.backend.trees[-1]
    assert len(last_tree) <= (width or CURVE.most)
    assert TOKENIZER.decode(truth).endswith("}")


@pytest.mark.parametrize("width", [1, 3, 8, 16, None])
@either_kind
def test_a_token_limit_inside_an_accepted_run_is_kept_to_the_token(
    schema: dict[str, Any] | None, width: int | None
) -> None:
    request = asked(schema, 6)
    truth = plain(request)
    assert len(truth) > 10
    for limit in range(1, len(truth) + 2):
        short = replace(request, sampling=replace(request.sampling, max_tokens=limit))
        engine = hostile(request, "right", width=width)
        written = engine.generate(replace(drafted(short), cut=True))
        assert written.token_ids == truth[:limit]
        # A grammar that ends with its last token is complete at the limit; free text needs one more draw to end.
        complete = limit >= len(truth) + (schema is None)
        assert written.is_complete == complete
        if not complete:
            with pytest.raises(OutputLimit):
                engine.generate(drafted(short))


@pytest.mark.parametrize("width", [1, 4, None])
def test_the_context_that_fills_up_inside_an_accepted_run_is_kept_to_the_token(width: int | None) -> None:
    law = table_law(2, TEXT_TOKENS[:4])
    rows = width or CURVE.most
    for room in (1, 2, 7):
        backend = ToyBackend(law, width=width, max_position=len(PROMPT) + room + rows, streams=ToyStreams(likeness=1.0))
        engine = toy_engine(backend, CURVE)
        request = asked(None, 1, draft=("lookup", "streams"), cut=True)
        assert len(engine.generate(request).token_ids) == room
        with pytest.raises(CapacityExceeded):
            engine.generate(replace(request, cut=False))
