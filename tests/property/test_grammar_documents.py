"""Grammars of random schemas over random sources: whatever they write is valid, whatever is valid they can write."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from typing import Any

import jsonschema
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from fetchly_llm.errors import SchemaRefused
from fetchly_llm.grammar.compiler import Grammar
from tests.support.grammar_walks import random_document, toy_compiler, write
from tests.support.verbatim_schemas import DocumentWriter, Schema, line_substrings, schemas, sources, span_places

unhurried = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def refusal_of(schema: Schema, source: str) -> str | None:
    """The code under which the compiler refuses, or None."""
    try:
        toy_compiler().compile(schema, source)
    except SchemaRefused as refusal:
        return refusal.code
    return None


def compiled(schema: Schema, source: str) -> Grammar:
    """The grammar; examples that are refused (two kinds of arrays at one place, nothing to write) are passed over."""
    code = refusal_of(schema, source)
    assert code in (None, "SCHEMA_UNSATISFIABLE", "SCHEMA_KEYWORD_NOT_ENFORCED", "SCHEMA_REFERENCE"), code
    assume(code is None)
    return toy_compiler().compile(schema, source)


def respelt(escape: re.Match[str]) -> str:
    return json.dumps(json.loads(f'"{escape[0]}"'), ensure_ascii=False)[1:-1]


def check_spans(value: Any, schema: Schema, root: Schema, substrings: set[str]) -> bool:
    """Whether `value` satisfies `schema` with every x-verbatim string a substring of a line, without outer space."""
    if "$ref" in schema:
        return check_spans(value, root["$defs"][schema["$ref"].split("/")[-1]], root, substrings)
    if "anyOf" in schema:
        return any(check_spans(value, member, root, substrings) for member in schema["anyOf"])
    if "allOf" in schema:
        return all(check_spans(value, member, root, substrings) for member in schema["allOf"])
    if not jsonschema.Draft202012Validator({**schema, "$defs": root["$defs"]}).is_valid(value):
        return False
    if isinstance(value, str) and schema.get("x-verbatim"):
        return value in substrings and value == value.strip() and len(value) <= schema.get("maxLength", 300)
    if isinstance(value, dict):
        return all(
            check_spans(child, schema["properties"][key], root, substrings)
            for key, child in value.items()
            if "properties" in schema
        )
    if isinstance(value, list) and "items" in schema:
        return all(check_spans(child, schema["items"], root, substrings) for child in value)
    return True


@unhurried
@given(schemas, sources, st.integers(0, 2**32))
def test_whatever_is_written_is_valid(schema: Schema, source: str, seed: int) -> None:
    grammar = compiled(schema, source)
    rng = random.Random(seed)
    substrings = line_substrings(source)
    for _ in range(3):
        text = random_document(grammar, rng)
        value = json.loads(text)
        shortest = re.sub(r"\\(?:\\|u00[01][0-9a-fA-F]|u007[fF])", respelt, text)  # free strings escape as they like
        assert re.sub(r"-0\b", "0", shortest) == json.dumps(value, ensure_ascii=False)  # -0 is an integer too
        jsonschema.validate(value, schema)
        assert check_spans(value, schema, schema, substrings), text


@unhurried
@given(schemas, sources, st.integers(0, 2**32))
def test_whatever_is_valid_can_be_written(schema: Schema, source: str, seed: int) -> None:
    grammar = compiled(schema, source)
    rng = random.Random(seed)
    for _ in range(3):
        try:
            value = DocumentWriter(schema, source, rng).draw()
        except (LookupError, RecursionError):
            assume(False)
        text = json.dumps(value, ensure_ascii=False)
        matcher = grammar.matcher()
        assert write(matcher, text, rng), (text, matcher.text)
        assert matcher.is_accepting
        assert matcher.text == text


@unhurried
@given(sources, st.integers(0, 5), st.integers(0, 12), st.sampled_from([None, 3, 8]), st.integers(0, 2**32))
def test_no_array_repeats_a_span_more_often_than_the_page(
    source: str, least: int, more: int, longest: int | None, seed: int
) -> None:
    item: Schema = {"type": "string", "x-verbatim": True, **({} if longest is None else {"maxLength": longest})}
    schema = {"type": "array", "items": item, "minItems": least, "maxItems": least + more}
    places = Counter(place for place in span_places(source) if len(place) <= (longest or 300))
    code = refusal_of(schema, source)
    if places.total() < least:
        assert code == "SCHEMA_UNSATISFIABLE"
        return
    assert code is None
    grammar = toy_compiler().compile(schema, source)
    rng = random.Random(seed)
    for _ in range(4):
        value = json.loads(random_document(grammar, rng))
        assert all(count <= places[item] for item, count in Counter(value).items()), value
        assert least <= len(value) <= least + more
