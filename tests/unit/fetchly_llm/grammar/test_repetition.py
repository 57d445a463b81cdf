from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pytest
from tokenizers import Tokenizer

from fetchly_llm.errors import SchemaRefused
from fetchly_llm.grammar.choices import SpanChoices
from fetchly_llm.grammar.compiler import GrammarCompiler
from fetchly_llm.grammar.spans import SpanBounds, SpanIndex
from fetchly_llm.grammar.uses import Uses
from tests.support.grammar_walks import accepts, legal, random_document, toy_compiler, write
from tests.support.toy_tokenizer import EOS_IDS, VOCAB_SIZE, toy_tokenizer_json

SPAN: dict[str, Any] = {"type": "string", "x-verbatim": True}
TAGS: dict[str, Any] = {"type": "array", "items": SPAN, "maxItems": 20}


def closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def test_each_item_is_a_place_further_down_the_page() -> None:
    grammar = toy_compiler().compile(TAGS, "foo bar\nfoo, baz")
    assert accepts(grammar, ["foo", "bar", "foo", "baz"])
    assert accepts(grammar, ["foo bar", "foo", ",", "baz"])
    assert accepts(grammar, ["bar", "foo, baz"])
    assert not accepts(grammar, ["bar", "bar"])
    assert not accepts(grammar, ["bar", "foo bar"])
    assert not accepts(grammar, ["baz", "foo"])
    assert not accepts(grammar, ["foo", "foo", "foo"])


def test_of_several_places_the_first_that_fits_is_taken() -> None:
    grammar = toy_compiler().compile(TAGS, "foo bar\nqux\nfoo baz")
    assert accepts(grammar, ["foo", "bar", "foo baz"])
    assert accepts(grammar, ["foo", "qux", "foo", "baz"])
    assert not accepts(grammar, ["qux", "foo", "bar"])


def test_places_that_minitems_may_need_are_counted_and_may_overlap() -> None:
    grammar = toy_compiler().compile({**TAGS, "minItems": 2}, "foo bar")
    assert accepts(grammar, ["foo", "foo bar", "bar"])
    assert not accepts(grammar, ["foo", "bar", "foo"])


def test_words_count_as_words_and_not_as_parts_of_others() -> None:
    grammar = toy_compiler().compile(TAGS, "car cart scar")
    assert accepts(grammar, ["car", "cart"])
    assert not accepts(grammar, ["car", "car"])


def test_a_prefix_whose_every_continuation_is_used_up_is_closed() -> None:
    grammar = toy_compiler().compile({**TAGS, "items": {**SPAN, "maxLength": 6}}, "kettle\nkitten x")
    matcher = grammar.matcher()
    assert write(matcher, '["kettle", "k')
    assert {matcher.spelling(token)[:1] for token in legal(matcher)} == {b"i"}
    matcher = grammar.matcher()
    assert write(matcher, '["kettle", "kitten", "')
    assert {matcher.spelling(token)[:1] for token in legal(matcher)} == {b"x"}


def test_when_nothing_is_left_the_array_ends() -> None:
    grammar = toy_compiler().compile(TAGS, "foo\nbar")
    matcher = grammar.matcher()
    assert write(matcher, '["foo", "bar')
    starts = {matcher.spelling(token) for token in legal(matcher)}
    assert starts <= {b'"', b'"]'}
    matcher.accept(next(token for token in legal(matcher) if matcher.spelling(token) == b'"'))
    assert {matcher.spelling(token) for token in legal(matcher)} == {b"]"}


def test_a_token_that_spells_several_items_is_seen_through() -> None:
    tokenizer = Tokenizer.from_str(toy_tokenizer_json())
    assert tokenizer.add_tokens(['["x", "x"', '["x", "y"', '", "y"]']) == 3
    compiler = GrammarCompiler(tokenizer.to_str(), EOS_IDS, VOCAB_SIZE)
    matcher = compiler.compile(TAGS, "x\ny").matcher()
    spelt = {matcher.spelling(token) for token in legal(matcher)}
    assert b'["x", "y"' in spelt
    assert b'["x", "x"' not in spelt
    assert write(matcher, '["y')
    assert b'", "y"]' not in {matcher.spelling(token) for token in legal(matcher)}
    matcher = compiler.compile(TAGS, "x\ny").matcher()
    assert write(matcher, '["x')
    assert b'", "y"]' in {matcher.spelling(token) for token in legal(matcher)}


def test_a_token_that_asks_for_an_item_too_many_is_seen_through() -> None:
    tokenizer = Tokenizer.from_str(toy_tokenizer_json())
    assert tokenizer.add_tokens(['["x", ', 'b", "t": ["a", "a"', 'b", "t": ["a", "c"']) == 3
    compiler = GrammarCompiler(tokenizer.to_str(), EOS_IDS, VOCAB_SIZE)
    for source, fits in (("x", False), ("x y", True)):
        matcher = compiler.compile(TAGS, source).matcher()
        assert (b'["x", ' in {matcher.spelling(token) for token in legal(matcher)}) == fits
    letters = {"type": "array", "items": {"enum": ["a", "c"]}, "maxItems": 3, "uniqueItems": True}
    records = {"type": "array", "items": closed(s=SPAN, t=letters), "maxItems": 3}
    matcher = compiler.compile(records, "b").matcher()
    assert write(matcher, '[{"s": "')
    spelt = {matcher.spelling(token) for token in legal(matcher)}
    assert b'b", "t": ["a", "c"' in spelt
    assert b'b", "t": ["a", "a"' not in spelt


def test_null_items_do_not_count_and_stay_possible() -> None:
    grammar = toy_compiler().compile({**TAGS, "items": {**SPAN, "type": ["string", "null"]}}, "foo")
    assert accepts(grammar, ["foo", None, None])
    assert not accepts(grammar, ["foo", None, "foo"])


def test_each_array_counts_for_itself() -> None:
    schema = {"type": "array", "items": TAGS, "maxItems": 3}
    grammar = toy_compiler().compile(closed(a=TAGS, b=TAGS, c=schema), "foo bar")
    assert accepts(grammar, {"a": ["foo"], "b": ["foo"], "c": [["foo"], ["foo", "bar"]]})
    assert not accepts(grammar, {"a": ["foo", "foo"], "b": [], "c": []})
    assert not accepts(grammar, {"a": [], "b": [], "c": [["foo"], ["bar", "bar"]]})


def test_escapes_and_split_characters_are_seen_through() -> None:
    source = 'say "hi" \\ 北京 北\t北京'
    grammar = toy_compiler().compile(TAGS, source)
    for seed in range(5):
        rng = random.Random(seed)
        for text, fits in (
            ('["\\"", "hi", "\\"", "\\\\"]', True),
            ('["\\"", "\\"", "\\""]', False),
            ('["\\\\", "\\\\"]', False),
            ('["北", "北", "北", "京"]', True),
            ('["北京", "北", "北", "京"]', True),
            ('["北", "北京", "北", "北"]', False),
            ('["北京", "北京", "北京"]', False),
            ('["北\\t北京"]', True),
            ('["北\\t北", "北\\t北京"]', False),
            ('["北\\t北", "北\\t北"]', False),
        ):
            assert write(grammar.matcher(), text, rng) == fits, text


@pytest.mark.parametrize("source", ["a", "a b", "a a\nb", 'q "q"\nq', "北京北", "foo bar foo\nfoo bar"])
def test_random_arrays_never_exceed_the_page_and_reach_its_limit(source: str) -> None:
    index = SpanIndex(source)
    total = index.count([SpanBounds()], 10_000)
    grammar = toy_compiler().compile({**TAGS, "minItems": min(total, 20)}, source)
    rng = random.Random(0)
    for _ in range(10):
        value = json.loads(random_document(grammar, rng))
        assert len(value) >= min(total, 20)
        assert all(count <= index.occurrences(item) for item, count in Counter(value).items())


def test_a_record_that_repeats_ends_its_array() -> None:
    record = closed(name=SPAN, size={"enum": ["S", "M"]})
    schema = {"type": "array", "items": record, "maxItems": 9}
    grammar = toy_compiler().compile(schema, "kettle pot\nkettle")
    kettle, pot = {"name": "kettle", "size": "S"}, {"name": "pot", "size": "S"}
    assert accepts(grammar, [kettle, pot, kettle, {"name": "kettle", "size": "M"}])
    assert accepts(grammar, [pot, kettle, pot])  # the repetition itself stays
    assert not accepts(grammar, [pot, kettle, pot, kettle])
    assert accepts(grammar, [kettle, kettle, pot])
    assert not accepts(grammar, [kettle, kettle, kettle, pot])
    assert accepts(toy_compiler().compile({**schema, "minItems": 4}, "kettle pot"), [pot, pot, pot, pot])
    assert not accepts(toy_compiler().compile({**schema, "minItems": 4}, "kettle pot"), [pot] * 5)


def link_schema(count: int, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": {"enum": [f"L{number}" for number in range(1, count + 1)]}, **more}


def test_unique_values_are_taken_once_and_the_array_ends_when_none_is_left() -> None:
    grammar = toy_compiler().compile(link_schema(12, maxItems=20, uniqueItems=True))
    assert accepts(grammar, ["L12", "L1", "L11", "L2"])
    assert not accepts(grammar, ["L1", "L12", "L1"])
    every = [f"L{number}" for number in range(1, 13)]
    assert accepts(grammar, every)
    assert write(matcher := grammar.matcher(), json.dumps(every)[:-1])
    assert {matcher.spelling(token) for token in legal(matcher)} == {b"]"}


def test_the_beginning_of_other_values_is_closed_only_with_the_last_of_them() -> None:
    grammar = toy_compiler().compile(link_schema(12, maxItems=20, uniqueItems=True))
    for taken, following in (
        (["L1"], {b"0", b"1", b"2"}),
        (["L1", "L10", "L11"], {b"2"}),
        (["L10", "L11", "L12"], {b'"'}),
    ):
        matcher = grammar.matcher()
        assert write(matcher, json.dumps(taken)[:-1] + ', "L1')
        assert {matcher.spelling(token)[:1] for token in legal(matcher)} == following
    matcher = grammar.matcher()
    assert write(matcher, '["L1", "L10", "L11", "L12", "L')
    assert {matcher.spelling(token)[:1] for token in legal(matcher)} == {b"%d" % digit for digit in range(2, 10)}


def test_unique_spans_are_taken_once_however_often_they_stand_on_the_page() -> None:
    grammar = toy_compiler().compile({**TAGS, "uniqueItems": True}, "foo bar\nfoo")
    assert accepts(grammar, ["foo bar", "foo"])
    assert not accepts(grammar, ["foo", "bar", "foo"])
    with pytest.raises(SchemaRefused) as refused:
        toy_compiler().compile({**TAGS, "uniqueItems": True, "minItems": 2}, "foo\nfoo")
    assert refused.value.code == "SCHEMA_UNSATISFIABLE"


def test_unique_values_need_no_source_and_cost_nothing_elsewhere() -> None:
    links = link_schema(3, maxItems=3, uniqueItems=True)
    assert toy_compiler().compile(links).rule is not None
    assert toy_compiler().compile(link_schema(3, maxItems=3)).rule is None
    grammar = toy_compiler().compile({"$ref": "#/$defs/page", "$defs": {"page": closed(a=links, b=links)}})
    assert accepts(grammar, {"a": ["L1", "L2"], "b": ["L1"]})
    assert not accepts(grammar, {"a": ["L1", "L1"], "b": []})
    assert not accepts(grammar, {"a": [], "b": ["L3", "L3"]})


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"type": "array", "items": {"enum": ["a", None]}, "uniqueItems": True}, "/uniqueItems"),
        ({"type": "array", "items": {"enum": ["a\tb", "c"]}, "uniqueItems": True}, "/uniqueItems"),
        ({"type": "array", "items": {"type": "string", "maxLength": 3}, "uniqueItems": True}, "/uniqueItems"),
        ({"type": "array", "items": {"anyOf": [SPAN, {"const": "x"}]}, "uniqueItems": True}, "/uniqueItems"),
        ({"type": "array", "items": {"enum": ["ab"], "minLength": 1}, "uniqueItems": True}, "/uniqueItems"),
        ({"anyOf": [link_schema(2, uniqueItems=True), link_schema(3)]}, "/anyOf/0/uniqueItems"),
        ({"anyOf": [link_schema(2, uniqueItems=True), {"const": ["L1"]}]}, "/anyOf/0/uniqueItems"),
        ({"anyOf": [{**TAGS, "uniqueItems": True}, TAGS]}, "/anyOf/0/uniqueItems"),
        (closed(a=link_schema(2)) | {"oneOf": [link_schema(2, uniqueItems=True)]}, "/oneOf/0/uniqueItems"),
        (
            {"type": "object", "additionalProperties": link_schema(2, uniqueItems=True)},
            "/additionalProperties/uniqueItems",
        ),
        (
            {
                "type": "object",
                "properties": {"a": {"$ref": "#/$defs/u"}},
                "additionalProperties": {"$ref": "#/$defs/u"},
                "$defs": {"u": link_schema(2, uniqueItems=True)},
            },
            "/$defs/u/uniqueItems",
        ),
    ],
)
def test_uniqueness_that_the_text_does_not_show_is_refused(schema: dict[str, Any], pointer: str) -> None:
    with pytest.raises(SchemaRefused) as refused:
        toy_compiler().compile(schema, "x y")
    assert (refused.value.code, refused.value.pointer) == ("SCHEMA_KEYWORD_NOT_ENFORCED", pointer)


def test_alternatives_with_the_same_unique_items_are_no_conflict() -> None:
    links = link_schema(3, maxItems=5, uniqueItems=True)
    schema = {"anyOf": [closed(a=links), closed(a={**links, "minItems": 2}, b=SPAN), {"type": "null"}]}
    grammar = toy_compiler().compile(schema, "x")
    assert accepts(grammar, {"a": ["L1", "L3"], "b": "x"})
    assert not accepts(grammar, {"a": ["L1", "L1"], "b": "x"})
    assert accepts(grammar, None)


def test_records_without_a_span_are_left_alone() -> None:
    record = closed(name={**SPAN, "type": ["string", "null"]})
    grammar = toy_compiler().compile({"type": "array", "items": record, "maxItems": 9}, "x")
    assert accepts(grammar, [{"name": None}] * 4)


def test_arrays_without_spans_are_left_alone() -> None:
    free = {"type": "array", "items": {"type": "string", "maxLength": 3}, "maxItems": 5}
    grammar = toy_compiler().compile(closed(a=free, b=TAGS), "x")
    assert accepts(grammar, {"a": ["x", "x", "x"], "b": ["x"]})
    assert toy_compiler().compile(closed(a=free, b=SPAN), "x").rule is None


def test_constants_beside_spans_in_records_do_not_count() -> None:
    record = closed(name={"anyOf": [SPAN, {"enum": ["§ none"]}]})
    grammar = toy_compiler().compile({"type": "array", "items": record, "maxItems": 9}, "x")
    assert accepts(grammar, [{"name": "§ none"}] * 3)
    assert not accepts(grammar, [{"name": "x"}] * 3)


def test_an_empty_array_is_no_second_kind_of_array() -> None:
    empty = {"type": "array", "items": {"type": "string", "maxLength": 3}, "maxItems": 0}
    grammar = toy_compiler().compile({"anyOf": [closed(a=TAGS), closed(a=empty, b=SPAN)]}, "x y")
    assert accepts(grammar, {"a": ["x"]})
    assert accepts(grammar, {"a": [], "b": "x"})
    assert not accepts(grammar, {"a": ["x", "x"]})


def test_alternatives_are_told_apart_by_key_and_bracket() -> None:
    schema = {
        "anyOf": [
            {"enum": [[], {"b": ["x"]}]},
            closed(a=TAGS),
            closed(b={"type": "array", "items": {"enum": ["x"]}, "maxItems": 5}),
            TAGS,
        ]
    }
    grammar = toy_compiler().compile(schema, "x y")
    assert accepts(grammar, {"b": ["x", "x"]})
    assert not accepts(grammar, {"a": ["x", "x"]})
    assert not accepts(grammar, ["x", "x"])


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({**TAGS, "items": {"anyOf": [SPAN, {"enum": ["n/a"]}]}}, "/items"),
        ({**TAGS, "items": {"anyOf": [SPAN, True]}}, "/items"),
        ({"anyOf": [TAGS, {**TAGS, "items": {**SPAN, "maxLength": 3}}]}, "/anyOf/0/items"),
        ({"anyOf": [closed(a=TAGS), closed(a={"type": "array"}, b=SPAN)]}, "/anyOf/0/properties/a/items"),
        ({"anyOf": [closed(a=TAGS), {"const": {"a": ["x", "x"]}}]}, "/anyOf/0/properties/a/items"),
        ({"anyOf": [closed(a=TAGS), {"enum": [3, ["x"], {"a": [["x"]]}]}]}, "/anyOf/0/properties/a/items"),
        ({"anyOf": [closed(a=TAGS), {"type": "object", "maxProperties": 3}]}, "/anyOf/0/properties/a/items"),
        ({"anyOf": [TAGS, {"enum": [["x", "x"]]}]}, "/anyOf/0/items"),
    ],
)
def test_what_cannot_be_told_apart_is_refused(schema: dict[str, Any], pointer: str) -> None:
    with pytest.raises(SchemaRefused) as refused:
        toy_compiler().compile(schema, "x y")
    assert (refused.value.code, refused.value.pointer) == ("SCHEMA_KEYWORD_NOT_ENFORCED", pointer)


def test_two_lengths_of_span_in_one_array() -> None:
    items = {"anyOf": [{**SPAN, "maxLength": 2}, {**SPAN, "minLength": 5, "maxLength": 7}]}
    grammar = toy_compiler().compile({**TAGS, "items": items}, "ab abcde abc")
    assert accepts(grammar, ["ab", "abcde"])
    assert not accepts(grammar, ["ab", "ab"])
    assert not accepts(grammar, ["abc"])


def spans_of(source: str, *bounds: SpanBounds, once: bool = False) -> Uses:
    return Uses(SpanChoices(SpanIndex(source), bounds or (SpanBounds(),), once=once))


def test_uses_find_the_shortest_dead_prefix() -> None:
    uses = spans_of("kettle kitten\nkettle", SpanBounds(1, 6))
    assert uses.dead_prefixes() == ()
    uses = uses.add("kettle")
    assert uses.allows("kettle")
    assert uses.dead_prefixes() == ()
    once = uses.add("kettle")
    assert not once.allows("kettle")
    assert once.dead_prefixes() == (b"ke",)
    assert once.allows_prefix(b"k")
    assert not once.allows_prefix(b"ke")
    assert once.add("kitten").dead_prefixes() == (b"",)
    assert uses.allows("kettle")  # adding made a new one


def test_a_span_that_is_the_beginning_of_others_stays_open() -> None:
    uses = spans_of("foo bar").add("foo")
    assert not uses.allows("foo")
    assert uses.allows_prefix(b"foo")
    assert uses.dead_prefixes() == ()
    assert uses.add("foo bar").dead_prefixes() == (b"f",)


def test_a_unique_span_is_used_up_by_one_use() -> None:
    assert not spans_of("foo\nfoo", once=True).add("foo").allows("foo")
    assert spans_of("foo\nfoo").add("foo").allows("foo")


def test_a_number_and_its_beginning_are_told_apart() -> None:
    uses = spans_of("12.5\n12.").add("12.5")
    assert not uses.allows("12.5")
    assert uses.allows_prefix(b"12.")  # the other 12 and its full stop
    assert uses.dead_prefixes() == (b"12.5",)
    assert uses.add("12").dead_prefixes() == (b"12.5",)
    assert uses.add("12.").dead_prefixes() == (b"12.",)
