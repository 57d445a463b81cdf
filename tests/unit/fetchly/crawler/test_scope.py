"""Which pages a crawl is about."""

import pytest

from fetchly.crawler.fingerprint import address_of
from fetchly.crawler.scope import EXCLUDED, NOT_FOLLOWED, OTHER_SITE, Glob, Scope, site_of
from fetchly.errors import ConfigurationError


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("/shop/*", "/shop/tea", True),
        ("/shop/*", "/shop/", True),
        ("/shop/*", "/shop/tea/green", False),
        ("/shop/*", "/shop", False),
        ("/shop/**", "/shop/tea/green", True),
        ("/shop/**", "/shop", False),
        ("/**/reviews", "/reviews", True),
        ("/**/reviews", "/a/b/reviews", True),
        ("/a/**/b", "/a/b", True),
        ("/a/**/b", "/a/x/y/b", True),
        ("/a/**/b", "/a/xb", False),
        ("**", "/", True),
        ("**.html", "/a/b.html", True),
        ("/*.html", "/a/b.html", False),
        ("/item-*-*", "/item-1-2", True),
        ("/a.b", "/aXb", False),
        ("/a+b(c)[d]", "/a+b(c)[d]", True),
        ("/Shop/*", "/shop/tea", False),
        ("/käse/*", "/käse/brie", True),
    ],
)
def test_globs(pattern: str, path: str, matches: bool) -> None:
    assert Glob(pattern).matches(path) is matches


@pytest.mark.parametrize("pattern", ["shop/*", "*.html", "", "/list?page=*", "/a#b"])
def test_a_glob_that_could_never_match_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Glob(pattern)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("host", "site"),
    [
        ("www.example.org", "example.org"),
        ("example.org:8080", "example.org"),
        ("a.example.co.uk", "example.co.uk"),  # crawlee-python PR#1572
        ("a.github.io", "a.github.io"),
        ("localhost:8000", "localhost:8000"),
        ("127.0.0.1:8000", "127.0.0.1:8000"),
        ("[::1]:8000", "[::1]:8000"),
        ("[::1]", "[::1]"),
    ],
)
def test_the_site_of_a_host(host: str, site: str) -> None:
    assert site_of(host) == site


def refusal(scope: Scope, url: str) -> str | None:
    return scope.refusal(address_of(url))


def test_a_crawl_stays_on_its_sites() -> None:
    scope = Scope([address_of("https://www.example.co.uk/"), address_of("http://b.example/")])
    assert refusal(scope, "http://shop.example.co.uk/x") is None
    assert refusal(scope, "https://b.example/y") is None
    assert refusal(scope, "https://other.co.uk/") == OTHER_SITE
    assert refusal(scope, "https://b.example.evil.example2.org/") == OTHER_SITE


def test_what_is_excluded_wins() -> None:
    scope = Scope([address_of("http://a.example/")], follow=["/shop/**", "/tea"], exclude=["/shop/basket/**"])
    assert refusal(scope, "http://a.example/shop/green?x=1") is None
    assert refusal(scope, "http://a.example/tea") is None
    assert refusal(scope, "http://a.example/shop/basket/1") == EXCLUDED
    assert refusal(scope, "http://a.example/about") == NOT_FOLLOWED
    assert not scope.follows(address_of("http://a.example/"))


def test_a_path_cannot_be_disguised() -> None:
    scope = Scope([address_of("http://a.example/")], exclude=["/private/**"])
    for url in ("/%70rivate/x", "/a/../private/x", "/./private/x", "/%2e/private/x"):
        assert refusal(scope, f"http://a.example{url}") == EXCLUDED


def test_an_excluded_seed_is_a_mistake() -> None:
    with pytest.raises(ConfigurationError, match="excluded"):
        Scope([address_of("http://a.example/private/x")], exclude=["/private/**"])
