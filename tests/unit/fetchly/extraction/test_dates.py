from __future__ import annotations

import pytest

from fetchly.extraction.conventions import Conventions
from fetchly.extraction.dates import parse_date
from fetchly.extraction.written_date import RANGE_TAKEN


@pytest.mark.parametrize(
    ("span", "lang", "value"),
    [
        ("03/04/2024", "en-US", "2024-03-04"),
        ("03/04/2024", "en-GB", "2024-04-03"),
        ("03/04/2024", "de", "2024-04-03"),
        ("Posted on 03/04/2024 by Bob", "en-GB", "2024-04-03"),
        ("Posted on 03/04/2024 by Bob", "en-US", "2024-03-04"),
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


@pytest.mark.parametrize("lang", [None, "en"])
def test_an_unknown_order_is_told(lang: str | None) -> None:
    """English alone is no order: London and New York write it."""
    found = parse_date("03/04/2024", lang, "date")
    assert found.value == "2024-03-04"
    assert "other way round" in found.remark
    for clear in ("13/04/2024", "04/13/2024", "04/04/2024", "2024/03/04"):
        assert parse_date(clear, lang, "date").remark == ""


@pytest.mark.parametrize(
    ("span", "lang", "value", "remark"),
    [
        ("12–14 March 2024", "en", "2024-03-12", RANGE_TAKEN),
        ("March 12–14, 2024", "en", "2024-03-12", RANGE_TAKEN),
        ("12. bis 14. März 2024", "de", "2024-03-12", RANGE_TAKEN),
        ("28 February – 3 March 2024", "en", "2024-02-28", RANGE_TAKEN),
        ("28 Dec – 3 Jan 2024", "en", "2023-12-28", RANGE_TAKEN),
        ("12.-14.03.2024", "de", "2024-03-12", RANGE_TAKEN),
        ("12/03 - 14/03/2024", "en-GB", "2024-03-12", RANGE_TAKEN),
        ("12/03/2024 - 14/03/2024", "en-GB", "2024-03-12", RANGE_TAKEN),
        ("3 March 2024 to 5 April 2024", "en", "2024-03-03", RANGE_TAKEN),
        ("12 and 13 March 2024", "en", "2024-03-12", "several days; the first was taken"),
        ("3 April 2024 and 5 May 2024", "en", "2024-04-03", "several dates; the first was taken"),
        ("3 April 2024 (2024-04-03)", "en", "2024-04-03", ""),
    ],
)
def test_of_several_days_the_first_is_taken(span: str, lang: str, value: str, remark: str) -> None:
    found = parse_date(span, lang, "date")
    assert (found.value, found.remark) == (value, remark)


@pytest.mark.parametrize(
    ("span", "lang", "value"),
    [
        ("12 มีนาคม พ.ศ. 2567", "th", "2024-03-12"),
        ("12/03/2567", "th", "2024-03-12"),
        ("2567-03-12", "th", "2024-03-12"),
        ("1403/05/12", "fa", "2024-08-02"),
        ("۱۲ مرداد ۱۴۰۳", "fa", "2024-08-02"),
        ("1403/01/01", "fa", "2024-03-20"),
        ("1399/12/30", "fa", "2021-03-20"),
        ("1404/01/01", "fa", "2025-03-21"),
        ("1298/12/29", "fa", "1920-03-20"),
        ("令和6年5月1日", "ja", "2024-05-01"),
        ("令和元年5月1日", "ja", "2019-05-01"),
        ("平成31年4月30日", "ja", "2019-04-30"),
        ("昭和64年1月7日", "ja", "1989-01-07"),
        ("民國113年5月1日", "zh-TW", "2024-05-01"),
    ],
)
def test_other_calendars_are_converted_and_told(span: str, lang: str, value: str) -> None:
    found = parse_date(span, lang, "date")
    assert found.value == value
    assert "converted" in found.remark


@pytest.mark.parametrize(
    ("span", "lang"),
    [
        ("12 رمضان 1445", "ar"),
        ("1445/09/12", "ar"),
        ("1445/09/12 هـ", "fa"),
        ("1403/07/31", "fa"),
        ("1402/12/30", "fa"),
    ],
)
def test_islamic_dates_and_impossible_ones_are_not_read_as_gregorian(span: str, lang: str) -> None:
    assert parse_date(span, lang, "date").value is None


@pytest.mark.parametrize(
    ("span", "lang", "value"),
    [
        ("Sept. 3rd, 2024", "en", "2024-09-03"),
        ("the 3rd of March, 2024", "en", "2024-03-03"),
        ("3-Mar-24", "en", "2024-03-03"),
        ("3 Mar '24", "en", "2024-03-03"),
        ("Mar 3 '24", "en", "2024-03-03"),
        ("3 Mar 98", "en", "1998-03-03"),
        ("03.04.24", "de", "2024-04-03"),
        ("24/03/05", "ja", "2024-03-05"),
        ("3. 4. 2024", "cs", "2024-04-03"),
        ("1er avril 2024", "fr", "2024-04-01"),
        ("12 marzo 2024", "en", "2024-03-12"),
        ("12 listopada 2024", "pl", "2024-11-12"),
        ("12. listopada 2024.", "hr", "2024-10-12"),
        ("ngày 5 tháng 3 năm 2024", "vi", "2024-03-05"),
        ("5 Tháng 12, 2024", "vi", "2024-12-05"),
        ("2024년 3월 5일", "ko", "2024-03-05"),
        ("5 במרץ 2024", "he", "2024-03-05"),
        ("2024(e)ko martxoaren 5(a)", "eu", "2024-03-05"),
        ("5 de març del 2024", "ca", "2024-03-05"),
        ("٥ مارس ٢٠٢٤", "ar", "2024-03-05"),
        ("Fri, 05 Jul 2024 10:00:00 +0200", "en", "2024-07-05"),
    ],
)
def test_forms_of_many_languages(span: str, lang: str, value: str) -> None:
    found = parse_date(span, lang, "date")
    assert (found.value, found.remark) == (value, "")


@pytest.mark.parametrize(
    ("span", "lang"),
    [
        ("vor 2 Tagen", "de"),
        ("hace 3 días", "es"),
        ("1710000000", "en"),
        ("1710000000000", "en"),
        ("Version 1.2.3.2024", "en"),
        ("12 listopada 2024", None),
        ("45 March 2024", "en"),
        ("13/13/2024", "en"),
        ("20241305", "en"),
        ("2024-W10", "en"),
    ],
)
def test_what_is_no_date(span: str, lang: str | None) -> None:
    assert parse_date(span, lang, "date").value is None


def test_dots_write_the_day_first() -> None:
    found = parse_date("03.04.2024", "en", "date")
    assert (found.value, "between dots" in found.remark) == ("2024-04-03", True)
    assert parse_date("03.04.2024", "en", "date", Conventions(order="MDY")).value == "2024-03-04"


def test_date_times_have_a_zone() -> None:
    full = parse_date("2024-03-05T14:30:00+01:00", "en", "date-time")
    assert (full.value, full.remark) == ("2024-03-05T14:30:00+01:00", "")
    local = parse_date("14 juillet 2023 à 15h30", "fr", "date-time")
    assert local.value == "2023-07-14T15:30:00Z"
    assert "UTC" in local.remark
    assert "midnight" in parse_date("14 juillet 2023", "fr", "date-time").remark


@pytest.mark.parametrize(
    ("span", "lang", "value"),
    [
        ("3. September 2024 um 14:30 Uhr", "de", "2024-09-03T14:30:00Z"),
        ("3. September 2024, 14 Uhr", "de", "2024-09-03T14:00:00Z"),
        ("3 september 2024 kl. 14.30", "sv", "2024-09-03T14:30:00Z"),
        ("Tuesday, March 5, 2024 3:30 PM EST", "en", "2024-03-05T15:30:00-05:00"),
        ("5th March 2024, 3.30 p.m.", "en", "2024-03-05T15:30:00Z"),
        ("5 March 2024 12 am", "en", "2024-03-05T00:00:00Z"),
        ("2024年3月5日(火) 午後2時30分", "ja", "2024-03-05T14:30:00Z"),
        ("Fri, 05 Jul 2024 10:00:00 +0200", "en", "2024-07-05T10:00:00+02:00"),
        ("5 July 2024 10:00 UTC+5:30", "en", "2024-07-05T10:00:00+05:30"),
        ("2024-03-05T10:00:00.123+01:00", "en", "2024-03-05T10:00:00.123000+01:00"),
        ("2024-03-05 14:30", "en", "2024-03-05T14:30:00Z"),
        ("2024-03-05T25:00:00Z", "en", None),
        ("5 March 2024 14:30 IST", "en", "2024-03-05T14:30:00Z"),
    ],
)
def test_date_times(span: str, lang: str, value: str | None) -> None:
    found = parse_date(span, lang, "date-time")
    assert found.value == value
    if value and value.endswith("Z"):
        assert "UTC was taken" in found.remark


@pytest.mark.parametrize(
    ("span", "value"),
    [
        ("3:30 pm", "15:30:00Z"),
        ("14h30", "14:30:00Z"),
        ("14 Uhr", "14:00:00Z"),
        ("um 14.30", "14:30:00Z"),
        ("10:00:05 +02:00", "10:00:05+02:00"),
        ("10:00 - 12:00", "10:00:00Z"),
        ("3 April 2024", None),
        ("13 pm", None),
        ("25:00", None),
        ("12.50 €", None),
    ],
)
def test_times(span: str, value: str | None) -> None:
    assert parse_date(span, "en", "time").value == value


@pytest.mark.parametrize("span", ["2024-13-01", "2023-02-29", "2024-00-10", "2024-13-01T10:00:00Z"])
def test_a_day_that_the_calendar_lacks_is_not_read_in_another_order(span: str) -> None:
    assert parse_date(span, "en", "date").value is None
    assert parse_date(span, "en", "date-time").value is None
