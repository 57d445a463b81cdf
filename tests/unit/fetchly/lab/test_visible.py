from typing import Any

import pytest

from fetchly.lab.visible import TextCheck, check_texts, visible_text

SCHEMA = {
    "type": "object",
    "properties": {
        "title": {"type": ["string", "null"]},
        "price": {"type": ["string", "null"]},
        "state": {"enum": ["Open", "Closed"]},
        "parts": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
    },
}


def test_texts_are_looked_for_and_choices_and_numbers_are_not() -> None:
    page = "<title>Hot &amp; Cold</title><p>½ <b>cup</b><script>Secret</script>".encode()
    record = {
        "title": "hot & cold",
        "price": "12.00",
        "state": "Open",
        "parts": [{"name": "1/2 cup"}, {"name": "Secret"}],
    }
    check = check_texts(record, SCHEMA, page)
    assert (check.texts, check.invented) == (3, 1)
    assert check.rate == pytest.approx(1 / 3)


MADE: dict[str, Any] = {
    "properties": {
        "url": {"type": "string", "format": "uri"},
        "image": {"anyOf": [{"type": "string", "x-link": True}, {"type": "null"}]},
        "more": {"type": "array", "items": {"type": "string", "format": "uri-reference"}},
        "opens": {"type": "string", "format": "time"},
        "day": {"type": ["string", "null"], "format": "date"},
        "starts": {"type": "string", "format": "date-time"},
        "lasts": {"type": "string", "format": "duration"},
        "printed": {"type": "string", "format": "time", "x-verbatim": True},
    }
}
LINKED = (
    '<base href="/shop/"><p>Open at nine. <a href="a b?q=ü#top">One</a> see www.x.test/told'
    '<img src=spacer.gif data-src="//img.test/1.jpg" srcset="s.jpg 1x, big.jpg 2x">'
    '<script type="application/ld+json">{"url": "https:\\/\\/x.test\\/ld", "n": "\\u12"}</script>'
    "<script>var u = 'https://x.test/hidden'</script>"
).encode()


@pytest.mark.parametrize(
    "url",
    [
        "https://x.test/shop/a%20b?q=%C3%BC#top",
        "https://img.test/1.jpg",
        "https://x.test/shop/big.jpg",
        "https://x.test/ld",
        "https://x.test/shop/spacer.gif",
        "www.x.test/told",
    ],
)
def test_a_url_is_of_the_page_where_it_is_that_of_a_link(url: str) -> None:
    record = {"url": url, "image": url, "more": [url]}
    check = check_texts(record, MADE, LINKED, "https://x.test/start")
    assert (check.texts, check.invented) == (3, 0)
    plain = check_texts({"title": "https://x.test/shop/big.jpg"}, SCHEMA, LINKED, "https://x.test/start")
    assert plain.invented == 1, "a text is no link"


@pytest.mark.parametrize(
    "url", ["https://x.test/hidden", "https://x.test/shop/a", "https://y.test/ld", "mailto:a@b.test"]
)
def test_a_url_that_the_page_does_not_have_is_invented(url: str) -> None:
    check = check_texts({"url": url, "image": url, "more": [url]}, MADE, LINKED, "https://x.test/start")
    assert (check.texts, check.invented) == (3, 3)


def test_relative_links_of_a_page_without_an_address() -> None:
    assert check_texts({"more": ["/a/1"]}, MADE, b'<a href="/a/1">x</a>').invented == 0


def test_moments_are_written_anew_and_not_looked_for() -> None:
    record = {"opens": "09:00:00Z", "day": "2025-06-07", "starts": "2025-06-07T09:14:00Z", "lasts": "PT1H"}
    assert check_texts(record, MADE, LINKED).texts == 0
    assert check_texts({"printed": "at nine"}, MADE, LINKED) == TextCheck(1, 0)
    assert check_texts({"printed": "at ten"}, MADE, LINKED) == TextCheck(1, 1)


def test_a_record_without_texts_invents_nothing() -> None:
    assert check_texts({"title": None, "parts": []}, SCHEMA, b"").rate == 0.0


@pytest.mark.parametrize(
    "page", [b"<![odd[ x ]]><p>seen", b"<!doctype html><![if ie]><p>seen</p>", b"<p>seen<!-- open", b"<p>seen<"]
)
def test_broken_markup_hides_nothing(page: bytes) -> None:
    assert "seen" in visible_text(page)
