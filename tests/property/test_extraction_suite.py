"""The JSON Schema test suite as a stranger's schemas: derivation, conversion and prompt end well; answers validate."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest

from fetchly.errors import RecordInvalid, SchemaError
from fetchly.extraction.decoding import decoding_schema
from fetchly.extraction.page_context import PageContext
from fetchly.extraction.prompt import render_task
from fetchly.extraction.schema import UserSchema
from fetchly.extraction.validation import RecordValidator
from fetchly.extraction.values import convert
from tests.support.shared_data import shared_path


def groups() -> list[dict[str, Any]]:
    shared = shared_path()
    if shared is None:
        return []
    files = sorted((shared / "data" / "json-schema-test-suite" / "tests" / "draft2020-12").glob("*.json"))
    return [group for file in files for group in json.loads(file.read_text(encoding="utf-8"))]


def test_strangers_schemas() -> None:
    found = groups()
    if not found:
        pytest.skip("the JSON Schema test suite is not beside this checkout")
    refused = derived = checked = 0
    refusals: list[str] = []
    for group in found:
        if not isinstance(group["schema"], dict):
            continue
        try:
            plan = decoding_schema(group["schema"])
            validator = RecordValidator(UserSchema("x", "x", group["schema"]))
        except SchemaError:
            refused += 1
            continue
        jsonschema_rs.validator_for(plan.schema, offline=True)
        assert render_task(group["schema"])
        derived += 1
        for case in group["tests"]:
            value = convert(plan.user, case["data"], PageContext("en")).value
            try:
                validator.check(value)
            except RecordInvalid as error:
                refusals.append(error.message)
            checked += 1
    assert derived > 250
    assert refused < derived / 5
    assert checked > 800
    assert all(refusals)
