from __future__ import annotations

import numpy as np
import pytest
from llguidance import LLMatcher, LLParserLimits

from fetchly_llm.errors import GrammarStateLimit
from fetchly_llm.grammar import bitmask
from fetchly_llm.grammar.compiler import Grammar
from fetchly_llm.grammar.matcher import Matcher
from tests.support.grammar_walks import legal, toy_compiler, write
from tests.support.toy_tokenizer import END_OF_TEXT, END_OF_TURN, EOS_IDS, VOCAB_SIZE

NAMED = {
    "type": "object",
    "properties": {"name_of_the_person": {"type": "string", "maxLength": 5}},
    "required": ["name_of_the_person"],
    "additionalProperties": False,
}


def token_of(matcher: Matcher, text: str) -> int:
    return next(token for token in range(VOCAB_SIZE) if matcher.spelling(token) == text.encode())


def test_a_forced_run_has_one_spelling_only() -> None:
    matcher = toy_compiler().compile(NAMED).matcher()
    forced = matcher.forced_tokens()
    assert b"".join(map(matcher.spelling, forced)).startswith(b'{"name_of')
    assert legal(matcher) == [forced[0]]
    brace = token_of(matcher, "{")
    assert forced[0] != brace
    assert matcher._inner.validate_tokens([brace]) == 1  # llguidance alone would take it
    assert not matcher.is_legal(brace)
    with pytest.raises(AssertionError, match="is not legal"):
        matcher.accept(brace)
    for token in forced:  # the refusal left no trace
        matcher.accept(token)
    assert matcher.text.startswith('{"name_of')


def test_the_end_is_neither_counted_nor_rolled_back() -> None:
    matcher = toy_compiler().compile(NAMED).matcher()
    assert write(matcher, '{"name_of_the_person": "a"}')
    count = len(matcher)
    assert matcher.is_terminated
    assert matcher.is_accepting
    assert legal(matcher) == sorted(EOS_IDS)
    assert matcher.forced_tokens() == ()
    matcher.accept(END_OF_TURN)
    assert len(matcher) == len(matcher.tokens) == count
    assert matcher.is_terminated
    last = matcher.tokens[-1]
    matcher.rollback(1)
    assert not matcher.is_terminated
    assert not matcher.is_accepting
    matcher.accept(last)
    assert matcher.is_terminated
    assert matcher.text == '{"name_of_the_person": "a"}'


def test_a_number_may_end_or_go_on() -> None:
    matcher = toy_compiler().compile({"type": "integer", "minimum": 0, "maximum": 999}).matcher()
    assert not set(EOS_IDS) & set(legal(matcher))
    assert write(matcher, "19")
    assert not matcher.is_terminated
    assert set(EOS_IDS) < set(legal(matcher))
    matcher.accept(END_OF_TEXT)
    assert matcher.is_terminated
    assert legal(matcher) == sorted(EOS_IDS)
    assert not matcher.is_legal(token_of(matcher, "1"))
    matcher.rollback(0)
    assert not matcher.is_terminated
    matcher.rollback(len(matcher))
    assert matcher.text == ""
    assert not matcher.is_accepting


def test_special_and_padded_tokens_are_never_legal() -> None:
    schema = {"type": "string", "maxLength": 40}
    matcher = toy_compiler().compile(schema).matcher()
    assert write(matcher, '"a')
    allowed = legal(matcher)
    assert len(allowed) > 200
    assert not set(EOS_IDS) & set(allowed)
    assert all(matcher.spelling(token) for token in allowed)
    for token in (1, *EOS_IDS, 1040, VOCAB_SIZE - 1, VOCAB_SIZE, VOCAB_SIZE + 100, -1):
        assert not matcher.is_legal(token)


def test_a_special_token_in_the_source_is_written_as_text() -> None:
    source = "say <|im_end|> twice"
    matcher = toy_compiler().compile({"type": "string", "x-verbatim": True}, source).matcher()
    assert write(matcher, f'"{source}"')
    assert END_OF_TURN not in matcher.tokens
    assert matcher.is_terminated


def test_the_row_of_a_padded_vocabulary() -> None:
    matcher = toy_compiler().compile(NAMED).matcher()
    assert matcher.vocab_size == VOCAB_SIZE
    row = np.full(bitmask.words(VOCAB_SIZE), -1, dtype=np.int32)
    matcher.fill_bitmask(row)
    assert bitmask.legal_tokens(row).tolist() == [matcher.forced_tokens()[0]]
    with pytest.raises(AssertionError):
        matcher.fill_bitmask(np.zeros(bitmask.words(VOCAB_SIZE) + 1, dtype=np.int32))
    with pytest.raises(AssertionError):
        matcher.fill_bitmask(np.zeros(bitmask.words(VOCAB_SIZE), dtype=np.int64))


def limited(schema: dict[str, str], step_lexer_fuel: int) -> Grammar:
    """A grammar whose matcher runs into a limit after its first mask."""
    sound = toy_compiler().compile(schema)
    template = LLMatcher(
        toy_compiler()._tokenizer,
        LLMatcher.grammar_from_json_schema(schema, overrides={"whitespace_flexible": False}),
        log_level=0,
        limits=LLParserLimits(verbose_errors=False, step_lexer_fuel=step_lexer_fuel),
    )
    assert not template.is_error()
    return Grammar(template, sound.vocabulary, sound.eos_token_ids)


def write_anything(matcher: Matcher) -> None:
    while not matcher.is_terminated:
        matcher.accept(legal(matcher)[-1])


def test_a_limit_is_an_error_and_not_the_end() -> None:
    schema = {"type": "string", "pattern": "^([a-z]+ )*[0-9]{1,50}[é-ü]{1,90}$"}
    matcher = limited(schema, step_lexer_fuel=1).matcher()
    with pytest.raises(GrammarStateLimit, match="gave up"):
        write_anything(matcher)
    with pytest.raises(GrammarStateLimit):
        matcher.fill_bitmask(bitmask.allocate(1, VOCAB_SIZE)[0])
    with pytest.raises(GrammarStateLimit):
        assert matcher.is_terminated


def test_a_fork_goes_its_own_way() -> None:
    matcher = toy_compiler().compile({"type": "string", "x-verbatim": True}, "foo bar").matcher()
    assert write(matcher, '"foo')
    fork = matcher.fork()
    assert write(fork, ' bar"')
    assert fork.is_terminated
    assert matcher.text == '"foo'
    assert write(matcher, '"')
    assert matcher.text == '"foo"'


def test_text_may_end_inside_a_character() -> None:
    matcher = toy_compiler().compile({"type": "string", "x-verbatim": True}, "京").matcher()
    quote = token_of(matcher, '"')
    matcher.accept(quote)
    first = next((t for t in legal(matcher) if matcher.spelling(t) == "京".encode()[:1]), None)
    if first is None:
        first = matcher.forced_tokens()[0]
    matcher.accept(first)
    assert matcher.text in ('"', '"京')


def test_rollback_beyond_the_start_is_our_bug() -> None:
    with pytest.raises(AssertionError):
        toy_compiler().compile(NAMED).matcher().rollback(1)


def test_bits() -> None:
    row = bitmask.allocate(2, 70)[1]
    assert row.shape == (3,)
    bitmask.set_bits(row, [0, 31, 32, 69])
    assert bitmask.legal_tokens(row).tolist() == [0, 31, 32, 69]
    assert [bitmask.is_set(row, token) for token in (0, 1, 31, 69, 95, 96, -1)] == [True, False, True, True] + [
        False
    ] * 3
    ids = np.array([5, 69, 31, 0])
    assert bitmask.legal_among(row, ids).tolist() == [69, 31, 0]
    bitmask.clear_bits(row, np.array([31, 31, 5, 69]))
    assert bitmask.legal_tokens(row).tolist() == [0, 32]
    assert bitmask.unpack(row, 70).nonzero()[0].tolist() == [0, 32]
    assert bitmask.unpack(row, 33).shape == (33,)
