"""Which arms run, and which do not."""

import pytest

from fetchly_llm.bench.arms import ARMS, choose_arms
from fetchly_llm.errors import RequestInvalid


def names(*wanted: str, streams: int = 3, has_plain_1: bool = True) -> list[str]:
    return [arm.name for arm in choose_arms(wanted, streams, has_plain_1).arms]


def test_all_arms_run_without_a_name_and_the_plain_ones_always() -> None:
    assert names() == ["none", "plain-1", "forced", "lookup", "forced+lookup", "streams", "all"]
    assert names("lookup") == ["none", "plain-1", "lookup"]


def test_arms_that_cannot_run_are_left_out_with_a_reason() -> None:
    choice = choose_arms((), streams=0, has_plain_1=False)
    assert [arm.name for arm in choice.arms] == ["none", "forced", "lookup", "forced+lookup"]
    assert choice.skipped[:2] == ("arm streams: the model has no streams", "arm all: the model has no streams")
    assert "plain-1" in choice.skipped[2]


def test_an_unknown_arm_is_refused() -> None:
    with pytest.raises(RequestInvalid, match="unknown arm 'psychic'") as caught:
        choose_arms(("forced", "psychic"), 0, True)
    assert "forced+lookup" in str(caught.value.hint)


def test_on_free_text_nothing_is_forced_and_no_arm_is_run_twice() -> None:
    left = {arm.name: arm.on_free_text() for arm in ARMS}
    assert [name for name, arm in left.items() if arm is None] == ["forced", "forced+lookup"]
    everything = left["all"]
    assert everything is not None
    assert everything.draft == ("lookup", "streams")
    assert left["plain-1"] is not None
    assert left["plain-1"].one_row
