"""What holds for every schema that we ship."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema
import pytest

from fetchly.errors import RecordInvalid
from fetchly.extraction import shipped
from fetchly.extraction.decoding import decoding_schema
from fetchly.extraction.prompt import render_task
from fetchly.extraction.schema import load_schema
from fetchly.extraction.validation import RecordValidator
from fetchly_llm.grammar.lint import lint
from tests.support.shared_data import shared_path

GOOD: dict[str, Any] = json.loads((Path(__file__).parents[3] / "golden" / "shipped_records.json").read_text("utf-8"))
WRONG = {
    "number": "four",
    "integer": 1.5,
    "boolean": "yes",
    "date": "12 March",
    "date-time": "2026-03-12",
    "uri": "a b",
}
# What a schema of the evaluation calls a field, where ours calls it otherwise or leaves it out.
RENAMED = {
    "event": {"datetime": "start"},
    "realestate": {
        "price_string": "price", "price_float": "price", "count_bedrooms": "bedrooms", "count_bathrooms": "bathrooms",
        "count_rooms": "rooms", "count_parking": "parking_places", "constructed_area": "living_area",
        "address_string": "address", "street_address": "street", "neighborhood": "region", "district": "region",
        "year_construction": "year_built", "energy_certificate_grade": "energy_class", "tenure": "offer_type",
        "country": None, "latitude": None, "longitude": None,
    },
    "webpage": {"publish_date": "published_date"},
}  # fmt: skip
OURS = {"realestate": "real_estate", "webpage": "web_page", "job": "job_list"}
EVALUATED = ("product", "article", "recipe", "job_posting", "event", "event_list", "contact", "book", *OURS)
NAMES = shipped.names()


class Leaf(NamedTuple):
    path: tuple[str | int, ...]
    node: Mapping[str, Any]
    in_list: bool


def leaves(node: Mapping[str, Any], path: tuple[str | int, ...] = (), *, in_list: bool = False) -> Iterator[Leaf]:
    if "properties" in node:
        for name, part in node["properties"].items():
            yield from leaves(part, (*path, name))
    elif "items" in node:
        yield from leaves(node["items"], (*path, 0), in_list=True)
    else:
        yield Leaf(path, node, in_list)


def objects(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if "properties" in node:
        yield node
        for part in node["properties"].values():
            yield from objects(part)
    elif "items" in node:
        yield from objects(node["items"])


def kinds(node: Mapping[str, Any]) -> set[str]:
    named = node.get("type", [])
    return {named} if isinstance(named, str) else set(named)


def test_every_name_has_a_good_record_here() -> None:
    assert set(GOOD) == set(NAMES)
    assert all(name.islower() and name.replace("_", "").isalpha() for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_linter_has_nothing_to_say(name: str) -> None:
    schema = load_schema(name)
    assert [finding.text() for finding in lint(schema.json, "strict")] == []
    jsonschema.Draft202012Validator.check_schema(schema.json)
    assert schema.label == f"shipped schema {name}"
    assert schema.json["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize("name", NAMES)
def test_objects_are_closed_and_say_all_their_fields(name: str) -> None:
    for node in objects(load_schema(name).json):
        assert node["additionalProperties"] is False
        assert node["required"] == list(node["properties"])
        assert node["x-schema-org"].startswith("https://schema.org/")
        assert node["title"]


@pytest.mark.parametrize("name", NAMES)
def test_leaves_may_be_null_and_end(name: str) -> None:
    for leaf in leaves(load_schema(name).json):
        node = leaf.node
        assert leaf.in_list or None in node.get("enum", [None]), leaf.path
        assert leaf.in_list or "enum" in node or "null" in kinds(node), leaf.path
        assert "maxLength" in node or not ({"string"} & kinds(node)) or "format" in node, leaf.path
        assert {"minimum", "maximum"} <= node.keys() or not ({"number", "integer"} & kinds(node)), leaf.path
        assert not node.get("x-verbatim") or (kinds(node) - {"null"} == {"string"} and "format" not in node), leaf.path
        assert node.get("x-verbatim") or "format" in node or kinds(node) - {"null"} != {"string"}, leaf.path


@pytest.mark.parametrize("name", NAMES)
def test_descriptions_are_short_sentences(name: str) -> None:
    schema = load_schema(name).json
    told = [schema["description"]]
    for node in objects(schema):
        told += [part["description"] for part in node["properties"].values()]
    for text in told:
        assert text[0].isupper()
        assert text[-1] in ".?"
        assert len(text) <= 110, text
    assert len(render_task(schema)) <= 1400, "about 350 tokens"


@pytest.mark.parametrize("name", NAMES)
def test_a_good_record_passes_and_each_spoilt_field_fails(name: str) -> None:
    schema = load_schema(name)
    validator = RecordValidator(schema)
    good = GOOD[name]
    assert validator.check(copy.deepcopy(good)) == good
    for leaf in leaves(schema.json):
        *way, last = leaf.path
        for value in wrong_values(leaf.node):
            spoilt = copy.deepcopy(good)
            place = spoilt
            for step in way:
                place = place[step]
            assert place[last] is not None
            place[last] = value
            with pytest.raises(RecordInvalid) as caught:
                validator.check(spoilt)
            assert caught.value.pointer == "/" + "/".join(map(str, leaf.path))


def wrong_values(node: Mapping[str, Any]) -> list[Any]:
    if "enum" in node:
        return ["Perhaps"]
    kind = next(iter(kinds(node) - {"null"}))
    if kind in ("number", "integer"):
        return [WRONG[kind], -1, node["maximum"] + 1]
    return (
        [WRONG[node.get("format", kind)]] if node.get("format", kind) in WRONG else [7, "x" * (node["maxLength"] + 1)]
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_field_more_or_less_fails(name: str) -> None:
    validator = RecordValidator(load_schema(name))
    for change in ("more", "less"):
        spoilt = copy.deepcopy(GOOD[name])
        inner = spoilt["items"][0] if "items" in spoilt else spoilt
        if change == "more":
            inner["colour"] = "red"
        else:
            inner.popitem()
        with pytest.raises(RecordInvalid):
            validator.check(spoilt)


@pytest.mark.parametrize("name", NAMES)
def test_a_page_that_says_nothing_has_a_record(name: str) -> None:
    schema = load_schema(name)
    empty = {key: [] if key == "items" else None for key in schema.json["properties"]}
    assert RecordValidator(schema).check(empty) == empty


@pytest.mark.parametrize("name", NAMES)
def test_the_decoding_schema_asks_for_the_same_fields(name: str) -> None:
    user = load_schema(name).json
    derived = decoding_schema(user).schema
    assert list(derived["properties"]) == list(user["properties"])
    assert "description" not in json.dumps(derived["properties"]).replace('"description": {', "")


@pytest.mark.skipif(shared_path() is None, reason="the shared schemas are not here")
@pytest.mark.parametrize("name", EVALUATED)
def test_fields_of_the_evaluation_have_a_counterpart(name: str) -> None:
    shared = shared_path()
    assert shared is not None
    theirs = json.loads((Path(shared) / "eval" / "schemas" / f"{name}.json").read_text("utf-8"))
    ours = load_schema(OURS.get(name, name)).json
    known = {leaf.path[-1] if not leaf.in_list else leaf.path[-2] for leaf in leaves(ours)}
    for leaf in leaves(theirs):
        field = leaf.path[-1] if not leaf.in_list else leaf.path[-2]
        counterpart = RENAMED.get(name, {}).get(str(field), field)
        assert counterpart is None or counterpart in known, field
