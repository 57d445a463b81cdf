"""Which draft sources `auto` stands for: by what steps cost and what streams have gained."""

from __future__ import annotations

import json

import pytest

from fetchly_llm.cost_curve import CostCurve
from fetchly_llm.draft_choice import GAIN, Pace, StreamGain, choose, gain_of, read_gain

GAINS = StreamGain(Pace(3.0, 3.5), Pace(4.0, 4.0, 0.6), 24)


def curve(pass_ms: float) -> CostCurve:
    """10 ms a step and 1 ms for each further row; this much for a pass of streams."""
    return CostCurve((1, 2, 4, 8), (10.0, 11.0, 13.0, 17.0), (pass_ms, 2 * pass_ms))


def test_milliseconds_a_token_by_hand() -> None:
    assert GAINS.without.ms_per_token(curve(5.0)) == pytest.approx(12.5 / 3)
    assert GAINS.streams.ms_per_token(curve(5.0)) == pytest.approx((13 + 0.6 * 5) / 4)
    assert Pace(9.0, 20.0).ms_per_token(curve(5.0)) == pytest.approx(17 / 9)  # no curve goes on for ever


@pytest.mark.parametrize(("pass_ms", "pays"), [(0.0, True), (6.0, True), (6.1, False), (50.0, False)])
def test_streams_are_used_where_they_pay(pass_ms: float, pays: bool) -> None:
    # (13 + 0.6 p) / 4 < 12.5 / 3 where p < 6.11
    choice = choose(4, GAINS, curve(pass_ms if pass_ms != 6.1 else 6.2))
    assert choice.sources == (("forced", "lookup", "streams") if pays else ("forced", "lookup"))
    assert choice.reason.startswith("streams pay:" if pays else "streams do not pay:")
    assert "4.2 without" in choice.reason
    assert "24 pages" in choice.reason


def test_what_is_not_known_is_not_used() -> None:
    for streams, gain, costs, why in (
        (0, GAINS, curve(0.0), "no speculative streams"),
        (4, None, curve(0.0), "does not say"),
        (4, GAINS, None, "not measured"),
    ):
        choice = choose(streams, gain, costs)
        assert choice.sources == ("forced", "lookup")
        assert why in choice.reason


def test_a_gain_is_read_as_it_was_written() -> None:
    assert read_gain({GAIN: GAINS.as_text(), "other": "x"}) == GAINS


@pytest.mark.parametrize(
    "text",
    [
        None, "", "{}", "[]", "no JSON", '{"without": 1, "streams": 2, "documents": 3}',
        GAINS.as_text().replace("0.6", "-0.6"), GAINS.as_text().replace("4.0", "NaN"),
        GAINS.as_text().replace("3.0", "0.0"), GAINS.as_text().replace("3.5", '"many"'),
        GAINS.as_text().replace('"rows"', '"columns"'), GAINS.as_text().replace("24", "Infinity"),
        GAINS.as_text().replace("24", "-5"), GAINS.as_text().replace("4.0", "9" * 400), "[" * 100_000,
    ],
)  # fmt: skip
def test_a_gain_that_makes_no_sense_is_none(text: str | None) -> None:
    assert read_gain({} if text is None else {GAIN: text}) is None


def test_the_gain_of_a_bench() -> None:
    def line(name: str, arm: str, steps: int, passes: int) -> dict[str, object]:
        return {
            "set": name, "arm": arm, "documents": 7, "output_tokens": 300, "decode_steps": steps,
            "stream_passes": passes, "rows_per_step": 3.5,
        }  # fmt: skip

    lines = [
        line("recipes", "all", 1, 1), line("all", "none", 300, 0), line("all", "forced+lookup", 100, 0),
        line("all", "all", 75, 30),
    ]  # fmt: skip
    assert gain_of(lines) == StreamGain(Pace(3.0, 3.5, 0.0), Pace(4.0, 3.5, 0.4), 7)
    assert gain_of(lines[:-1]) is None
    assert json.loads(GAINS.as_text())["streams"] == {"tokens": 4.0, "rows": 4.0, "passes": 0.6}
