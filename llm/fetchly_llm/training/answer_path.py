"""A compiled grammar and the answer to write in; the tokens that spell it, and which of them are choices, out."""

from __future__ import annotations

from dataclasses import dataclass

from fetchly_llm.errors import RequestInvalid
from fetchly_llm.grammar.compiler import Grammar
from fetchly_llm.grammar.matcher import Matcher
from fetchly_llm.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class AnswerPath:
    """The tokens of an answer, with an end of sequence where the grammar would let it go on. `chosen[k]`: the grammar
    left a choice at token k; the others are written whatever a model says, so there is nothing in them to learn."""

    tokens: tuple[int, ...]
    chosen: tuple[bool, ...]


def answer_path(grammar: Grammar, tokenizer: Tokenizer, eos_token: int, answer: str) -> AnswerPath:
    """Walk `answer` through the grammar as decoding would write it; `eos_token` ends it where that is a choice.

    Where the grammar forces a run of bytes the forced tokens are taken, elsewhere those of the tokenizer's encoding of
    the rest, and where the mask forbids the first of them, the longest legal token that the rest begins with. Raises
    RequestInvalid where the grammar does not let the answer be written.
    """
    matcher = grammar.matcher()
    try:
        rest = answer.encode()
    except UnicodeEncodeError:
        raise RequestInvalid("the answer has a lone surrogate, which no text has") from None
    tokens: list[int] = []
    chosen: list[bool] = []
    planned: list[int] = []
    while rest:
        forced = matcher.forced_tokens()
        if not forced and not planned:
            planned = _encoded(tokenizer, rest)
        token = forced[0] if forced else _legal(matcher, tokenizer, rest, planned)
        spelt = tokenizer.decode_bytes((token,))
        if not spelt or not rest.startswith(spelt):
            raise _unwritable(matcher, f"the grammar demands {spelt.decode(errors='replace')!r}")
        planned = planned[1:] if planned and planned[0] == token else []
        matcher.accept(token)
        tokens.append(token)
        chosen.append(not forced)
        rest = rest[len(spelt) :]
    if not matcher.is_accepting:
        raise _unwritable(matcher, "the answer ends before the grammar does")
    if not matcher.is_terminated:
        tokens.append(eos_token)
        chosen.append(True)
    return AnswerPath(tuple(tokens), tuple(chosen))


def _encoded(tokenizer: Tokenizer, rest: bytes) -> list[int]:
    """The encoding of the rest of an answer; nothing where it begins within a character."""
    try:
        return tokenizer.encode(rest.decode())
    except UnicodeDecodeError:
        return []


def _legal(matcher: Matcher, tokenizer: Tokenizer, rest: bytes, planned: list[int]) -> int:
    """The planned token, else the longest legal one that `rest` begins with."""
    if planned and matcher.is_legal(planned[0]):
        return planned[0]
    table = tokenizer.token_of_spelling
    sizes = range(min(tokenizer.longest_spelling, len(rest)), 0, -1)
    starts = (table[rest[:size]] for size in sizes if rest[:size] in table)
    token = next((token for token in starts if matcher.is_legal(token)), None)
    if token is None:
        raise _unwritable(matcher, "no legal token begins the rest of the answer")
    return token


def _unwritable(matcher: Matcher, reason: str) -> RequestInvalid:
    return RequestInvalid(f"the grammar does not let the answer be written: after {matcher.text[-60:]!r} {reason}")
