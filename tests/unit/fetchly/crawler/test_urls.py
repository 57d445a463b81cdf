"""URLs as people and pages write them."""

from __future__ import annotations

import httpx2
import pytest

from fetchly.crawler.urls import endpoint_of, join_url, parse_url
from fetchly.errors import FetchError, PolicyRefused


def test_an_idn_host_with_a_port_is_encoded_without_the_port() -> None:
    endpoint = endpoint_of(parse_url("http://新华网.中国:80/"))
    assert endpoint.host == "xn--xkrr14bows.xn--fiqs8s"
    assert endpoint.port == 80


@pytest.mark.parametrize(
    "text",
    [
        r"http://127.0.0.1:6666\@example.org/",
        "http://exa\tmple.org/",
        "http://example.org/a\nb",
        "http:///etc/passwd",
        "http://%31%32%37.0.0.1/",
        "http://[fe80::1%25lo]/",
        "http://example.org:99999/",
        "http://example.org:http/",
        "http://[::1/",
        "http://[",
        "http://a]b/",
        "http://..xn--a/",
        "http://-xn--/",
        "http://a/\ud800",
        "http://１２７.0.0.1/",
        "http:127.0.0.1",
        "example.org",
    ],
)
def test_urls_that_could_be_read_in_two_ways_are_no_urls(text: str) -> None:
    with pytest.raises(FetchError) as failed:
        parse_url(text)
    assert failed.value.code == "BAD_URL"


WHOLE = "write it whole: https://example.org/page"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("example.org", "did you mean https://example.org?"),
        ("www.example.org/a?b=c", "did you mean https://www.example.org/a?b=c?"),
        ("/etc/passwd", WHOLE),
        ("no url", WHOLE),
        ("me@example.org", WHOLE),
        ("https://", WHOLE),
        ("http://[::1", WHOLE),
        ("https://example.org/a b", "write a space as %20, and / for a backslash"),
        ("http://example.org:99999/", "ports are 1 to 65535"),
    ],
)
def test_what_is_no_url_has_a_hint(text: str, hint: str) -> None:
    with pytest.raises(FetchError) as failed:
        parse_url(text)
    assert failed.value.hint == hint


@pytest.mark.parametrize("location", ["//[", "//..xn--a/", "/\ud800", "http://[", "?\udfff", "//a:b/", "\\\\h"])
def test_redirects_that_are_no_urls(location: str) -> None:
    with pytest.raises(FetchError) as failed:
        join_url(httpx2.URL("http://example.org/a/b"), location)
    assert failed.value.code == "BAD_URL"
    assert failed.value.hint is None  # the site wrote it, and not who reads this


@pytest.mark.parametrize("text", ["file:///etc/passwd", "ftp://h/", "gopher://h/", "data:text/html,x", "javascript:1"])
def test_other_schemes_are_refused(text: str) -> None:
    with pytest.raises(PolicyRefused) as refused:
        parse_url(text)
    assert refused.value.code == "SCHEME_REFUSED"


def test_a_password_is_refused_and_not_repeated_in_the_error() -> None:
    with pytest.raises(PolicyRefused) as refused:
        parse_url("http://user:secret@example.org/")
    assert "secret" not in refused.value.line()


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("/b", "http://example.org/b"),
        ("c?d=é", "http://example.org/a/c?d=%C3%A9"),
        ("//other.example/x y", "http://other.example/x%20y"),
        (" https://other.example/ ", "https://other.example/"),
    ],
)
def test_redirects_are_joined(location: str, expected: str) -> None:
    assert str(join_url(httpx2.URL("http://example.org/a/b"), location)) == expected
