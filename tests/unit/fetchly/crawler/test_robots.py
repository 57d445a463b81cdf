"""robots.txt: what a file says, and what no file says (RFC 9309)."""

from __future__ import annotations

import pytest

from fetchly.crawler.robots import MAX_BYTES, Robots, RobotsRules
from fetchly.errors import FetchError, PolicyRefused
from fetchly.goods import Page
from tests.support.robots_files import SITE, Web, failed, page


def rules(body: bytes | str, **kinds: str | int | None) -> RobotsRules:
    return Web([page(body, **kinds)]).robots().rules_for(f"{SITE}/")  # type: ignore[arg-type]


# ---- what a file says


@pytest.mark.parametrize(
    ("text", "path", "allowed"),
    [
        ("", "/x", True),
        ("User-agent: *\nDisallow: /", "/x", False),
        ("User-agent: *\nDisallow:", "/x", True),
        ("User-agent: *\nDisallow: /", "/robots.txt", True),
        ("User-agent: *\r\nDisallow: /a\r\n", "/a/b", False),
        ("User-agent: *\rDisallow: /a\r", "/a/b", False),
        ("User-agent: *\r\nDisallow: /a\r\n", "/b", True),
        # the longest match counts, and of two as long the one that allows
        ("User-agent: *\nDisallow: /a\nAllow: /a/b", "/a/b/c", True),
        ("User-agent: *\nAllow: /a\nDisallow: /a/b", "/a/b/c", False),
        ("User-agent: *\nDisallow: /a\nAllow: /a", "/a", True),
        # * and $
        ("User-agent: *\nDisallow: /*.pdf$", "/x/y.pdf", False),
        ("User-agent: *\nDisallow: /*.pdf$", "/x/y.pdf?z", True),
        ("User-agent: *\nDisallow: /*?sort=", "/list?sort=price", False),
        ("User-agent: *\nDisallow: /a$", "/ab", True),
        ("User-agent: *\nDisallow: /**a", "/xxa", False),
        # percent-encoding is one spelling of a path
        ("User-agent: *\nDisallow: /caf%C3%A9", "/café", False),
        ("User-agent: *\nDisallow: /café", "/caf%c3%a9", False),
        ("User-agent: *\nDisallow: /a%7Eb", "/a~b", False),
        ("User-agent: *\nDisallow: /a%2Fb", "/a/b", True),
        # comments and white space
        ("# hello\nUser-agent: * # all\n  Disallow : /a # b", "/a", False),
        # case: of names no, of paths yes
        ("USER-AGENT: *\nDISALLOW: /a", "/a", False),
        ("User-agent: *\nDisallow: /A", "/a", True),
        # our own group alone counts where there is one
        ("User-agent: *\nDisallow: /\nUser-agent: Fetchly\nDisallow: /a", "/b", True),
        ("User-agent: *\nDisallow: /\nUser-agent: Fetchly\nDisallow: /a", "/a", False),
        ("User-agent: fetchly/1.0\nDisallow: /a", "/a", False),
        ("User-agent: fetchly*\nDisallow: /a", "/a", False),
        ("User-agent: a\nUser-agent: fetchly\nUser-agent: b\nDisallow: /a", "/a", False),
        (
            "User-agent: fetchly\nDisallow: /a\n\nUser-agent: x\nDisallow: /\n\nUser-agent: fetchly\nDisallow: /b",
            "/b",
            False,
        ),
        # another's group is not ours, however much its name is like it
        ("User-agent: fetch\nDisallow: /", "/a", True),
        ("User-agent: f\nDisallow: /", "/a", True),
        ("User-agent: fetchly-images\nDisallow: /", "/a", True),
        ("User-agent: superfetchly\nDisallow: /", "/a", True),
        ("User-agent: Mozilla\nDisallow: /", "/a", True),
        ("User-agent: fetchly-images\nDisallow: /b\nUser-agent: *\nDisallow: /a", "/a", False),
        # lines that are none
        ("Disallow: /a", "/a", True),
        ("User-agent: *\nnonsense\nDisallow: /a", "/a", False),
        ("User-agent: *\nSitemap: http://h/\nDisallow: /a", "/a", False),
        ("User-agent: *\nDisallow: /a\u2028Disallow: /b", "/b", True),
        ("User-agent: *\nDisallow: /a\x0bDisallow: /b", "/b", True),
    ],
)
def test_what_the_rules_say(text: str, path: str, allowed: bool) -> None:
    found = rules(text)
    assert found.allowed(f"{SITE}{path}") is allowed
    refusal = found.refusal(f"{SITE}{path}")
    assert (refusal is None) is allowed
    if refusal is not None:
        assert (refusal.code, refusal.exit_code, refusal.retryable) == ("ROBOTS_DISALLOWED", 5, False)
        assert "closes it to fetchly" in refusal.line()


TEXT = "User-agent: *\nDisallow: /übel\n"


@pytest.mark.parametrize(
    ("body", "charset"),
    [
        (TEXT.encode(), None),
        (b"\xef\xbb\xbf" + TEXT.encode(), None),
        (b"\xef\xbb\xbf\xef\xbb\xbf" + TEXT.encode(), None),
        (TEXT.encode("utf-16"), None),
        (TEXT.encode("utf-16-le"), None),
        (TEXT.encode("utf-16-be"), None),
        (TEXT.encode("utf-16-le"), "utf-16le"),
        (b"\xfe\xff" + TEXT.encode("utf-16-be"), "utf-16"),
        (TEXT.encode(), "no-such-charset"),
    ],
)
def test_a_file_is_read_in_whatever_it_is_written(body: bytes, charset: str | None) -> None:
    found = rules(body, charset=charset)
    assert not found.allowed(f"{SITE}/übel")
    assert found.allowed(f"{SITE}/gut")


def test_bytes_that_are_no_utf8_match_the_same_bytes() -> None:
    found = rules(TEXT.encode("latin-1"), charset="iso-8859-1")
    assert not found.allowed(f"{SITE}/%FCbel")
    assert found.allowed(f"{SITE}/gut")


def test_a_page_served_as_robots_txt_closes_nothing() -> None:
    html = "<!doctype html><title>Not found</title>\n<p>User agent strings\n<p>Disallow: /\nDisallow: /"
    assert rules(html, media_type="text/html").allowed(f"{SITE}/a")


def test_the_first_500_kib_are_read_and_no_half_line() -> None:
    filler = "User-agent: *\nDisallow: /a\n" + "#" * (MAX_BYTES - 39) + "\n"
    cut = filler + "Disallow: /private" + "x" * 100
    found = rules(cut)
    assert cut[:MAX_BYTES].endswith("\nDisallow: /")
    assert not found.allowed(f"{SITE}/a")
    assert found.allowed(f"{SITE}/b")  # `Disallow: /`, half of `Disallow: /private`, is no rule of this site
    assert found.notes == ("only the first 512,000 bytes of robots.txt were read",)


@pytest.mark.parametrize(
    ("text", "delay"),
    [
        ("User-agent: *\nCrawl-delay: 2.5", 2.5),
        ("User-agent: *\nRequest-rate: 1/5", 5.0),
        ("User-agent: *\nCrawl-delay: 2\nRequest-rate: 30/1m", 2.0),
        ("User-agent: x\nCrawl-delay: 9\nUser-agent: *\nDisallow: /a", None),
        ("User-agent: fetchly\nCrawl-delay: 9\nUser-agent: *\nCrawl-delay: 1", 9.0),
        ("User-agent: *\nCrawl-delay: -1", None),
        ("User-agent: *\nCrawl-delay: inf", None),
        ("User-agent: *\nCrawl-delay: soon", None),
        ("User-agent: *\nCrawl-delay: 1e6", 1e6),
    ],
)
def test_how_slowly(text: str, delay: float | None) -> None:
    assert rules(text).crawl_delay_s == delay


def test_the_sitemaps_of_a_site() -> None:
    found = rules(
        "Sitemap: http://example.org/a.xml\nUser-agent: x\nDisallow: /\nsitemap: /b.xml.gz\n"
        "Sitemap: http://example.org/a.xml\nSitemap: ftp://h/\nSitemap: http://other.example/c\nSitemap:"
    )
    assert found.sitemaps == ("http://example.org/a.xml", "http://example.org/b.xml.gz", "http://other.example/c")
    assert found.notes == ("the sitemap 'ftp://h/' is no URL",)


# ---- what no file says


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 451, 304])
def test_no_robots_txt_opens_the_site(status: int) -> None:
    web = Web([failed(status)])
    assert web.robots().rules_for(f"{SITE}/x").allowed(f"{SITE}/x")


@pytest.mark.parametrize("code", ["TOO_MANY_REDIRECTS", "REDIRECT_LOOP"])
def test_redirects_without_an_end_are_no_robots_txt(code: str) -> None:
    web = Web([FetchError("round and round", url=SITE, code=code)])
    assert web.robots().rules_for(SITE).reason is None


@pytest.mark.parametrize(("redirects", "allowed"), [(0, False), (5, False), (6, True)])
def test_five_redirects_are_followed(redirects: int, allowed: bool) -> None:
    assert rules("User-agent: *\nDisallow: /", redirects=redirects).allowed(f"{SITE}/x") is allowed


UNREACHABLE = [
    failed(500),
    failed(503),
    failed(429),
    *(FetchError("no", url=f"{SITE}/robots.txt", code=code) for code in ("TIMEOUT", "CONNECTION_FAILED", "TLS_FAILED")),
    FetchError("too large", url=f"{SITE}/robots.txt", code="BODY_TOO_LARGE"),
    PolicyRefused("a redirect into the private network", url="http://10.0.0.1/robots.txt", code="ADDRESS_REFUSED"),
]


@pytest.mark.parametrize("error", UNREACHABLE, ids=lambda error: f"{error.code} {error.status}")
def test_a_site_out_of_reach_is_closed(error: FetchError) -> None:
    found = Web([error]).robots().rules_for(f"{SITE}/x")
    assert not found.allowed(f"{SITE}/x")
    assert found.allowed(f"{SITE}/robots.txt")
    refusal = found.refusal(f"{SITE}/x")
    assert refusal is not None
    assert (refusal.code, refusal.retryable, refusal.exit_code) == ("ROBOTS_UNREACHABLE", True, 5)
    assert error.message in refusal.line()


def test_a_site_that_may_not_be_asked_is_no_question_of_robots() -> None:
    web = Web([PolicyRefused("private", url=f"{SITE}/robots.txt", code="ADDRESS_REFUSED")])
    with pytest.raises(PolicyRefused, match="private"):
        web.robots().rules_for(f"{SITE}/x")


def test_what_is_no_error_of_fetching_is_passed_on_and_not_kept() -> None:
    web = Web([KeyboardInterrupt(), page("")])  # type: ignore[list-item]
    robots = Robots(lambda url: raise_or(web, url), "fetchly", lambda: 0.0)
    with pytest.raises(KeyboardInterrupt):
        robots.rules_for(SITE)
    assert robots.known(SITE) is None
    assert robots.rules_for(SITE).reason is None


def raise_or(web: Web, url: str) -> Page:
    answer = web.answers.pop(0)
    if isinstance(answer, BaseException):
        raise answer
    return answer
