"""Preparing schemas: no value crashes it, and whatever the prepared grammar writes satisfies the user's schema."""

from __future__ import annotations

import json
import random
from functools import lru_cache
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fetchly_llm.errors import SchemaRefused
from fetchly_llm.grammar.findings import Finding
from fetchly_llm.grammar.lint import lint
from fetchly_llm.grammar.prepare import prepare
from tests.support.random_schemas import draw_schema, draw_text, draw_value
from tests.support.schema_suite import METASCHEMAS, ByteMatcher, cases, resolves
from tests.support.shared_data import shared_path

_NAMES = (
    "type properties required items enum const $ref $id $defs anyOf allOf not if then oneOf prefixItems pattern format"
    " minLength maximum multipleOf dependentSchemas patternProperties unevaluatedProperties contains $schema"
)
KEYWORDS = st.sampled_from(_NAMES.split())
TEXTS = st.text(st.characters(codec=None, categories=None), max_size=6) | st.sampled_from(["string", "#", "#/a", "^a"])
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.just(10**400)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYWORDS | TEXTS, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=400, deadline=None)
@given(JSON)
def test_any_value_is_linted_without_a_crash_and_located(value: Any) -> None:
    for mode in ("strict", "check"):
        findings = lint(value, mode)
        assert all(isinstance(finding, Finding) and finding.text() for finding in findings)
        assert all(resolves(value, finding.pointer) for finding in findings)


@lru_cache(maxsize=1)
def _suite_schemas() -> tuple[Any, ...]:
    shared = shared_path()
    if shared is None or not (shared / "data" / "json-schema-test-suite").is_dir():
        pytest.skip("the JSON Schema test suite is not beside this checkout")
    suite = shared / "data" / "json-schema-test-suite"
    return tuple(case.schema for draft in METASCHEMAS for case in cases(suite, draft))


def _mutated(rng: random.Random, value: Any, donors: tuple[Any, ...]) -> Any:
    """One node of the value replaced, dropped or renamed."""
    if not isinstance(value, dict | list) or not value or rng.random() < 0.25:
        return rng.choice([None, True, -1, 10**30, 0.5, "x", [], {}, ["a"], {"a": 1}, rng.choice(donors)])
    if isinstance(value, list):
        position = rng.randrange(len(value))
        return [_mutated(rng, item, donors) if i == position else item for i, item in enumerate(value)]
    chosen = rng.choice(list(value))
    changed = {name: _mutated(rng, child, donors) if name == chosen else child for name, child in value.items()}
    if rng.random() < 0.2:
        changed[rng.choice(["items", "oneOf", "not", "requried", "$ref"])] = changed.pop(chosen)
    return changed


def test_mutated_suite_schemas_are_linted_without_a_crash_and_located() -> None:
    rng = random.Random(2020)
    schemas = _suite_schemas()
    for schema in schemas:
        mutant = _mutated(rng, schema, schemas)
        for mode in ("strict", "check"):
            for finding in lint(mutant, mode):
                assert resolves(mutant, finding.pointer), (mutant, finding)


@pytest.mark.parametrize("seed", range(3))
def test_every_text_of_a_strict_grammar_satisfies_the_schema(seed: int) -> None:
    rng = random.Random(seed)
    written = 0
    for _ in range(120):
        schema = draw_schema(rng)
        try:
            prepared = prepare(schema)
        except SchemaRefused as refusal:
            _check_refusal(rng, schema, refusal)
            continue
        matcher = ByteMatcher(prepared.enforced, prepared.allowed_escapes)
        assert not matcher.refusal, (schema, matcher.refusal)
        validator = jsonschema_rs.Draft202012Validator(schema, validate_formats=True)
        for _ in range(8):
            matcher.restart()
            text = draw_text(rng, matcher)
            if text is None or _repeats_a_key(text):
                continue
            written += 1
            assert validator.is_valid(json.loads(text)), (schema, text, prepared.enforced)
    assert written > 200


def _check_refusal(rng: random.Random, schema: dict[str, Any], refusal: SchemaRefused) -> None:
    """It is located, and where it says that nothing fits, no random value does."""
    assert resolves(schema, refusal.pointer)
    if refusal.code != "SCHEMA_UNSATISFIABLE":
        return
    validator = jsonschema_rs.Draft202012Validator(schema, validate_formats=True)
    for _ in range(200):
        value = draw_value(rng)
        assert not validator.is_valid(value), (schema, value)


def _repeats_a_key(text: bytes) -> bool:
    """Open objects may: the parser of records refuses that."""
    repeated = []
    json.loads(text, object_pairs_hook=lambda pairs: repeated.append(len(pairs) != len(dict(pairs))))
    return any(repeated)
