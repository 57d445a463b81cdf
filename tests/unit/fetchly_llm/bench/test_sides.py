from dataclasses import replace

import pytest

from fetchly_llm.bench.sides import CUT, Pair, Sides, Trial, decode_trials, prefill_trials, record_trials
from fetchly_llm.bench.writing import Writing

OWN = Writing("abc", 10, (100.0, 101.0, 103.0), 110.0, True)
RIVAL = Writing("abcde", 10, (200.0, 210.0, 222.0, 230.0, 240.0), 250.0, False)


def test_decoding_is_timed_from_the_first_to_the_last_token_that_both_wrote() -> None:
    assert decode_trials(Sides(OWN, RIVAL)) == Sides(Trial(3.0, 2, 10), Trial(22.0, 2, 10))
    assert decode_trials(Sides(OWN, None)) == Sides(Trial(3.0, 2, 10), None)


@pytest.mark.parametrize("tokens", [0, 1])
def test_of_one_token_no_speed_can_be_told(tokens: int) -> None:
    short = replace(RIVAL, token_ms=RIVAL.token_ms[:tokens])
    assert decode_trials(Sides(OWN, short)) is None


def test_a_record_is_timed_to_its_end_and_to_the_token_that_both_reach() -> None:
    trials = record_trials(Sides(OWN, RIVAL))
    assert trials == Sides(Trial(110.0, 3, 10, head_ms=103.0), Trial(250.0, 5, 10, head_ms=222.0, failure=CUT))
    assert not Pair("record", "a", "1", trials).is_whole
    assert Pair("record", "a", "1", record_trials(Sides(OWN, replace(RIVAL, is_complete=True)))).is_whole
    assert Pair("record", "a", "1", record_trials(Sides(OWN, None))).is_whole
    empty = record_trials(Sides(OWN, replace(RIVAL, token_ms=())))
    assert (empty.own.head_ms, empty.own.tokens) == (None, 3)


def test_both_compute_the_same_prompt() -> None:
    assert prefill_trials(Sides(2.0, 8.0), 5) == Sides(Trial(2.0, 5, 5), Trial(8.0, 5, 5))
    assert prefill_trials(Sides(2.0, None), 5).rival is None
