"""Pages that lead on by themselves, and pages that only look as if they did."""

from __future__ import annotations

import time

import pytest

from fetchly.crawler.refresh import MAX_DELAY_S, Refresh, refresh_of


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("0;url=/y", Refresh(0, "/y")),
        ("0; URL='/y'", Refresh(0, "/y")),
        ('5,url="http://h/a b"tail', Refresh(5, "http://h/a b")),
        (" 3.7 ; url = /y ", Refresh(3, "/y")),
        (".5;/y", Refresh(0, "/y")),
        ("0 /y", Refresh(0, "/y")),
        ("0;urlaub.html", Refresh(0, "urlaub.html")),
        ("0;url=url=/y", Refresh(0, "url=/y")),
        ("0;url=?q=ä&b=1", Refresh(0, "?q=ä&b=1")),
        (f"{MAX_DELAY_S};url=/y", Refresh(MAX_DELAY_S, "/y")),
        (f"{MAX_DELAY_S + 1};url=/y", None),
        ("9" * 5000 + ";url=/y", None),
        ("5", None),
        ("0;", None),
        ("0;url=", None),
        ("0;url=''", None),
        ("url=/y", None),
        ("soon;url=/y", None),
        ("-1;url=/y", None),
        ("", None),
    ],
)
def test_what_a_refresh_says(content: str, expected: Refresh | None) -> None:
    assert refresh_of(b"", content) == expected
    escaped = content.replace("&", "&amp;").replace('"', "&quot;")
    assert refresh_of(f'<meta http-equiv="refresh" content="{escaped}">'.encode()) == expected


@pytest.mark.parametrize(
    "page",
    [
        "<meta content='0;url=/y' http-equiv=Refresh>",
        "<META HTTP-EQUIV=REFRESH CONTENT=0;URL=/y>",
        "<head><script>var x = '<!--';</script><meta http-equiv=refresh content='0;url=/y'>",
        "<!-- <script> --><meta http-equiv=refresh content='0;url=/y'><!-- </script> -->",
        "<![if !IE]><![endif]--><meta http-equiv=refresh content='0;url=/y'>",
        "<![CDATA[x]]><meta http-equiv=refresh content='0;url=/y'>",
        "<noscript>x</noscript><body><p><meta http-equiv=' refresh ' content='0;url=/y'>",
        "<meta http-equiv=refresh content='5'><meta http-equiv=refresh content='0;url=/y'>",
        "<meta http-equiv=refresh content='0;url=/y' content='0;url=/z'>",
        "<meta http-equiv=refresh content='0;url=/y'/><meta http-equiv=refresh content='0;url=/z'>",
    ],
)
def test_a_refresh_is_found(page: str) -> None:
    assert refresh_of(page.encode()) == Refresh(0, "/y")


@pytest.mark.parametrize(
    "page",
    [
        "<!-- <meta http-equiv=refresh content='0;url=/y'> -->",
        "<noscript><meta http-equiv=refresh content='0;url=/y'></noscript>",
        "<noscript><b><meta http-equiv=refresh content='0;url=/y'></b></noscript>",
        "<script>document.write(\"<meta http-equiv=refresh content='0;url=/y'>\")</script>",
        "<style><meta http-equiv=refresh content='0;url=/y'></style>",
        "<textarea><meta http-equiv=refresh content='0;url=/y'></textarea>",
        "<title><meta http-equiv=refresh content='0;url=/y'></title>",
        "<template><meta http-equiv=refresh content='0;url=/y'></template>",
        "<p title=\"<meta http-equiv=refresh content='0;url=/y'>\">",
        "&lt;meta http-equiv=refresh content='0;url=/y'&gt;",
        "<meta name=refresh content='0;url=/y'>http-equiv=refresh",
        "<meta http-equiv=refresh-x content='0;url=/y'>",
        "",
    ],
)
def test_what_is_no_element_of_the_page_leads_nowhere(page: str) -> None:
    assert refresh_of(page.encode()) is None


def test_the_base_counts_that_stands_before() -> None:
    refresh = "<meta http-equiv=refresh content='0;url=y'>"
    assert refresh_of(f"<base href=/x/><base href=/z/>{refresh}".encode()) == Refresh(0, "y", "/x/")
    assert refresh_of(f"<base target=_top><base href=/x/>{refresh}".encode()) == Refresh(0, "y", "/x/")
    assert refresh_of(f"{refresh}<base href=/x/>".encode()) == Refresh(0, "y")


def test_an_address_in_latin1() -> None:
    assert refresh_of("<meta http-equiv=refresh content='0;url=/ä'>".encode("latin-1")) == Refresh(0, "/ä")


@pytest.mark.parametrize(
    "part", ["<!", "<!--", "<a ", "<a b='", "<meta ", "</", "<![", "<?", "&", "<noscript>", "<script>"]
)
def test_hostile_mark_up_costs_little(part: str) -> None:
    sign = b"<meta http-equiv=refresh content='99;url=/y'>"
    body = part.encode() * (250_000 // len(part)) + sign
    start = time.process_time()
    refresh_of(body)
    assert time.process_time() - start < 3  # minutes, if the scan were quadratic
