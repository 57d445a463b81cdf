"""Numbers and dates as each language writes them come back; evidence points exactly at what it says."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest
from babel.dates import format_date
from babel.numbers import format_decimal
from hypothesis import given, settings
from hypothesis import strategies as st

from fetchly.extraction.dates import parse_date
from fetchly.extraction.grounding import Grounder, fold
from fetchly.extraction.numbers import parse_duration, parse_number
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
    st.sampled_from(["en", "de", "fr", "es", "it", "nl", "sv", "pl", "ru", "ja", "fi", "da"]),
)
def test_long_dates_round_trip(day: datetime.date, lang: str) -> None:
    found = parse_date(format_date(day, "long", locale=lang), lang, "date")
    assert (found.value, found.remark) == (day.isoformat(), "")


@settings(deadline=None)
@given(st.text(max_size=30), st.sampled_from([*LANGUAGES, "", "xx", "no"]))
def test_any_text_is_a_number_or_not(text: str, lang: str) -> None:
    parse_number(text, lang)
    parse_duration(text, lang, "minute")


@settings(deadline=None, max_examples=300)
@given(st.lists(WORDS, min_size=1, max_size=4), st.data())
def test_evidence_offsets_are_exact(lines: list[str], data: st.DataObject) -> None:
    document = make_document(*(line.replace("\n", " ") for line in lines))
    block = data.draw(st.sampled_from(document.blocks))
    start = data.draw(st.integers(0, len(block.text) - 1))
    end = data.draw(st.integers(start + 1, len(block.text)))
    wanted = block.text[start:end]
    evidence = Grounder(document).locate(wanted)
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
