"""Pages with known answers in; the record that each side makes of each, how long it took and how right it is, out.

Our side is all that fetchly does with a page. The rival's is what its users put together: the bytes decoded, made into
Markdown by html2text and cut to the context, an instruction with the JSON Schema in it, a grammar of the same schema.
"""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from fetchly.cli.engine_bench import Pair, Score, Sides, Trial
from fetchly.document.decode import decode
from fetchly.errors import ConfigurationError
from fetchly.extraction.decoding import asks_for_links
from fetchly.lab.assessment import Assessment, assess
from fetchly.lab.dataset import Dataset, GoldRecord
from fetchly.lab.evaluation import Evaluation
from fetchly.lab.interval import f1_interval
from fetchly.lab.predictions import Prediction
from fetchly.lab.scoring import Counts

if TYPE_CHECKING:
    from fetchly.cli.engine_bench import CompareBench

_INSTRUCTION = (
    "You extract data from web pages. Answer with one JSON object that satisfies this JSON Schema. "
    "Copy values from the page, and write null for what it does not say.\n"
)
_ALL = "all"


class ToMarkdown(Protocol):
    """Makes the text that the rival is shown of a page."""

    def __call__(self, html: str, *, links: bool) -> str:
        """`links`: with the targets of links and images, for a schema that asks for URLs."""


def html2text_markdown() -> ToMarkdown:
    """html2text, without line wrapping. Errors: ConfigurationError where it is not installed."""
    try:
        library = importlib.import_module("html2text")
    except ModuleNotFoundError:
        raise ConfigurationError("html2text is not installed", hint="pip install 'fetchly[compare]'") from None

    def convert(html: str, *, links: bool) -> str:
        converter = library.HTML2Text(bodywidth=0)
        converter.ignore_links = converter.ignore_images = not links
        return str(converter.handle(html))

    return convert


@dataclass(frozen=True, slots=True)
class _Answer:
    """The rival's prediction; `token_ms` are milliseconds from the page's bytes to each token of it."""

    prediction: Prediction
    token_ms: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class PageOutcome:
    """One page: both sides' times, and what is to be said of their records."""

    pair: Pair
    assessments: Sides[Assessment]


class PageComparison:
    """Compares page after page, our side alone where `to_markdown` is None. Before each page the rival's cache holds
    its instruction, as our prefix cache does ours after `warm_up`. The rival reads `rival_budget` tokens of a page at
    most, or as many as its context leaves."""

    def __init__(
        self,
        bench: CompareBench,
        evaluation: Evaluation,
        to_markdown: ToMarkdown | None,
        max_tokens: int,
        rival_budget: int | None = None,
    ) -> None:
        self._bench = bench
        self._evaluation = evaluation
        self._to_markdown = to_markdown
        self._max_tokens = max_tokens
        self._budget = rival_budget

    def warm_up(self, dataset: Dataset, record: GoldRecord) -> None:
        """Have our side meet the record's schema; nothing is counted."""
        self._evaluation.predict(dataset, record)

    def compare(self, dataset: Dataset, record: GoldRecord, rival_first: bool) -> PageOutcome:
        """Both sides, one after the other. Whatever a page does to a side is a failure of that side."""
        answer = self._theirs(dataset, record) if rival_first else None
        ours = self._evaluation.predict(dataset, record)
        answer = answer or self._theirs(dataset, record)
        if answer is None:
            trials, assessments = Sides(_trial(ours), None), Sides(assess(dataset, record, ours), None)
        else:
            trials = _trials(ours, answer)
            assessments = Sides(assess(dataset, record, ours), assess(dataset, record, answer.prediction))
        return PageOutcome(Pair("page", dataset.name, record.id, trials), assessments)

    def _theirs(self, dataset: Dataset, record: GoldRecord) -> _Answer | None:
        if self._to_markdown is None:
            return None
        schema = dataset.schema(record).json
        instruction = _INSTRUCTION + json.dumps(schema, ensure_ascii=False)
        started = time.monotonic()
        try:
            self._bench.warm(instruction)
            started = time.monotonic()
            page = dataset.page(record)
            html = decode(page.body, page.charset).text
            markdown = self._to_markdown(html, links=asks_for_links(schema))
            reading_ms = 1000.0 * (time.monotonic() - started)
            writing = self._bench.answer(instruction, markdown, schema, self._max_tokens, self._budget)
            value, code = (json.loads(writing.text), None) if writing.is_complete else (None, "OUTPUT_LIMIT")
        except Exception as error:  # as with our own side: a page that brings out a bug is a figure, not the end
            code = str(getattr(error, "code", type(error).__name__))
            return _Answer(Prediction(dataset.name, record.id, None, code, time.monotonic() - started, code))
        stats = {"prompt_tokens": writing.prompt_tokens, "output_tokens": len(writing.token_ms)}
        seconds = time.monotonic() - started
        return _Answer(
            Prediction(dataset.name, record.id, value, code, seconds, code, stats=stats),
            tuple(reading_ms + ms for ms in writing.token_ms),
        )


def scores(outcomes: Sequence[PageOutcome]) -> Mapping[str, Sides[Score]]:
    """Both sides' F1 by set, and over all of them."""
    by_set: dict[str, Sides[Score]] = {}
    for name in [*dict.fromkeys(outcome.pair.set for outcome in outcomes), _ALL]:
        members = [outcome.assessments for outcome in outcomes if name in (outcome.pair.set, _ALL)]
        rival = [each.rival for each in members if each.rival is not None]
        by_set[name] = Sides(_score([each.own for each in members]), _score(rival) if rival else None)
    return by_set


def _score(pages: Sequence[Assessment]) -> Score:
    by_site: dict[str, Counts] = {}
    for page in pages:
        if page.counts:
            by_site[page.gold.site] = by_site.get(page.gold.site, Counts()).plus(page.total)
    total = Counts()
    for counts in by_site.values():
        total = total.plus(counts)
    interval = f1_interval(list(by_site.values()))
    return Score(total.f1, (interval.low, interval.high) if interval else None)


def _trials(ours: Prediction, answer: _Answer) -> Sides[Trial]:
    """`head_ms` stops the rival at as many tokens as our record has, where it wrote more; ours is never stopped."""
    own = _trial(ours)
    tokens = min(own.tokens, len(answer.token_ms))
    if not tokens:
        return Sides(own, _trial(answer.prediction))
    head = replace(_trial(answer.prediction), head_ms=answer.token_ms[tokens - 1])
    return Sides(replace(own, head_ms=own.ms), head)


def _trial(prediction: Prediction) -> Trial:
    stats: Mapping[str, Any] = prediction.stats
    return Trial(
        ms=1000.0 * prediction.seconds,
        tokens=int(stats.get("output_tokens", 0)),
        prompt_tokens=int(stats.get("prompt_tokens", 0)),
        failure=prediction.code,
    )
