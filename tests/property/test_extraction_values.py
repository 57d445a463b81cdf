"""Numbers and dates as each language writes them come back; evidence points exactly at what it says."""

from __future__ import annotations

import datetime
import time
from decimal import Decimal
from typing import Any

import jsonschema_rs
import pytest
from babel.dates import format_date
from babel.numbers import format_decimal
from hypothesis import given, settings
from hypothesis import strategies as st

from fetchly.extraction.conventions import SILENT, Conventions
from fetchly.extraction.dates import parse_date
from fetchly.extraction.durations import parse_duration
from fetchly.extraction.grounding import Grounder
from fetchly.extraction.month_names import COMMON_LANGUAGES
from fetchly.extraction.numbers import parse_number
from fetchly.extraction.page_context import PageContext, page_context
from fetchly.extraction.span_values import read_span
from fetchly.extraction.text_search import fold
from fetchly.goods import Link
from tests.support.documents import make_document

LANGUAGES = [
    "en",
    "de",
    "fr",
    "es",
    "it",
    "pt-BR",
    "nl",
    "sv",
    "pl",
    "cs",
    "ru",
    "de-CH",
    "en-IN",
    "ja",
    "tr",
    "fi",
    "da",
]
HABITS = [SILENT, Conventions(","), Conventions(".", True), Conventions(order="DMY", mixed_orders=True)]
FORMS: dict[Any, dict[str, Any]] = {
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "date": {"type": "string", "format": "date"},
    "date-time": {"type": "string", "format": "date-time"},
    "time": {"type": "string", "format": "time"},
    "duration": {"type": "string", "format": "duration"},
    "email": {"type": "string", "format": "email"},
    "link": {"type": "string", "format": "uri"},
    "verbatim": {"type": "string"},
}
VALIDATORS = {
    kind: jsonschema_rs.validator_for(schema, validate_formats=True, offline=True) for kind, schema in FORMS.items()
}
WORDS = st.text(alphabet="ab ÄÖß'’“”\u00a0½-ıİé\u0301日本1", min_size=1, max_size=12)


@settings(deadline=None, max_examples=400)
@given(st.decimals(min_value=Decimal(-(10**9)), max_value=Decimal(10**9), places=2), st.sampled_from(LANGUAGES))
def test_numbers_round_trip(number: Decimal, lang: str) -> None:
    written = format_decimal(number, locale=lang.replace("-", "_"), format=None, decimal_quantization=False)
    assert parse_number(written, lang).value == number
    assert parse_number(f"({written})", lang).value == abs(number) or number < 0


@settings(deadline=None, max_examples=100)
@given(
    st.integers(1, 47),
    st.integers(1, 59),
    st.sampled_from(["{h} h {m} min", "{h} hr {m} min", "PT{h}H{m}M", "{h}h{m}"]),
)
def test_durations_add_up(hours: int, minutes: int, form: str) -> None:
    assert parse_duration(form.format(h=hours, m=minutes), "en", "minute").value == 60 * hours + minutes


@settings(deadline=None, max_examples=150)
@given(
    st.dates(datetime.date(1980, 1, 1), datetime.date(2035, 12, 31)),
    st.sampled_from([*COMMON_LANGUAGES, "ja", "zh", "ko", "is", "hy", "ka", "mk", "sq", "sw", "af", "cy", "ga", "ta"]),
    st.sampled_from(["long", "full"]),
)
def test_written_dates_round_trip(day: datetime.date, lang: str, form: Any) -> None:
    """In every common language and some others; the Thai year is that of its own calendar in CLDR's pattern alone."""
    found = parse_date(format_date(day, form, locale=lang), lang, "date")
    assert (found.value, found.remark) == (day.isoformat(), "")


@settings(deadline=None, max_examples=200)
@given(st.dates(datetime.date(1980, 1, 1), datetime.date(2035, 12, 31)), st.sampled_from(LANGUAGES))
def test_short_dates_round_trip(day: datetime.date, lang: str) -> None:
    written = format_date(day, "short", locale=lang.replace("-", "_"))
    found = parse_date(written, lang, "date")
    assert found.value == day.isoformat()
    assert bool(found.remark) == (lang == "en" and day.day <= 12 and day.day != day.month)


SPANS = ["15/4/2019", "12 mars 2024", "3:30 pm", "March 5, 2024 10:00 EST", "yesterday", "1.500", "PT5M", "5.3.24"]


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "America/New_York", "Pacific/Kiritimati"])
def test_values_know_neither_today_nor_the_machine_s_zone(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def values() -> list[object]:
        context = PageContext("en")
        kinds: list[Any] = ["date", "date-time", "time", "number", "duration"]
        return [read_span({}, kind, span, context) for kind in kinds for span in SPANS]

    before = values()
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert values() == before
    finally:
        monkeypatch.undo()
        time.tzset()


PIECES = [
    "3", "12", "2024", "'24", "0", "31", "99", "March", "Mar", "mars", "-", "/", ".", ", ", " ", "to", "th",
    "令和", "元年",
    "พ.ศ.", "هـ", "T10:00", "Z", "pm", "h", "min", "€", "k", "L1", "@", "a.b",
]  # fmt: skip
TEXTS = st.one_of(
    st.text(max_size=30),
    st.text("0123456789 .,-/:'年月日PTHMS%€½万", max_size=24),
    st.lists(st.sampled_from(PIECES), max_size=9).map("".join),
)


@settings(deadline=None, max_examples=300)
@given(TEXTS, st.sampled_from([*LANGUAGES, "", "xx", "no", "th", "fa", "ar", "eu", None]), st.sampled_from(HABITS))
def test_any_text_is_a_value_or_not(text: str, lang: str | None, habits: Conventions) -> None:
    """Never an error; and what comes out has the form that was asked for."""
    context = PageContext(lang, habits, {"L1": Link("L1", "x", "https://x.test/")})
    for kind, schema in FORMS.items():
        found = read_span(schema, kind, text, context, "minutes")
        assert found.value is None or VALIDATORS[kind].is_valid(found.value), (kind, found)
    parse_duration(text, lang, "minute", habits)


@settings(deadline=None, max_examples=200)
@given(st.lists(TEXTS, max_size=4))
def test_any_page_has_habits(lines: list[str]) -> None:
    page_context(make_document(*(" ".join(line.split()) for line in lines)))


@settings(deadline=None, max_examples=300)
@given(st.lists(WORDS, min_size=1, max_size=4), st.data())
def test_evidence_offsets_are_exact(lines: list[str], data: st.DataObject) -> None:
    document = make_document(*(line.replace("\n", " ") for line in lines))
    block = data.draw(st.sampled_from(document.blocks))
    start = data.draw(st.integers(0, len(block.text) - 1))
    end = data.draw(st.integers(start + 1, len(block.text)))
    wanted = block.text[start:end]
    evidence = Grounder(document).evidence(wanted)[""]
    assert evidence.found == bool(fold(wanted).text)
    if evidence.found:
        assert evidence.start is not None
        shown = document.text[evidence.start : evidence.end]
        assert shown
        assert "\n" not in shown
        assert fold(shown).text == fold(wanted).text
        assert any(b.text == evidence.text and b.start <= evidence.start < b.end for b in document.blocks)


@settings(deadline=None)
@given(st.text(max_size=20))
def test_fold_keeps_the_way_back(text: str) -> None:
    folded = fold(text)
    assert len(folded.origin) == len(folded.text)
    assert list(folded.origin) == sorted(folded.origin)
    assert fold(folded.text).text == folded.text or not text.isprintable()


@pytest.mark.parametrize("lang", LANGUAGES)
def test_prices(lang: str) -> None:
    written = format_decimal(Decimal("1234.50"), locale=lang.replace("-", "_"), format="#,##0.00")
    for shown in (f"{written} €", f"€ {written}", f"EUR {written}", f"ab {written} €*"):
        assert parse_number(shown, lang).value == Decimal("1234.50")
