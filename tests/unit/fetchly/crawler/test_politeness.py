"""When a host may be asked again, by a clock and dice that the tests hold."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest

from fetchly.crawler.answers import status_error
from fetchly.crawler.politeness import Outcome, Politeness, PolitenessLimits, host_key
from fetchly.errors import ConfigurationError, FetchError
from tests.support.times import FINE, HOST, Times, ask, polite, state_of, wait_of


@pytest.fixture
def times() -> Times:
    return Times()


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("http://Example.ORG/a?b#c", "example.org"),
        ("https://example.org:443/", "example.org"),
        ("http://example.org.:80/", "example.org"),
        ("http://example.org:8080/", "example.org:8080"),
        ("https://example.org:80/", "example.org:80"),
        ("http://www.example.org/", "www.example.org"),
        ("http://[::1]:8000/", "[::1]:8000"),
        ("http://新华网.中国/", "xn--xkrr14bows.xn--fiqs8s"),
    ],
)
def test_a_host_is_a_name_and_a_port(url: str, key: str) -> None:
    assert host_key(url) == key


def test_a_new_host_is_ready_and_costs_nothing(times: Times) -> None:
    politeness = polite(times)
    assert politeness.ready_at(HOST) == -math.inf
    assert politeness.states() == ()


def test_the_delay_lies_between_two_starts(times: Times) -> None:
    politeness = polite(times, delay_s=2)
    assert politeness.begin(HOST)
    assert (wait_of(politeness, times), state_of(politeness).why) == (2, "delay")
    times.seconds += 1.9
    assert not politeness.begin(HOST)
    times.seconds += 0.1
    assert politeness.begin(HOST)
    assert state_of(politeness).started == 2


def test_hosts_do_not_wait_for_each_other(times: Times) -> None:
    politeness = polite(times, per_host=1)
    assert politeness.begin(HOST)
    assert politeness.begin("other.example")
    assert politeness.begin(f"{HOST}:8080")


def test_slots_are_given_back(times: Times) -> None:
    politeness = polite(times, delay_s=0, per_host=2)
    assert politeness.begin(HOST)
    assert politeness.begin(HOST)
    assert not politeness.begin(HOST)
    assert politeness.ready_at(HOST) == math.inf
    assert (state_of(politeness).why, state_of(politeness).wait_s) == ("busy", math.inf)
    politeness.end(HOST, FINE)
    assert politeness.begin(HOST)


@pytest.mark.parametrize("status", [429, 503])
def test_a_pause_is_the_hosts_and_not_the_requests(times: Times, status: int) -> None:
    politeness = polite(times, per_host=4)
    ask(politeness, times, Outcome(status=status, retry_after="30"))
    assert wait_of(politeness, times) == 30
    assert (state_of(politeness).why, state_of(politeness).failures) == ("paused", 1)
    times.seconds += 29.9
    assert not politeness.begin(HOST)
    assert politeness.begin("other.example")
    times.seconds += 0.1
    assert politeness.begin(HOST)


def test_a_pause_until_a_date(times: Times) -> None:
    politeness = polite(times)
    until = times.now() + timedelta(seconds=90)
    header = until.strftime("%a, %d %b %Y %H:%M:%S GMT")
    ask(politeness, times, Outcome(status=503, retry_after=header))
    assert wait_of(politeness, times) == 90


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("header", [None, "soon", "-4"])
def test_a_pause_without_a_time_grows_and_is_never_nothing(times: Times, status: int, header: str | None) -> None:
    for dice, share in ((0.0, 0.5), (0.5, 0.75)):
        times.dice = dice
        politeness = polite(times, delay_s=0)
        waits = []
        for _ in range(12):
            ask(politeness, times, Outcome(status=status, retry_after=header))
            waits.append(wait_of(politeness, times))
        assert waits[:4] == [10 * share, 20 * share, 40 * share, 80 * share]
        assert waits[-1] == 3600 * share


def test_an_unreadable_header_is_told(times: Times) -> None:
    politeness = polite(times)
    ask(politeness, times, Outcome(status=429, retry_after="soon\n" + "x" * 1000))
    (note,) = state_of(politeness).notes
    assert "cannot be read: 'soon\\n" in note
    assert len(note) < 100


def test_a_pause_over_the_bound_is_cut_and_told(times: Times) -> None:
    politeness = polite(times, limits=PolitenessLimits(max_pause_s=100))
    ask(politeness, times, Outcome(status=429, retry_after="86400"))
    assert wait_of(politeness, times) == 100
    assert state_of(politeness).notes == ("asked for a pause of 86,400 s; 100 s are kept",)
    ask(politeness, times, Outcome(status=429, retry_after="5"))
    assert state_of(politeness).notes == ()


@pytest.mark.parametrize("header", ["0", "Thu, 01 Jan 1970 00:00:00 GMT"])
def test_a_host_that_always_says_now_is_not_asked_for_ever(times: Times, header: str) -> None:
    politeness = polite(times, delay_s=0)
    waits = []
    for _ in range(4):
        ask(politeness, times, Outcome(status=429, retry_after=header))
        waits.append(wait_of(politeness, times))
    assert waits == [7.5, 15, 30, 60]


def test_a_host_that_names_a_time_again_and_again_is_asked_ever_more_seldom(times: Times) -> None:
    politeness = polite(times, delay_s=0)
    waits = []
    for _ in range(4):
        ask(politeness, times, Outcome(status=429, retry_after="12"))
        waits.append(wait_of(politeness, times))
    assert waits == [12, 15, 30, 60]


def test_retry_after_counts_with_any_error_and_with_no_success(times: Times) -> None:
    for status in (403, 413, 500, 502):
        politeness = polite(times, delay_s=0)
        ask(politeness, times, Outcome(status=status, retry_after="7"))
        assert wait_of(politeness, times) == 7
    politeness = polite(times, delay_s=0)
    ask(politeness, times, Outcome(status=200, retry_after="7"))
    assert wait_of(politeness, times) == 0
    politeness = polite(times, delay_s=0)
    ask(politeness, times, Outcome(status=500, retry_after="soon"))
    assert state_of(politeness).why == "backing off"
    ask(politeness, times, Outcome(status=404, retry_after="soon"))
    assert wait_of(politeness, times) == 0


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome(status=500),
        Outcome(status=502),
        Outcome(status=408),
        Outcome(error_code="TIMEOUT"),
        Outcome(error_code="CONNECTION_FAILED"),
        Outcome(error_code="HOST_UNKNOWN"),
        Outcome(error_code="PROTOCOL"),
        Outcome(error_code="BODY_BROKEN"),
        Outcome(error_code="TLS_FAILED"),
    ],
)
def test_failures_back_off_with_full_jitter(times: Times, outcome: Outcome) -> None:
    times.dice = 0.999
    politeness = polite(times, delay_s=0)
    waits = []
    for _ in range(12):
        ask(politeness, times, outcome)
        waits.append(wait_of(politeness, times))
    assert waits == pytest.approx([0.999 * min(300, 2**turn) for turn in range(12)])
    times.dice = 0.0
    ask(politeness, times, outcome)
    assert wait_of(politeness, times) == 0
    assert state_of(politeness).failures == 13


@pytest.mark.parametrize("status", [200, 204, 301, 404, 403, 410])
def test_any_other_answer_is_recovery(times: Times, status: int) -> None:
    politeness = polite(times, delay_s=0)
    for _ in range(5):
        ask(politeness, times, Outcome(error_code="TIMEOUT"))
    ask(politeness, times, Outcome(status=status))
    assert state_of(politeness).failures == 0
    ask(politeness, times, Outcome(error_code="TIMEOUT"))
    assert wait_of(politeness, times) == 0.5


@pytest.mark.parametrize("code", ["ADDRESS_REFUSED", "BAD_URL", "SCHEME_REFUSED", None])
def test_what_was_never_asked_is_neither_failure_nor_recovery(times: Times, code: str | None) -> None:
    politeness = polite(times, delay_s=0)
    ask(politeness, times, Outcome(error_code="TIMEOUT"))
    ask(politeness, times, Outcome(error_code=code))
    assert state_of(politeness).failures == 1


def test_a_host_that_failed_is_tried_with_one_request_first(times: Times) -> None:
    politeness = polite(times, delay_s=0, per_host=3)
    ask(politeness, times, Outcome(status=503))
    times.seconds += 100
    assert politeness.begin(HOST)
    assert not politeness.begin(HOST)
    politeness.end(HOST, FINE)
    assert politeness.begin(HOST)
    assert politeness.begin(HOST)
    assert politeness.begin(HOST)


def test_requests_that_fail_together_are_one_failure(times: Times) -> None:
    politeness = polite(times, delay_s=0, per_host=8)
    for _ in range(8):
        assert politeness.begin(HOST)
    for _ in range(8):
        politeness.end(HOST, Outcome(error_code="TIMEOUT"))
    assert state_of(politeness).failures == 1
    assert wait_of(politeness, times) == 0.5
    ask(politeness, times, Outcome(error_code="TIMEOUT"))
    assert state_of(politeness).failures == 2


def test_an_old_success_ends_no_pause(times: Times) -> None:
    politeness = polite(times, delay_s=0)
    assert politeness.begin(HOST)
    assert politeness.begin(HOST)
    politeness.end(HOST, Outcome(status=429, retry_after="60"))
    politeness.end(HOST, FINE)
    assert (wait_of(politeness, times), state_of(politeness).failures) == (60, 1)


def test_a_shorter_pause_does_not_cut_a_longer_one(times: Times) -> None:
    politeness = polite(times, delay_s=0, per_host=3)
    for _ in range(3):
        politeness.begin(HOST)
    politeness.end(HOST, Outcome(status=429, retry_after="60"))
    politeness.end(HOST, Outcome(status=429, retry_after="5"))
    politeness.end(HOST, Outcome(error_code="TIMEOUT"))
    assert (wait_of(politeness, times), state_of(politeness).why) == (60, "paused")


def test_a_crawl_delay_lengthens_the_delay_and_lets_one_through_at_a_time(times: Times) -> None:
    politeness = polite(times, delay_s=1, per_host=4)
    politeness.set_crawl_delay(HOST, 5)
    assert politeness.begin(HOST)
    times.seconds += 5
    assert not politeness.begin(HOST)
    politeness.end(HOST, FINE)
    assert politeness.begin(HOST)
    politeness.end(HOST, FINE)
    politeness.set_crawl_delay(HOST, 0.5)
    assert wait_of(politeness, times) == 1
    politeness.set_crawl_delay(HOST, None)
    assert (wait_of(politeness, times), state_of(politeness).delay_s) == (1, 1)


def test_a_crawl_delay_over_the_bound_is_cut_and_told(times: Times) -> None:
    politeness = polite(times)
    politeness.set_crawl_delay(HOST, 3600)
    assert state_of(politeness).delay_s == 60
    assert state_of(politeness).notes == ("asks for 3,600 s between requests; 60 s are kept",)
    politeness.set_crawl_delay(HOST, 60)
    assert state_of(politeness).notes == ()


def test_options_are_checked() -> None:
    for delay_s, per_host in ((-1.0, 1), (math.inf, 1), (math.nan, 1), (1.0, 0)):
        with pytest.raises(ConfigurationError):
            Politeness(delay_s, per_host)


def test_an_outcome_of_an_error_keeps_the_header() -> None:
    assert Outcome.of_error(status_error("http://h/", 429, "", "12")) == Outcome(429, "12", "HTTP_STATUS")
    assert Outcome.of_error(FetchError("x", url="u", code="TIMEOUT")) == Outcome(None, None, "TIMEOUT")


# ---- behind its turn


def test_a_host_that_never_answers_is_silent_and_any_answer_ends_it(times: Times) -> None:
    politeness = polite(times, limits=PolitenessLimits(give_up_after=3))
    for code in ("TIMEOUT", "CONNECTION_FAILED"):
        ask(politeness, times, Outcome(error_code=code))
    assert not politeness.is_silent(HOST)
    ask(politeness, times, Outcome(status=500, error_code="HTTP_STATUS"))
    for code in ("TIMEOUT", "TLS_FAILED"):
        ask(politeness, times, Outcome(error_code=code))
    ask(politeness, times, Outcome())  # never made: neither an answer nor silence
    assert not politeness.is_silent(HOST)
    ask(politeness, times, Outcome(error_code="HOST_UNKNOWN"))
    assert politeness.is_silent(HOST)
    assert not politeness.is_silent("other")


def test_requests_that_were_under_way_together_are_one_silence(times: Times) -> None:
    politeness = polite(times, delay_s=0, per_host=5, limits=PolitenessLimits(give_up_after=2))
    assert all(politeness.begin(HOST) for _ in range(5))
    for _ in range(5):
        politeness.end(HOST, Outcome(error_code="TIMEOUT"))
    assert not politeness.is_silent(HOST)
