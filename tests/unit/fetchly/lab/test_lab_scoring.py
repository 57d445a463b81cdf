from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fetchly.lab.dataset import Dataset, GoldRecord
from fetchly.lab.folding import fold
from fetchly.lab.quantities import Moment, first_date, first_moment, first_number, minutes, numbers
from fetchly.lab.scoring import Counts, is_right, score_record
from tests.support.tiny_dataset import build, gold

TEXT = {"type": ["string", "null"]}
TEXTS = {"type": "array", "items": {"type": "string"}}


def record_of(tmp_path: Path, expected: dict[str, Any], **more: Any) -> GoldRecord:
    return Dataset.open(build(tmp_path, [gold("ferry", expected, **more)])).records()[0]


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("  “Olé”\u00a0– ½ cup. ", '"olé" - 1/2 cup'),
        ("2½ kg", "2 1/2 kg"),
        ("Fish &amp; Chips |", "fish & chips"),
        ("zero\u200bwidth", "zerowidth"),
    ],
)
def test_texts_are_folded(text: str, folded: str) -> None:
    assert fold(text) == folded


@pytest.mark.parametrize(
    ("text", "number"),
    [("1.234,56", "1234.56"), ("1,234.56 €", "1234.56"), ("$3.499", "3499"), ("0.125", "0.125"), ("1 1/2", "1.5"),
     ("12'000", "12000"), ("007", "7"), ("free", None)],
)  # fmt: skip
def test_numbers_are_read_in_any_locale(text: str, number: str | None) -> None:
    assert first_number(text) == number


def test_every_number_of_a_text_is_found() -> None:
    assert numbers("1 1/2 of 10 200, then 3.5") >= {"1.5", "10200", "10", "200", "3.5"}


@pytest.mark.parametrize("text", ["pt1h30m", "1 h 30", "1 hr 30 mins", "90", "1:30", "1,5 std.", "p0dt1h30m"])
def test_durations_are_minutes(text: str) -> None:
    assert minutes(text) == "90"


@pytest.mark.parametrize(
    "text", ["2020-03-12t10:00", "12. märz 2020", "march 12th, 2020", "12 de marzo de 2020", "3/12/2020", "20200312"]
)
def test_dates_are_days(text: str) -> None:
    assert first_date(text) == "2020-03-12"


@pytest.mark.parametrize(("text", "date"), [("may 2020", "2020-05"), ("31.2.2020", None), ("soon", None)])
def test_a_date_without_a_day_a_day_that_is_none_and_no_date(text: str, date: str | None) -> None:
    assert first_date(text) == date


@pytest.mark.parametrize(
    ("name", "node", "right", "said", "expected"),
    [
        ("title", TEXT, "Tom & Co.", "tom & co", True),
        ("title", TEXT, "Tom & Co.", "Tom", False),
        ("title", TEXT, ["A-1", "B-2"], "b2", True),
        ("title", TEXT, None, None, True),
        ("title", TEXT, None, "said", False),
        ("title", TEXT, "said", None, False),
        ("currency", TEXT, "CAD", "$", True),
        ("currency", TEXT, "EUR", "$", False),
        ("yields", TEXT, "4 servings", "4-6 people", True),
        ("description", TEXT, "a b c d e f g h i j", "a b c d e f g h i", True),
        ("author", TEXT, ["Ada Low", "Bo Ek"], "By Ada Low and Bo Ek", True),
        ("parts", TEXTS, ["a", "b"], ["b", "a"], True),
        ("parts", TEXTS, ["a", "b"], ["a", "b", "c"], False),
        ("parts", TEXTS, ["a", "b"], ["a"], False),
        ("cost", {"type": ["number", "null"]}, 1200, "1.200,00", True),
        ("day", {"type": "string", "format": "date"}, "2020-03-12", "12 March 2020", True),
        ("day", {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]}, "2020-03-12", "12.3.2020", True),
    ],
)
def test_a_value_is_right(name: str, node: Any, right: Any, said: Any, expected: bool) -> None:
    assert is_right(name, node, right, said) is expected


MOMENT = {"type": ["string", "null"], "format": "date-time"}


@pytest.mark.parametrize(
    ("right", "said", "expected"),
    [
        ("2025-06-07T09:14:00Z", "2025-06-07T09:14:00Z", True),
        ("2025-06-07T09:14Z", "2025-06-07T11:14:00+02:00", True),
        ("2025-06-07T09:14:00Z", "2025-06-07T00:00:00Z", False),
        ("2025-06-07T09:14:00Z", "2025-06-07", False),
        ("2025-06-07T09:14:00Z", None, False),
        ("2025-06-07T09:14:00Z", "2025-06-07T09:14:00+02:00", False),
        ("2025-06-07T09:14", "2025-06-07T09:14:00+02:00", True),
        ("2025-06-07T17:42:09Z", "2025-06-07T17:42:00Z", False),
        ("2025-06-07T17:42Z", "2025-06-07T17:42:30Z", True),
        ("2025-06-07", "2025-06-07T09:14:00Z", True),
        ("2025-06-07T23:30-05:00", "2025-06-08T04:30:00Z", True),
        (["2025-06-07T09:14", "2025-06-07T21:14"], "2025-06-07T21:14:00Z", True),
        ("soon", "soon", True),
        ("0001-01-01T00:00+23:00", "9999-12-31T23:59:00-23:00", False),
    ],
)
def test_the_time_of_a_moment_counts_where_the_right_answer_has_one(right: Any, said: Any, expected: bool) -> None:
    for node in (MOMENT, {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]}):
        assert is_right("start", node, right, said) is expected
        assert is_right("origin_time", node, right, said) is expected


def test_moments_in_lists_and_records(tmp_path: Path) -> None:
    shows = {"type": "array", "items": MOMENT}
    assert is_right("shows", shows, ["2025-06-07T09:14Z"], ["2025-06-07T09:14:00Z"])
    assert not is_right("shows", shows, ["2025-06-07T09:14:00Z"], ["2025-06-07T09:15:00Z"])
    made = schema(items={"type": "array", "items": schema(at=MOMENT, name=TEXT)})
    gold = record_of(tmp_path, {"items": [{"name": "a", "at": "2025-06-07T09:14Z"}]}, usable=["items.name", "items.at"])
    said = {"items": [{"name": "a", "at": "2025-06-07T00:00:00Z"}]}
    assert score_record(gold, said, made)["items.at"] == Counts(wrong=1, missed=1)


def test_the_time_of_any_other_date_does_not_count() -> None:
    """As the sets have it: their fields have no format."""
    assert is_right("start", TEXT, "2025-06-07T09:14", "7 June 2025")
    assert is_right("day", {"type": "string", "format": "date"}, "2025-06-07T09:14", "2025-06-07")


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("7 june 2025, 09:14", Moment(datetime(2025, 6, 7, 9, 14), None, False)),
        ("at 9.14 pm (utc+2) on 7.6.2025", Moment(datetime(2025, 6, 7, 21, 14), timedelta(hours=2), False)),
        ("2025-06-07 12:00:30 am gmt", Moment(datetime(2025, 6, 7, 0, 0, 30), timedelta(), True)),
        ("12.05.2024", None),
        ("09:14", None),
        ("2025-06-07t24:61", None),
    ],
)
def test_moments_are_read(text: str, moment: Moment | None) -> None:
    assert first_moment(text) == moment


def test_a_field_weighs_one_and_its_entries_share_it(tmp_path: Path) -> None:
    record = record_of(tmp_path, {"parts": ["ash", "beech", "cedar", "fir"], "title": "Trees"})
    counts = score_record(record, {"parts": ["beech", "ash", "oak"], "title": "trees"}, schema(parts=TEXTS, title=TEXT))
    assert counts == {"parts": Counts(0.5, 0.25, 0.5), "title": Counts(right=1.0)}


def test_fields_outside_the_schema_or_not_usable_do_not_count_and_true_nulls_do(tmp_path: Path) -> None:
    record = record_of(tmp_path, {"title": "Trees", "body": "x"}, usable=["title", "body"], missing=["price", "topics"])
    both = schema(title=TEXT, price=TEXT)
    assert score_record(record, {"title": "Trees", "price": "9"}, both) == {
        "title": Counts(right=1.0),
        "price": Counts(wrong=1.0),
    }
    assert score_record(record, {"title": "Trees", "price": None}, both) == {"title": Counts(right=1.0)}


@pytest.mark.parametrize("record", [None, "text", []])
def test_a_page_that_failed_misses_every_field(tmp_path: Path, record: Any) -> None:
    gold_record = record_of(tmp_path, {"title": "Trees"})
    assert score_record(gold_record, record, schema(title=TEXT)) == {"title": Counts(missed=1.0)}


def test_records_of_a_list_are_paired_and_a_partial_list_forgives_more(tmp_path: Path) -> None:
    items = [{"name": "Ash", "place": {"row": "1"}}, {"name": "Fir", "place": {"row": "2"}}]
    node = {"type": "object", "properties": {"row": TEXT}}
    listed = schema(items={"type": "array", "items": schema(name=TEXT, place=node)})
    usable = ["items.name", "items.place.row"]
    said = {"items": [items[1], {"name": "Ash", "place": {"row": "9"}}, {"name": "Oak", "place": {"row": None}}]}
    counts = score_record(record_of(tmp_path, {"items": items}, usable=usable), said, listed)
    assert counts["items.name"].right == pytest.approx(2 / 3)
    assert counts["items.name"].wrong == pytest.approx(1 / 3)
    assert counts["items.place.row"] == Counts(*map(pytest.approx, (1 / 3, 1 / 3, 1 / 3)))
    partial = record_of(tmp_path / "partial", {"items": items}, usable=usable, partial_list=True)
    assert score_record(partial, said, listed)["items.name"] == Counts(right=1.0)


def test_precision_recall_and_f1() -> None:
    counts = Counts(3, 1, 2)
    assert (counts.precision, counts.recall) == (0.75, 0.6)
    assert counts.f1 == pytest.approx(2 * 0.75 * 0.6 / 1.35)
    assert Counts().f1 == 0.0
