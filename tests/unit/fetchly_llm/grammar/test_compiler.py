from __future__ import annotations

import random
import threading
from typing import Any

import pytest

from fetchly_llm.errors import ModelUnsupported, RequestInvalid, SchemaRefused
from fetchly_llm.grammar.compiler import GrammarCompiler
from fetchly_llm.grammar.lark import layout
from fetchly_llm.grammar.refusal import locate
from fetchly_llm.grammar.schema_graph import SchemaGraph
from tests.support.grammar_walks import accepts, random_document, toy_compiler, write
from tests.support.toy_tokenizer import EOS_IDS, VOCAB_SIZE, toy_tokenizer_json

STRING = {"type": "string", "maxLength": 5}
SPAN = {"type": "string", "x-verbatim": True}


def closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def test_layout_is_fixed() -> None:
    schema = closed(a={"type": "array", "items": {"type": "integer", "maximum": 9}, "maxItems": 3}, é=STRING)
    grammar = toy_compiler().compile(schema)
    assert accepts(grammar, {"a": [1, 2], "é": 'ü"'})
    matcher = grammar.matcher()
    for text in ('{"a":[1]', '{ "a": [1]', '{"a": [1,2]', '{"a": [1 ', '{"a": [1], "é": "\\u00fc'):
        assert not write(matcher, text), text
        matcher.rollback(len(matcher))


def test_x_guidance_of_the_schema_has_no_say() -> None:
    schema = {**closed(a=STRING), "x-guidance": {"whitespace_pattern": " ", "whitespace_flexible": True}}
    assert '{"a": "' in random_document(toy_compiler().compile(schema), random.Random(0))


def test_escapes_can_be_narrowed() -> None:
    assert accepts(toy_compiler().compile(STRING), "a\tb")
    narrow = toy_compiler().compile(STRING, allowed_escapes='"\\')
    assert accepts(narrow, 'a"\\')
    assert not accepts(narrow, "a\tb")
    nested = toy_compiler().compile(closed(a=STRING, b=SPAN), "x", allowed_escapes='"\\')
    assert not accepts(nested, {"a": "\t", "b": "x"})


def test_the_source_matters_only_to_verbatim_schemas() -> None:
    compiler = GrammarCompiler(toy_tokenizer_json(), EOS_IDS, VOCAB_SIZE)
    assert compiler.compile(STRING, "a") is compiler.compile(STRING, "b")
    assert compiler.compile(SPAN, "a") is not compiler.compile(SPAN, "b")
    assert compiler.compile(SPAN, "a") is compiler.compile(SPAN, "a")
    assert compiler.compile(STRING) is not compiler.compile(STRING, allowed_escapes='"')
    reordered = closed(b=STRING, a=STRING)
    assert compiler.compile(closed(a=STRING, b=STRING)) is not compiler.compile(reordered)


def test_a_verbatim_definition_that_nothing_uses_does_not_matter() -> None:
    schema = {**closed(a=STRING), "$defs": {"span": SPAN}}
    assert toy_compiler().compile(schema, "a") is toy_compiler().compile(schema, "b")


def test_a_grammar_without_a_first_token_is_refused() -> None:
    circle = {"a": {"$id": "a", "$ref": "b"}, "b": {"$id": "b", "$ref": "a"}}
    with pytest.raises(SchemaRefused, match="begun") as refused:
        toy_compiler().compile({"$id": "https://example.com/", "$ref": "a", "$defs": circle})
    assert refused.value.code == "SCHEMA_UNSATISFIABLE"


def test_the_cache_forgets_what_was_used_longest_ago() -> None:
    compiler = GrammarCompiler(toy_tokenizer_json(), EOS_IDS, VOCAB_SIZE, cache_entries=2)
    first, second = compiler.compile(SPAN, "a"), compiler.compile(SPAN, "b")
    assert compiler.compile(SPAN, "a") is first
    compiler.compile(SPAN, "c")
    assert compiler.compile(SPAN, "a") is first
    assert compiler.compile(SPAN, "b") is not second


def test_the_cache_is_bounded_by_the_length_of_its_sources() -> None:
    compiler = GrammarCompiler(toy_tokenizer_json(), EOS_IDS, VOCAB_SIZE, cache_characters=10)
    first, second = compiler.compile(SPAN, "a" * 6), compiler.compile(SPAN, "b" * 4)
    assert compiler.compile(SPAN, "a" * 6) is first
    long = compiler.compile(SPAN, "c" * 50)
    assert compiler.compile(SPAN, "c" * 50) is long
    assert compiler.compile(SPAN, "b" * 4) is not second


@pytest.mark.parametrize(
    ("schema", "code", "pointer"),
    [
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, "SCHEMA_REFERENCE", "/$defs/a/$ref"),
        (closed(x={"$ref": "#/$defs/missing"}), "SCHEMA_REFERENCE", "/properties/x/$ref"),
        (closed(x={"$ref": "https://example.com/s.json"}), "SCHEMA_REFERENCE", "/properties/x/$ref"),
        (closed(x={"$ref": "#"}), "SCHEMA_UNSATISFIABLE", "/properties/x"),
        (closed(x=False), "SCHEMA_UNSATISFIABLE", "/properties/x"),
        (closed(x={"anyOf": [False, {"enum": []}]}), "SCHEMA_UNSATISFIABLE", "/properties/x/anyOf/0"),
        ({"type": "array", "items": {"enum": []}, "minItems": 1}, "SCHEMA_UNSATISFIABLE", "/items"),
        (
            closed(x=closed(y={"type": "integer", "minimum": 3, "maximum": 2})),
            "SCHEMA_UNSATISFIABLE",
            "/properties/x/properties/y",
        ),
        (closed(x={"allOf": [{"type": "string"}, {"type": "null"}]}), "SCHEMA_UNSATISFIABLE", "/properties/x"),
        (closed(x={"not": {"type": "string"}}), "SCHEMA_KEYWORD_NOT_ENFORCED", "/properties/x/not"),
        ({"type": "array", "items": STRING, "uniqueItems": True}, "SCHEMA_KEYWORD_NOT_ENFORCED", "/uniqueItems"),
        (closed(x={"type": "string", "format": "color"}), "SCHEMA_KEYWORD_NOT_ENFORCED", "/properties/x/format"),
        (closed(x={"oneOf": [STRING, {"type": "string"}]}), "SCHEMA_KEYWORD_NOT_ENFORCED", "/properties/x/oneOf"),
        (closed(x={"type": "string", "pattern": "(?=a)b"}), "SCHEMA_KEYWORD_NOT_ENFORCED", "/properties/x/pattern"),
        (
            {"type": "object", "properties": {"a": STRING}, "minProperties": 1},
            "SCHEMA_KEYWORD_NOT_ENFORCED",
            "/minProperties",
        ),
        (
            {"$ref": "#/$defs/a", "$defs": {"a": closed(x={"type": "string", "format": "color"})}},
            "SCHEMA_KEYWORD_NOT_ENFORCED",
            "/$defs/a/properties/x/format",
        ),
        (closed(x={"type": "whatever"}), "SCHEMA_INVALID", "/properties/x"),
        (closed(x=7), "SCHEMA_INVALID", "/properties/x"),
    ],
)
def test_refusals_have_a_code_and_a_place(schema: dict[str, Any], code: str, pointer: str) -> None:
    with pytest.raises(SchemaRefused) as refused:
        toy_compiler().compile(schema)
    assert (refused.value.code, refused.value.pointer) == (code, pointer)
    assert "non-verbose" not in refused.value.message


def test_an_optional_branch_without_a_value_is_left_out() -> None:
    grammar = toy_compiler().compile({**closed(a=STRING, b=SPAN), "required": ["a"]}, "")
    assert accepts(grammar, {"a": "x"})


def test_a_definition_that_nothing_uses_may_be_hopeless() -> None:
    schema = {**closed(a=STRING), "$defs": {"never": False, "round": closed(x={"$ref": "#/$defs/round"})}}
    assert accepts(toy_compiler().compile(schema), {"a": "x"})


def test_recursion_with_a_way_out_is_fine() -> None:
    schema = {
        "type": "object",
        "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
        "required": ["next"],
        "additionalProperties": False,
    }
    assert accepts(toy_compiler().compile(schema), {"next": {"next": None}})


def test_a_compilation_that_takes_too_long_is_refused() -> None:
    compiler = GrammarCompiler(toy_tokenizer_json(), EOS_IDS, VOCAB_SIZE, time_limit_s=0.001)
    with pytest.raises(SchemaRefused, match="longer than") as refused:
        compiler.compile({"enum": [f"value {index}" for index in range(3000)]})
    assert refused.value.code == "SCHEMA_TOO_LARGE"


@pytest.mark.parametrize(
    "message",
    [
        "initial lexer configuration (grammar) too big (limit for this grammar: 1000000)",
        "grammar size (number of symbols) too large: 500001 > 500000",
        "recursion limit exceeded at line 1 column 1",
        "too many expressions constructed",
    ],
)
def test_a_schema_beyond_the_limits_is_refused(message: str) -> None:
    graph = SchemaGraph({"type": "string"})
    refusal = locate(message, graph, toy_compiler()._tokenizer, layout())
    assert (refusal.code, refusal.pointer) == ("SCHEMA_TOO_LARGE", "")
    assert message in refusal.message
    assert refusal.hint


def test_long_pages_compile() -> None:
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(1, 9))) for _ in range(4000)]
    source = "\n".join(" ".join(rng.choices(words, k=12)) for _ in range(1800))[:120_000]
    assert len(source) > 115_000
    grammar = toy_compiler().compile({"type": "array", "items": SPAN, "maxItems": 3}, source)
    line = source.splitlines()[-2]
    first, rest = line.split(" ", 1)
    assert accepts(grammar, [first, rest, source.splitlines()[-1].split()[0]])


def test_a_page_that_repeats_itself_compiles() -> None:
    grammar = toy_compiler().compile({"type": "array", "items": SPAN, "maxItems": 3}, ("a a b " * 50 + "\n") * 60)
    assert accepts(grammar, ["a a b a", "b a", "a"])


def test_compiling_from_several_threads() -> None:
    compiler = GrammarCompiler(toy_tokenizer_json(), EOS_IDS, VOCAB_SIZE)
    written: list[str] = []

    def work(seed: int) -> None:
        grammar = compiler.compile(closed(a=SPAN), f"word{seed % 2} x")
        written.append(random_document(grammar, random.Random(seed)))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(written) == 8


def test_a_tokenizer_that_does_not_fit_is_refused() -> None:
    with pytest.raises(RequestInvalid):
        GrammarCompiler("some/model", EOS_IDS, VOCAB_SIZE)
    with pytest.raises(RequestInvalid):
        GrammarCompiler(toy_tokenizer_json(), [VOCAB_SIZE], VOCAB_SIZE)
    with pytest.raises(RequestInvalid):
        GrammarCompiler(toy_tokenizer_json(), [], VOCAB_SIZE)
    with pytest.raises(ModelUnsupported):
        GrammarCompiler(toy_tokenizer_json(), EOS_IDS, 500)
    with pytest.raises(ModelUnsupported):
        GrammarCompiler("{}", EOS_IDS, VOCAB_SIZE)
