from __future__ import annotations

from decimal import Decimal

import pytest

from fetchly.extraction.numbers import ParsedNumber, locale_of, numbers_in, parse_number


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


@pytest.mark.parametrize(
    ("span", "lang", "value"),
    [
        ("-EUR12.50", "en", "-12.50"),
        ("-EUR 12,50", "de", "-12.50"),
        ("EUR -12.50", "en", "-12.50"),
        ("EUR-12.50", "en", "-12.50"),
        ("-$12.50", "en", "-12.50"),
        ("-US$5", "en", "-5"),
        ("$-5", "en", "-5"),
        ("-€ 5", "en", "-5"),
        ("−€5", "en", "-5"),
        ("kr -500", "nb", "-500"),
        ("-500 kr", "nb", "-500"),
        ("(-$5)", "en", "-5"),
        ("SKU-12", "en", "12"),
        ("- 5", "en", "5"),
    ],
)
def test_signs(span: str, lang: str, value: str) -> None:
    assert parse_number(span, lang) == ParsedNumber(Decimal(value))


@pytest.mark.parametrize("span", ["5€-10€", "5 € -10 €", "$5-$10", "EUR 5-EUR 10", "5 EUR - 10 EUR"])
def test_a_dash_between_prices_is_no_sign(span: str) -> None:
    assert [number.value for number in numbers_in(span, "en")] == [5, 10]
    assert parse_number(span, "en") == ParsedNumber(Decimal(5), "a range; its lower end was taken")


@pytest.mark.parametrize("span", ["(12.50)", "($12.50)", "$(12.50)", "(€ 5)", "(12.50 EUR)"])
def test_an_amount_in_parentheses_may_be_negative(span: str) -> None:
    found = parse_number(span, "en")
    assert found.value == Decimal("5" if "5)" in span and "." not in span else "12.50")
    assert found.remark == "in parentheses, as accounts write negative amounts; a positive one was taken"


@pytest.mark.parametrize("span", ["(1,234)", "(12)", "(12.50 per kg, $3 off)"])
def test_other_parentheses_say_nothing(span: str) -> None:
    assert "parentheses" not in parse_number(span, "en").remark


@pytest.mark.parametrize(
    ("span", "lang", "value", "remark"),
    [
        ("$5 bn", "en", 5 * 10**9, ""),
        ("5 bn", "en", 5 * 10**9, ""),
        ("£1.2BN", "en", 12 * 10**8, ""),
        ("3 tn", "en", 3 * 10**12, ""),
        ("$5 Billion", "en", 5 * 10**9, ""),
        ("5 MILLION", "en", 5 * 10**6, ""),
        ("5 Tsd. €", "de", 5000, ""),
        ("5 mld zł", "pl", 5 * 10**9, ""),
        ("3 M€", "fr", 3 * 10**6, ""),
        ("1,5 Md€", "fr", 15 * 10**8, ""),
        ("₹5 cr", "en", 5 * 10**7, ""),
        ("12 k", "en", 12000, "“k” was read as thousand"),
        ("5 k EUR", "de", 5000, "“k” was read as thousand"),
        ("€2.5 m", "en", 25 * 10**5, "“m” was read as million"),
        ("€2.5m", "en", 25 * 10**5, "“m” was read as million"),
        ("$5 B", "en", 5 * 10**9, "“B” was read as billion (10^9)"),
        ("5 m", "en", 5, ""),
        ("5 t", "en", 5, ""),
        ("5 K", "en", 5, ""),
        ("€5 m²", "en", 5, ""),
        ("$5 T-shirt", "en", 5, ""),
        ("5 min", "en", 5, ""),
        ("5 km", "en", 5, ""),
    ],
)
def test_magnitudes(span: str, lang: str, value: int, remark: str) -> None:
    assert parse_number(span, lang) == ParsedNumber(Decimal(value), remark)


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
