"""Which pages a schema is for."""

from __future__ import annotations

import pytest

from fetchly.crawler.fingerprint import address_of
from fetchly.errors import ConfigurationError
from fetchly.pipeline.url_glob import UrlGlob


@pytest.mark.parametrize(
    ("glob", "url", "matches"),
    [
        ("/shop/*", "https://example.org/shop/1?page=2", True),
        ("/shop/*", "https://example.org/shop/1/2", False),
        ("/bücher/**", "https://example.org/b%C3%BCcher/1", True),
        ("https://*.example.org/**", "http://shop.example.org/x", True),
        ("https://*.example.org/**", "https://example.org/x", False),
        ("https://*.example.org/**", "https://evil.org/x.example.org/", False),
        ("HTTP://Example.org/A", "https://example.org/A", True),
        ("http://localhost:8000/a", "http://localhost:8000/a", True),
        ("http://localhost:8000/a", "http://localhost:8001/a", False),
        ("**", "https://example.org/", True),
    ],
)
def test_matches(glob: str, url: str, matches: bool) -> None:
    assert UrlGlob(glob).matches(address_of(url)) is matches


@pytest.mark.parametrize(
    "glob", ["shop", "https://example.org", "https:///x", "/a/../b", "/%41", "/a?b", "ftp://example.org/**", "/a "]
)
def test_what_can_match_nothing_is_refused(glob: str) -> None:
    with pytest.raises(ConfigurationError):
        UrlGlob(glob)
