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
        ("1 hodina a 20 minut", "cs", 80),
        ("1 hora y 20 minutos", "es", 80),
        ("1 hour(s), 20 minute(s)", "en", 80),
        ("1 hour and ½ minute", "en", 60.5),
        ("1 and 1/2 hours", "en", 90),
        ("1-1/2 hours", "en", 90),
        ("1 1/2 hours", "en", 90),
        ("1/2 hour", "en", 30),
        ("Total: 1:20 h", "en", 80),
        ("Serves 4, 30 min", "en", 30),
        ("3 h 20", "fr", 200),
    ],
)
def test_lengths_of_time(span: str, lang: str, minutes: float) -> None:
    found = parse_duration(span, lang, "minute")
    assert found.value == Decimal(str(minutes))
    assert found.remark == ""


LOWER_END = "a range; its lower end was taken"
FIRST = "several lengths of time; the first was taken"
SUM = "a sum; its parts were added"


@pytest.mark.parametrize(
    ("span", "lang", "minutes", "remark"),
    [
        ("10-15 min", "en", 10, LOWER_END),
        ("1 to 2 hours", "en", 60, LOWER_END),
        ("1 to 1½ hours", "en", 60, LOWER_END),
        ("30 minutes to 1 hour", "en", 30, LOWER_END),
        ("30 min – 1 h", "en", 30, LOWER_END),
        ("30 min -1 h", "en", 30, LOWER_END),
        ("30 Minuten bis 1 Stunde", "de", 30, LOWER_END),
        ("30 Min.-1 Std.", "de", 30, LOWER_END),
        ("1 Std. 20 Min. bis 2 Std.", "de", 80, LOWER_END),
        ("30 minutes à 1 heure", "fr", 30, LOWER_END),
        ("1h20-1h40", "fr", 80, LOWER_END),
        ("de 30 minutos a 1 hora", "es", 30, LOWER_END),
        ("da 30 minuti a 1 ora", "it", 30, LOWER_END),
        ("30 minuten tot 1 uur", "nl", 30, LOWER_END),
        ("30分〜1時間", "ja", 30, LOWER_END),
        ("1:20 - 1:40 h", "en", 80, LOWER_END),
        ("1 hr 15 - 30 min", "en", 75, LOWER_END),
        ("1 hour - 30 minutes", "en", 60, FIRST),
        ("between 30 and 45 minutes", "en", 30, FIRST),
        ("between 30 minutes and 1 hour", "en", 30, FIRST),
        ("between 1 hour and 90 minutes", "en", 60, FIRST),
        ("1 or 2 hours", "en", 60, FIRST),
        ("Prep 20 min, Cook 1 hr", "en", 20, FIRST),
        ("Prep 1 hr, Cook 20 min", "en", 60, FIRST),
        ("20 min, 30 min", "en", 20, FIRST),
        ("45 min + 15 min", "en", 60, SUM),
        ("1 hr plus 30 min", "en", 90, SUM),
        ("20 min + 1 hr", "en", 80, SUM),
    ],
)
def test_of_several_lengths_the_choice_is_told(span: str, lang: str, minutes: float, remark: str) -> None:
    found = parse_duration(span, lang, "minute")
    assert (found.value, found.remark) == (minutes, remark)
    assert parse_iso_duration(span, lang).remark == remark


def test_a_range_whose_lower_end_may_have_either_unit_is_no_length() -> None:
    assert parse_duration("30-1 hour", "en", "minute").value is None
    assert parse_iso_duration("30-1 hour", "en").value is None


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
        ("-30 min", "en", None),
        ("30 minutes to 1 hour", "en", "PT30M"),
        ("soon", "en", None),
        ("½ month", "en", None),
    ],
)
def test_iso_durations(span: str, lang: str, value: str | None) -> None:
    found = parse_iso_duration(span, lang).value
    assert found == value
    if found is not None:
        assert jsonschema_rs.is_valid({"format": "duration"}, found, validate_formats=True)
