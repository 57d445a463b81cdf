"""A grammar and a source of randomness in; a document written by legal tokens alone out."""

from __future__ import annotations

import json
import random
from functools import cache
from typing import Any

from fetchly_llm.grammar import bitmask
from fetchly_llm.grammar.compiler import Grammar, GrammarCompiler
from fetchly_llm.grammar.matcher import Matcher
from tests.support.toy_tokenizer import EOS_IDS, VOCAB_SIZE, toy_tokenizer_json


@cache
def toy_compiler() -> GrammarCompiler:
    return GrammarCompiler(toy_tokenizer_json(), EOS_IDS, VOCAB_SIZE)


def legal(matcher: Matcher) -> list[int]:
    """Every legal token, by the mask."""
    row = bitmask.allocate(1, matcher.vocab_size)[0]
    matcher.fill_bitmask(row)
    return [int(token) for token in bitmask.legal_tokens(row)]


def random_document(grammar: Grammar, rng: random.Random, limit: int = 3000) -> str:
    """Uniformly random legal tokens until nothing but the end is legal."""
    matcher = grammar.matcher()
    for _ in range(limit):
        if matcher.is_terminated:
            return matcher.text
        matcher.accept(rng.choice(legal(matcher)))
    raise AssertionError(f"no end after {limit} tokens: {matcher.text[:300]}")


def write(matcher: Matcher, text: str, rng: random.Random | None = None) -> bool:
    """Spell `text` by legal tokens, the longest that fits at each place or a random one; False where none does."""
    left = text.encode()
    while left:
        fitting = [token for token in legal(matcher) if (spelt := matcher.spelling(token)) and left.startswith(spelt)]
        if not fitting:
            return False
        token = rng.choice(fitting) if rng else max(fitting, key=lambda t: len(matcher.spelling(t)))
        matcher.accept(token)
        left = left[len(matcher.spelling(token)) :]
    return True


def accepts(grammar: Grammar, value: Any) -> bool:
    """Whether `value`, in our layout, can be written to its end."""
    matcher = grammar.matcher()
    return write(matcher, json.dumps(value, ensure_ascii=False)) and matcher.is_accepting
