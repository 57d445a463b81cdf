from __future__ import annotations

import pytest

from fetchly.extraction.dates import parse_date


@pytest.mark.parametrize(
    ("span", "lang", "value"),
    [
        ("03/04/2024", "en", "2024-03-04"),
        ("03/04/2024", "en-GB", "2024-04-03"),
        ("03/04/2024", "de", "2024-04-03"),
        ("Posted on 03/04/2024 by Bob", "en-GB", "2024-04-03"),
        ("Posted on 03/04/2024 by Bob", "en", "2024-03-04"),
        ("12/05/2023", "pt-BR", "2023-05-12"),
        ("3. März 2024", "de", "2024-03-03"),
        ("Veröffentlicht am 3. März 2024 um 14:30 Uhr", "de", "2024-03-03"),
        ("March 3, 2024", "de", "2024-03-03"),
        ("2024-03-05", "en", "2024-03-05"),
        ("20240305", "en", "2024-03-05"),
        ("Updated 2024-03-05T10:00:00Z", "en", "2024-03-05"),
        ("2024年3月5日", "ja", "2024-03-05"),
        ("5 марта 2024 г.", "ru", "2024-03-05"),
        ("2023. március 5.", "hu", "2023-03-05"),
        ("05.03.2024", "no", "2024-03-05"),
        ("12 mars 2024", None, "2024-03-12"),
    ],
)
def test_dates(span: str, lang: str | None, value: str) -> None:
    found = parse_date(span, lang, "date")
    assert (found.value, found.remark) == (value, "")


@pytest.mark.parametrize("span", ["2 days ago", "yesterday", "March 2024", "2024", "May 5", "31.02.2024", "hello", ""])
def test_nothing_is_filled_in_from_today(span: str) -> None:
    assert parse_date(span, "en", "date").value is None


def test_an_unknown_order_is_told() -> None:
    found = parse_date("03/04/2024", None, "date")
    assert found.value == "2024-03-04"
    assert "other way round" in found.remark
    assert parse_date("13/04/2024", None, "date").remark == ""


def test_several_dates_are_told() -> None:
    assert parse_date("3 April 2024 and 5 May 2024", "en", "date").remark == "several dates; the first was taken"


def test_date_times_have_a_zone() -> None:
    full = parse_date("2024-03-05T14:30:00+01:00", "en", "date-time")
    assert (full.value, full.remark) == ("2024-03-05T14:30:00+01:00", "")
    local = parse_date("14 juillet 2023 à 15h30", "fr", "date-time")
    assert local.value == "2023-07-14T15:30:00Z"
    assert "UTC" in local.remark
    assert "midnight" in parse_date("14 juillet 2023", "fr", "date-time").remark


def test_times() -> None:
    assert parse_date("3:30 pm", "en", "time").value == "15:30:00Z"
    assert parse_date("3 April 2024", "en", "time").value is None


@pytest.mark.parametrize("span", ["2024-13-01", "2023-02-29", "2024-00-10"])
def test_a_day_that_the_calendar_lacks_is_not_read_in_another_order(span: str) -> None:
    assert parse_date(span, "en", "date").value is None
