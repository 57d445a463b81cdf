"""Rows from pairs of times: the fixed keys, medians of ratios in pairs, whole pages apart."""

import json
from typing import Any

import pytest

from fetchly_llm.bench.compare_figures import CompareFacts, RivalFacts, compare_rows
from fetchly_llm.bench.comparison import Refusal
from fetchly_llm.bench.sides import CUT, Measure, Pair, Score, Sides, Trial

# As docs/bench.md has them, and programs that read the lines.
FIGURES = [
    "bench", "measure", "set", "documents", "refused", "ratio", "ratio_ci95", "ratio_of_sums", "complete",
    "ratio_complete", "ratio_complete_ci95", "ratio_same_tokens", "ratio_same_tokens_ci95", "own", "rival",
]  # fmt: skip
SIDE = ["ms", "tokens", "tokens_per_s", "prompt_tokens", "cut", "failed", "f1", "f1_ci95"]
RUN = [
    "model", "backend", "threads", "width", "context_length", "decode_tokens", "max_tokens", "load",
]  # fmt: skip
RIVAL_RUN = [
    "rival_name", "rival_version", "rival_gguf_sha256", "rival_same_weights", "rival_threads", "rival_prefill_threads",
    "rival_flash_attention", "rival_batch",
]  # fmt: skip
FACTS = CompareFacts(
    "tiny", "native", 2, None, 4096, 96, 1024, 0.1, RivalFacts("llama.cpp", "0.3", "ab", True, 2, 1, False, 512)
)


def pair(
    name: str, own: float, rival: float | None, set_: str = "a", measure: Measure = "record", **theirs: Any
) -> Pair:
    other = None if rival is None else Trial(rival, 20, 100, **{"head_ms": 6.0, **theirs})
    return Pair(measure, set_, name, Sides(Trial(own, 10, 100, head_ms=2.0), other))


def test_the_keys_of_a_line_are_fixed() -> None:
    line = json.loads(json.dumps(compare_rows([pair("1", 1.0, 3.0)], [], FACTS)[0].line()))
    assert list(line) == [*FIGURES, *RUN, *RIVAL_RUN]
    assert list(line["own"]) == list(line["rival"]) == SIDE
    assert (line["bench"], line["rival_name"], line["model"]) == ("compare", "llama.cpp", "tiny")


def test_ratios_are_of_pairs_and_their_median_counts() -> None:
    pairs = [pair("1", 10.0, 20.0), pair("2", 1.0, 5.0), pair("3", 2.0, 8.0), pair("4", 4.0, 4.0, set_="b")]
    a, b, total = compare_rows(pairs, [Refusal("b", "b/9: too long")], FACTS)
    assert [row.set for row in (a, b, total)] == ["a", "b", "all"]
    assert (a.ratio, b.ratio, total.ratio) == (4.0, 1.0, 3.0)
    assert (a.documents, b.documents, total.documents) == (3, 1, 4)
    assert (a.refused, b.refused, total.refused) == (0, 1, 1)
    assert a.ratio_of_sums == pytest.approx(33.0 / 13.0)
    assert b.ratio_ci95 is None
    assert a.ratio_ci95 is not None
    assert 2.0 <= a.ratio_ci95[0] <= 4.0 <= a.ratio_ci95[1] <= 5.0
    assert total.ratio_same_tokens == 3.0
    assert total.own.ms == 3.0
    assert total.own.tokens_per_s == pytest.approx(1000.0 * 40 / 17.0)
    assert total.rival is not None
    assert total.rival.tokens == 80


def test_pages_that_a_side_failed_on_are_counted_and_told_apart() -> None:
    pairs = [pair("1", 1.0, 9.0, failure=CUT), pair("2", 1.0, 7.0, failure="NOT_JSON"), pair("3", 1.0, 2.0)]
    total = compare_rows(pairs, [], FACTS)[-1]
    assert (total.ratio, total.complete, total.ratio_complete) == (7.0, 1, 2.0)
    assert total.rival is not None
    assert (total.rival.cut, total.rival.failed, total.own.cut, total.own.failed) == (1, 1, 0, 0)


def test_without_a_rival_our_side_stands_alone() -> None:
    total = compare_rows([pair("1", 1.0, None), pair("2", 3.0, None)], [], FACTS)[-1]
    assert (total.ratio, total.ratio_of_sums, total.ratio_same_tokens, total.rival) == (None, None, None, None)
    assert total.own.ms == 2.0


def test_scores_belong_to_pages() -> None:
    pairs = [pair("1", 1.0, 2.0), pair("1", 1.0, 2.0, measure="page"), pair("2", 1.0, 4.0, "b", "page")]
    scores = {"a": Sides(Score(0.5, None), Score(0.25, None)), "all": Sides(Score(0.6, (0.5, 0.7)), None)}
    rows = {(row.measure, row.set): row for row in compare_rows(pairs, [Refusal("a", "x")], FACTS, scores)}
    assert list(rows) == [("record", "a"), ("record", "all"), ("page", "a"), ("page", "b"), ("page", "all")]
    assert rows["record", "a"].own.f1 is None
    page, total = rows["page", "a"], rows["page", "all"]
    assert page.rival is not None
    assert (page.own.f1, page.rival.f1, page.refused) == (0.5, 0.25, 0)
    assert total.rival is not None
    assert (total.own.f1, total.own.f1_ci95, total.rival.f1) == (0.6, (0.5, 0.7), None)
    assert rows["page", "b"].own.f1 is None
