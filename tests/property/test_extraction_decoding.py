"""Any schema: the derivation ends in a schema that compiles, or in a SchemaError; and it is what it says."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fetchly.errors import SchemaError
from fetchly.extraction.decoding import LINKS, decoding_schema
from fetchly.extraction.page_context import PageContext
from fetchly.extraction.prompt import render_task
from fetchly.extraction.shape import every_node
from fetchly.extraction.values import convert
from tests.support.json_schemas import json_values, schemas

SLOW = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])


@SLOW
@given(schemas(), st.sampled_from(["schema", "auto"]))
def test_derivation_ends_well(user: dict[str, Any], verbatim: Any) -> None:
    try:
        derived = decoding_schema(user, verbatim=verbatim).schema
    except SchemaError as error:
        if not error.code.startswith("SCHEMA_REF"):
            raise
        return
    jsonschema_rs.validator_for(derived, offline=True)
    for node in every_node(derived):
        if node.get("x-verbatim") is True:
            assert set(node) <= {"type", "x-verbatim", "minLength", "maxLength"}
            assert node["type"] in ("string", ["string", "null"])
        if "properties" in node and isinstance(node.get("additionalProperties"), bool):
            assert node["required"] == list(node["properties"])
        if node.get("uniqueItems") is True:
            assert node["items"] == {"$ref": f"#/$defs/{LINKS}"}
    assert not {"oneOf", "allOf", "not", "if"} & {key for node in every_node(derived) for key in node} - {
        name for node in every_node(user) for name in node.get("properties", {})
    }


@SLOW
@given(schemas(), json_values)
def test_conversion_and_prompt_never_crash(user: dict[str, Any], value: Any) -> None:
    """Also for values that no grammar would write: another generator may."""
    try:
        plan = decoding_schema(user)
    except SchemaError:
        return
    convert(plan.user, value, PageContext("en"))
    assert render_task(user)


@SLOW
@given(schemas())
def test_derivation_is_a_function(user: dict[str, Any]) -> None:
    try:
        once = decoding_schema(user).schema
    except SchemaError:
        with pytest.raises(SchemaError):
            decoding_schema(user)
        return
    again = decoding_schema(user).schema
    assert list(once) == list(again)
    assert once == again
