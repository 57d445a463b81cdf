"""Where rows cost, drafts of any quality: time by the cost curve is never far above plain decoding's, and far below
where they are good. No clock is looked at: the toy back-end adds up c(M)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fetchly_llm.cost_curve import CostCurve
from fetchly_llm.engine import SourceMaker
from fetchly_llm.request import GenerationRequest, SamplingParams, StreamMode, Verify
from fetchly_llm.speculation.source import Candidate
from tests.support.toy_backend import (
    Law,
    ToyBackend,
    ToyStreams,
    constant_law,
    straight_curve,
    table_law,
    toy_engine,
    toy_tokenizer,
)

LETTERS = tuple(toy_tokenizer().encode("abcdefgh"))
LAW = table_law(1, LETTERS)
PROMPT = tuple(np.random.default_rng(0).choice(LETTERS, 40).tolist())
LENGTH = 400
CURVES = {
    "flat": straight_curve(0.02),
    "slanting": straight_curve(0.1),
    "steep": straight_curve(0.5),
    "none-is-free": straight_curve(1.0),
    "torch": CostCurve((1, 4, 8, 16), (1.0, 1.8, 1.8, 2.2)),
    "int8": CostCurve((1, 4, 8, 16), (23.0, 27.6, 34.5, 46.0)),
    "step": CostCurve((1, 2, 16), (1.0, 1.5, 1.5)),
}


def with_streams(curve: CostCurve, cost: float) -> CostCurve:
    """`curve` of a model whose pass of streams takes `cost` plain steps from one node, and a half more from three."""
    ms = cost * curve.cost(1)
    return replace(curve, stream_ms=(ms, 1.25 * ms, 1.5 * ms))


every_curve = pytest.mark.parametrize("curve", CURVES.values(), ids=CURVES)

Habit = Literal["one-grade", "by-depth", "ever-new", "fan", "sly"]
HABITS: tuple[Habit, ...] = ("one-grade", "by-depth", "ever-new", "fan", "sly")


@dataclass(frozen=True, slots=True)
class Timed:
    """What was written, in how many milliseconds of the curve."""

    tokens: tuple[int, ...]
    elapsed: float
    passes: int


def write(
    curve: CostCurve,
    *draft: str,
    sources: Mapping[str, SourceMaker] | None = None,
    width: int | None = None,
    law: Law = LAW,
    streams: ToyStreams | None = None,
    mode: StreamMode = "deferred",
    verify: Verify = "match",
    length: int = LENGTH,
    seed: int = 1,
) -> Timed:
    backend = ToyBackend(law, width=width, curve=curve, streams=streams)
    sampling = SamplingParams(1.0, seed, max_tokens=length)
    request = GenerationRequest(PROMPT, 0, None, "", sampling, draft=draft, verify=verify, stream_mode=mode, cut=True)
    generation = toy_engine(backend, curve, sources=sources).generate(request)
    assert len(generation.token_ids) == length
    return Timed(generation.token_ids, backend.elapsed, backend.passes)


TRUTH = write(CURVES["flat"]).tokens


@dataclass(slots=True)
class Drafter:
    """Knows the text, and is right at a share of places; `habit` says how it is wrong elsewhere, and always sure."""

    habit: Habit = "by-depth"
    right: float = 0.0
    estimate: float = 1.0
    name: str = "drafter"
    written: int = 0
    asked: int = 0
    is_right: list[bool] = field(init=False)

    def __post_init__(self) -> None:
        self.is_right = (np.random.default_rng(3).random(LENGTH) < self.right).tolist()

    def extend(self, tokens: Sequence[int]) -> None:
        self.written += len(tokens)

    def propose(self, path: Sequence[int]) -> Sequence[Candidate]:
        place = self.written + len(path)
        if place >= LENGTH:
            return ()
        right = TRUTH[place]
        wrong = [letter for letter in LETTERS if letter != right]
        self.asked += 1
        if self.is_right[place] or (self.habit == "sly" and place % 11 == 0):
            return (Candidate(right, self.estimate, len(path)),)
        if self.habit == "fan":
            return tuple(Candidate(token, self.estimate, rank + 8 * len(path)) for rank, token in enumerate(wrong))
        grade = {"one-grade": 0, "ever-new": self.asked}.get(self.habit, len(path))
        return (Candidate(wrong[0], self.estimate, grade),)


@every_curve
@pytest.mark.parametrize("habit", HABITS)
def test_a_drafter_that_is_sure_and_wrong_costs_three_percent_at_most(curve: CostCurve, habit: Habit) -> None:
    """By habit: every grade is soon found out, or some never are; "sly" is right just often enough to be asked."""
    drafted = write(curve, "drafter", sources={"drafter": lambda _: Drafter(habit)})
    assert drafted.tokens == TRUTH
    assert drafted.elapsed <= 1.03 * LENGTH * curve.cost(1)


@every_curve
def test_all_sources_wrong_at_once_cost_three_percent_at_most(curve: CostCurve) -> None:
    makers = {habit: (lambda _, habit=habit: Drafter(habit, name=habit)) for habit in HABITS}
    streams = ToyStreams(likeness=0.0, confidence=1.0)
    drafted = write(with_streams(curve, 0.5), *HABITS, "lookup", "streams", sources=makers, streams=streams)
    assert drafted.tokens == TRUTH
    assert drafted.elapsed <= 1.03 * LENGTH * curve.cost(1)


@every_curve
def test_copying_from_random_text_costs_three_percent_at_most(curve: CostCurve) -> None:
    law = constant_law({letter: 1.0 / len(LETTERS) for letter in LETTERS})
    for seed in range(3):
        assert write(curve, "lookup", law=law, seed=seed).elapsed <= 1.03 * LENGTH * curve.cost(1)


@every_curve
@pytest.mark.parametrize("verify", ["match", "rejection"])
@pytest.mark.parametrize("mode", ["deferred", "fused"])
@pytest.mark.parametrize("pass_cost", [0.0, 0.4, 1.5, 9.0])
def test_streams_that_contradict_the_model_cost_three_percent_at_most(
    curve: CostCurve, pass_cost: float, verify: Verify, mode: StreamMode
) -> None:
    """Their passes included, each of which takes as long as `pass_cost` plain steps and more for further nodes."""
    streams = ToyStreams(likeness=0.0, confidence=1.0)
    priced = with_streams(curve, pass_cost)
    drafted = write(priced, "streams", streams=streams, mode=mode, verify=verify)
    assert drafted.elapsed <= 1.03 * LENGTH * curve.cost(1)
    assert (drafted.passes > 0) == (pass_cost < 9.0)


@st.composite
def curves(draw: st.DrawFn) -> CostCurve:
    rows = (1, *sorted(draw(st.sets(st.integers(2, 16), max_size=5))))
    rises = draw(st.lists(st.floats(0.0, 3.0), min_size=len(rows), max_size=len(rows)))
    return CostCurve(rows, tuple((1.0 + np.cumsum(rises)).tolist()))


@settings(max_examples=60)
@given(
    curve=curves(),
    habits=st.sets(st.sampled_from(HABITS), min_size=1),
    right=st.sampled_from([0.0, 0.2, 0.6]),
    streams=st.builds(ToyStreams, likeness=st.sampled_from([0.0, 0.5, 0.8]), confidence=st.sampled_from([0.3, 1.0])),
    pass_cost=st.floats(0.0, 4.0),
    mode=st.sampled_from(["deferred", "fused"]),
    length=st.integers(1, LENGTH),
)
def test_on_any_curve_a_text_costs_two_percent_and_two_steps_at_most(
    curve: CostCurve,
    habits: set[Habit],
    right: float,
    streams: ToyStreams,
    pass_cost: float,
    mode: StreamMode,
    length: int,
) -> None:
    """Whatever drafters and streams are like, and whatever a pass of streams costs."""
    makers = {habit: (lambda _, habit=habit: Drafter(habit, right, name=habit)) for habit in habits}
    priced = with_streams(curve, pass_cost)
    drafted = write(priced, *sorted(habits), "streams", sources=makers, streams=streams, mode=mode, length=length)
    assert drafted.elapsed <= (1.02 * length + 2.0) * curve.cost(1) + 1e-6


@cache
def steps_of(right: float) -> tuple[int, ...]:
    """How many steps a drafter needs with 1, 2, ... 16 rows."""
    counted = CostCurve((1, 16), (1.0, 1.0))
    makers = {"drafter": lambda _: Drafter(right=right)}
    return tuple(round(write(counted, "drafter", sources=makers, width=rows).elapsed) for rows in range(1, 17))


@every_curve
@pytest.mark.parametrize(("right", "estimate"), [(0.5, 0.7), (0.8, 0.7), (0.8, 1.0), (0.95, 1.0), (1.0, 1.0)])
def test_a_good_drafter_is_near_the_best_fixed_number_of_rows(curve: CostCurve, right: float, estimate: float) -> None:
    """It is to be found out while writing, and even so comes within 15 % of what hindsight chooses."""
    makers = {"drafter": lambda _: Drafter(right=right, estimate=estimate)}
    adaptive = write(curve, "drafter", sources=makers)
    best = min(steps * curve.cost(rows) for rows, steps in enumerate(steps_of(right), start=1))
    assert adaptive.tokens == TRUTH
    assert adaptive.elapsed <= 1.15 * best
    if best < 0.7 * LENGTH * curve.cost(1):
        assert adaptive.elapsed < 0.8 * LENGTH * curve.cost(1)


def test_what_the_grammar_forces_is_verified_whatever_may_be_lost() -> None:
    """A forced token is no estimate: where sources have spent all that may be lost, forced runs are still taken."""
    schema = {"enum": [" world" * 20, "hello" * 20]}
    for curve in (straight_curve(0.5), straight_curve(0.9)):
        backend = ToyBackend(table_law(0), width=None, curve=curve)
        engine = toy_engine(backend, curve, sources={"drafter": lambda _: Drafter("ever-new")})
        request = GenerationRequest(PROMPT, 0, schema, "", SamplingParams(0.0), draft=("forced", "drafter"))
        written = engine.generate(request)
        assert backend.elapsed < 0.97 * len(written.token_ids)
        assert written.stats.tokens_by_source["forced"] > len(written.token_ids) / 2


@pytest.mark.parametrize("mode", ["deferred", "fused"])
def test_streams_that_do_not_help_are_seldom_run(mode: StreamMode) -> None:
    curve = CURVES["steep"]
    law = table_law(1, LETTERS, spread=8.0)  # near certain, so that streams that contradict it are never right
    useless = write(curve, "streams", law=law, streams=ToyStreams(likeness=0.0), mode=mode)
    useful = write(curve, "streams", law=law, streams=ToyStreams(likeness=1.0), mode=mode)
    assert useless.passes < 50
    assert useful.passes > 90


@pytest.mark.parametrize("mode", ["deferred", "fused"])
def test_streams_that_help_less_than_they_cost_are_seldom_run(mode: StreamMode) -> None:
    """The same streams, right now and then; only their price differs. A good drafter sees to it that what may be lost
    is no reason to leave them out."""
    cheap, dear = (
        write(
            with_streams(CURVES["slanting"], cost),
            *("drafter", "streams"),
            sources={"drafter": lambda _: Drafter(right=0.6)},
            streams=ToyStreams(likeness=0.7),
            mode=mode,
        )
        for cost in (0.05, 0.8)
    )
    assert cheap.passes > 2 * dear.passes
    assert cheap.tokens == dear.tokens == TRUTH


@dataclass(slots=True)
class Late(Drafter):
    """Says nothing at first, when all that may be lost is there, and is then wrong and sure of a whole tree."""

    def propose(self, path: Sequence[int]) -> Sequence[Candidate]:
        return Drafter.propose(self, path) if self.written else ()


@pytest.mark.parametrize("mode", ["deferred", "fused"])
@pytest.mark.parametrize("pass_cost", [0.3, 0.9, 1.9])
def test_a_wrong_tree_and_a_pass_of_streams_do_not_lose_the_same_milliseconds(
    pass_cost: float, mode: StreamMode
) -> None:
    curve = with_streams(straight_curve(0.5), pass_cost)
    streams = ToyStreams(likeness=0.0, confidence=1.0)
    for length in range(1, 9):
        makers = {"late": lambda _: Late("ever-new", name="late")}
        drafted = write(curve, "late", "streams", sources=makers, streams=streams, mode=mode, length=length)
        assert drafted.elapsed <= 1.02 * length + 2.0 + 1e-6


@pytest.mark.parametrize("mode", ["deferred", "fused"])
def test_good_streams_pay_for_their_passes(mode: StreamMode) -> None:
    law = table_law(1, LETTERS, spread=8.0)
    curve = with_streams(CURVES["slanting"], 0.5)
    drafted = write(curve, "streams", law=law, streams=ToyStreams(likeness=1.0), mode=mode)
    assert drafted.elapsed < 0.7 * LENGTH * curve.cost(1)


def test_rows_never_change_what_is_written() -> None:
    for curve in CURVES.values():
        drafted = write(curve, "lookup", "streams", streams=ToyStreams(likeness=0.8))
        assert drafted.tokens == TRUTH
