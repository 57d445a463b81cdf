from __future__ import annotations

from decimal import Decimal

import pytest

from fetchly.extraction.numbers import locale_of, parse_number


@pytest.mark.parametrize(
    ("span", "lang", "value"),
    [
        ("1.234,56 €", "de", "1234.56"),
        (".5", "en", "0.5"),
        ("-.5", "en", "-0.5"),
        ("$.50", "en", "0.50"),
        ("1,234", "en", "1234"),
        ("1,234", "de", "1.234"),
        ("1.234", "de", "1234"),
        ("1.234", "en", "1.234"),
        ("1.234", "fr", "1234"),
        ("4.5", "de", "4.5"),
        ("4,5", "en", "4.5"),
        ("1.234.567", "en", "1234567"),
        ("0.500", "de", "0.500"),
        ("1 234,50 zł", "pl", "1234.50"),
        ("1\u00a0234", "en", "1234"),
        ("1'234.50 CHF", "de-CH", "1234.50"),
        ("1’234.50", "de", "1234.50"),
        ("१,२३,४५६", "hi", "123456"),
        ("٣٫٥", "ar", "3.5"),
        ("１２", "ja", "12"),
        ("12 %", "de", "12"),
        ("−5 °C", "en", "-5"),
        ("A-3", "en", "3"),
        ("1.299,-", "de", "1299"),
        ("1½", "en", "1.5"),
        ("½ cup", "en", "0.5"),
        ("1 1/2", "en", "1.5"),
        ("2 Mio. €", "de", "2000000"),
        ("1.2K", "en", "1200"),
        ("3万", "zh", "30000"),
        ("5 M", "en", "5"),
        ("(1,234 ratings)", "en", "1234"),
        ("iPhone 12 599,00 €", "de", "599"),
        ("3.14", "xx-unknown", "3.14"),
        ("3.14", None, "3.14"),
    ],
)
def test_numbers(span: str, lang: str | None, value: str) -> None:
    found = parse_number(span, lang)
    assert found.value == Decimal(value)
    assert found.remark == ""


@pytest.mark.parametrize("span", ["free", "", "—", "vier", "12.5.2024"])
def test_no_number(span: str) -> None:
    assert parse_number(span, "de").value is None


def test_several_numbers_are_told() -> None:
    assert parse_number("10-15", "en").remark == "a range; its lower end was taken"
    assert parse_number("4.5 out of 5", "en").remark == "several numbers; the first was taken"
    assert parse_number("4.5 out of 5", "en").value == Decimal("4.5")
    assert parse_number("Rated 4/5", "en").value == 4


def test_languages_fall_back_to_english() -> None:
    assert locale_of("pt_BR").territory == "BR"
    assert locale_of("zz-nowhere").language == "en"
    assert locale_of(None).language == "en"
