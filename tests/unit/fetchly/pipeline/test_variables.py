"""Variables of the environment in pipeline files."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fetchly.errors import ConfigurationError
from fetchly.pipeline.pipeline import Pipeline
from fetchly.pipeline.positions import Allowance, plain
from fetchly.pipeline.variables import expanded
from fetchly.pipeline.yaml_text import read_yaml

SECRET = "hunter2://s3cr3t@x y"


def expand(text: str, **environment: str) -> Any:
    return plain(expanded(read_yaml(f"a: {text}".encode(), "f.yaml", Allowance()), environment))["a"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${A}", "one"),
        ("x${A}y${B}", "xoney2"),
        ("${NONE:-2}", "2"),
        ("${EMPTY:-d}", "d"),
        ("${EMPTY}", ""),
        ("${A:-d}", "one"),
        ("'${NONE:-a:-b}'", "a:-b"),
        ("$${A}", "${A}"),
        ("$A $ {A}", "$A $ {A}"),
        ("'${NONE:-}'", ""),
    ],
)
def test_what_a_text_becomes(text: str, value: str) -> None:
    assert expand(text, A="one", B="2", EMPTY="") == value


@pytest.mark.parametrize("text", ["${}", "${1A}", "${A-b}", "${A", "${ A }", "'${A:-${B}}'"])
def test_what_is_no_variable_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        expand(text, A="one", B="2")
    assert caught.value.where == "f.yaml:1:4"


def pipeline(**changes: Any) -> dict[str, Any]:
    whole = {"name": "x", "source": {"seeds": "https://example.org/"}, "extract": {"schema": "product"}}
    return {**whole, **changes}


def test_a_variable_is_read_as_what_its_key_asks_for() -> None:
    data = pipeline(
        source={"seeds": "${SITE}", "limit": "${N}", "allow_private": "${YES}"},
        extract={"schema": "product", "temperature": "${N}", "api_key": "${N}"},
        transform={"set": {"number": "${N}"}},
        run={"delay": "${N}"},
    )
    environment = {"SITE": "https://example.org/", "N": "5", "YES": "true"}
    found = Pipeline.from_dict(data, environment=environment)
    assert (found.source.limit, found.source.allow_private, found.extract.temperature) == (5, True, 5.0)
    assert found.extract.api_key is not None
    assert found.extract.api_key.get_secret_value() == "5"
    assert found.schemas[0].transform.constants == {"number": "5"}
    assert found.spec.run.delay == 5.0


SECTIONS: list[dict[str, Any]] = [
    {"name": "${S}"},
    {"source": {"seeds": ["${S}"]}},
    {"source": {"seeds": ["https://example.org/"], "follow": ["${S}"]}},
    {"source": {"seeds": ["https://example.org/"], "exclude": ["/${S}"], "render": "${S}"}},
    {"source": {"seeds": ["https://example.org/"], "limit": "${S}"}},
    {"source": {"seeds": ["https://example.org/"], "sitemap": "${S}"}},
    {"source": {"seeds": ["https://example.org/"], "scroll": "${S}"}},
    {"source": {"seeds": ["https://example.org/"], "keep_hidden": "${S}"}},
    {"source": {"seeds": ["https://example.org/"], "actions": [{"wait": "${S}"}]}},
    {"source": {"seeds": ["https://example.org/"], "actions": [{"fill": {"text": "${S}"}}]}},
    {"source": {"seeds": ["https://example.org/"], "storage_state": "../${S}"}},
    {"source": {"urls": {"file": " ${S}"}}},
    {"extract": {"schema": "${S}"}},
    {"extract": {"schema": "./${S}.json"}},
    {"extract": {"schema": {"type": "${S}"}}},
    {"extract": {"schema": {"type": "object", "properties": {"a": {"$ref": "${S}"}}}}},
    {"extract": {"schema": "product", "draft": "${S}"}},
    {"extract": {"schema": "product", "device": "${S}"}},
    {"extract": [{"match": "${S}", "schema": "product"}]},
    {"extract": [{"match": ["/**", "/${S}"], "schema": "product"}]},
    {"transform": {"drop": ["${S}"]}},
    {"transform": {"rename": {"price": "name", "sku": "${S}"}}},
    {"transform": {"defaults": {"price": "${S}"}}},
    {"transform": {"deduplicate": ["${S}"]}},
    {"sinks": ["${S}"]},
    {"sinks": [{"postgres": "${S}"}]},
    {"sinks": [{"postgres": {"url": "mysql://${S}", "table": "a"}}]},
    {"sinks": [{"sqlite": {"path": "a.db", "table": "_fetchly${S}"}}]},
    {"sinks": [{"csv": {"path": "../${S}"}}]},
    {"sinks": [{"csv": {"path": "a.csv", "schemas": ["${S}"]}}]},
    {"sinks": [{"csv": {"path": "${S}"}}, {"csv": {"path": "${S}"}}]},
    {"run": {"delay": "${S}"}},
    {"run": {"memory_limit": "${S}"}},
    {"run": {"error": "${S}"}},
    {"run": {"include": "${S}"}},
    {"run": {"include": "../${S}"}},
]


@pytest.mark.parametrize("section", SECTIONS, ids=str)
def test_no_error_shows_what_a_variable_holds(section: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Pipeline.from_dict(pipeline(**section), environment={"S": SECRET})
    line = caught.value.line()
    assert not any(part in line for part in ("hunter2", "s3cr3t", "x y"))
    assert line.split(" ", 1)[1].startswith("pipeline /")


def test_what_is_shown_holds_no_secret() -> None:
    data = pipeline(
        source={"seeds": ["https://${HOST}/"], "limit": "${N}"},
        extract={"schema": "product", "model": "http://${HOST}/v1", "api_key": "literal-key"},
        transform={"set": {"run": "${S}"}},
        sinks=[
            {"postgres": "postgresql://u:${S}@db/x"},
            {"postgres": {"url": "postgresql://u:literal-password@db/y"}},
            {
                "csv": {
                    "path": "s3://b/x.csv",
                    "storage_options": {"secret": "literal-key", "key": "${S}", "anon": False},
                }
            },
            {"jsonl": "${OUT}/a.jsonl"},
        ],
    )
    environment = {"HOST": "shop.example.org", "S": "hunter2hunter2", "N": "12", "OUT": "private-folder"}
    found = Pipeline.from_dict(data, folder="/srv", environment=environment)
    text = json.dumps(found.shown()) + repr(found)
    for hidden in ("shop.example.org", "hunter2", "private-folder", "literal-key", "literal-password"):
        assert hidden not in text
    shown = found.shown()
    assert shown["source"]["limit"] == "${N}"
    assert shown["sinks"][3]["jsonl"]["path"] == "/srv/${OUT}/a.jsonl"
    assert shown["sinks"][2]["csv"]["storage_options"]["anon"] is False
    assert shown["run"]["concurrency"] == 8
    assert "hunter2" not in json.dumps(found.row_schema("product"))
    assert Pipeline.from_dict(found.as_dict(), folder="/srv", environment={}) == found


def test_tokens_in_places_of_sinks_are_hidden_and_pages_are_told_as_they_are() -> None:
    found = Pipeline.from_dict(
        {
            "name": "x",
            "source": {"seeds": "https://a.example/?token=of-the-page"},
            "extract": {"schema": "product"},
            "sinks": [
                {"jsonl": "https://h.example/a?part=3&X-Amz-Signature=literal-token"},
                {"csv": {"path": "https://u:literal-token@h.example/${F}?sig=literal-token&token=${T}"}},
                {"postgres": "postgresql://u:literal-token@${F}/d?password=literal-token&sslmode=require"},
                {"jsonl": {"path": "s3://b/a", "storage_options": {"client_kwargs": {"aws_secret": "literal-token"}}}},
            ],
        },
        folder="/srv",
        environment={"F": "file-name", "T": "hunter2"},
    )
    shown = found.shown()
    assert "literal-token" not in json.dumps(shown)
    assert "hunter2" not in json.dumps(shown)
    assert shown["source"]["seeds"] == ["https://a.example/?token=of-the-page"]
    assert shown["sinks"][0]["jsonl"]["path"] == "https://h.example/a?part=3&X-Amz-Signature=***"
    assert shown["sinks"][1]["csv"]["path"] == "https://u:***@h.example/${F}?sig=***&token=${T}"
    assert shown["sinks"][2]["postgres"]["url"] == "postgresql://u:***@${F}/d?password=***&sslmode=require"
