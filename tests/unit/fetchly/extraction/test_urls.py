from __future__ import annotations

import jsonschema_rs
import pytest

from fetchly.extraction.urls import formatted_url


@pytest.mark.parametrize(
    ("url", "form", "value"),
    [
        ("https://x.test/a?b=c#d", "uri", "https://x.test/a?b=c#d"),
        ("https://x.test/a%20b", "uri", "https://x.test/a%20b"),
        ("https://x.test/100%", "uri", "https://x.test/100%25"),
        ("https://x.test/café?q=é", "uri", "https://x.test/caf%C3%A9?q=%C3%A9"),
        ("https://x.test/café", "iri", "https://x.test/café"),
        ("https://x.test/a|b[1]{2}?q=[x]", "uri", "https://x.test/a%7Cb%5B1%5D%7B2%7D?q=%5Bx%5D"),
        ('https://x.test/"a"', "iri", "https://x.test/%22a%22"),
        ("http://bücher.test:80/ü", "uri", "http://xn--bcher-kva.test:80/%C3%BC"),
        ("http://[::1]:8080/", "uri", "http://[::1]:8080/"),
        ("mailto:a@b.test", "uri", "mailto:a@b.test"),
        ("tel:+49-30-1", "uri", "tel:+49-30-1"),
        ("/a/b", "uri-reference", "/a/b"),
        ("a b", "uri-reference", "a%20b"),
        ("/é", "iri-reference", "/é"),
        ("/a/b", "uri", None),
        ("a.html", "url", None),
        ("a.html", None, None),
        ("http://[bad/", "uri", None),
    ],
)
def test_forms(url: str, form: str | None, value: str | None) -> None:
    found = formatted_url(url, form)
    assert found == value
    if found is not None and form is not None:
        assert jsonschema_rs.is_valid({"format": form}, found, validate_formats=True)


def test_queries_are_in_the_page_s_charset() -> None:
    """yarl#19: browsers encode a query in the page's charset, the path in UTF-8."""
    assert formatted_url("http://x.test/вася?q=вася", "uri", "windows-1251") == (
        "http://x.test/%D0%B2%D0%B0%D1%81%D1%8F?q=%E2%E0%F1%FF"
    )
    assert formatted_url("http://x.test/?q=вася", "uri", "no-such-charset") is None
