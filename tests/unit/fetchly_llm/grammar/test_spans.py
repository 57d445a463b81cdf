from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchly_llm.grammar.spans import BREAK, Partial, SpanBounds, SpanIndex, escape, partial, spelling

ANY = (SpanBounds(),)


@pytest.mark.parametrize(
    ("source", "chunks"),
    [
        ("Hello, wörld", ["Hello", ",", " ", "wörld"]),
        ("don't  go", ["don", "'", "t", " ", " ", "go"]),
        ("price $19.99 x_1", ["price", " ", "$", "19.99", " ", "x_1"]),
        ("北京2023年", ["北", "京", "2023", "年"]),
        ("がカ々ー", ["が", "カ", "々", "ー"]),
        ("สวัสดี", ["ส", "วั", "ส", "ดี"]),
        ("हिन्दी भाषा", ["हिन्दी", " ", "भाषा"]),
        ("e\u0301te\u0301 한국어", ["e\u0301te\u0301", " ", "한국어"]),
        ("a\tb\u00a0c", ["a", "\t", "b", "\u00a0", "c"]),
        ("☺\ufe0f ok", ["☺\ufe0f", " ", "ok"]),
        ("", []),
    ],
)
def test_chunks_are_numbers_words_or_single_characters(source: str, chunks: list[str]) -> None:
    assert list(SpanIndex(source).chunks) == chunks


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r", "\x0b", "\x0c", "\x85", "\u2028", "\u2029"])
def test_no_span_crosses_a_line_end(line_end: str) -> None:
    index = SpanIndex(f"foo{line_end}bar")
    assert index.text == "foo\nbar"
    assert index.occurrences("foo") == index.occurrences("bar") == 1
    assert index.count(ANY, 10) == 2


def test_a_character_that_cannot_be_written_ends_a_span() -> None:
    index = SpanIndex("foo ☺ bar\ud800baz", lambda character: character != "☺")
    assert list(index.chunks) == ["foo", " ", BREAK, " ", "bar", BREAK, "baz"]


def test_occurrences_are_whole_chunks_within_a_line_and_may_overlap() -> None:
    index = SpanIndex("x x x, xx\nx x")
    assert index.occurrences("x") == 5
    assert index.occurrences("x x") == 3
    assert index.occurrences("xx") == 1
    assert index.places("x") == [0, 2, 4, 10, 12]
    assert index.places("x") is index.places("x"), "an entry of a list asks at every token"
    assert index.occurrences("x\nx") == index.occurrences("x, xx\nx") == 0


def test_count_respects_bounds_and_limit() -> None:
    index = SpanIndex("a bb  ccc")
    assert index.count([SpanBounds(1, 1)], 10) == 1
    assert index.count([SpanBounds(2, 3)], 10) == 2
    assert index.count([SpanBounds(2, 4)], 10) == 3  # "a bb" too
    assert index.count([SpanBounds(1, 1), SpanBounds(1, 2)], 10) == 2
    assert index.count(ANY, 4) == 4
    assert index.count(ANY, 100) == 6
    assert index.count([SpanBounds(10, 300)], 5) == 0


def test_different_spans_are_counted_once_and_up_to_a_limit() -> None:
    index = SpanIndex("a b a\na b")
    assert index.count(ANY, 100) == 9
    assert index.count_distinct(ANY, 100) == 5  # a, b, "a b", "b a", "a b a"
    assert index.count_distinct(ANY, 3) == 3
    assert index.count_distinct([SpanBounds(1, 1), SpanBounds(1, 2)], 100) == 2


def test_has_free_looks_for_an_unused_continuation() -> None:
    index = SpanIndex('foo bar\nfoo "q')
    everything = {"foo", "foo bar", 'foo "', 'foo "q'}

    def is_left(begun: Partial, used: set[str], bounds: tuple[SpanBounds, ...] = ANY) -> bool:
        return index.has_free(begun, bounds, lambda value: value not in used)

    assert is_left(Partial("foo"), {"foo"})
    assert not is_left(Partial("foo"), everything)
    assert is_left(Partial("foo"), everything - {"foo"})
    assert not is_left(Partial("foo b"), everything)
    assert not is_left(Partial("foo "), {'foo "', 'foo "q'}, (SpanBounds(1, 6),))
    assert is_left(Partial("foo ", b"\\"), {"foo bar"})
    assert not is_left(Partial("foo ", b"\\"), {'foo "', 'foo "q'})
    assert is_left(Partial(""), everything)


@given(st.text(alphabet='aé北👩"\\\t\x01\x7f/u0', max_size=8))
def test_partial_understands_every_cut(value: str) -> None:
    spelt = spelling(value)
    for end in range(len(spelt) + 1):
        begun = partial(spelt[:end])
        assert value.startswith(begun.value)
        assert spelling(begun.value) + begun.tail == spelt[:end]
        if begun.tail:
            assert spelling(value[len(begun.value)]).startswith(begun.tail)
            assert spelling(value[len(begun.value)]) != begun.tail
    assert partial(spelt) == Partial(value)


def test_escape_is_json() -> None:
    text = "".join(map(chr, range(0x20))) + '"\\/é北\x7f'
    assert json.loads(f'"{escape(text)}"') == text
