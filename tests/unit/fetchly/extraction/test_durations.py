from __future__ import annotations

from decimal import Decimal

import jsonschema_rs
import pytest

from fetchly.extraction.durations import parse_duration, parse_iso_duration


@pytest.mark.parametrize(
    ("span", "lang", "minutes"),
    [
        ("1 hr 20 min", "en", 80),
        ("PT15M", "en", 15),
        ("PT1H20M", "de", 80),
        ("P1DT1H", "en", 1500),
        ("1 Std. 20 Min.", "de", 80),
        ("1:20 h", "de", 80),
        ("1:02:30", "en", 62.5),
        ("3:30 min", "en", 3.5),
        ("90", "en", 90),
        ("1h30", "fr", 90),
        ("1h 30m", "de", 90),
        ("1 t 20 min", "nb", 80),
        ("1,5 Stunden", "de", 90),
        ("1½ hours", "en", 90),
        ("1 uur en 10 minuten", "nl", 70),
        ("20 минут", "ru", 20),
        ("1時間20分", "ja", 80),
        ("Prep: 20 min", "en", 20),
        ("ca. 15 Minuten", "de", 15),
        ("2 weeks", "en", 20160),
        ("20'", "it", 20),
    ],
)
def test_lengths_of_time(span: str, lang: str, minutes: float) -> None:
    found = parse_duration(span, lang, "minute")
    assert found.value == Decimal(str(minutes))
    assert found.remark == ""


def test_a_range_of_time_is_not_a_sum() -> None:
    assert parse_duration("10-15 min", "en", "minute").value == 10
    assert parse_duration("1 to 2 hours", "en", "minute").value == 60
    assert parse_duration("10-15 min", "en", "minute").remark


def test_other_units() -> None:
    assert parse_duration("90 min", "en", "hour").value == Decimal("1.5")
    assert parse_duration("nothing", "en", "hour").value is None
    assert parse_duration("2 Jahre", "de", "month").value == 24
    assert parse_duration("18 months", "en", "year").value == Decimal("1.5")


@pytest.mark.parametrize(("span", "unit"), [("3 months", "day"), ("3 months", "minute"), ("90 days", "month")])
def test_a_month_has_no_fixed_length(span: str, unit: object) -> None:
    assert parse_duration(span, "en", unit).value is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("span", "lang", "value"),
    [
        ("1 hr 20 min", "en", "PT1H20M"),
        ("80 min", "en", "PT1H20M"),
        ("PT80M", "en", "PT1H20M"),
        ("P1Y2M", "en", "P1Y2M"),
        ("2 weeks", "en", "P14D"),
        ("P2W", "en", "P14D"),
        ("1 Jahr", "de", "P1Y"),
        ("1 hour 5 seconds", "en", "PT1H0M5S"),
        ("1 year 5 days", "en", "P1Y0M5D"),
        ("1 day 2 hours", "en", "P1DT2H"),
        ("1:30 h", "de", "PT1H30M"),
        ("0 min", "en", "PT0S"),
        ("1½ hours", "en", "PT1H30M"),
        ("90", "en", None),
        ("soon", "en", None),
        ("½ month", "en", None),
    ],
)
def test_iso_durations(span: str, lang: str, value: str | None) -> None:
    found = parse_iso_duration(span, lang).value
    assert found == value
    if found is not None:
        assert jsonschema_rs.is_valid({"format": "duration"}, found, validate_formats=True)
