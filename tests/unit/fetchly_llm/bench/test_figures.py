"""Rows from decoded documents: the fixed keys, medians by document, ratios in pairs, sums."""

import json
from pathlib import Path
from typing import Any

import pytest

from fetchly_llm.bench.arms import Arm, choose_arms
from fetchly_llm.bench.figures import DecodeRow, RunFacts, decode_rows
from fetchly_llm.bench.measurement import DecodeOptions, DocumentRun, Problem
from fetchly_llm.bench.plot import plot_decode, require_matplotlib
from fetchly_llm.bench.workload import WorkItem
from fetchly_llm.errors import RequestInvalid
from fetchly_llm.metrics import GenerationStats, Share
from fetchly_llm.request import Generation

FIXED = (
    "bench", "set", "arm", "temperature", "documents", "tokens_per_step", "acceptance_length", "ratio_to_plain",
    "ratio_to_fastest_plain", "mismatches", "tokens_per_s", "prefill_tokens_per_s", "ttft_ms", "tpot_ms_p50",
    "tpot_ms_p95", "acceptance_structure", "acceptance_values", "by_source", "extra_parameters", "extra_memory_mb",
    "model_memory_mb",
)  # fmt: skip
TIMES = (
    "ratio_to_plain", "ratio_to_fastest_plain", "tokens_per_s", "prefill_tokens_per_s", "ttft_ms", "tpot_ms_p50",
    "tpot_ms_p95", "forward_ms_per_step", "commit_ms_per_step", "stream_ms_per_step", "ratio_of_sums_to_plain",
)  # fmt: skip
FACTS = RunFacts(
    "tiny", "torch/W8", "torch/W1", 4_000_000, 50_000, 2, width=8, tree_rows=8, row_numbers=1000, replay=False
)
ARMS = choose_arms(("lookup", "streams"), 3, True).arms
NONE, PLAIN_1, LOOKUP, STREAMS = ARMS


def generation(steps: int, decode_ms: float, tokens: int = 12, complete: bool = True, **more: Any) -> Generation:
    stats = GenerationStats(output_tokens=tokens, decode_steps=steps, decode_ms=decode_ms, **more)
    return Generation("", tuple(range(tokens)), stats, complete)


def run(name: str, set_: str = "a", complete: bool = True, scale: float = 1.0, lookup_steps: int = 4) -> DocumentRun:
    """Plain 120 ms, one row 60 ms, lookup 40 ms, streams 20 ms, times `scale`."""
    lookup = generation(
        lookup_steps,
        40.0 * scale,
        ttft_ms=5.0,
        rows=20,
        tokens_by_source={"lookup": 8, "plain": 4},
        proposed_by_source={"lookup": 16},
        acceptance_by_depth=(Share(3, 4), Share(1, 2)),
        structure=Share(1, 4),
        values=Share(4, 8),
        draft_ms=2.0,
        mask_ms=4.0,
        forward_ms=30.0,
    )
    generations = {
        "none": generation(12, 120.0 * scale, complete=complete),
        "plain-1": generation(12, 60.0 * scale),
        "lookup": lookup,
        "streams": generation(3, 20.0 * scale),
    }
    return DocumentRun(WorkItem(name, set_, (1, 2), {}), generations, prefill_tokens=100, prefill_ms=50.0, compile_ms=3)


def rows(*runs: DocumentRun, facts: RunFacts = FACTS, arms: tuple[Arm, ...] = ARMS, **options: Any) -> dict[str, Any]:
    return {f"{row.set} {row.arm}": row for row in decode_rows(runs, arms, DecodeOptions(**options), facts)}


def test_a_line_has_the_fixed_keys_first_and_is_json() -> None:
    row = rows(run("1"), run("2"))["a lookup"]
    line = row.line()
    assert tuple(line)[: len(FIXED)] == FIXED
    assert tuple(line) == tuple(DecodeRow.__dataclass_fields__)
    assert json.loads(json.dumps(line)) == line
    assert line["by_source"] == {"lookup": 16, "plain": 8}
    assert line["tokens_per_step_ci95"] == [3.0, 3.0]


def test_there_is_a_row_for_each_set_and_arm_and_for_all_sets() -> None:
    found = rows(run("1"), run("2", "b"))
    assert list(found) == [f"{name} {arm.name}" for name in ("a", "b", "all") for arm in ARMS]
    assert found["all lookup"].documents == 2


def test_figures_are_medians_over_documents_and_pooled_ones_are_pooled() -> None:
    row = rows(run("1", lookup_steps=2), run("2", lookup_steps=4), run("3", lookup_steps=12))["all lookup"]
    assert row.tokens_per_step == 3.0
    assert row.acceptance_length == pytest.approx(36 / 18)
    assert row.tokens_per_step_ci95 == (1.0, 6.0)
    assert row.rows_per_step == pytest.approx(60 / 18)
    assert row.acceptance_by_depth == (0.75, 0.5)
    assert (row.acceptance_structure, row.acceptance_values) == (0.25, 0.5)
    assert row.proposed_by_source == {"lookup": 48}
    assert row.forward_ms_per_step == pytest.approx(5.0)
    assert row.ttft_ms == 3 + 50 + 5
    assert row.prefill_tokens_per_s == 2000.0
    assert row.tokens_per_s == pytest.approx(300.0)


def test_ratios_pair_documents_so_that_a_slow_one_weighs_no_more() -> None:
    found = rows(run("1"), run("2", scale=100.0))
    assert found["all lookup"].ratio_to_plain == pytest.approx(3.0)
    assert found["all lookup"].ratio_to_fastest_plain == pytest.approx(1.5)
    assert found["all streams"].ratio_of_sums_to_fastest_plain == pytest.approx(3.0)
    assert found["all none"].ratio_to_plain == 1.0
    assert found["all none"].ratio_to_fastest_plain == pytest.approx(0.5)
    assert found["all plain-1"].ratio_to_fastest_plain == 1.0


def test_a_ratio_of_sums_weighs_documents_by_their_time() -> None:
    slow = run("2")
    slow.generations["lookup"] = generation(4, 400.0)  # type: ignore[index]
    row = rows(run("1"), run("3"), slow)["all lookup"]
    assert row.ratio_to_plain == pytest.approx(3.0)
    assert row.ratio_of_sums_to_plain == pytest.approx(360 / 480)


def test_cut_documents_are_counted_and_complete_ones_also_stand_alone() -> None:
    row = rows(run("1", lookup_steps=4), run("2", lookup_steps=1, complete=False))["all lookup"]
    assert (row.documents, row.cut) == (2, 1)
    assert row.tokens_per_step == pytest.approx((3 + 12) / 2)
    assert row.tokens_per_step_complete == 3.0


def test_mismatches_belong_to_their_arm_and_failures_to_the_set() -> None:
    wrong = run("1")
    wrong = DocumentRun(wrong.item, wrong.generations, problems=(Problem("mismatch", "lookup", "x"),))
    failed = DocumentRun(WorkItem("2", "a", (1, 2), {}), {}, problems=(Problem("failed", "", "y"),))
    found = rows(wrong, failed, run("3", "b"))
    assert {key: row.mismatches for key, row in found.items() if "lookup" in key} == {
        "a lookup": 1, "b lookup": 0, "all lookup": 1,
    }  # fmt: skip
    assert found["a plain-1"].mismatches is None
    assert found["a none"].mismatches == 0
    assert (found["a lookup"].documents, found["a lookup"].failed) == (1, 1)
    assert rows(run("1"), verify="rejection")["a lookup"].mismatches is None


def test_only_arms_with_streams_have_more_parameters() -> None:
    found = rows(run("1"))
    assert found["a lookup"].extra_parameters == 0
    assert found["a streams"].extra_parameters == 50_000
    # 50,000 parameters, and seven rows besides the root of 1,000 numbers each
    assert found["a streams"].extra_memory_mb == pytest.approx(0.2 + 0.028)
    assert found["a streams"].model_memory_mb == pytest.approx(4.0)
    assert (found["a streams"].backend, found["a streams"].width) == ("torch/W8", 8)
    assert (found["a plain-1"].backend, found["a plain-1"].width) == ("torch/W1", 1)


def test_a_replay_has_no_times_but_those_of_drafting_and_grammar() -> None:
    facts = RunFacts(
        "tiny", "replay/W12", "replay/W12", 0, 0, threads=None, width=12, tree_rows=12, row_numbers=0, replay=True
    )
    row = rows(run("1"), facts=facts)["a lookup"]
    assert all(getattr(row, name) is None for name in TIMES)
    assert row.model_memory_mb is None
    assert row.tokens_per_step == 3.0
    assert (row.draft_ms_per_step, row.mask_ms_per_step) == (0.5, 1.0)


def test_an_answer_without_a_token_has_no_ratio_and_an_arm_without_a_document_no_row() -> None:
    empty = DocumentRun(
        WorkItem("1", "a", (1, 2)), {"none": generation(1, 5.0, tokens=0), "lookup": generation(1, 5.0, tokens=0)}
    )
    found = rows(empty)
    assert list(found) == ["a none", "a lookup", "all none", "all lookup"]
    row = found["a lookup"]
    assert (row.ratio_to_plain, row.ratio_to_fastest_plain, row.tpot_ms_p50) == (None, None, None)
    assert row.tokens_per_step == 0.0


@pytest.mark.parametrize("replay", [False, True])
def test_a_plot_is_a_png(tmp_path: Path, replay: bool) -> None:
    facts = RunFacts("tiny", "x", "y", 0, 0, threads=None, width=8, tree_rows=8, row_numbers=0, replay=replay)
    found = decode_rows([run("1"), run("2")], ARMS, DecodeOptions(), facts)
    plot_decode(found, tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG\r\n")


def test_without_matplotlib_the_extra_to_install_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    require_matplotlib()
    monkeypatch.setattr("fetchly_llm.bench.plot.find_spec", lambda name: None)
    with pytest.raises(RequestInvalid) as caught:
        require_matplotlib()
    assert "fetchly[bench]" in str(caught.value.hint)
