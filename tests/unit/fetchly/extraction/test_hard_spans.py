"""Spans that shops, newspapers and recipes write, each with the value that its reader would give."""

from __future__ import annotations

from typing import Any

import pytest

from fetchly.extraction.conventions import SILENT, Conventions
from fetchly.extraction.page_context import PageContext
from fetchly.extraction.span_values import read_span

COMMA = Conventions(decimal=",")
NUMBERS: list[tuple[str, str | None, Conventions, str, float | None]] = [
    ("€ 1.299,00", "en", SILENT, "number", 1299),
    ("€1.299", "en", SILENT, "number", 1299),
    ("1.500", "en", COMMA, "number", 1500),
    ("1,500", "en", COMMA, "number", 1.5),
    ("1,299.00", "de", SILENT, "number", 1299),
    ("1 299 Kč", "cs", SILENT, "number", 1299),
    ("1\u202f299,90\u00a0€", "fr", SILENT, "number", 1299.9),
    ("kr 2 000,-", "nb", SILENT, "number", 2000),
    ("1.299,–", "de", SILENT, "number", 1299),
    ("CHF 1’299.50", "de-CH", SILENT, "number", 1299.5),
    ("10.000₫", "vi", SILENT, "number", 10000),
    ("₹1,23,456.50", "en-IN", SILENT, "number", 123456.5),
    ("₹ 2.5 crore", "en", SILENT, "number", 25_000_000),
    ("$12.5k", "en", SILENT, "number", 12500),
    ("£1.2bn", "en", SILENT, "number", 1_200_000_000),
    ("1,5 Mio.", "de", SILENT, "number", 1_500_000),
    ("1,5 Mio €", "de", SILENT, "number", 1_500_000),
    ("2,3 млн руб.", "ru", SILENT, "number", 2_300_000),
    ("from $12", "en", SILENT, "number", 12),
    ("ab 12,50 €*", "de", SILENT, "number", 12.5),
    ("-$12.50", "en", SILENT, "number", -12.5),
    ("−12,50 €", "de", SILENT, "number", -12.5),
    ("$0.125/oz", "en", SILENT, "number", 0.125),
    ("½", "en", SILENT, "number", 0.5),
    ("3¾", "en", SILENT, "number", 3.75),
    ("1 1/2 cups", "en", SILENT, "number", 1.5),
    ("12 %", "de", SILENT, "number", 12),
    ("(1,234 reviews)", "en", SILENT, "integer", 1234),
    ("4.0", "en", SILENT, "integer", 4),
    ("4.5", "en", SILENT, "integer", None),
    ("١٬٢٣٤٫٥٠ ر.س", "ar", SILENT, "number", 1234.5),
    ("१,२३,४५६", "hi", SILENT, "number", 123456),
    ("１，２３４円", "ja", SILENT, "number", 1234),
    ("3万円", "ja", SILENT, "number", 30000),
    ("Free", "en", SILENT, "number", None),
    ("kostenlos", "de", SILENT, "number", None),
    ("N/A", "en", SILENT, "number", None),
    ("12.05.2024", "de", SILENT, "number", None),
]


@pytest.mark.parametrize(("span", "lang", "conventions", "kind", "value"), NUMBERS)
def test_numbers(span: str, lang: str | None, conventions: Conventions, kind: Any, value: float | None) -> None:
    found = read_span({"type": kind}, kind, span, PageContext(lang, conventions))
    assert found.value == value
    assert found.remark == ("" if span != "€1.299" else "the point was read as grouping thousands")


@pytest.mark.parametrize(
    ("span", "lang", "value", "remark"),
    [
        ("12,50 € statt 19 €", "de", 12.5, "several numbers"),
        ("$10 – $20", "en", 10, "range"),
        ("€ 10–20", "en", 10, "range"),
        ("10 bis 12", "de", 10, "range"),
        ("4.5 out of 5", "en", 4.5, "several numbers"),
        ("4,5/5", "de", 4.5, "several numbers"),
        ("1.500", None, 1.5, "other way round"),
        ("1,500 €", None, 1500, "other way round"),
    ],
)
def test_what_was_open_is_told(span: str, lang: str | None, value: float, remark: str) -> None:
    found = read_span({"type": "number"}, "number", span, PageContext(lang))
    assert found.value == value
    assert remark in found.remark


def test_of_several_numbers_the_price_is_taken_without_a_word() -> None:
    found = read_span({"type": "number"}, "number", "iPhone 12 599,00 €", PageContext("de"))
    assert (found.value, found.remark) == (599, "")
