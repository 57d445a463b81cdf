"""What a tokenizer has no bytes for is not offered, or refused where there is no other choice."""

from __future__ import annotations

import json
import random
from functools import cache
from typing import Any

import pytest

from fetchly_llm.errors import GrammarStateLimit, SchemaRefused
from fetchly_llm.grammar.compiler import Grammar, GrammarCompiler
from fetchly_llm.grammar.lint import lint
from fetchly_llm.grammar.prepare import prepare
from tests.support.grammar_walks import accepts, legal, random_document, toy_compiler, write
from tests.support.toy_tokenizer import EOS_IDS, VOCAB_SIZE, toy_tokenizer_json

FAR = "\U00050000"  # its first byte is F1, which SmolLM2's vocabulary lacks as well
SPAN = {"type": "string", "x-verbatim": True}


@cache
def compiler(missing: str = "\xf1\xf2") -> GrammarCompiler:
    """The toy tokenizer without some bytes (by their letters in GPT-2's byte alphabet) and all that is made of them."""
    specification = json.loads(toy_tokenizer_json())
    model = specification["model"]
    model["vocab"] = {token: i for token, i in model["vocab"].items() if not set(token) & set(missing)}
    model["merges"] = [pair for pair in model["merges"] if not set("".join(pair)) & set(missing)]
    return GrammarCompiler(json.dumps(specification), EOS_IDS, VOCAB_SIZE)


def compiled(schema: Any, source: str = "", missing: str = "\xf1\xf2") -> Grammar:
    prepared = prepare(schema, mode="check")
    return compiler(missing).compile(prepared.enforced, source, allowed_escapes=prepared.allowed_escapes)


def closed(**properties: Any) -> dict[str, Any]:
    required = [name for name in properties if name != "maybe"]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"enum": [FAR]}, ""),
        ({"const": f"x{FAR}"}, ""),
        ({"enum": [[FAR], {"a": FAR}, {FAR: 1}]}, ""),
        (closed(a={"type": "string"}, b={"enum": [f"ab{FAR}"]}), "/properties/b"),
        (closed(a=SPAN, b={"enum": [f"ab{FAR}"]}), "/properties/b"),
        (closed(a={"type": "array", "minItems": 1, "items": {"const": FAR}}), "/properties/a/items"),
        (closed(a={"type": "string", "pattern": f"^a{FAR}+$"}), "/properties/a"),
        (closed(a={"type": "string", "pattern": r"^\u{50000}$"}), "/properties/a"),
        (closed(a={"type": "string", "pattern": "^[\U00050000-\U00060000]{2}$"}), "/properties/a"),
        (closed(a={"type": "object", "properties": {FAR: {"type": "null"}}, "required": [FAR]}), "/properties/a"),
        (closed(a={"anyOf": [{"enum": [FAR]}, {"type": "string", "pattern": FAR}]}), "/properties/a"),
        ({"enum": [FAR, None]}, ""),
        (closed(a={"type": ["string", "null"], "pattern": FAR}), "/properties/a"),
    ],
)
def test_where_there_is_no_other_choice_the_schema_is_refused_at_its_place(schema: Any, pointer: str) -> None:
    with pytest.raises(SchemaRefused) as caught:
        compiled(schema, "foo bar")
    assert (caught.value.pointer, caught.value.code) == (pointer, "SCHEMA_UNSATISFIABLE")
    assert "the model's tokenizer cannot spell" in caught.value.message
    warnings = [found.pointer for found in lint(schema) if found.code == "SCHEMA_UNSPELLABLE"]
    assert any(warning.startswith(pointer) for warning in warnings)


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({"enum": ["a", FAR, f"a{FAR}", 1]}, {'"a"', "1"}),
        ({"enum": [FAR, "b", None]}, {'"b"', "null"}),
        ({"anyOf": [{"const": FAR}, {"const": "b"}, {"type": "null"}]}, {'"b"', "null"}),
        ({"anyOf": [{"const": FAR}, {"const": "b"}]}, {'"b"'}),
        (closed(a=SPAN, b={"enum": [f"x{FAR}", "y"]}), {'{"a": "foo", "b": "y"}'}),
        (closed(a={"const": 1}, maybe={"enum": [FAR]}), {'{"a": 1}'}),
        (
            closed(a={"type": "array", "items": {"enum": [FAR, "b"]}, "uniqueItems": True}),
            {'{"a": []}', '{"a": ["b"]}'},
        ),
        ({"type": "object", "properties": {"a": {"const": 1}, FAR: {"const": 2}}}, {"{}", '{"a": 1}'}),
        ({"type": "string", "pattern": f"^[ab{FAR}]$"}, {'"a"', '"b"'}),
        ({"type": "string", "pattern": f"^a({FAR}|bc|b{FAR})$"}, {'"abc"'}),
        ({"type": "string", "pattern": "^[\U0003fffe-\U00040001]$"}, {'"\U0003fffe"', '"\U0003ffff"'}),
        ({"type": "object", "patternProperties": {f"^{FAR}$": {"const": 1}}, "additionalProperties": False}, {"{}"}),
    ],
)
def test_what_is_spelt_is_written_without_a_dead_end(schema: Any, written: set[str]) -> None:
    grammar = compiled(schema, "foo")
    assert {random_document(grammar, random.Random(seed)) for seed in range(40)} == written
    assert any(found.code == "SCHEMA_UNSPELLABLE" for found in lint(schema))


def test_a_vocabulary_of_all_bytes_leaves_nothing_out() -> None:
    for schema in ({"enum": ["a", FAR]}, {"type": "string", "pattern": f"^[ab{FAR}]$"}):
        assert accepts(toy_compiler().compile(schema), FAR)


def test_control_characters_are_spelt_by_their_escapes() -> None:
    assert random_document(compiled({"enum": ["\x04"]}, missing="\u0104"), random.Random(0)) == '"\\u0004"'


def test_what_the_lint_does_not_warn_of_is_refused_and_never_left_out_silently() -> None:
    assert accepts(compiled({"enum": ["東", "a"]}), "東")
    for schema, pointer in (
        ({"enum": ["東", "a"]}, "/enum"),
        ({"type": "object", "properties": {"東": {"type": "null"}}}, "/properties/東"),
    ):
        with pytest.raises(SchemaRefused, match="東") as caught:
            compiled(schema, missing="\xe6")
        assert caught.value.pointer == pointer


def test_a_character_that_is_one_token_needs_no_bytes() -> None:
    """As vocabularies have it that were cut from SentencePiece without its bytes."""
    specification = json.loads(toy_tokenizer_json())
    vocabulary = compiler("\xf1")._vocabulary
    assert not vocabulary.spells(FAR)
    specification["added_tokens"].append(
        {"id": 1041, "content": FAR, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
         "special": False}
    )  # fmt: skip
    specification["model"]["vocab"].pop("\xf1")
    known = GrammarCompiler(json.dumps(specification), EOS_IDS, VOCAB_SIZE)._vocabulary
    assert known.spells(FAR)
    assert known.spells(f"a{FAR}b")
    assert not known.spells("\U00050001")


def test_a_dead_end_that_no_schema_shows_is_a_limit_and_no_assertion() -> None:
    names = {"type": "object", "patternProperties": {f"^(a{FAR}|b)$": {"const": 1}}, "additionalProperties": False}
    matcher = compiled({**names, "minProperties": 1}).matcher()
    assert write(matcher, '{"a')
    assert matcher.forced_tokens() == ()
    with pytest.raises(GrammarStateLimit, match="no token can follow"):
        legal(matcher)


def test_the_lint_names_place_and_character() -> None:
    schema = {"properties": {"a": {"enum": ["x", FAR]}, "b": {"pattern": r"\u{7FFFF}"}, "c": {"const": {FAR: 1}}}}
    found = [finding for finding in lint(schema) if finding.code == "SCHEMA_UNSPELLABLE"]
    assert [finding.pointer for finding in found] == [
        "/properties/a/enum",
        "/properties/b/pattern",
        "/properties/c/const",
    ]
    assert {finding.severity for finding in found} == {"warning"}
    assert "U+50000" in found[0].message
    common = {"properties": {"é東\U0001f469\U000f0000": {"enum": ["\U0010ffff", "\x01"], "pattern": r"^\u{1F469}$"}}}
    assert not [finding for finding in lint(common) if finding.code == "SCHEMA_UNSPELLABLE"]
