"""robots.txt without mercy: files that cost, files that are none, and RFC 9309 written down naively."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchly.crawler.robots import Robots, RobotsRules
from fetchly.goods import Page

SITE = "http://example.org"


def rules(body: bytes | str) -> RobotsRules:
    raw = body.encode() if isinstance(body, str) else body
    return Robots(lambda url: Page(url, url, 200, (), raw, "text/plain"), "fetchly").rules_for(f"{SITE}/")


@pytest.mark.parametrize(
    "body",
    [
        "\n".join(f"User-agent: a{number}" for number in range(16_000)) + "\n" + "Disallow: /aaaaa\n" * 16_000,
        "User-agent: *\n" + "Disallow: /*a*b*c*d$\n" * 24_000,
        "User-agent: *\nDisallow: /" + "*a" * 250_000,
        "User-agent: *\n" + "\n".join(f"Disallow: /*{number}" for number in range(30_000)),
        "a\n" * 256_000,
        " " * 512_000,
        "user" + " " * 512_000,
        "User-agent:" * 46_000,
        "Sitemap: /a\n" * 40_000,
        "\x00" * 512_000,
        "User-agent: *\n" + "Disallow: /%" + "%4" * 250_000,
    ],
    ids=range(11),
)
def test_a_hostile_file_costs_little(body: str) -> None:
    start = time.process_time()
    found = rules(body)
    found.allowed(f"{SITE}/" + "abc" * 600)
    assert time.process_time() - start < 5


@given(
    st.one_of(st.text(), st.binary(), st.from_regex(r"(?:(?:User-agent|Disallow|Allow): ?[*/a-z$%é]{0,5}\r?\n){0,6}"))
)
def test_no_file_is_a_surprise(body: str | bytes) -> None:
    raw = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body
    found = rules(raw)
    assert found.allowed(f"{SITE}/robots.txt")
    assert found.allowed(f"{SITE}/a?b") in (True, False)


@given(
    st.lists(st.tuples(st.sampled_from(("Allow", "Disallow")), st.from_regex(r"/[ab/]{0,4}[$*]?", fullmatch=True))),
    st.from_regex(r"/[ab/]{0,6}", fullmatch=True),
)
def test_the_longest_rule_decides(lines: list[tuple[str, str]], path: str) -> None:
    """Against RFC 9309, 2.2.2, written down naively."""
    text = "User-agent: *\n" + "".join(f"{field}: {pattern}\n" for field, pattern in lines)
    best, allowed = -1, True
    for field_, pattern in lines:
        if naive_match(pattern, path):
            allow = field_ == "Allow"
            if len(pattern) > best or (len(pattern) == best and allow):
                best, allowed = len(pattern), allow
    assert rules(text).allowed(f"{SITE}{path}") is allowed


def naive_match(pattern: str, path: str) -> bool:
    if pattern.endswith("$"):
        return path == pattern[:-1]
    return path.startswith(pattern.rstrip("*"))
