"""Findings: codes, places, severities and wording."""

from __future__ import annotations

from typing import Any

import pytest

from fetchly_llm.grammar.findings import Finding
from fetchly_llm.grammar.lint import lint


def found(schema: Any, code: str, mode: str = "strict") -> Finding:
    """The first finding of the code; fails where there is none."""
    findings = lint(schema, mode)  # type: ignore[arg-type]
    return next(finding for finding in findings if finding.code == code)


def codes(schema: Any, mode: str = "strict") -> list[str]:
    return [finding.code for finding in lint(schema, mode) if finding.severity == "error"]  # type: ignore[arg-type]


def test_a_plain_schema_has_no_error_and_no_warning() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "title": "Product",
        "properties": {"name": {"type": "string", "x-verbatim": True, "x-line": "mine"}, "price": {"type": "number"}},
        "required": ["name"],
    }
    assert [finding for finding in lint(schema) if finding.severity != "notice"] == []


@pytest.mark.parametrize(
    ("keyword", "value", "meant"),
    [
        ("requried", ["a"], "did you mean `required`?"),
        ("proprties", {}, "did you mean `properties`?"),
        ("nullable", True, '"type": ["string", "null"]'),
        ("min_length", 3, "did you mean `minLength`?"),
        ("x-verbatm", True, "did you mean `x-verbatim`?"),
        ("x_verbatim", True, "did you mean `x-verbatim`?"),
        ("id", "#a", "$id"),
        ("dependencies", {}, "dependentRequired"),
        ("additionalItems", False, "prefixItems"),
        ("divisibleBy", 2, "multipleOf"),
        ("wholly-mine", 1, "x- in front"),
    ],
)
def test_an_unknown_keyword_is_an_error_in_strict_and_a_warning_in_check_mode(
    keyword: str, value: Any, meant: str
) -> None:
    schema = {"type": "object", "properties": {"a/b": {"type": "string", keyword: value}}}
    finding = found(schema, "SCHEMA_UNKNOWN_KEYWORD")
    assert (finding.pointer, finding.severity) == (f"/properties/a~1b/{keyword}", "error")
    assert meant in finding.hint
    assert found(schema, "SCHEMA_UNKNOWN_KEYWORD", "check").severity == "warning"


def test_keywords_belong_to_dialects() -> None:
    old = {"$schema": "http://json-schema.org/draft-04/schema#", "type": "string", "const": "a"}
    assert "draft-06" in found(old, "SCHEMA_UNKNOWN_KEYWORD").hint
    draft_07 = {"$schema": "http://json-schema.org/draft-07/schema", "dependencies": {"a": ["b"]}}
    assert codes(draft_07) == []


def test_layout_is_not_for_schemas_to_set() -> None:
    assert "layout" in found({"type": "string", "x-guidance": {}}, "SCHEMA_UNKNOWN_KEYWORD").message


@pytest.mark.parametrize(
    ("schema", "pointer", "hint"),
    [
        ({"properties": {"a": {"type": "string", "required": True}}}, "/properties/a/required", "array"),
        ({"type": "number", "exclusiveMinimum": True}, "/exclusiveMinimum", "Draft-04"),
        ({"type": "array", "items": [{}]}, "/items", "prefixItems"),
        ({"type": "strng"}, "/type", ""),
        ({"type": "string", "pattern": "(a"}, "/pattern", "backslashes"),
        ({"patternProperties": {"[": {}}}, "/patternProperties", "backslashes"),
        ({"$schema": "http://json-schema.org/draft-03/schema#"}, "/$schema", "draft-07"),
        ({"type": "string", "x-verbatim": "yes"}, "/x-verbatim", "Correct"),
        ({"type": "string", "x-link": 1}, "/x-link", "Correct"),
        ({"maximum": float("nan")}, "/maximum", "plain JSON"),
        ({"title": "\ud800"}, "/title", "plain JSON"),
        ([], "", "schema itself"),
        (None, "", "schema itself"),
    ],
)
def test_what_is_no_schema_is_located(schema: Any, pointer: str, hint: str) -> None:
    finding = found(schema, "SCHEMA_INVALID")
    assert finding.pointer == pointer
    assert hint in finding.hint


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"$ref": "#/$defs/b", "$defs": {}}, "/$ref"),
        ({"items": {"$ref": "http://localhost:1/x.json"}}, "/items/$ref"),
        ({"$ref": "#"}, "/$ref"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, "/$defs/b/$ref"),
        ({"anyOf": [{"type": "null"}, {"allOf": [{"$ref": "#"}]}]}, "/anyOf/1/allOf/0/$ref"),
        ({"$ref": "#nowhere"}, "/$ref"),
    ],
)
def test_references_that_lead_nowhere_are_located(schema: Any, pointer: str) -> None:
    assert found(schema, "SCHEMA_REFERENCE").pointer == pointer


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"type": "string", "minLength": 5, "maxLength": 3}, "/minLength"),
        ({"type": "number", "minimum": 5, "maximum": 3}, "/minimum"),
        ({"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 2}, "/exclusiveMinimum"),
        ({"type": "array", "items": {"type": "null"}, "minItems": 5, "maxItems": 3}, "/minItems"),
        ({"enum": []}, "/enum"),
        ({"type": "string", "enum": [1, 2]}, "/enum"),
        ({"allOf": [{"type": "string"}, {"type": "null"}]}, "/allOf/1/type"),
        ({"type": "object", "required": ["b"], "properties": {"a": {}}, "additionalProperties": False}, "/required"),
        ({"type": "object", "required": ["a"], "properties": {"a": False}}, "/required"),
        ({"type": "string", "pattern": "^a{5}$", "maxLength": 3}, "/maxLength"),
        ({"type": "array", "prefixItems": [False], "minItems": 1}, "/prefixItems/0"),
        ({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}, ""),
        ({"anyOf": [False, False]}, "/anyOf/0"),
        (False, ""),
    ],
)
def test_what_no_record_can_satisfy_is_located(schema: Any, pointer: str) -> None:
    for mode in ("strict", "check"):
        assert found(schema, "SCHEMA_UNSATISFIABLE", mode).pointer == pointer


def test_unique_choices_need_as_many_as_min_items() -> None:
    schema = {"type": "array", "items": {"enum": ["x", "y"]}, "uniqueItems": True, "minItems": 3}
    finding = found(schema, "SCHEMA_UNSATISFIABLE")
    assert finding.pointer == "/minItems"
    assert "uniqueItems leaves 2 items" in finding.message
    assert codes({**schema, "minItems": 2}) == []


def test_an_impossible_optional_part_is_no_error() -> None:
    assert codes({"type": "object", "properties": {"a": {"enum": []}, "b": {"type": "string"}}}) == []


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"type": "array", "items": {"type": "string"}, "uniqueItems": True}, "/uniqueItems"),
        ({"type": "array", "contains": {"type": "null"}}, "/contains"),
        ({"type": "string", "not": {"pattern": "^a"}}, "/not"),
        ({"type": "string", "pattern": "^(?=a)b"}, "/pattern"),
        ({"type": "integer", "multipleOf": 123456789}, "/multipleOf"),
        ({"type": "number", "minimum": 1e300}, "/minimum"),
        ({"items": {"$dynamicRef": "#a"}, "$defs": {"a": {"$dynamicAnchor": "a"}}}, "/items/$dynamicRef"),
        ({"oneOf": [{"type": "integer"}, {"type": "number", "multipleOf": 3}]}, "/oneOf"),
    ],
)
def test_residual_keywords_are_errors_in_strict_and_warnings_in_check_mode(schema: Any, pointer: str) -> None:
    strict, check = (found(schema, "SCHEMA_KEYWORD_NOT_ENFORCED", mode) for mode in ("strict", "check"))
    assert (strict.pointer, strict.severity) == (pointer, "error")
    assert (check.pointer, check.severity) == (pointer, "warning")


def test_the_text_of_a_refusal_says_what_where_whose_fault_and_what_next() -> None:
    schema = {"type": "object", "properties": {"tags": {"type": "array", "uniqueItems": True}}}
    text = found(schema, "SCHEMA_KEYWORD_NOT_ENFORCED").text()
    assert text.startswith("SCHEMA_KEYWORD_NOT_ENFORCED  /properties/tags/uniqueItems = true: the generator cannot")
    for part in ("the schema itself is in order", "nothing was fetched or generated", "--schema-mode=check"):
        assert part in text


def test_formats() -> None:
    assert found({"type": "string", "format": "colour"}, "SCHEMA_FORMAT_ANNOTATION").severity == "warning"
    assert "checked on the finished record" in found({"format": "iri"}, "SCHEMA_FORMAT_ANNOTATION").message
    assert "SCHEMA_FORMAT_ANNOTATION" not in [finding.code for finding in lint({"type": "string", "format": "date"})]


@pytest.mark.parametrize(
    ("schema", "code", "pointer"),
    [
        ({"type": "array", "items": {"type": "string"}}, "SCHEMA_BOUND_APPLIED", "/items"),
        ({"type": "number"}, "SCHEMA_BOUND_APPLIED", ""),
        ({"items": {"type": "object", "properties": {"a": {}}}}, "SCHEMA_OBJECT_CLOSED", "/items"),
        ({"type": "object"}, "SCHEMA_OBJECT_OPEN", ""),
        ({"items": {"minLength": 3}}, "SCHEMA_TYPE_IMPLIED", "/items"),
    ],
)
def test_what_we_add_is_noticed(schema: Any, code: str, pointer: str) -> None:
    findings = [finding for finding in lint(schema) if finding.code == code]
    assert pointer in [finding.pointer for finding in findings]
    assert {finding.severity for finding in findings} == {"notice"}


def test_nesting_and_size_have_limits() -> None:
    deep: Any = {"type": "string"}
    for _ in range(60):
        deep = {"type": "array", "items": deep}
    assert codes(deep) == ["SCHEMA_TOO_LARGE"]
    for _ in range(5000):
        deep = {"items": deep}
    assert codes(deep) == ["SCHEMA_TOO_LARGE"]
    assert codes({"enum": list(range(200_000))}) == ["SCHEMA_TOO_LARGE"]
    assert codes({"type": "string", "minLength": 10**9}) == ["SCHEMA_TOO_LARGE"]


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: dict[str, Any] = {}
    loop["items"] = loop
    assert codes(loop) == ["SCHEMA_TOO_LARGE"]


def test_a_long_chain_of_definitions_is_no_deep_recursion() -> None:
    definitions = {
        f"d{i}": {"type": "object", "properties": {"next": {"$ref": f"#/$defs/d{i + 1}"}}} for i in range(3000)
    }
    assert codes({"$ref": "#/$defs/d0", "$defs": {**definitions, "d3000": {"type": "null"}}}) == []
    chain = {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(3000)}
    assert codes({"$ref": "#/$defs/d0", "$defs": {**chain, "d3000": {"type": "null"}}}) == []


@pytest.mark.parametrize(
    "node",
    [
        {"type": "integer"},
        {"type": ["string", "integer", "null"]},
        {"enum": ["a", "b"]},
        {"const": "a"},
        {"type": "string", "x-computed": True},
        {"type": "array", "items": {"type": "string"}},
    ],
)
@pytest.mark.parametrize("mode", ["strict", "check"])
def test_a_span_that_could_not_be_held_to_the_page_is_refused(node: dict[str, Any], mode: Any) -> None:
    schema = {"type": "object", "properties": {"a": {**node, "x-verbatim": True}}}
    errors = [finding for finding in lint(schema, mode) if finding.severity == "error"]
    assert [finding.pointer for finding in errors] == ["/properties/a/x-verbatim"]


@pytest.mark.parametrize(
    "node",
    [
        {"type": "string"},
        {"type": ["string", "null"]},
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        {"type": "string", "format": "date"},
    ],
)
def test_a_free_text_may_be_a_span(node: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": {"a": {**node, "x-verbatim": True}}}
    assert not [finding for finding in lint(schema, "strict") if finding.severity == "error"]
