from __future__ import annotations

from dataclasses import replace

import pytest

from fetchly.extraction.conventions import Conventions, conventions_of
from fetchly.extraction.currencies import currency_beside
from fetchly.extraction.page_context import PageContext, page_context
from fetchly.extraction.values import convert
from fetchly.goods import Document, Link
from tests.support.documents import make_document


@pytest.mark.parametrize(
    ("lines", "decimal"),
    [
        (["1.299,00 €"], ","),
        (["1,299.00"], "."),
        (["12,50 €"], ","),
        (["£12.50"], "."),
        (["12,50 Kč"], ","),
        (["1,234,567 visitors"], "."),
        (["12,34,567"], "."),
        (["1.234.567 Besucher"], ","),
        (["EUR110.00", "v1.234.567"], "."),
        (["270,00 Kn"], ","),
        (["12.50"], None),
        (["1.299 €"], None),
        (["Version 3.14", "rows 12,13", "at 14.30", "192.168.100.200", "3. 4. 2024", "0.123.456"], None),
        ([], None),
    ],
)
def test_the_decimal_sign_of_a_page(lines: list[str], decimal: str | None) -> None:
    assert conventions_of(make_document(*lines)).decimal == decimal


@pytest.mark.parametrize(
    ("lines", "order"),
    [
        (["15/4/2019", "2/5/2019"], "DMY"),
        (["4/15/2019"], "MDY"),
        (["5/3/2024", "published 2024-03-05"], "DMY"),
        (["3/5/2024", "published 2024-03-05"], "MDY"),
        (["3/5/2024", "2023-05-03"], None),
        (["2/2/2024", "40/40/2024", "2024-15-03"], None),
    ],
)
def test_the_order_of_day_and_month(lines: list[str], order: str | None) -> None:
    assert conventions_of(make_document(*lines)).order == order


def test_contradictions_are_known() -> None:
    found = conventions_of(make_document("12,50 €", "12.50 €", "99,00 €", "15/4/2019", "4/15/2019"))
    assert found == Conventions(",", True, None, True)


def test_what_is_written_for_machines_says_nothing() -> None:
    document = make_document("price: 1,299.00", kind="data")
    assert conventions_of(document).decimal is None
    assert conventions_of(make_document("1,299.00")).decimal == "."


NUMBERS = {"type": "array", "items": {"type": "number"}}
DATES = {"type": "array", "items": {"type": "string", "format": "date"}}


def test_one_page_has_one_way_of_writing() -> None:
    context = page_context(make_document("1.299,00 €", "1.500 Stück", "15/4/2019", "2/5/2019", lang="en"))
    assert convert(NUMBERS, ["1.500", "1.299,00 €", "4.5"], context).value == [1500, 1299, 4.5]
    found = convert(DATES, ["2/5/2019", "15/4/2019", "4/15/2019"], context)
    assert found.value == ["2019-05-02", "2019-04-15", "2019-04-15"]
    assert found.warnings == ()


def test_a_contradiction_is_told_where_it_matters() -> None:
    context = page_context(make_document("12,50 €", "12.50 €", "15/4/2019", "4/15/2019"))
    assert "in two ways" in convert(NUMBERS, ["1.500"], context).warnings[0]
    assert convert(NUMBERS, ["15", "1.50"], context).warnings == ()
    assert "other way round" in convert(DATES, ["2/5/2019"], context).warnings[0]
    mostly = page_context(make_document("15/4/2019", "16/4/2019", "4/15/2019"))
    found = convert(DATES, ["2/5/2019"], mostly)
    assert found.value == ["2019-05-02"]
    assert "both orders" in found.warnings[0]


@pytest.mark.parametrize(
    ("url", "lang", "day"),
    [
        ("https://shop.example.co.uk/x", "en", "2019-05-02"),
        ("https://example.de/", "en", "2019-05-02"),
        ("https://example.us/", "en", "2019-02-05"),
        ("https://example.io/", "en", "2019-02-05"),
        ("https://example.com/", "en-AU", "2019-05-02"),
        ("https://example.co.uk/", "en-US", "2019-02-05"),
        ("https://[::1]/", "en", "2019-02-05"),
        ("https://[bad/", "en", "2019-02-05"),
        (None, "en", "2019-02-05"),
    ],
)
def test_plain_english_takes_the_order_of_its_domain(url: str | None, lang: str, day: str) -> None:
    context = page_context(make_document("2/5/2019", lang=lang, url=url))
    found = convert(DATES, ["2/5/2019"], context)
    assert found.value == [day]
    # Of .com, .io and the like nothing is known, and that is said.
    undecided = lang == "en" and not (url and (".uk" in url or ".de" in url or ".us" in url))
    assert bool(found.warnings) == undecided


def test_a_domain_does_not_decide_numbers() -> None:
    assert convert(NUMBERS, ["1,234"], page_context(make_document("x", url="https://example.de/"))).value == [1234]


def test_links_are_known_by_id_and_by_url() -> None:
    document = replace(
        make_document("x"), links=(Link("L1", "a", "https://x.test/"), Link("L2", "b", "https://y.test/"))
    )
    context = page_context(document)
    assert context.links["L2"] is context.links["https://y.test/"]
    assert isinstance(context, PageContext)
    assert page_context(Document(None, None, None, "", ())).links == {}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("12 €", "€"),
        ("€12", "€"),
        ("EUR 12", "EUR"),
        ("12 USD", "USD"),
        ("12 Kč", "Kč"),
        ("12,- €", "€"),
        ("kr 12", "kr"),
        ("12 krona", ""),
        ("THE 12", ""),
        ("12 ABC", ""),
        ("SEUR 12", ""),
        ("12 EURO", "EURO"),
        ("12", ""),
    ],
)
def test_currencies(text: str, found: str) -> None:
    start = text.index("1")
    assert currency_beside(text, start, start + 2) == found
