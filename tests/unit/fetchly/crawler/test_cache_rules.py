"""RFC 9111, rule by rule, for a private cache that errs on the side of asking."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fetchly.crawler.cache_rules import (
    StoredAnswer,
    age_s,
    conditions,
    confirmed,
    is_fresh,
    lifetime_s,
    may_store,
    stored_fields,
)

NOON = 784_900_800.0  # Tue, 15 Nov 1994 12:00:00 GMT
DATE = ("date", "Tue, 15 Nov 1994 12:00:00 GMT")
ETAG = ("etag", '"v1"')


def answer(*fields: tuple[str, str], status: int = 200, asked_at: float = NOON, took_s: float = 0.0) -> StoredAnswer:
    return StoredAnswer(status, fields, asked_at, asked_at + took_s)


def control(value: str) -> tuple[str, str]:
    return ("cache-control", value)


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ([], 0),
        ([control("max-age=60")], 60),
        ([control('max-age="60"')], 60),
        ([control("Max-Age = 60 , private")], 60),
        ([control("public, max-age=60, s-maxage=900")], 60),
        ([control("s-maxage=900")], 0),
        ([control("max-age=60, max-age=30")], 30),
        ([control("max-age=60"), control("max-age=30")], 30),
        ([control("max-age=-1")], 0),
        ([control("max-age=1.5")], 0),
        ([control("max-age")], 0),
        ([control("max-age=")], 0),
        ([control("max-age=" + "9" * 5000)], 2**31),
        ([control('no-cache="a, max-age=7"')], 0),
        ([control("x-max-age=60")], 0),
        ([DATE, ("expires", "Tue, 15 Nov 1994 12:10:00 GMT")], 600),
        ([DATE, ("expires", "Tuesday, 15-Nov-94 12:10:00 GMT")], 600),
        ([DATE, ("expires", "Tue Nov 15 12:10:00 1994")], 600),
        ([("expires", "Tue, 15 Nov 1994 12:10:00 GMT")], 600),  # without a Date: since it came
        ([DATE, ("expires", "Tue, 15 Nov 1994 11:50:00 GMT")], 0),
        ([DATE, ("expires", "0")], 0),
        ([DATE, ("expires", "Tue, 15 Nov 1994 12:10:00 GMT"), ("expires", "-1")], 0),
        ([DATE, ("expires", "Tue, 15 Nov 1994 12:10:00 GMT"), control("max-age=5")], 5),
        ([DATE, ("expires", "Tue, 15 Nov 1994 12:10:00 GMT"), control("max-age=soon")], 0),
        ([DATE, ("expires", "Fri, 31 Dec 99999 23:59:59 GMT")], 0),
        ([DATE, ("last-modified", "Mon, 15 Nov 1993 12:00:00 GMT")], 0),  # no heuristics
    ],
)
def test_how_long_an_answer_is_fresh(fields: list[tuple[str, str]], seconds: int) -> None:
    assert lifetime_s(answer(*fields)) == seconds


@pytest.mark.parametrize(
    ("fields", "took_s", "later_s", "age"),
    [
        ([], 0, 10, 10),
        ([DATE], 0, 10, 10),
        ([("date", "Tue, 15 Nov 1994 11:59:00 GMT")], 0, 10, 70),
        ([("date", "Tue, 15 Nov 1994 12:59:00 GMT")], 0, 10, 10),  # a clock ahead of ours
        ([DATE, ("age", "100")], 0, 10, 110),
        ([DATE, ("age", "100")], 5, 10, 115),  # it aged on its way
        ([("date", "Tue, 15 Nov 1994 11:50:00 GMT"), ("age", "100")], 0, 10, 610),
        ([DATE, ("age", "100, 5")], 0, 10, 110),
        ([DATE, ("age", "old")], 0, 10, 10),
    ],
)
def test_how_old_an_answer_is(fields: list[tuple[str, str]], took_s: float, later_s: float, age: float) -> None:
    assert age_s(answer(*fields, took_s=took_s), NOON + took_s + later_s) == age


def test_an_answer_is_fresh_until_its_age_is_its_lifetime() -> None:
    fresh = answer(DATE, ("age", "10"), control("max-age=60"))
    assert is_fresh(fresh, NOON + 49.9)
    assert not is_fresh(fresh, NOON + 50)


def test_after_the_clock_was_set_back_nothing_is_fresh() -> None:
    assert not is_fresh(answer(DATE, control("max-age=60")), NOON - 1)


@pytest.mark.parametrize("value", ["no-cache, max-age=60", 'max-age=60, no-cache="set-cookie"', "NO-CACHE,max-age=60"])
def test_no_cache_is_never_fresh_and_may_be_kept_to_be_asked_about(value: str) -> None:
    assert not is_fresh(answer(DATE, control(value)), NOON)
    assert may_store(answer(DATE, control(value), ETAG))
    assert not may_store(answer(DATE, control(value)))


def test_pragma_speaks_where_cache_control_does_not() -> None:
    assert not is_fresh(answer(("pragma", "no-cache"), ("expires", "Tue, 15 Nov 1994 12:10:00 GMT")), NOON)
    assert is_fresh(answer(("pragma", "no-cache"), control("max-age=60")), NOON)


@pytest.mark.parametrize(
    ("status", "fields", "may"),
    [
        (200, [control("max-age=60")], True),
        (203, [control("max-age=60")], True),
        (200, [control("private, max-age=60")], True),
        (200, [control("must-revalidate, max-age=60")], True),
        (200, [ETAG], True),
        (200, [("last-modified", "Mon, 15 Nov 1993 12:00:00 GMT")], True),
        (200, [], False),  # neither fresh nor anything to ask by
        (200, [control("max-age=0")], False),
        (200, [control("no-store"), ETAG], False),
        (200, [control("max-age=60"), control("No-Store")], False),
        (200, [control('ext="open, no-store'), ETAG], False),
        (200, [control('ext="closed, no-store"'), ETAG], True),
        (200, [control("max-age=60"), ("vary", "*")], False),
        (200, [control("max-age=60"), ("vary", "accept, *")], False),
        (200, [control("max-age=60"), ("vary", "accept, cookie")], True),
        (204, [control("max-age=60")], False),
        (206, [control("max-age=60"), ETAG], False),
        (404, [control("max-age=60")], False),
        (500, [control("max-age=60")], False),
        (301, [("location", "/b")], False),
        (301, [("location", "/b"), control("max-age=60")], True),
        (302, [("location", "/b"), control("max-age=60")], True),
        (302, [("location", "/b"), ETAG], False),
        (302, [("location", "/b"), control("no-cache, max-age=60"), ETAG], False),
        (302, [control("max-age=60")], False),
    ],
)
def test_what_may_be_kept(status: int, fields: list[tuple[str, str]], may: bool) -> None:
    assert may_store(answer(*fields, status=status)) == may


def test_fields_of_the_connection_are_not_kept() -> None:
    fields = [("Connection", "close, X-Hop"), ("X-Hop", "1"), ("Keep-Alive", "5"), ("ETag", "a"), ("Set-Cookie", "a=1")]
    assert stored_fields([*fields, ("Set-Cookie", "b=2")]) == (
        ("etag", "a"),
        ("set-cookie", "a=1"),
        ("set-cookie", "b=2"),
    )


def test_a_server_is_asked_by_what_it_gave() -> None:
    modified = ("last-modified", "Mon, 15 Nov 1993 12:00:00 GMT")
    assert conditions(answer()) == ()
    assert conditions(answer(ETAG)) == (("if-none-match", '"v1"'),)
    assert conditions(answer(modified, ETAG)) == (("if-none-match", '"v1"'), ("if-modified-since", modified[1]))


def test_a_304_brings_fields_up_to_date_but_those_of_the_body() -> None:
    old = answer(
        DATE, ETAG, control("max-age=1"), ("content-type", "text/html"), ("content-encoding", "gzip"), ("x", "1")
    )
    by = answer(
        ("date", "Tue, 15 Nov 1994 13:00:00 GMT"),
        control("max-age=60"),
        ("content-type", "text/plain"),
        ("content-encoding", "br"),
        ("content-length", "0"),
        ("y", "2"),
        status=304,
        asked_at=NOON + 3600,
    )
    new = confirmed(old, by)
    assert new is not None
    assert set(new.fields) == {
        ETAG, ("content-type", "text/html"), ("content-encoding", "gzip"), ("x", "1"), ("y", "2"),
        ("date", "Tue, 15 Nov 1994 13:00:00 GMT"), control("max-age=60"),
    }  # fmt: skip
    assert (new.status, new.answered_at) == (200, NOON + 3600)
    assert not is_fresh(old, NOON + 3600)
    assert is_fresh(new, NOON + 3659)


@pytest.mark.parametrize(
    ("stored", "said", "holds"),
    [
        ([ETAG], [], True),
        ([ETAG], [ETAG], True),
        ([ETAG], [("etag", 'W/"v1"')], True),
        ([ETAG], [("etag", '"v2"')], False),
        ([ETAG, ("last-modified", "a")], [ETAG, ("last-modified", "b")], True),
        ([("last-modified", "a")], [("last-modified", "a")], True),
        ([("last-modified", "a")], [("last-modified", "b")], False),
        ([("last-modified", "a")], [ETAG], False),
    ],
)
def test_a_304_may_speak_of_another_answer(
    stored: list[tuple[str, str]], said: list[tuple[str, str]], holds: bool
) -> None:
    assert (confirmed(answer(*stored), answer(*said, status=304)) is not None) == holds


@settings(max_examples=40)
@given(st.text(max_size=60), st.sampled_from(["cache-control", "expires", "date", "age", "vary", "pragma", "etag"]))
def test_no_field_of_a_server_breaks_the_rules(value: str, name: str) -> None:
    odd = answer((name, value), control("max-age=60"), DATE, ("expires", "x"))
    may_store(odd)
    assert 0 <= lifetime_s(odd) <= 2**31
    assert age_s(odd, NOON + 1) >= 1
    is_fresh(odd, NOON)


@settings(max_examples=40)
@given(st.lists(st.sampled_from(["max-age=60", "no-store", "private", "a", 'b="c, d"', "public", " ", ""])))
def test_no_store_holds_wherever_it_stands(parts: list[str]) -> None:
    kept = may_store(answer(control(",".join(parts)), ETAG))
    assert kept == ("no-store" not in parts)
