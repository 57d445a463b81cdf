"""Pairs of times in; one row of figures for each measure and set, and for all sets together, out (docs/bench.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from fetchly_llm.bench.bootstrap import Median, bootstrap_median
from fetchly_llm.bench.comparison import Refusal
from fetchly_llm.bench.figures import ALL, Interval
from fetchly_llm.bench.sides import CUT, Pair, Score, Sides, Trial

_DIGITS = 5


@dataclass(frozen=True, slots=True)
class RivalFacts:
    """What the rival is and how it ran. `same_weights` False: ours were trained further; None: nobody knows."""

    name: str
    version: str
    gguf_sha256: str
    same_weights: bool | None
    threads: int
    prefill_threads: int
    flash_attention: bool
    batch: int


@dataclass(frozen=True, slots=True)
class CompareFacts:
    """What all rows of a run share. `load` is the machine's when it began (runnable processes over one minute): times
    of a machine that has other work mean nothing. `rival` is None where there was none."""

    model: str
    backend: str
    threads: int
    width: int | None
    context_length: int
    decode_tokens: int
    max_tokens: int
    load: float
    rival: RivalFacts | None


@dataclass(frozen=True, slots=True)
class SideRow:
    """One side over the documents of a row. `ms` and `prompt_tokens` are medians, `tokens` is a sum. `cut` texts
    reached the token limit; `failed` pages gave no record for another reason."""

    ms: float
    tokens: int
    tokens_per_s: float | None
    prompt_tokens: float
    cut: int
    failed: int
    f1: float | None
    f1_ci95: Interval


@dataclass(frozen=True, slots=True)
class CompareRow:
    """One measure over one set. A ratio is the rival's time over ours, document by document, the median; None without
    a rival. `complete` documents are those on which neither side failed; `same_tokens` compares the time to the token
    up to which both wrote as many."""

    bench: str
    measure: str
    set: str
    documents: int
    refused: int
    ratio: float | None
    ratio_ci95: Interval
    ratio_of_sums: float | None
    complete: int
    ratio_complete: float | None
    ratio_complete_ci95: Interval
    ratio_same_tokens: float | None
    ratio_same_tokens_ci95: Interval
    own: SideRow
    rival: SideRow | None
    facts: CompareFacts

    def line(self) -> dict[str, Any]:
        """As one printed line: the facts last, under their own names, those of the rival under `rival_...`."""
        line: dict[str, Any] = _rounded(asdict(self))
        facts = line.pop("facts")
        rival = facts.pop("rival") or {}
        return {**line, **facts, **{f"rival_{name}": value for name, value in rival.items()}}


def compare_rows(
    pairs: Sequence[Pair],
    refusals: Sequence[Refusal],
    facts: CompareFacts,
    scores: Mapping[str, Sides[Score]] | None = None,
) -> tuple[CompareRow, ...]:
    """A row for each measure and set in order of appearance, then that of all sets together. `scores`, by set and for
    "all", belong to the rows of "page"."""
    rows: list[CompareRow] = []
    for measure in dict.fromkeys(pair.measure for pair in pairs):
        of_measure = [pair for pair in pairs if pair.measure == measure]
        known = (scores or {}) if measure == "page" else {}
        for name in [*dict.fromkeys(pair.set for pair in of_measure), ALL]:
            members = [pair for pair in of_measure if name in (pair.set, ALL)]
            refused = sum(name in (refusal.set, ALL) for refusal in refusals) if measure != "page" else 0
            rows.append(_row(name, members, refused, facts, known.get(name)))
    return tuple(rows)


def _row(
    name: str, pairs: Sequence[Pair], refused: int, facts: CompareFacts, scores: Sides[Score] | None
) -> CompareRow:
    rivals = [pair.trials.rival for pair in pairs if pair.trials.rival is not None]
    owns = [pair.trials.own for pair in pairs]
    whole = [pair for pair in pairs if pair.is_whole]
    ratio, complete = bootstrap_median(_ratios(pairs)), bootstrap_median(_ratios(whole))
    same_tokens = _same_tokens(pairs)
    return CompareRow(
        bench="compare",
        measure=pairs[0].measure,
        set=name,
        documents=len(pairs),
        refused=refused,
        ratio=ratio.value,
        ratio_ci95=ratio.interval,
        ratio_of_sums=sum(trial.ms for trial in rivals) / sum(trial.ms for trial in owns) if rivals else None,
        complete=len(whole),
        ratio_complete=complete.value,
        ratio_complete_ci95=complete.interval,
        ratio_same_tokens=same_tokens.value,
        ratio_same_tokens_ci95=same_tokens.interval,
        own=_side(owns, scores.own if scores else None),
        rival=_side(rivals, scores.rival if scores else None) if rivals else None,
        facts=facts,
    )


def _ratios(pairs: Iterable[Pair]) -> list[float]:
    return [pair.trials.rival.ms / pair.trials.own.ms for pair in pairs if pair.trials.rival is not None]


def _same_tokens(pairs: Iterable[Pair]) -> Median:
    heads = ((pair.trials.own.head_ms, pair.trials.rival.head_ms) for pair in pairs if pair.trials.rival is not None)
    return bootstrap_median([theirs / ours for ours, theirs in heads if ours is not None and theirs is not None])


def _side(trials: Sequence[Trial], score: Score | None) -> SideRow:
    tokens, spent = sum(trial.tokens for trial in trials), sum(trial.ms for trial in trials)
    return SideRow(
        ms=median(trial.ms for trial in trials),
        tokens=tokens,
        tokens_per_s=1000.0 * tokens / spent if spent else None,
        prompt_tokens=median(trial.prompt_tokens for trial in trials),
        cut=sum(trial.failure == CUT for trial in trials),
        failed=sum(trial.failure not in (None, CUT) for trial in trials),
        f1=score.f1 if score else None,
        f1_ci95=score.interval if score else None,
    )


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, _DIGITS)
    if isinstance(value, Mapping):
        return {key: _rounded(part) for key, part in value.items()}
    return [_rounded(part) for part in value] if isinstance(value, tuple) else value
