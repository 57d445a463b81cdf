from pathlib import Path

import pytest

from fetchly.lab.assessment import Assessment, assess
from fetchly.lab.dataset import Dataset
from fetchly.lab.interval import f1_interval
from fetchly.lab.predictions import Prediction
from fetchly.lab.report import report, table
from fetchly.lab.scoring import Counts
from tests.support.tiny_dataset import build

STATS = {"prompt_tokens": 100, "output_tokens": 30, "decode_steps": 10, "decode_ms": 500.0}
RECORDS = {
    "ferry": {"title": "The ferry runs again", "published_date": "3 May 2021", "price": 2.5, "topics": ["River"]},
    "market": {"title": "Markt am Samstag", "published_date": None, "price": 9, "topics": ["Handel", "Gemüse"]},
    "bridge": {"title": "Road closed", "published_date": None, "price": None, "topics": 3},
}


def assessments(tmp_path: Path) -> list[Assessment]:
    dataset = Dataset.open(build(tmp_path / "notices"))
    pages = []
    for gold in dataset.records():
        record = RECORDS.get(gold.id)
        error = None if record else "nothing to read"
        code = None if record else "DOCUMENT_EMPTY"
        made = Prediction("notices", gold.id, record, error, 2.0, code, ("w",), STATS if record else {})
        pages.append(assess(dataset, gold, made))
    return pages


def test_figures_by_set_part_and_field(tmp_path: Path) -> None:
    everything, structured, visible = report(assessments(tmp_path))
    assert (everything.part, structured.part, visible.part) == (
        "all pages", "with structured data", "without structured data",
    )  # fmt: skip
    assert (everything.pages, structured.pages, visible.pages) == (4, 1, 3)
    assert everything.sites == 2
    assert everything.failed == {"DOCUMENT_EMPTY": 1}
    assert everything.invalid == 1  # the topics of the bridge are no list
    by_field = {field.field: field.counts for field in everything.fields}
    assert by_field == {
        "title": Counts(2, 1, 2),
        "published_date": Counts(1, 0, 1),
        "price": Counts(1, 1, 0),
        "topics": Counts(1.5, 0, 0.5),
    }
    assert everything.total.counts == Counts(5.5, 2, 3.5)
    assert (everything.exact, everything.scored) == (0, 4)
    assert (everything.texts.texts, everything.texts.invented) == (6, 1)
    row = everything.as_dict()
    assert row["f1"] == pytest.approx(11 / 16.5, abs=1e-4)
    assert row["acceptance_length"] == 3.0
    assert row["tokens_per_s"] == 60.0
    assert row["warnings"] == 4
    assert row["fields"]["topics"]["recall"] == 0.75


def test_the_table_names_every_field_and_every_failure(tmp_path: Path) -> None:
    text = "\n".join(table(report(assessments(tmp_path))))
    for word in ("title", "published_date", "all fields", "DOCUMENT_EMPTY 1", "invalid 1", "3.00 tokens a step"):
        assert word in text


def test_the_interval_draws_sites_and_holds_the_estimate() -> None:
    alike = [Counts(8, 2, 2)] * 10
    assert f1_interval(alike) == f1_interval(alike[:5])
    unlike = [Counts(10, 0, 0), Counts(0, 10, 10)] * 10
    spread = f1_interval(unlike)
    assert spread is not None
    assert 0 < spread.low < 0.5 < spread.high < 1
    # Twenty sites, half of them right: the binomial's own interval is 0.28 to 0.72.
    assert spread.low == pytest.approx(0.28, abs=0.04)
    assert spread.high == pytest.approx(0.72, abs=0.04)


def test_of_one_site_no_spread_can_be_told() -> None:
    assert f1_interval([Counts(1, 0, 0)]) is None
    assert f1_interval([]) is None
