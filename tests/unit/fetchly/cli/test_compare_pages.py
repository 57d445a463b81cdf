"""Pages through both sides: a scripted generator as ours, a scripted writer as the rival."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fetchly.cli.compare_pages import PageComparison, html2text_markdown, scores
from fetchly.document.reader import read_document
from fetchly.extraction.extractor import ExtractionOptions
from fetchly.extraction.generator import GenerationTask
from fetchly.lab.dataset import Dataset
from fetchly.lab.evaluation import Evaluation
from fetchly.lab.reading import SetReader
from fetchly_llm.bench.writing import Writing
from tests.support.scripted_generator import ScriptedGenerator
from tests.support.tiny_dataset import build

RIGHT = {"title": "Bridge closed", "published_date": None, "price": None, "topics": None}
WORDS = len(json.dumps(RIGHT).split())


class Rival:
    """Writes `text`, one token a millisecond."""

    def __init__(self, text: str = json.dumps(RIGHT), tokens: int = 20, is_complete: bool = True) -> None:
        self.log: list[str] = []
        self._writing = Writing(text, 300, tuple(1.0 + number for number in range(tokens)), tokens + 5.0, is_complete)

    def warm(self, instruction: str) -> None:
        self.log.append("warm")

    def answer(
        self, instruction: str, page: str, schema: Mapping[str, Any], max_tokens: int, budget: int | None
    ) -> Writing:
        self.log.append(f"answer {page}")
        return self._writing


def to_markdown(html: str, *, links: bool) -> str:
    return f"{len(html)} characters, links {links}"


@pytest.fixture
def notices(tmp_path: Path) -> Dataset:
    return Dataset.open(build(tmp_path / "notices"))


def comparison(rival: Any, markdown: Any = to_markdown) -> PageComparison:
    def answer(task: GenerationTask) -> str:
        rival.log.append("own")
        return json.dumps(RIGHT)

    evaluation = Evaluation(ScriptedGenerator(answer), SetReader(read_document), ExtractionOptions(verbatim="auto"))
    return PageComparison(rival, evaluation, markdown, 64)


def bridge(dataset: Dataset) -> Any:
    return next(record for record in dataset.records() if record.id == "bridge")


@pytest.mark.parametrize("rival_first", [False, True])
def test_the_rival_is_warm_before_its_clock_starts_and_the_order_is_as_asked(
    notices: Dataset, rival_first: bool
) -> None:
    rival = Rival()
    outcome = comparison(rival).compare(notices, bridge(notices), rival_first)
    theirs = ["warm", f"answer {len(notices.page(bridge(notices)).body)} characters, links False"]
    assert rival.log == ([*theirs, "own"] if rival_first else ["own", *theirs])
    assert outcome.pair.is_whole
    assert outcome.assessments.rival is not None
    assert outcome.assessments.own.exact
    assert outcome.assessments.rival.exact


def test_the_rival_is_stopped_at_as_many_tokens_as_ours_has(notices: Dataset) -> None:
    def slowly(html: str, *, links: bool) -> str:
        time.sleep(0.03)
        return html

    trials = comparison(Rival(tokens=20), slowly).compare(notices, bridge(notices), False).pair.trials
    assert trials.rival is not None
    assert trials.own.tokens == WORDS < 20
    assert (trials.rival.tokens, trials.rival.prompt_tokens) == (20, 300)
    assert trials.own.head_ms == trials.own.ms
    assert trials.rival.head_ms is not None
    assert trials.rival.head_ms >= WORDS + 30.0  # from the bytes on: what html2text takes is in it
    short = comparison(Rival(tokens=3)).compare(notices, bridge(notices), False).pair.trials
    assert short.rival is not None
    assert short.rival.head_ms is not None
    assert 3.0 <= short.rival.head_ms < trials.rival.head_ms


@pytest.mark.parametrize(
    ("rival", "code"), [(Rival(is_complete=False), "OUTPUT_LIMIT"), (Rival(text='{"title": '), "JSONDecodeError")]
)
def test_a_record_that_is_none_is_a_failure_and_scores_nothing(notices: Dataset, rival: Rival, code: str) -> None:
    outcome = comparison(rival).compare(notices, bridge(notices), False)
    assert outcome.pair.trials.rival is not None
    assert outcome.pair.trials.rival.failure == code
    assert outcome.pair.trials.own.failure is None
    both = scores([outcome])
    assert list(both) == ["notices", "all"]
    assert both["all"].own.f1 == 1.0
    assert both["all"].rival is not None
    assert both["all"].rival.f1 == 0.0


def test_a_page_that_breaks_the_rival_does_not_end_the_run(notices: Dataset) -> None:
    def broken(html: str, *, links: bool) -> str:
        raise AssertionError("a bug of the converter")

    trials = comparison(Rival(), broken).compare(notices, bridge(notices), False).pair.trials
    assert trials.rival is not None
    assert (trials.rival.failure, trials.rival.head_ms) == ("AssertionError", None)


def test_our_side_alone(notices: Dataset) -> None:
    rival = Rival()
    outcome = comparison(rival, None).compare(notices, bridge(notices), True)
    assert rival.log == ["own"]
    assert outcome.pair.trials.rival is None
    assert scores([outcome])["all"].rival is None


def test_html2text_drops_the_targets_of_links_unless_urls_are_asked_for() -> None:
    pytest.importorskip("html2text", reason="html2text is not installed: pip install 'fetchly[compare]'")
    convert = html2text_markdown()
    page = "<h1>Tea</h1><script>no</script><p>A <a href='/pot'>pot</a> " + "and so on " * 30
    assert "# Tea" in convert(page, links=False)
    assert "/pot" not in convert(page, links=False)
    assert "(/pot)" in convert(page, links=True)
    assert "no" not in convert(page, links=False).split("\n")
    assert len(convert(page, links=False).strip().splitlines()) == 3  # lines are not wrapped
