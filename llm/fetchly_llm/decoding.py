"""A prefilled prompt and a matcher in; the tokens of one sequence out: grow, forward, verify, commit, step by step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import inf
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fetchly_llm.backend import Backend, Cache, StepOutput
from fetchly_llm.cost_curve import FUSED_ANCHORS, CostCurve
from fetchly_llm.errors import Cancelled, CapacityExceeded, EngineError, GrammarStateLimit, OutputLimit
from fetchly_llm.grammar import bitmask
from fetchly_llm.metrics import Clock, StepTally
from fetchly_llm.request import GenerationRequest
from fetchly_llm.sampling import (
    GumbelNoise,
    check_finite,
    draft_noise,
    sample_token,
    target_distribution,
    verification_noise,
)
from fetchly_llm.speculation.allowance import Allowance
from fetchly_llm.speculation.calibration import Calibration
from fetchly_llm.speculation.draft import Draft
from fetchly_llm.speculation.grow import Growth
from fetchly_llm.speculation.legality import Legality
from fetchly_llm.speculation.rejection import choose_by_rejection
from fetchly_llm.speculation.rest import Rests
from fetchly_llm.speculation.source import DraftSource
from fetchly_llm.speculation.stream_source import StreamSource
from fetchly_llm.speculation.verify import Choose, Verification, verify
from fetchly_llm.streams import StreamAnchor, StreamDraft

_SAMPLED_CHILDREN = 2  # of a node, where drafts are drawn for rejection sampling


class Masking(Legality, Protocol):
    """A matcher, or free text."""

    def fill_bitmask(self, row: NDArray[np.int32]) -> None:
        """Write the legal tokens into `row`, int32 of shape (ceil(vocab_size / 32),)."""


@dataclass(frozen=True, slots=True)
class DecodingSetup:
    """What a sequence needs of its engine. `rows` bounds a draft tree; `curve` is there where rows are chosen by cost.

    `room` is how many tokens the context has left after the prompt.
    """

    backend: Backend
    eos_token_ids: frozenset[int]
    rows: int
    curve: CostCurve | None
    calibration: Calibration
    room: int


class Decoding:
    """The state of one sequence between prefill and its end. Owns `cache`; `make_matcher` makes a fresh matcher."""

    def __init__(
        self,
        setup: DecodingSetup,
        request: GenerationRequest,
        make_matcher: Callable[[], Masking],
        cache: Cache,
        sources: Sequence[DraftSource],
        noise: GumbelNoise,
        clock: Clock,
    ) -> None:
        self._setup = setup
        self._backend = setup.backend
        self._request = request
        self._make_matcher = make_matcher
        self._matcher = make_matcher()
        self._is_plain = False
        self._cache = cache
        self._sources = sources
        self._streams = next((source for source in sources if isinstance(source, StreamSource)), None)
        self._noise = noise
        self._clock = clock
        self._bitmask = bitmask.allocate(1, self._backend.config.vocab_size)[0]
        self._limit = min(request.sampling.max_tokens, setup.room)
        self._rests = Rests()
        self._allowance = Allowance(setup.curve) if setup.curve else None
        self.tokens: list[int] = []
        self.token_sources: list[str] = []
        self.tally = StepTally()
        self.is_complete = False

    def run(self) -> None:
        """Write until the text is complete. Raises Cancelled, OutputLimit, CapacityExceeded, GrammarStateLimit."""
        last = self._request.prompt_ids[-1]
        while not self.is_complete:
            if self._request.should_stop is not None and self._request.should_stop():
                raise Cancelled("the request was cancelled")
            if len(self.tokens) >= self._limit:
                if self._request.cut:
                    return
                raise self._over_limit()
            step = self._step(last)
            self._clock.mark_first_token()
            self.tokens.extend(step.tokens)
            self.token_sources.extend(step.sources)
            if self._request.on_token is not None:
                for token in step.tokens:
                    self._request.on_token(token)
            self.is_complete = step.stopped
            last = step.path.bonus_token

    def _step(self, last: int) -> Verification:
        position = len(self._request.prompt_ids) + len(self.tokens)
        with self._clock.measure("draft"):
            draft = self._grow(last, position)
        with self._clock.measure("forward"):
            rows = draft.needed_rows
            output = self._backend.step(self._cache, draft.tree, rows)
        fused = self._run_fused(draft)
        with self._clock.measure("verify"):
            step = verify(draft, self._matcher, self._chooser(draft, output, position), self._setup.eos_token_ids)
            self._learn(draft, step)
        self._load_streams(step, fused)
        with self._clock.measure("commit"):
            self._backend.commit(self._cache, step.path.nodes)
        return step

    def _grow(self, last: int, position: int) -> Draft:
        sources = self._asked_sources()
        try:
            return self._grow_from(sources, last, position)
        except GrammarStateLimit:
            if self._is_plain:
                raise
        # A draft went where the grammar's matcher gave up, which the text itself may never do.
        self._is_plain = True
        self._matcher = self._make_matcher()
        for token in self.tokens:
            self._matcher.accept(token)
        return self._grow_from(sources, last, position)

    def _asked_sources(self) -> Sequence[DraftSource]:
        """Where rows cost: those that do not rest, and the streams only if their pass may be lost, too."""
        if self._allowance is None:
            return self._sources
        awake = [source for source in self._sources if self._rests.is_awake(source.name)]
        if self._deferred_cost > self._allowance.left:
            awake = [source for source in awake if source is not self._streams]
        return awake

    @property
    def _deferred_cost(self) -> float:
        """Milliseconds of the pass that asking the streams takes where they are deferred."""
        curve = self._setup.curve
        return curve.stream_cost(1) if curve is not None and self._request.stream_mode == "deferred" else 0.0

    def _grow_from(self, sources: Sequence[DraftSource], last: int, position: int) -> Draft:
        growth = Growth(
            self._matcher,
            sources,
            self._setup.calibration,
            self._setup.eos_token_ids,
            forced="forced" in self._request.draft,
            branching=self._backend.branching,
        )
        if self._is_plain:
            return growth.grow(last, 1)
        rows = min(self._setup.rows, self._limit - len(self.tokens))
        curve, allowance = self._setup.curve, self._allowance.left if self._allowance else inf
        if self._streams in sources:
            allowance -= self._deferred_cost
        if self._is_rejecting and self._streams in sources:
            assert self._streams is not None
            rng = draft_noise(self._request.sampling, position)
            rows = min(rows, curve.rows_within(allowance)) if curve else rows
            return growth.grow_sampled(last, rows, self._streams, _SAMPLED_CHILDREN, rng)
        return growth.grow(last, rows, curve, allowance)

    @property
    def _is_rejecting(self) -> bool:
        """At temperature 0 the target is a point mass, and rejection sampling is a comparison."""
        return self._request.verify == "rejection" and self._request.sampling.temperature > 0.0

    def _run_fused(self, draft: Draft) -> dict[int, StreamDraft]:
        """The streams of the likeliest last nodes, beside the verification: they cannot know which token follows."""
        if self._streams is None or self._request.stream_mode == "deferred" or self._is_plain:
            return {}
        anchors = FUSED_ANCHORS
        if self._allowance is not None:
            if not self._rests.is_awake(self._streams.name, after=1):
                return {}
            anchors = self._allowance.anchors_after(len(draft.tree), _certain_tokens(draft), FUSED_ANCHORS)
        nodes = draft.likely_stops(anchors)
        if not nodes:
            return {}
        drafts = self._speculate([StreamAnchor(node) for node in nodes])
        return dict(zip(nodes, drafts, strict=True))

    def _load_streams(self, step: Verification, fused: dict[int, StreamDraft]) -> None:
        """Have the streams of the last accepted node ready for the next tree; deferred ones run when asked for."""
        if self._streams is None:
            return
        last = step.path.nodes[-1]
        if self._request.stream_mode == "deferred":
            anchor = StreamAnchor(last, step.path.bonus_token)
            self._streams.load(lambda: self._speculate([anchor])[0])
        elif last in fused:
            found = fused[last]
            self._streams.load(lambda: found)
        else:
            self._streams.load(None)

    def _speculate(self, anchors: Sequence[StreamAnchor]) -> tuple[StreamDraft, ...]:
        assert self._streams is not None
        self.tally.stream_passes += 1
        if self._allowance is not None:
            self._rests.charge(StreamSource.name, self._allowance.charge(len(anchors)))
        with self._clock.measure("stream"):
            return self._backend.speculate(self._cache, anchors, self._streams.vocabulary)

    def _chooser(self, draft: Draft, output: StepOutput, position: int) -> Choose:
        """The target's token after a node, by the request's way of verifying."""
        row_of = {node: row for row, node in enumerate(draft.needed_rows)}
        sampling = self._request.sampling
        rng = verification_noise(sampling, position) if self._is_rejecting else None

        def choose(node: int, depth: int) -> int:
            with self._clock.measure("mask"):
                self._matcher.fill_bitmask(self._bitmask)
                legal = bitmask.legal_tokens(self._bitmask)
            with self._clock.measure("head"):
                scores = output.scores(row_of[node], legal)
            if rng is None:
                return sample_token(scores, legal, sampling.temperature, position + depth, self._noise)
            check_finite(scores, position + depth)
            target = target_distribution(scores, sampling.temperature)
            return choose_by_rejection(draft, node, legal, target, rng)

        return choose

    def _learn(self, draft: Draft, step: Verification) -> None:
        """Tell what came of the proposals, and let the sources know what was written."""
        gained: Counter[str] = Counter()
        for node, token in zip_longest(step.path.nodes, step.tokens):  # no token where the text ended
            for child in draft.children[node]:
                candidate = draft.candidates[child]
                if candidate is not None:
                    is_right = candidate.token == token
                    self._setup.calibration.learn(draft.tree.sources[child], candidate, is_right)
                    gained[draft.tree.sources[child]] += is_right
        self._setup.calibration.end_step()
        self._rests.end_step([source.name for source in self._sources], gained)
        if self._allowance is not None:
            self._allowance.end_step(len(draft.tree), step.path.acceptance_length)
        for source in self._sources:
            source.extend(step.tokens)
        has_children = [bool(draft.children[node]) for node in step.path.nodes]
        self.tally.add_step(draft.tree, step.path.nodes, has_children, step.sources)

    def _over_limit(self) -> EngineError:
        if self._limit < self._request.sampling.max_tokens:
            return CapacityExceeded(
                f"prompt and answer fill the context after {self._limit} output tokens",
                hint="lower the page budget, bound the schema (maxItems, maxLength) or raise context_length",
            )
        return OutputLimit(
            f"the record was not complete after {self._limit} tokens",
            hint="raise max_tokens or bound the schema (maxItems, maxLength)",
        )


def _certain_tokens(draft: Draft) -> int:
    """What the step gains whatever the model says: one token, and those of a run that the grammar forces from there."""
    nodes = zip(draft.probabilities, draft.candidates, strict=True)
    return sum(probability == 1.0 and candidate is None for probability, candidate in nodes)
