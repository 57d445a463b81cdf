"""Whatever a generator writes, a record that comes out validates, and its evidence is exact."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from fetchly.errors import RecordInvalid, SchemaError
from fetchly.extraction.extractor import ExtractionOptions, Extractor
from fetchly.extraction.schema import load_schema
from fetchly.goods import Link
from tests.support.documents import make_document, with_links
from tests.support.json_schemas import json_values, schemas
from tests.support.scripted_generator import ScriptedGenerator

LINKS = (
    Link("L1", "a", "https://shop.test/a", "body>a"),
    Link("L2", "b c", "/b|ü"),
    Link("I1", "", "mailto:x@y.test"),
)
DOCUMENT = with_links(make_document("Blue Kettle 12", "1.234,50 €", "3. März 2024", "a b c"), *LINKS)
SPANS = ["Blue Kettle", "12", "1.234,50 €", "3. März 2024", "a", "not there"]


def written(schema: Any, draw: Any, depth: int = 0, root: Any = None) -> Any:
    """A value that a decoding schema allows, more or less."""
    root = root or schema
    if not isinstance(schema, dict) or depth > 6:
        return None
    if "$ref" in schema:
        return written(root["$defs"][schema["$ref"].rsplit("/", 1)[-1]], draw, depth + 1, root)
    if "anyOf" in schema:
        return written(draw(st.sampled_from(schema["anyOf"])), draw, depth + 1, root)
    if "enum" in schema or "const" in schema:
        return draw(st.sampled_from(schema.get("enum", [schema.get("const")])))
    kind = schema.get("type", "null")
    kind = draw(st.sampled_from(kind)) if isinstance(kind, list) else kind
    if kind == "object":
        properties = schema.get("properties", {})
        return {name: written(part, draw, depth + 1, root) for name, part in properties.items()}
    if kind == "array":
        return [written(schema.get("items"), draw, depth + 1, root) for _ in range(draw(st.integers(0, 2)))]
    plain = {
        "string": st.sampled_from([*SPANS, "L1", "L2", "I1", "L9"]),
        "integer": st.integers(0, 9),
        "number": st.floats(0, 9),
        "boolean": st.booleans(),
    }
    return draw(plain.get(kind, st.none()))


@settings(deadline=None, max_examples=250, suppress_health_check=[HealthCheck.too_slow])
@given(schemas(), st.data())
def test_records_always_validate(user: dict[str, Any], data: st.DataObject) -> None:
    generator = ScriptedGenerator(
        lambda task: json.dumps(
            data.draw(json_values) if data.draw(st.integers(0, 9)) == 0 else written(task.schema, data.draw)
        )
    )
    try:
        extractor = Extractor(generator, load_schema(user), ExtractionOptions(attempts=2))
        found = extractor.extract(DOCUMENT)
    except (SchemaError, RecordInvalid) as error:
        event(type(error).__name__)
        return
    event("record")
    jsonschema_rs.validator_for(user, validate_formats=True, offline=True).validate(found.record.value)
    for evidence in found.record.evidence.values():
        if evidence.found and evidence.start is not None:
            assert evidence.text is not None
            assert DOCUMENT.text[evidence.start : evidence.end] in evidence.text


@settings(deadline=None, max_examples=100)
@given(st.recursive(st.sampled_from(["L1", "L2", "I1", "L9", "https://made.up/", None]), st.lists, max_leaves=6))
def test_urls_are_the_page_s(value: Any) -> None:
    """Whatever is written for a URL, the record holds links of the page alone."""
    user = {
        "type": "object",
        "properties": {"u": {"$ref": "#/$defs/u"}},
        "$defs": {
            "u": {
                "anyOf": [
                    {"type": "string", "format": "uri"},
                    {"type": "null"},
                    {"type": "array", "items": {"$ref": "#/$defs/u"}},
                ]
            }
        },
    }
    generator = ScriptedGenerator(lambda task: json.dumps({"u": value}))
    found = Extractor(generator, load_schema(user)).extract(DOCUMENT).record.value

    def strings(node: Any) -> set[str]:
        return (
            {node} if isinstance(node, str) else set().union(*map(strings, node)) if isinstance(node, list) else set()
        )

    assert strings(found.get("u")) <= {"https://shop.test/a", "mailto:x@y.test"}
