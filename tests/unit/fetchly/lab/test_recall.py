from pathlib import Path
from typing import Any

import pytest

from fetchly.document.reader import ReadOptions, read_document
from fetchly.errors import DocumentError
from fetchly.goods import Document, Page
from fetchly.lab.dataset import Dataset
from fetchly.lab.presence import ShownText
from fetchly.lab.reading import SetReader
from fetchly.lab.recall import SetRecall, measure_recall, table, wanted_values
from tests.support.tiny_dataset import RECORDS, SCHEMA, build, gold

WORDS = "words of no account " * 30


def words(texts: list[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def shown(*blocks: str, lang: str | None = "en", gap_before: int | None = None) -> ShownText:
    return ShownText(blocks, [index != gap_before for index in range(len(blocks))], lang)


@pytest.mark.parametrize(
    ("kind", "gold_value", "block", "stands"),
    [
        ("string", "The “Old” Mill", "at the \"old\" mill.", True),
        ("string", "Mill", "Windmills", False),
        ("string", "Anna-Lena", "by Anna Lena today", True),
        ("string", "AB 12-3", "AB123 in stock", True),
        ("string", "C++", "the C language", False),
        ("string", "C++", "the C++ language", True),
        ("string", ["No. 7", "No. 8"], "it is no. 8", True),
        ("string", "東京", "私は東京都に住む", True),
        ("number", 1234.5, "nur 1.234,50 €", True),
        ("number", 34, "nur 1.234,50 €", False),
        ("number", 200, "in 10 200 g packs", True),
        ("date", "2020-03-12", "Do, 12. März 2020", True),
        ("date", "2020-03-12", "12.3.20", True),
        ("date", "2020-03-12", "3/12/2020 10:15", True),
        ("date", "2020-03-12", "March 13, 2020", False),
        ("date", "2020-03-12", "12 people came in May 2020", False),
        ("date", "2020-03-12", "20200312", True),
        ("date", "2020-03", "in March 2020", True),
        ("minutes", 80, "Total: 1 hr 20 mins", True),
        ("minutes", 80, "2 hours hrs 20 minutes mins", False),
        ("minutes", 140, "2 hours hrs 20 minutes mins", True),
        ("minutes", 90, "1 1/2 hours", True),
        ("minutes", 80, "PT1H20M", True),
        ("minutes", 80, "1:20", True),
        ("minutes", 80, "80", True),
        ("minutes", 80, "mix 80 g of flour with a pinch of salt and stir well", False),
        ("yield", "4 servings", "Serves 4", True),
        ("yield", "4 servings", "4 cups of flour", False),
        ("currency", "EUR", "€ 12", True),
        ("currency", "EUR", "12 EUR", True),
        ("currency", "SEK", "12 apples and a krona", False),
        ("text", "a b c d e f g h i j", "A b c d e f g h i.", True),
        ("text", "a b c d e f g h i j", "a b c", False),
    ],
)  # fmt: skip
def test_a_value_stands_in_the_shown_text(kind: Any, gold_value: Any, block: str, stands: bool) -> None:
    assert shown("before", block, "after").share(kind, False, gold_value) == float(stands)


def test_month_names_are_those_of_the_pages_language() -> None:
    assert shown("12 března 2020", lang="cs").share("date", False, "2020-03-12") == 1
    assert shown("12 března 2020", lang="en").share("date", False, "2020-03-12") == 0


def test_entries_share_a_list_and_names_are_entries() -> None:
    text = shown("by Ada Low", "ash and beech")
    assert text.share("string", True, ["ash", "beech", "cedar", "fir"]) == 0.5
    assert text.missing("string", True, ["ash", "cedar"]) == ["cedar"]
    assert text.share("names", False, "Ada Low and Bo Ek") == 0.5


def test_a_text_may_run_over_blocks_but_not_over_a_gap() -> None:
    assert shown("first line", "second line").share("string", False, "First line second line") == 1
    assert shown("first line", "second line", gap_before=1).share("string", False, "First line second line") == 0


def test_wanted_are_the_values_marked_as_text_of_fields_that_the_schema_has(tmp_path: Path) -> None:
    expected = {"title": "T", "price": 1, "topics": ["a"], "body": "b"}
    marks = {"title": "text", "price": "html", "topics": "html:1/2", "body": "text"}
    record = Dataset.open(build(tmp_path, [gold("ferry", expected, verbatim=marks)])).records()[0]
    assert [value.field for value in wanted_values(record, SCHEMA)] == ["title"]


def test_the_records_of_a_list_share_one_field(tmp_path: Path) -> None:
    items = [{"name": "Ash"}, {"name": "Fir"}, {"name": None}]
    text = {"type": ["string", "null"]}
    listed = {
        "type": "object",
        "properties": {"items": {"type": "array", "items": {"properties": {"name": text, "no": text}}}},
    }
    line = gold("ferry", {"items": items}, verbatim={"items.name": 1.0, "items.no": 0.5}) | {
        "usable": ["items.name", "items.no"]
    }
    record = Dataset.open(build(tmp_path, [line])).records()[0]
    assert [(v.field, v.gold, v.weight) for v in wanted_values(record, listed)] == [
        ("items.name", "Ash", 0.5),
        ("items.name", "Fir", 0.5),
    ]


def measured(tmp_path: Path, budget: int) -> SetRecall:
    run = measure_recall(Dataset.open(build(tmp_path / "notices")), [budget], SetReader(read_document), words)
    assert len(run.rows) == 1
    return run.rows[0]


def test_recall_of_a_set(tmp_path: Path) -> None:
    row = measured(tmp_path, 1000)
    assert row.documents == 2  # the other pages have no value that is marked
    assert row.total.values == 7
    assert (row.total.chosen, row.total.beginning, row.total.whole) == (1, 1, 1)
    line = row.row()
    assert {key: line[key] for key in ("bench", "set", "budget", "default", "recall", "documents")} == {
        "bench": "recall", "set": "notices", "budget": 1000, "default": False, "recall": 1.0, "documents": 2,
    }  # fmt: skip
    assert line["fields"] == {"price": 1.0, "published_date": 1.0, "title": 1.0, "topics": 1.0}
    assert any("notices" in text and "1.000" in text for text in table([row]))


def test_a_small_budget_loses_values_and_says_which(tmp_path: Path) -> None:
    folder = build(tmp_path / "notices", [RECORDS[0]])
    page = f"<h1>Ferry</h1><p>{WORDS}</p><p>Posted on 3 May 2021.</p><p>{WORDS}</p><p>It costs $2.50.</p>"
    (folder / "html" / "ferry.html.gz").unlink()
    (folder / "html" / "ferry.html").write_text(page, "utf-8")
    run = measure_recall(Dataset.open(folder), [130, 1000], SetReader(read_document), words)
    small, large = run.rows
    assert small.total.beginning < large.total.beginning == 0.5
    assert large.total.whole == small.total.whole == 0.5
    at_small = {(lost.field, lost.text): lost.loss for lost in run.lost if lost.budget == 130}
    assert at_small["title", "the ferry runs again"] == "not in the document"
    assert at_small["topics", "river"] == "not in the document"
    beginning = [field.field for field in small.fields if field.beginning == 0]
    assert "price" in beginning


def test_a_page_that_cannot_be_read_loses_its_values_and_stops_nothing(tmp_path: Path) -> None:
    def reads_no_ferry(page: Page, options: ReadOptions) -> Document:
        if "ferry" in page.requested:
            raise DocumentError("unreadable")
        return read_document(page, options)

    run = measure_recall(Dataset.open(build(tmp_path / "notices")), [1000], SetReader(reads_no_ferry), words)
    row = run.rows[0]
    assert (row.documents, row.unread) == (2, 1)
    assert row.total.chosen == pytest.approx(3 / 7)
    assert {lost.loss for lost in run.lost} == {"the page was not read"}
    assert [error.message for error in run.errors] == ["unreadable"]
