"""Matchers that wandered off and came back answer as ones that never did; the cheap questions agree with the mask."""

from __future__ import annotations

import random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fetchly_llm.grammar import bitmask
from fetchly_llm.grammar.matcher import Matcher
from tests.property.test_grammar_documents import compiled
from tests.support.grammar_walks import legal
from tests.support.toy_tokenizer import EOS_IDS, VOCAB_SIZE
from tests.support.verbatim_schemas import Schema, schemas, sources

unhurried = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def explore(matcher: Matcher, rng: random.Random) -> None:
    """A depth-first look around, as a draft tree makes it; the matcher ends where it began."""
    taken = 0
    for _ in range(rng.randint(1, 12)):
        if matcher.is_terminated or (taken and rng.random() < 0.3):
            back = rng.randint(0, taken)
            matcher.rollback(back)
            taken -= back
            continue
        if rng.random() < 0.3:
            matcher.forced_tokens()
        token = rng.choice(legal(matcher))
        matcher.accept(token)
        taken += token not in EOS_IDS
    matcher.rollback(taken)


@unhurried
@given(schemas, sources, st.integers(0, 2**32))
def test_answers_do_not_depend_on_history(schema: Schema, source: str, seed: int) -> None:
    grammar = compiled(schema, source)
    rng = random.Random(seed)
    wandering = grammar.matcher()
    path: list[int] = []
    for _ in range(12):
        explore(wandering, rng)
        fresh = grammar.matcher()
        for token in path:
            fresh.accept(token)
        forked = wandering.fork()
        assert wandering.tokens == fresh.tokens == tuple(path)
        assert wandering.text == fresh.text == forked.text
        assert wandering.is_terminated == fresh.is_terminated
        assert wandering.is_accepting == fresh.is_accepting
        assert wandering.forced_tokens() == fresh.forced_tokens() == forked.forced_tokens()
        choices = legal(wandering)
        assert choices == legal(fresh) == legal(forked)
        if fresh.is_terminated:
            break
        token = rng.choice(choices)
        wandering.accept(token)
        if token in EOS_IDS:
            assert wandering.is_terminated
            break
        path.append(token)


@unhurried
@given(schemas, sources, st.integers(0, 2**32))
def test_legality_is_the_mask(schema: Schema, source: str, seed: int) -> None:
    grammar = compiled(schema, source)
    rng = random.Random(seed)
    matcher = grammar.matcher()
    row = bitmask.allocate(1, VOCAB_SIZE)[0]
    for _ in range(12):
        matcher.fill_bitmask(row)
        asked = [token for token in range(-1, VOCAB_SIZE + 40) if matcher.is_legal(token)]
        assert asked == bitmask.legal_tokens(row).tolist()
        forced = matcher.forced_tokens()
        if forced:
            assert asked == [forced[0]]
        if matcher.is_terminated:
            break
        matcher.accept(rng.choice(asked))


@unhurried
@given(schemas, sources, st.integers(0, 2**32))
def test_forced_tokens_are_what_the_masks_would_choose(schema: Schema, source: str, seed: int) -> None:
    grammar = compiled(schema, source)
    rng = random.Random(seed)
    matcher = grammar.matcher()
    for _ in range(12):
        for token in matcher.forced_tokens():
            assert legal(matcher) == [token]
            matcher.accept(token)
        if matcher.is_terminated:
            break
        matcher.accept(rng.choice(legal(matcher)))
