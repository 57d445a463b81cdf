"""Which URLs are the same page. The request itself is never touched: see the log of the site in test_crawl.py."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchly.crawler.fingerprint import FINGERPRINT_BYTES, address_of, normalise
from fetchly.errors import FetchError, PolicyRefused


@pytest.mark.parametrize(
    ("written", "normal"),
    [
        ("HTTP://Example.ORG/", "http://example.org/"),
        ("http://example.org", "http://example.org/"),
        ("http://example.org:80/", "http://example.org/"),
        ("https://example.org:443/", "https://example.org/"),
        ("https://example.org:80/", "https://example.org:80/"),
        ("http://example.org./a", "http://example.org/a"),
        ("http://example.org/a/../b/./c", "http://example.org/b/c"),
        ("http://example.org/../../a", "http://example.org/a"),
        ("http://example.org/a/%2e%2E/b", "http://example.org/b"),
        ("http://example.org/%7Euser/%c3%a9", "http://example.org/~user/%C3%A9"),
        ("http://example.org/é", "http://example.org/%C3%A9"),
        ("http://example.org/a%2fb", "http://example.org/a%2Fb"),
        ("http://bücher.example/", "http://xn--bcher-kva.example/"),
        ("http://example.org/a#part", "http://example.org/a"),
        ("http://example.org/a?", "http://example.org/a"),
        ("http://example.org/a?utm_source=x&id=1&fbclid=z", "http://example.org/a?id=1"),
        ("http://example.org/a?utm%5Fsource=x", "http://example.org/a"),
        ("http://example.org/a?UTM_Medium=x&gclid=1", "http://example.org/a"),
        ("http://example.org/a?page=2#top", "http://example.org/a?page=2"),
        ("http://[::1]:8080/a", "http://[::1]:8080/a"),
        ("http://example.org/a;jsessionid=0A1B.node2?x=1&PHPSESSID=77", "http://example.org/a?x=1"),
        ("http://example.org/(S(lit3py55t21z5v55vlm25s55))/a", "http://example.org/a"),
    ],
)
def test_one_spelling_stands_for_its_like(written: str, normal: str) -> None:
    assert normalise(written) == normal
    assert address_of(written).fingerprint == address_of(normal).fingerprint


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http://example.org/content", "http://example.org/content/"),  # crawl4ai#1888
        ("http://example.org/Item", "http://example.org/item"),
        ("http://example.org/a?x=1&y=2", "http://example.org/a?y=2&x=1"),
        ("http://example.org/a?x=1&x=2", "http://example.org/a?x=2&x=1"),
        ("http://example.org/a?page=2", "http://example.org/a?page=3"),  # bayes-platform PR#632
        ("http://example.org/a%2Fb", "http://example.org/a/b"),
        ("http://example.org/a//b", "http://example.org/a/b"),
        ("http://example.org/a?ref=x", "http://example.org/a"),
        ("http://example.org/", "https://example.org/"),
        ("http://example.org/", "http://www.example.org/"),
        ("http://example.org/", "http://example.org:8080/"),
    ],
)
def test_what_a_server_may_tell_apart_stays_apart(one: str, other: str) -> None:
    assert address_of(one).fingerprint != address_of(other).fingerprint


def test_an_address_keeps_the_url_as_written() -> None:
    address = address_of("http://Example.org:80/a/../B%20c?utm_source=x")
    assert address.url == "http://Example.org:80/a/../B%20c?utm_source=x"
    assert address.host == "example.org"
    assert address.path == "/B c"
    assert len(address.fingerprint) == FINGERPRINT_BYTES


def test_a_path_is_decoded_but_for_a_slash_that_is_none() -> None:
    assert address_of("http://example.org/k%c3%a4se/a%2fb%2Fc").path == "/käse/a%2Fb%2Fc"
    assert address_of("http://example.org/%ff").path == "/�"


def test_what_cannot_be_fetched_has_no_address() -> None:
    with pytest.raises(PolicyRefused):
        address_of("mailto:somebody@example.org")
    with pytest.raises(FetchError):
        address_of("/relative")


_SEGMENT = st.text(st.sampled_from("abZ09-._~%2e/:@!$&'()*+,;="), max_size=12)


@given(_SEGMENT, _SEGMENT)
def test_normalising_twice_changes_nothing(path: str, query: str) -> None:
    try:
        once = normalise(f"http://example.org/{path}?{query}")
    except FetchError:
        return
    assert normalise(once) == once
