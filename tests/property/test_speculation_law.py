"""What the whole engine writes has the target's law, drafted or not; with sample-and-match it is the same text, too.

The target's law is known exactly: the toy back-end's logits are a table of the last two tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fetchly_llm.grammar import bitmask
from fetchly_llm.grammar.compiler import Grammar, GrammarCompiler
from fetchly_llm.grammar.free_text import FreeText
from fetchly_llm.grammar.matcher import Matcher
from fetchly_llm.request import GenerationRequest, SamplingParams, StreamMode, Verify
from fetchly_llm.sampling import target_distribution
from fetchly_llm.speculation.source import Candidate
from tests.support.chi_square import ChiSquare, check_law
from tests.support.toy_backend import (
    EOS_IDS,
    VOCAB_SIZE,
    Law,
    ToyBackend,
    ToyStreams,
    constant_law,
    straight_curve,
    table_law,
    toy_engine,
    toy_tokenizer,
)

TOKENIZER = toy_tokenizer()
GRAMMARS = GrammarCompiler(TOKENIZER.json_text, EOS_IDS, VOCAB_SIZE)


def tokens_of(*spellings: str) -> tuple[int, ...]:
    """The ids of texts that are one token each."""
    found = [TOKENIZER.encode(spelling) for spelling in spellings]
    assert all(len(ids) == 1 for ids in found)
    return tuple(ids[0] for ids in found)


LETTERS = tokens_of("a", "b", "c", "d")
TEXT_PROMPT = tuple(np.random.default_rng(0).choice(LETTERS, 30).tolist())

SCHEMA = {"enum": ["hello", "held", "hell", "world", "12", "1"]}
PARTS = tokens_of('"', "1", "2", "12", "h", "e", "l", "o", "d", "w", "he", "ll", "hell", "hello", "ld", "x", "}")
"""At any place in a record, most of them are illegal."""
RECORD_PROMPT = tuple(TOKENIZER.encode('"hello" "held" "world" "12" "1" "hell" he'))

Masking = Matcher | FreeText
Outcome = tuple[int, ...]


LIKE_THE_TARGET = ToyStreams(likeness=0.75)


@dataclass(frozen=True, slots=True)
class Drafting:
    """Who drafts, on which back-end."""

    sources: tuple[str, ...]
    width: int | None = 4
    stream_mode: StreamMode = "deferred"
    streams: ToyStreams = LIKE_THE_TARGET
    branching: bool = True

    def __str__(self) -> str:
        return f"{'+'.join(self.sources)}/{self.stream_mode}/W{self.width}"

    def backend(self, law: Law) -> ToyBackend:
        return ToyBackend(law, width=self.width, streams=self.streams, branching=self.branching)


CURVE = straight_curve(0.1, most=8)
DRAFTINGS = [
    Drafting(("lookup",), width=3),
    Drafting(("streams",), width=4),
    Drafting(("streams",), width=3, stream_mode="fused", streams=ToyStreams(likeness=0.6, top=3)),
    Drafting(("lookup", "streams"), width=4, streams=ToyStreams(likeness=0.8, markov=True)),
    Drafting(("lookup", "streams"), width=None, stream_mode="fused"),
]
several = pytest.mark.parametrize("drafting", DRAFTINGS, ids=str)
both_ways = pytest.mark.parametrize("verify", ["match", "rejection"])
two_temperatures = pytest.mark.parametrize("temperature", [1.0, 0.7])


def text_request(drafting: Drafting, verify: Verify, temperature: float, seed: int, length: int) -> GenerationRequest:
    return GenerationRequest(
        prompt_ids=TEXT_PROMPT,
        shared_prefix=0,
        schema=None,
        source="",
        sampling=SamplingParams(temperature, seed, max_tokens=length),
        draft=drafting.sources,
        verify=verify,
        stream_mode=drafting.stream_mode,
        cut=True,
    )


def record_request(drafting: Drafting, verify: Verify, temperature: float, seed: int) -> GenerationRequest:
    request = text_request(drafting, verify, temperature, seed, 12)
    sources = ("forced", *drafting.sources)
    return replace(request, prompt_ids=RECORD_PROMPT, schema=SCHEMA, draft=sources, cut=False)


def outcomes(
    law: Law, make: Callable[[], Masking], temperature: float, prompt: Sequence[int], longest: int
) -> dict[Outcome, float]:
    """The probability of every text of at most `longest` tokens; one that ended has an end-of-sequence as its last."""
    matcher = make()
    row = bitmask.allocate(1, VOCAB_SIZE)[0]
    found: dict[Outcome, float] = {}

    def walk(text: Outcome, probability: float) -> None:
        if matcher.is_terminated or len(text) == longest:
            found[text] = found.get(text, 0.0) + probability
            return
        matcher.fill_bitmask(row)
        legal = np.flatnonzero(bitmask.unpack(row, VOCAB_SIZE))
        logits = law(*[*prompt, *text][-2:])
        for token, share in zip(legal.tolist(), target_distribution(logits[legal], temperature), strict=True):
            if share == 0.0:
                continue
            if token in EOS_IDS:
                ended = (*text, EOS_IDS[0])
                found[ended] = found.get(ended, 0.0) + probability * float(share)
            else:
                matcher.accept(token)
                walk((*text, token), probability * float(share))
                matcher.rollback(1)

    walk((), 1.0)
    return found


@several
@two_temperatures
@both_ways
def test_short_texts_have_the_targets_law(drafting: Drafting, temperature: float, verify: Verify) -> None:
    law = table_law(3, (*LETTERS, *EOS_IDS))
    engine = toy_engine(drafting.backend(law), CURVE)

    def write(seed: int) -> Outcome:
        text = engine.generate(text_request(drafting, verify, temperature, seed, 3))
        return (*text.token_ids, EOS_IDS[0]) if text.is_complete else text.token_ids

    expected = outcomes(law, GRAMMARS.free_text, temperature, TEXT_PROMPT, 3)
    assert len(expected) > 50
    check_law((write(seed) for seed in range(2500)), expected)


@several
@two_temperatures
@both_ways
def test_every_two_tokens_of_a_long_text_have_the_targets_law(
    drafting: Drafting, temperature: float, verify: Verify
) -> None:
    """Pairs do not overlap, and begin and end within steps as often as between them."""
    law = table_law(4, LETTERS)
    backend = drafting.backend(law)
    text = toy_engine(backend, CURVE).generate(text_request(drafting, verify, temperature, 8, 4000))
    assert text.stats.acceptance_length > 1.2, "drafts must take part"
    counts: dict[Outcome, Counter[Outcome]] = {}
    tokens = [*TEXT_PROMPT[-2:], *text.token_ids]
    for place in range(2, len(tokens), 2):
        counts.setdefault(tuple(tokens[place - 2 : place]), Counter())[tuple(tokens[place : place + 2])] += 1
    assert len(counts) == 16
    square = ChiSquare()
    for context, seen in counts.items():
        square.add(seen, outcomes(law, GRAMMARS.free_text, temperature, context, 2))
    square.check()


@several
@two_temperatures
@both_ways
def test_records_have_the_law_of_the_masked_target(drafting: Drafting, temperature: float, verify: Verify) -> None:
    law = table_law(6, PARTS)
    engine = toy_engine(drafting.backend(law), CURVE)
    grammar: Grammar = GRAMMARS.compile(SCHEMA)
    expected = outcomes(law, grammar.matcher, temperature, RECORD_PROMPT, 12)
    assert len(expected) > 15
    texts = (engine.generate(record_request(drafting, verify, temperature, seed)) for seed in range(1200))
    check_law((text.token_ids for text in texts), expected)


@dataclass(slots=True)
class Repeating:
    """Proposes one and the same token always."""

    token: int
    name: str = "repeating"

    def extend(self, tokens: Sequence[int]) -> None: ...

    def propose(self, path: Sequence[int]) -> Sequence[Candidate]:
        return (Candidate(self.token, 0.6),)


@both_ways
@pytest.mark.parametrize("source", ["repeating", "streams"])
def test_a_target_of_10_60_30_percent_stays_one(verify: Verify, source: str) -> None:
    """Where draft and verification share their noise, 10.2/63.0/26.8 % has been seen (vLLM, issue 54282)."""
    likely, probabilities = LETTERS[1], dict(zip(LETTERS, (0.1, 0.6, 0.3), strict=False))
    backend = ToyBackend(constant_law(probabilities), width=4, streams=ToyStreams(likeness=0.3))
    engine = toy_engine(backend, sources={"repeating": lambda request: Repeating(likely)})
    drafting = Drafting((source,))
    text = engine.generate(text_request(drafting, verify, 1.0, 5, 12_000))
    assert text.stats.tokens_by_source[source] > 3000
    check_law(text.token_ids, probabilities)


@st.composite
def draftings(draw: st.DrawFn) -> Drafting:
    streams = ToyStreams(
        count=draw(st.integers(1, 4)),
        likeness=draw(st.sampled_from([0.0, 0.3, 0.5, 0.8, 1.0])),
        top=draw(st.integers(1, 5)),
        confidence=draw(st.sampled_from([0.01, 0.5, 1.0])),
        markov=draw(st.booleans()),
    )
    return Drafting(
        sources=tuple(draw(st.permutations(["forced", "lookup", "streams"]))[: draw(st.integers(0, 3))]),
        width=draw(st.sampled_from([1, 2, 3, 4, 5, 6, 7, 8, None])),
        stream_mode=draw(st.sampled_from(["deferred", "fused"])),
        streams=streams,
        branching=draw(st.booleans()),
    )


seeds = st.integers(0, 2**64 - 1)


@settings(max_examples=150)
@given(draftings(), seeds, st.sampled_from([0.0, 0.7, 1.0, 3.0]), st.integers(1, 60))
def test_a_matched_text_is_the_same_whatever_is_drafted(
    drafting: Drafting, seed: int, temperature: float, length: int
) -> None:
    law = table_law(9, (*LETTERS, EOS_IDS[1]))
    plain = toy_engine(ToyBackend(law, width=1)).generate(
        text_request(Drafting(()), "match", temperature, seed, length)
    )
    drafted = toy_engine(drafting.backend(law), CURVE).generate(
        text_request(drafting, "match", temperature, seed, length)
    )
    assert drafted.token_ids == plain.token_ids
    assert drafted.is_complete == plain.is_complete


@settings(max_examples=100)
@given(draftings(), seeds, st.sampled_from([0.0, 0.7, 2.0]))
def test_a_matched_record_is_the_same_whatever_is_drafted(drafting: Drafting, seed: int, temperature: float) -> None:
    law = table_law(6, PARTS)
    plain = toy_engine(ToyBackend(law, width=1)).generate(record_request(Drafting(()), "match", temperature, seed))
    drafted = toy_engine(drafting.backend(law), CURVE).generate(record_request(drafting, "match", temperature, seed))
    assert drafted.token_ids == plain.token_ids


@settings(max_examples=60)
@given(draftings(), seeds)
def test_at_temperature_0_rejection_is_a_comparison(drafting: Drafting, seed: int) -> None:
    engine = toy_engine(drafting.backend(table_law(9, LETTERS)), CURVE)
    rejected = engine.generate(text_request(drafting, "rejection", 0.0, seed, 40))
    plain = engine.generate(replace(text_request(drafting, "match", 0.0, seed, 40), draft=()))
    assert rejected.token_ids == plain.token_ids


@several
def test_a_matched_text_does_not_depend_on_what_the_engine_wrote_before(drafting: Drafting) -> None:
    engine = toy_engine(drafting.backend(table_law(11, LETTERS)), CURVE)
    asked = text_request(drafting, "match", 0.9, 1, 50)
    first = engine.generate(asked)
    steps = set()
    for seed in range(2, 30):
        engine.generate(text_request(drafting, "match", 2.0, seed, 50))
        again = engine.generate(asked)
        assert again.token_ids == first.token_ids
        steps.add((again.stats.decode_steps, again.stats.rows))
    if drafting.width is None:
        assert len(steps) > 1, "what has been learnt is meant to change the trees"


def test_seed_attempt_and_position_decide_a_matched_text() -> None:
    law = table_law(12, LETTERS)
    engine = toy_engine(ToyBackend(law, streams=ToyStreams()))
    asked = text_request(Drafting(("lookup", "streams")), "match", 1.0, 7, 40)
    first = engine.generate(asked).token_ids
    for other in (replace(asked.sampling, seed=8), replace(asked.sampling, attempt=1)):
        assert engine.generate(replace(asked, sampling=other)).token_ids != first
    # A longer text begins with the shorter one; a text resumed from its own beginning goes on as it did.
    longer = replace(asked, sampling=replace(asked.sampling, max_tokens=70))
    assert engine.generate(longer).token_ids[:40] == first
    resumed = replace(longer, prompt_ids=(*TEXT_PROMPT, *first[:25]))
    assert engine.generate(resumed).token_ids[:15] == first[25:]
