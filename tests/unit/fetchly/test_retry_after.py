"""Retry-After: numbers, the three forms of a date, nonsense, and more than anybody should wait."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchly.crawler.answers import status_error
from fetchly.retry_after import MAX_WAIT_S, Wait, in_words, read_retry_after

NOW = datetime(2026, 11, 6, 8, 49, 7, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120.0),
        (" 0 ", 0.0),
        ("1.5", 1.5),
        ("0007", 7.0),
        # RFC 9110, 5.6.7: IMF-fixdate, RFC 850, asctime
        ("Fri, 06 Nov 2026 08:49:37 GMT", 30.0),
        ("Friday, 06-Nov-26 08:49:37 GMT", 30.0),
        ("Fri Nov  6 08:49:37 2026", 30.0),
        ("Fri, 06 Nov 2026 09:49:37 +0100", 30.0),
        ("fri, 06 nov 2026 08:49:37 gmt", 30.0),
        # The past, also by the rule for years of two digits: 94 is 1994
        ("Fri, 06 Nov 2026 08:49:06 GMT", 0.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("Sunday, 06-Nov-94 08:49:37 GMT", 0.0),
        ("Monday, 06-Nov-77 08:49:37 GMT", 0.0),
    ],
)
def test_what_a_header_asks_for(value: str, seconds: float) -> None:
    assert read_retry_after(value, NOW) == Wait(seconds, seconds)


@pytest.mark.parametrize(
    "value",
    [
        *("", " ", "-5", "+5", "-0", "soon", "1e9", "0x10", "5s", "5, 10", "١٢", "²", "1.", ".5", "nan", "inf", "\x00"),
        *("Fri, 31 Feb 2026 08:00:00 GMT", "Fri, 06 Nov 99999999 08:49:37 GMT", "Saturday, 29-Feb-75 00:00:00 GMT"),
        *("Fri, 06 Nov 2026 08:49:37 +9999999999", "Fri, " * 1000, None),
    ],
)
def test_nonsense_asks_for_nothing(value: str | None) -> None:
    assert read_retry_after(value, NOW) is None


@pytest.mark.parametrize(
    ("value", "asked_s"),
    [
        ("3601", 3601.0),
        ("9" * 400, math.inf),
        ("9" * 5000, math.inf),
        ("Fri, 06 Nov 2026 10:49:07 GMT", 7200.0),
        ("Tuesday, 06-Nov-76 08:49:07 GMT", 1577923200.0),  # fifty years ahead: the future still
    ],
)
def test_more_than_the_bound_is_cut_and_told(value: str, asked_s: float) -> None:
    wait = read_retry_after(value, NOW)
    assert wait == Wait(MAX_WAIT_S, asked_s)
    assert wait is not None
    assert wait.is_cut
    assert read_retry_after(value, NOW, maximum_s=math.inf) == Wait(asked_s, asked_s)


def test_the_bound_itself_is_not_cut() -> None:
    wait = read_retry_after("3600", NOW)
    assert wait is not None
    assert not wait.is_cut


@given(st.integers(min_value=-(10**6), max_value=10**6), st.sampled_from(("imf", "rfc850", "asctime")))
def test_every_form_of_a_date_says_the_same(seconds: int, form: str) -> None:
    moment = NOW + timedelta(seconds=seconds)
    text = {
        "imf": format_datetime(moment, usegmt=True),
        "rfc850": moment.strftime("%A, %d-%b-%y %H:%M:%S GMT"),
        "asctime": moment.strftime("%a %b %e %H:%M:%S %Y"),
    }[form]
    assert read_retry_after(text, NOW, maximum_s=math.inf) == Wait(max(0, seconds), max(0, seconds))


@given(st.one_of(st.text(max_size=60), st.from_regex(r"[0-9a-zA-Z ,:+-]{0,40}")))
def test_no_header_is_a_surprise(value: str) -> None:
    wait = read_retry_after(value, NOW)
    assert wait is None or 0 <= wait.seconds <= min(MAX_WAIT_S, wait.asked_s)


@pytest.mark.parametrize(
    ("seconds", "words"), [(7.0, "7 s"), (86400.0, "86,400 s"), (math.inf, "centuries"), (1e300, "centuries")]
)
def test_waits_in_words(seconds: float, words: str) -> None:
    assert in_words(seconds) == words


def test_an_error_tells_what_the_server_asks_for() -> None:
    error = status_error("http://h/", 503, "Busy", "9" * 30)
    assert (error.retry_after_s, error.retry_after) == (1e30, "9" * 30)
    assert "centuries" in error.line()
    assert status_error("http://h/", 503, "", "soon").retry_after_s is None
