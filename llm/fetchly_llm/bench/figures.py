"""Decoded documents in; one row of figures for each set and arm, and for all sets together, out (docs/bench.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import Any

import numpy as np

from fetchly_llm.bench.arms import NONE, PLAIN_1, Arm
from fetchly_llm.bench.bootstrap import Median, bootstrap_median
from fetchly_llm.bench.measurement import DecodeOptions, DocumentRun
from fetchly_llm.metrics import GenerationStats, Share

ALL = "all"
_NUMBER_MB = 4e-6  # streams, keys and values are fp32 in every back-end there is
_DIGITS = 5

Interval = tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What all rows of a run share. `backend` and `one_row_backend` are identities, the latter that of `plain-1`.

    A draft tree has at most `tree_rows` rows; a cache keeps `row_numbers` numbers of keys and values for each.
    """

    model: str
    backend: str
    one_row_backend: str
    weight_bytes: int
    stream_parameters: int
    threads: int | None
    width: int | None
    tree_rows: int
    row_numbers: int
    replay: bool


@dataclass(frozen=True, slots=True)
class DecodeRow:
    """The figures of one arm over one set. The names are the keys of the printed line; None is what was not measured.

    Those up to `model_memory_mb` never change. Times and ratios of times are None in a replay.
    """

    bench: str
    set: str
    arm: str
    temperature: float
    documents: int
    tokens_per_step: float | None
    acceptance_length: float | None
    ratio_to_plain: float | None
    ratio_to_fastest_plain: float | None
    mismatches: int | None
    tokens_per_s: float | None
    prefill_tokens_per_s: float | None
    ttft_ms: float | None
    tpot_ms_p50: float | None
    tpot_ms_p95: float | None
    acceptance_structure: float | None
    acceptance_values: float | None
    by_source: Mapping[str, int]
    extra_parameters: int
    extra_memory_mb: float | None
    model_memory_mb: float | None

    tokens_per_step_ci95: Interval
    ratio_to_plain_ci95: Interval
    ratio_to_fastest_plain_ci95: Interval
    ratio_of_sums_to_plain: float | None
    ratio_of_sums_to_fastest_plain: float | None
    cut: int
    tokens_per_step_complete: float | None
    tokens_per_step_complete_ci95: Interval
    failed: int
    not_replayable: int
    output_tokens: int
    decode_steps: int
    rows_per_step: float | None
    acceptance_by_depth: tuple[float | None, ...]
    proposed_by_source: Mapping[str, int]
    draft_ms_per_step: float | None
    mask_ms_per_step: float | None
    forward_ms_per_step: float | None
    verify_ms_per_step: float | None
    commit_ms_per_step: float | None
    stream_ms_per_step: float | None
    stream_passes: int
    model: str
    backend: str
    width: int | None
    threads: int | None
    max_tokens: int
    seed: int
    verify: str
    stream_mode: str
    replay: bool

    def line(self) -> dict[str, Any]:
        """As one printed line."""
        return {key: _rounded(value) for key, value in asdict(self).items()}


def decode_rows(
    runs: Sequence[DocumentRun], arms: Sequence[Arm], options: DecodeOptions, facts: RunFacts
) -> tuple[DecodeRow, ...]:
    """A row for each set and arm in order of appearance, then the same for all sets together.

    There is none where an arm ran on no document of the set.
    """
    names = dict.fromkeys(run.item.set for run in runs)
    parts = [_Part(name, [run for run in runs if run.item.set == name]) for name in names]
    parts.append(_Part(ALL, runs))
    return tuple(_row(part, arm, options, facts) for part in parts for arm in arms if part.measured(arm.name))


@dataclass(frozen=True, slots=True)
class _Part:
    """The documents of a set."""

    name: str
    runs: Sequence[DocumentRun]

    def measured(self, arm: str) -> list[DocumentRun]:
        return [run for run in self.runs if run.is_measured and arm in run.generations]

    def count(self, kind: str, arm: str | None = None) -> int:
        problems = (problem for run in self.runs for problem in run.problems)
        return sum(problem.kind == kind and arm in (None, problem.arm) for problem in problems)


@dataclass(frozen=True, slots=True)
class _Ratio:
    """Decode milliseconds per output token of one arm over those of another, document by document and in all."""

    median: Median
    of_sums: float | None

    @classmethod
    def between(cls, runs: Sequence[DocumentRun], base: str, arm: str) -> _Ratio:
        pairs = [
            (run.generations[base].stats, run.generations[arm].stats)
            for run in runs
            if base in run.generations and all(run.generations[name].token_ids for name in (base, arm))
        ]
        sums = [_ms_per_token([pair[side] for pair in pairs]) for side in (0, 1)]
        return cls(
            bootstrap_median([_ms_per_token([plain]) / _ms_per_token([ours]) for plain, ours in pairs]),
            sums[0] / sums[1] if pairs else None,
        )


def _row(part: _Part, arm: Arm, options: DecodeOptions, facts: RunFacts) -> DecodeRow:
    runs = part.measured(arm.name)
    stats = [run.generations[arm.name].stats for run in runs]
    complete = [each for each, run in zip(stats, runs, strict=True) if not run.is_cut]
    per_step = bootstrap_median([each.acceptance_length for each in stats])
    per_step_complete = bootstrap_median([each.acceptance_length for each in complete])
    timed = [] if facts.replay else runs
    to_plain, to_fastest = (_Ratio.between(timed, base, arm.name) for base in (NONE, PLAIN_1))
    ttft = [run.compile_ms + run.prefill_ms + run.generations[arm.name].stats.ttft_ms for run in timed]
    tpot = [each.tpot_ms for each in stats if each.output_tokens > 1 and timed]
    extra = facts.stream_parameters if "streams" in arm.draft else 0
    drafted = (facts.tree_rows - 1) * facts.row_numbers if arm.draft else 0
    tokens, steps = (sum(counts) for counts in zip(*((s.output_tokens, s.decode_steps) for s in stats), strict=True))

    def ms_per_step(figure: Callable[[GenerationStats], float], is_real: bool = bool(timed)) -> float | None:
        return _quotient(sum(map(figure, stats)), steps) if is_real else None

    return DecodeRow(
        bench="decode",
        set=part.name,
        arm=arm.name,
        temperature=options.temperature,
        documents=len(runs),
        tokens_per_step=per_step.value,
        acceptance_length=_quotient(tokens, steps),
        ratio_to_plain=to_plain.median.value,
        ratio_to_fastest_plain=to_fastest.median.value,
        mismatches=part.count("mismatch", arm.name) if options.compares(arm) else None,
        tokens_per_s=_quotient(1000.0 * tokens, sum(s.decode_ms for s in stats)) if timed else None,
        prefill_tokens_per_s=_quotient(
            1000.0 * sum(run.prefill_tokens for run in timed), sum(run.prefill_ms for run in timed)
        ),
        ttft_ms=_quantile(ttft, 0.5),
        tpot_ms_p50=_quantile(tpot, 0.5),
        tpot_ms_p95=_quantile(tpot, 0.95),
        acceptance_structure=_ratio(s.structure for s in stats),
        acceptance_values=_ratio(s.values for s in stats),
        by_source=_sum(s.tokens_by_source for s in stats),
        extra_parameters=extra,
        extra_memory_mb=None if facts.replay else (extra + drafted) * _NUMBER_MB,
        model_memory_mb=None if facts.replay else facts.weight_bytes * 1e-6,
        tokens_per_step_ci95=per_step.interval,
        ratio_to_plain_ci95=to_plain.median.interval,
        ratio_to_fastest_plain_ci95=to_fastest.median.interval,
        ratio_of_sums_to_plain=to_plain.of_sums,
        ratio_of_sums_to_fastest_plain=to_fastest.of_sums,
        cut=len(runs) - len(complete),
        tokens_per_step_complete=per_step_complete.value,
        tokens_per_step_complete_ci95=per_step_complete.interval,
        failed=part.count("failed"),
        not_replayable=part.count("not replayable"),
        output_tokens=tokens,
        decode_steps=steps,
        rows_per_step=_quotient(sum(s.rows for s in stats), steps),
        acceptance_by_depth=tuple(
            _ratio(shares) for shares in zip_longest(*(s.acceptance_by_depth for s in stats), fillvalue=Share())
        ),
        proposed_by_source=_sum(s.proposed_by_source for s in stats),
        draft_ms_per_step=ms_per_step(lambda s: s.draft_ms, is_real=True),
        mask_ms_per_step=ms_per_step(lambda s: s.mask_ms, is_real=True),
        forward_ms_per_step=ms_per_step(lambda s: s.forward_ms),
        verify_ms_per_step=ms_per_step(lambda s: s.verify_ms, is_real=True),
        commit_ms_per_step=ms_per_step(lambda s: s.commit_ms),
        stream_ms_per_step=ms_per_step(lambda s: s.stream_ms),
        stream_passes=sum(s.stream_passes for s in stats),
        model=facts.model,
        backend=facts.one_row_backend if arm.one_row else facts.backend,
        width=1 if arm.one_row and facts.width else facts.width,
        threads=facts.threads,
        max_tokens=options.max_tokens,
        seed=options.seed,
        verify=options.verify,
        stream_mode=options.stream_mode,
        replay=facts.replay,
    )


def _ms_per_token(stats: Sequence[GenerationStats]) -> float:
    return sum(s.decode_ms for s in stats) / sum(s.output_tokens for s in stats) if stats else 0.0


def _quotient(dividend: float, divisor: float) -> float | None:
    return dividend / divisor if divisor else None


def _quantile(values: Sequence[float], share: float) -> float | None:
    return float(np.quantile(values, share)) if values else None


def _ratio(shares: Iterable[Share]) -> float | None:
    total = sum(shares, Share())
    return total.ratio if total.trials else None


def _sum(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return dict(total)


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, _DIGITS)
    if isinstance(value, tuple):
        return [_rounded(part) for part in value]
    return value
