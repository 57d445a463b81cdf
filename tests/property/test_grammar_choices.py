"""Spans and lists of choices against brute force: every mask, at every prefix, is what the list of all texts says."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from fetchly_llm.errors import SchemaRefused
from fetchly_llm.grammar.choices import Choices, ListedChoices, SpanChoices
from fetchly_llm.grammar.places import PageSpans, Places
from fetchly_llm.grammar.prepare import prepare
from fetchly_llm.grammar.spans import BREAK, Partial, SpanBounds, SpanIndex, spelling
from fetchly_llm.grammar.uses import Uses
from tests.support.grammar_walks import legal, toy_compiler
from tests.support.toy_tokenizer import EOS_IDS

unhurried = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])

PIECES = ["1", "12", "299", "2024", ".", ",", "'", ":", "-", "$", "/", " ", "\u00a0", "a", "é", "北", '"', "\n"]
sources = st.lists(st.sampled_from(PIECES), max_size=7).map("".join)
bounds = st.sampled_from([SpanBounds(), SpanBounds(1, 3), SpanBounds(2, 5), SpanBounds(4, 4)])
LISTS = ["", "L", "L1", "L12", "L2", 'q"', "q", "\\", "é", "été", "北", "北京", "a b"]
lists = st.lists(st.sampled_from(LISTS), min_size=1, max_size=6, unique=True)


def runs(source: str, within: SpanBounds) -> Counter[str]:
    """Every run of whole chunks within a line that neither begins nor ends with white space, by its places."""
    found: Counter[str] = Counter()
    chunks = SpanIndex(source).chunks
    for start in range(len(chunks)):
        for end in range(start + 1, len(chunks) + 1):
            text = "".join(chunks[start:end])
            inside = BREAK not in text and not chunks[start].isspace() and not chunks[end - 1].isspace()
            if inside and within.minimum <= len(text) <= within.maximum:
                found[text] += 1
    return found


def arrays(limits: Counter[str], least: int, most: int) -> Iterator[list[str]]:
    """All lists of `least` to `most` items that take no item more often than its limit."""
    waiting: list[list[str]] = [[]]
    while waiting:
        items = waiting.pop()
        if len(items) >= least:
            yield items
        if len(items) < most:
            waiting += [[*items, item] for item in limits if items.count(item) < limits[item]]


def arrays_down_the_page(source: str, within: SpanBounds, once: bool, least: int, most: int) -> Iterator[list[str]]:
    """All lists of `least` to `most` items for which there are places of the source, one behind the other."""
    standing = places(source, within)
    found: set[tuple[str, ...]] = set()

    def go_on(items: tuple[str, ...], end: int) -> None:
        if len(items) >= least:
            found.add(items)
        if len(items) < most:
            for value, where in standing.items():
                for place in where:
                    if place.start >= end and not (once and value in items):
                        go_on((*items, value), place.stop)

    go_on((), 0)
    return map(list, found)


def places(source: str, within: SpanBounds) -> dict[str, list[range]]:
    """Where each of `runs` stands, ascending."""
    index = SpanIndex(source)
    found: dict[str, list[range]] = {value: [] for value in runs(source, within)}
    edges = [0, *accumulate(map(len, index.chunks))]
    for first, start in enumerate(edges):
        for end in edges[first + 1 :]:
            if index.text[start:end] in found:
                found[index.text[start:end]].append(range(start, end))
    return found


class Oracle:
    """A finite list of all texts, and what may follow each beginning of one."""

    def __init__(self, values: Sequence[Any]) -> None:
        self._texts = {json.dumps(value, ensure_ascii=False).encode() for value in values}
        self._beginnings = {text[:end] for text in self._texts for end in range(len(text) + 1)}

    def check(self, schema: dict[str, Any], source: str, seed: int) -> None:
        """Walk a random text of the grammar, holding every mask against the list."""
        rng = random.Random(seed)
        matcher = toy_compiler().compile(schema, source).matcher()
        written = b""
        while not matcher.is_terminated:
            expected = [
                token
                for token in range(matcher.vocab_size)
                if token not in EOS_IDS
                and matcher.spelling(token)
                and written + matcher.spelling(token) in self._beginnings
            ]
            found = [token for token in legal(matcher) if token not in EOS_IDS]
            forced = matcher.forced_tokens()
            if forced:
                assert found == [forced[0]], written
                assert found[0] in expected, written
            else:
                assert [matcher.spelling(t) for t in found] == [matcher.spelling(t) for t in expected], written
            assert matcher.is_accepting == (written in self._texts), written
            assert found, written
            token = rng.choice(found)
            matcher.accept(token)
            written += matcher.spelling(token)
        assert written in self._texts


def span(within: SpanBounds) -> dict[str, Any]:
    return {"type": "string", "x-verbatim": True, "minLength": within.minimum, "maxLength": within.maximum}


@unhurried
@given(sources)
def test_chunks_tile_the_text_and_hold_whole_decimals(source: str) -> None:
    index = SpanIndex(source)
    assert "".join(index.chunks) == index.text
    separators = ".,'\u00a0"
    for decimal in re.finditer(rf"(?<![\d{separators}])\d+[.,]\d+(?![{separators}]?\d)", index.text):
        assert decimal[0] in index.chunks, decimal[0]
    for separator in re.finditer(r"(?<=\d)[:/$-](?=\d)", index.text):
        assert separator[0] in index.chunks
    cut = [
        chunk for chunk in index.chunks if re.search(r"^[,']\d|\d[.,']$|[\s:/$-].|.[\n:/$-]", chunk) and chunk != "\n"
    ]
    assert [chunk for chunk in cut if not re.fullmatch(r"\d{1,3}(?:\u00a0\d{3})+(?:[.,]\d+)?", chunk)] == []


@unhurried
@given(sources, bounds)
def test_the_index_counts_what_enumeration_finds(source: str, within: SpanBounds) -> None:
    index, found = SpanIndex(source), runs(source, within)
    assert index.count([within], 10_000) == found.total()
    assert index.count_distinct([within], 10_000) == len(found)
    assert {value: index.occurrences(value) for value in found} == found
    beginnings = {value[:end] for value in found for end in range(len(value) + 1)} | {"1.", "12", "x", "2024."}
    for begun in beginnings:
        expected = any(value.startswith(begun) for value in found)
        assert index.has_free(Partial(begun), [within], lambda _: True) == expected, begun


@unhurried
@given(sources, bounds, st.booleans(), st.data())
def test_dead_prefixes_are_those_without_a_free_span(
    source: str, within: SpanBounds, once: bool, data: st.DataObject
) -> None:
    found = runs(source, within)
    limits = Counter(dict.fromkeys(found, 1)) if once else found
    check_dead(SpanChoices(SpanIndex(source), [within], once=once), limits, data)


@unhurried
@given(lists, st.data())
def test_dead_prefixes_are_those_without_a_free_value(values: list[str], data: st.DataObject) -> None:
    check_dead(ListedChoices(values), Counter(values), data)


def check_dead(choices: Choices, limits: Counter[str], data: st.DataObject) -> None:
    """Take choices at random; after each, every prefix of every choice is dead or alive as enumeration says."""
    uses, left = Uses(choices), Counter(limits)
    prefixes = {spelling(value)[:end] for value in limits for end in range(len(spelling(value)) + 1)}
    while left.total():
        value = data.draw(st.sampled_from(sorted(left)))
        assert uses.allows(value)
        uses = uses.add(value)
        left -= Counter([value])
        assert {value for value in limits if uses.allows(value)} == set(left)
        alive = {prefix for prefix in prefixes if any(spelling(value).startswith(prefix) for value in left)}
        assert {prefix for prefix in prefixes if uses.allows_prefix(prefix)} == alive
        dead = prefixes - alive
        shortest = sorted(prefix for prefix in dead if not prefix or prefix[:-1] in alive)
        assert list(uses.dead_prefixes()) == shortest


@unhurried
@given(sources, bounds, st.integers(0, 2**32))
def test_a_span_is_any_run_of_chunks_within_a_line(source: str, within: SpanBounds, seed: int) -> None:
    found = runs(source, within)
    assume(found)
    Oracle(list(found)).check(span(within), source, seed)


@unhurried
@given(sources, bounds, st.booleans(), st.integers(0, 2), st.integers(1, 3), st.integers(0, 2**32))
def test_every_mask_of_an_array_of_spans_is_exact(
    source: str, within: SpanBounds, once: bool, least: int, most: int, seed: int
) -> None:
    found = runs(source, within)
    limits = Counter(dict.fromkeys(found, 1)) if once else found
    assume(least <= most and len(found) <= 14)
    schema = {"type": "array", "items": span(within), "minItems": least, "maxItems": most, "uniqueItems": once}
    schema = schema if once else {key: value for key, value in schema.items() if key != "uniqueItems"}
    if limits.total() < least:
        with pytest.raises(SchemaRefused) as refused:
            toy_compiler().compile(schema, source)
        assert refused.value.code == "SCHEMA_UNSATISFIABLE"
        return
    texts = arrays(limits, least, most) if least > 1 else arrays_down_the_page(source, within, once, least, most)
    Oracle(list(texts)).check(schema, source, seed)


@unhurried
@given(sources, bounds, st.booleans(), st.data())
def test_what_stands_further_down_is_what_enumeration_finds(
    source: str, within: SpanBounds, once: bool, data: st.DataObject
) -> None:
    standing = places(source, within)
    found = Places(PageSpans(SpanIndex(source), [within], once=once))
    prefixes = {spelling(value)[:end] for value in standing for end in range(len(spelling(value)) + 1)}
    values: list[str] = []
    end = 0
    looks_early = data.draw(st.booleans())  # whether the list of places is there when the first entry comes
    while True:
        left = {
            value: [place for place in where if place.start >= end]
            for value, where in standing.items()
            if where[-1].start >= end and not (once and value in values)
        }
        assert {value for value in standing if found.allows(value)} == set(left)
        if values or looks_early:
            alive = {prefix for prefix in prefixes if any(spelling(value).startswith(prefix) for value in left)}
            assert {prefix for prefix in prefixes if found.allows_prefix(prefix)} == alive
        if not left:
            break
        value = data.draw(st.sampled_from(sorted(left)))
        values.append(value)
        end = left[value][0].stop
        found = found.add(value)


@unhurried
@given(lists, st.integers(0, 4), st.integers(0, 3), st.booleans(), st.booleans(), st.integers(0, 2**32))
def test_every_mask_of_an_array_of_unique_values_is_exact(
    values: list[str], least: int, more: int, is_prepared: bool, has_source: bool, seed: int
) -> None:
    schema = {"type": "array", "items": {"enum": values}, "minItems": least, "maxItems": least + more}
    schema["uniqueItems"] = True
    if least > len(values):
        for refusing in (prepare, toy_compiler().compile):
            with pytest.raises(SchemaRefused) as refused:
                refusing(schema)
            assert (refused.value.code, refused.value.pointer.removesuffix("/minItems")) == ("SCHEMA_UNSATISFIABLE", "")
        return
    texts = list(arrays(Counter(values), least, least + more))
    enforced = prepare(schema).enforced if is_prepared else schema
    if has_source:
        one = {"type": "string", "x-verbatim": True}
        enforced = {
            "type": "object",
            "properties": {"a": enforced, "b": one},
            "required": ["a", "b"],
            "additionalProperties": False,
        }
        Oracle([{"a": items, "b": "x"} for items in texts]).check(enforced, "x", seed)
    else:
        Oracle(texts).check(enforced, "", seed)
