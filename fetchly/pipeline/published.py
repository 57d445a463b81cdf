"""The JSON Schema of the pipeline file out: for editors, and for whoever writes such files by a program.

Beside what the sections say it knows what stands before them: a variable may stand for a number or for true and false,
`include` for keys of the stated places, and the short forms.
"""

from __future__ import annotations

from typing import Any

from fetchly.pipeline.includes import INCLUDE
from fetchly.pipeline.spec import Spec

_VARIABLE = {"type": "string", "pattern": r"\$\{", "description": "a variable of the environment: ${NAME}"}
_INCLUDE = {"type": "string", "minLength": 1, "description": "a YAML file with the keys that would stand here"}
_ONLY_INCLUDE = {
    "type": "object", "properties": {INCLUDE: _INCLUDE}, "required": [INCLUDE], "additionalProperties": False
}  # fmt: skip
_PLACES = ("Source", "Extract", "PageSchema", "Transform", "Run")
_WORDS = frozenset(("title", "description", "default"))
_SIMPLE = frozenset(("integer", "number", "boolean"))


def file_schema() -> dict[str, Any]:
    """The schema, draft 2020-12."""
    schema = Spec.model_json_schema(by_alias=True)
    definitions: dict[str, Any] = schema["$defs"]
    for node in (schema, *definitions.values()):
        for name, part in node.get("properties", {}).items():
            node["properties"][name] = _with_variables(part)
    for node in (schema, *(definitions[name] for name in _PLACES)):
        _with_include(node)
    _with_short_forms(schema)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "fetchly pipeline"}


def _with_variables(part: dict[str, Any]) -> dict[str, Any]:
    branches = part.get("anyOf", [part])
    if not any(branch.get("type") in _SIMPLE or "enum" in branch or "const" in branch for branch in branches):
        return part
    words = {key: value for key, value in part.items() if key in _WORDS}
    said = [{key: value for key, value in branch.items() if key not in _WORDS} for branch in branches]
    return {**words, "anyOf": [*said, _VARIABLE]}


def _with_include(node: dict[str, Any]) -> None:
    node["properties"][INCLUDE] = _INCLUDE
    required = node.pop("required", None)
    if required:
        node["anyOf"] = [{"required": required}, {"required": [INCLUDE]}]


def _with_short_forms(schema: dict[str, Any]) -> None:
    definitions, sections = schema["$defs"], schema["properties"]
    page_schemas = {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/PageSchema"}}
    sections["extract"] = {"anyOf": [{"$ref": "#/$defs/Extract"}, page_schemas]}
    schemas = definitions["Extract"]["properties"]["schemas"]
    definitions["Extract"]["properties"]["schemas"] = {"anyOf": [schemas, _ONLY_INCLUDE]}
    sections["sinks"]["anyOf"].append(_ONLY_INCLUDE)
    options = definitions["SinkOptions"]
    for kind, part in options["properties"].items():
        if kind != "stdout":
            part["anyOf"].insert(0, {"type": "string", "minLength": 1})
    definitions["SinkOptions"] = {"anyOf": [options, {"const": "stdout"}, _ONLY_INCLUDE]}
