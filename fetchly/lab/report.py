"""Assessed pages in; figures by set, by field, with and without structured data out, for people and for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from fetchly.lab.assessment import Assessment
from fetchly.lab.interval import Interval, f1_interval
from fetchly.lab.scoring import Counts
from fetchly.lab.visible import TextCheck

ALL = "all pages"
_PARTS: dict[str, Callable[[Assessment], bool]] = {
    ALL: lambda page: True,
    "with structured data": lambda page: page.gold.structured,
    "without structured data": lambda page: not page.gold.structured,
}


@dataclass(frozen=True, slots=True)
class FieldScore:
    """One field over all pages of a part; `interval` is of F1, over sites."""

    field: str
    counts: Counts
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class PartReport:
    """One set, or the part of it whose pages carry structured data, or the other part.

    `scored` pages have a scored field; of these `exact` are wholly right. `failed` pages by error code. `invalid`
    records do not satisfy their schema. `texts.invented` are texts of records that do not stand on their pages.
    Tokens, steps and milliseconds are sums over the pages that gave a record.
    """

    set: str
    part: str
    pages: int
    sites: int
    scored: int
    total: FieldScore
    exact: int
    failed: Mapping[str, int]
    invalid: int
    texts: TextCheck
    seconds_median: float
    prompt_tokens: int
    output_tokens: int
    decode_steps: int
    decode_ms: float
    warnings: int
    fields: tuple[FieldScore, ...]

    @property
    def exact_rate(self) -> float:
        """Share of the scored pages that are wholly right."""
        return self.exact / self.scored if self.scored else 0.0

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "set": self.set,
            "part": self.part,
            "pages": self.pages,
            "sites": self.sites,
            "n": self.scored,
            **_score(self.total),
            "exact_rate": round(self.exact_rate, 4),
            "failed": sum(self.failed.values()),
            "failed_by_code": dict(self.failed),
            "invalid": self.invalid,
            "texts": self.texts.texts,
            "not_on_page": self.texts.invented,
            "hallucination_rate": round(self.texts.rate, 4),
            "seconds_median": round(self.seconds_median, 4),
            "prompt_tokens": self.prompt_tokens,
            "output_tokens": self.output_tokens,
            "decode_steps": self.decode_steps,
            "acceptance_length": round(self.output_tokens / self.decode_steps, 4) if self.decode_steps else None,
            "tokens_per_s": round(1000 * self.output_tokens / self.decode_ms, 2) if self.decode_ms else None,
            "warnings": self.warnings,
            "fields": {field.field: _score(field) for field in self.fields},
        }


def report(pages: Sequence[Assessment]) -> tuple[PartReport, ...]:
    """The parts of every set, in the order in which the sets first come; a part without pages is left out, and so are
    both parts of a set whose pages are all of one kind."""
    by_set: dict[str, list[Assessment]] = {}
    for page in pages:
        by_set.setdefault(page.prediction.set, []).append(page)
    parts: list[PartReport] = []
    for name, members in by_set.items():
        for part, belongs in _PARTS.items():
            chosen = [page for page in members if belongs(page)]
            if part == ALL or 0 < len(chosen) < len(members):
                parts.append(_part(name, part, chosen))
    return tuple(parts)


def _part(set_name: str, part: str, pages: Sequence[Assessment]) -> PartReport:
    texts = TextCheck()
    for page in pages:
        texts = texts.plus(page.texts)
    names = sorted({name for page in pages for name in page.counts})
    return PartReport(
        set=set_name,
        part=part,
        pages=len(pages),
        sites=len({page.gold.site for page in pages}),
        scored=sum(bool(page.counts) for page in pages),
        total=_field("", pages),
        exact=sum(page.exact for page in pages),
        failed=dict(Counter(str(page.prediction.code) for page in pages if page.valid is None).most_common()),
        invalid=sum(page.valid is False for page in pages),
        texts=texts,
        seconds_median=median(page.prediction.seconds for page in pages),
        prompt_tokens=round(_sum(pages, "prompt_tokens")),
        output_tokens=round(_sum(pages, "output_tokens")),
        decode_steps=round(_sum(pages, "decode_steps")),
        decode_ms=_sum(pages, "decode_ms"),
        warnings=sum(len(page.prediction.warnings) for page in pages),
        fields=tuple(_field(name, pages) for name in names),
    )


def _field(name: str, pages: Iterable[Assessment]) -> FieldScore:
    """One field, or all of them where `name` is empty."""
    total = Counts()
    by_site: dict[str, Counts] = {}
    for page in pages:
        counts = page.counts.get(name, Counts()) if name else page.total
        if counts == Counts():
            continue
        total = total.plus(counts)
        by_site[page.gold.site] = by_site.get(page.gold.site, Counts()).plus(counts)
    return FieldScore(name, total, f1_interval(list(by_site.values())))


def _sum(pages: Iterable[Assessment], figure: str) -> float:
    return sum(float(page.prediction.stats.get(figure, 0)) for page in pages)


def _score(field: FieldScore) -> dict[str, Any]:
    counts, interval = field.counts, field.interval
    return {
        "tp": round(counts.right, 2),
        "fp": round(counts.wrong, 2),
        "fn": round(counts.missed, 2),
        "precision": round(counts.precision, 4),
        "recall": round(counts.recall, 4),
        "f1": round(counts.f1, 4),
        "f1_interval": [round(interval.low, 4), round(interval.high, 4)] if interval else None,
    }


def table(parts: Iterable[PartReport]) -> list[str]:
    """The report as lines of text, about 100 columns wide."""
    lines: list[str] = []
    for part in parts:
        lines += [
            "",
            f"{part.set}, {part.part}: {part.pages} pages of {part.sites} sites",
            *_scores(part),
            *_facts(part),
        ]
    lines.append("")
    lines.append("F1 with its 95 % interval over sites; a field weighs one on each page, however long its list")
    return lines


def _scores(part: PartReport) -> list[str]:
    lines = [f"  {'field':<26}{'F1':>7}{'interval':>16}{'P':>8}{'R':>8}{'right':>9}{'wrong':>8}{'missed':>8}"]
    for field in (*part.fields, part.total):
        counts, ends = field.counts, field.interval
        between = f"{ends.low:.3f} - {ends.high:.3f}" if ends else "-"
        lines.append(
            f"  {field.field or 'all fields':<26}{counts.f1:>7.3f}{between:>16}{counts.precision:>8.3f}"
            f"{counts.recall:>8.3f}{counts.right:>9.1f}{counts.wrong:>8.1f}{counts.missed:>8.1f}"
        )
    return lines


def _facts(part: PartReport) -> list[str]:
    failed = sum(part.failed.values())
    codes = ", ".join(f"{code} {count}" for code, count in part.failed.items())
    speed = f", {part.output_tokens / part.decode_steps:.2f} tokens a step" if part.decode_steps else ""
    return [
        f"  wholly right {part.exact} of {part.scored} ({part.exact_rate:.3f}); "
        f"failed {failed}{f' ({codes})' if codes else ''}; invalid {part.invalid}",
        f"  texts not on the page {part.texts.invented} of {part.texts.texts} ({part.texts.rate:.3f}); "
        f"warnings {part.warnings}",
        f"  median {part.seconds_median:.1f} s a page; {part.prompt_tokens} prompt tokens, "
        f"{part.output_tokens} output tokens{speed}",
    ]
