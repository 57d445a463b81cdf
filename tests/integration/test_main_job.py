"""The embedded model end to end: valid, with evidence, the same bytes twice, cold and warm, drafted and plain."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

import fetchly
from fetchly.cli.app import run
from fetchly.extraction.schema import load_schema
from tests.support.shared_data import shared_path
from tests.support.site import Site, answer

pytestmark = pytest.mark.model

PAGES = Path(__file__).resolve().parents[2] / "examples" / "pages"
SETS = {"recipes": "recipe", "articles": "article", "products": "product"}
OPTIONS: dict[str, Any] = {"budget": 300, "max_tokens": 600}
# Bounded, so that the untrained model comes to an end at temperature 0 as well.
LANTERN = {
    "title": "Lantern",
    "type": "object",
    "properties": {
        "name": {"type": ["string", "null"], "x-verbatim": True, "maxLength": 60},
        "price": {"type": ["number", "null"]},
        "colours": {"type": "array", "items": {"type": "string", "x-verbatim": True, "maxLength": 20}, "maxItems": 4},
        "in_stock": {"type": ["boolean", "null"]},
        "page": {"type": ["string", "null"], "format": "uri"},
    },
}


@pytest.fixture(scope="module")
def client() -> Iterator[fetchly.Client]:
    with fetchly.Client(allow_private=True, **OPTIONS) as opened:
        yield opened


def smallest_dev_page(name: str) -> bytes:
    shared = shared_path()
    if shared is None:
        pytest.skip("the shared pages are not beside this checkout")
    records = [json.loads(line) for line in (shared / "data" / name / "dev.jsonl").read_text("utf-8").splitlines()]
    files = [shared / "data" / name / "html" / f"{record['id']}.html.gz" for record in records]
    fair = [file for file in files if file.stat().st_size > 8_000]  # smaller ones are stubs
    return gzip.decompress(min(fair, key=lambda file: file.stat().st_size).read_bytes())


def assert_sound(result: fetchly.Result[Any], document: fetchly.Document, schema: str) -> None:
    jsonschema_rs.validate(load_schema(schema).json, result.value)
    properties = load_schema(schema).json["properties"]
    for name, value in result.value.items():
        if isinstance(value, str):
            evidence = result.evidence[f"/{name}"]
            if properties[name].get("x-verbatim"):
                assert evidence.found, (name, value)
                assert value in document.text
            if evidence.found:
                assert document.text[evidence.start : evidence.end]
                assert evidence.css_path


@pytest.mark.parametrize("name", SETS)
def test_a_real_page_gives_a_valid_record_with_evidence_and_the_same_bytes_twice(
    client: fetchly.Client, name: str
) -> None:
    page = smallest_dev_page(name)
    first = client.extract(page, SETS[name])
    warm = client.extract(page, SETS[name])
    assert_sound(first, client.document(page), SETS[name])
    assert json.dumps(first.value) == json.dumps(warm.value)
    assert warm.stats.cached_prompt_tokens > 0
    assert warm.stats.acceptance_length > 1


def test_a_page_served_from_loopback_through_the_command_line_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Site({"/teapot": answer((PAGES / "teapot.html").read_bytes())}) as site:
        for file in ("first.json", "second.json"):
            arguments = ["extract", site.url("/teapot"), "-s", "product", "--allow-private", "--evidence", "-o", file]
            assert run(arguments) == 0
    first, second = Path("first.json").read_bytes(), Path("second.json").read_bytes()
    assert first == second
    wrapped = json.loads(first)
    jsonschema_rs.validate(load_schema("product").json, wrapped["record"])
    assert any(place["found"] for place in wrapped["evidence"].values())


def test_a_draft_a_warm_prefix_and_another_schema_before_change_no_byte(client: fetchly.Client) -> None:
    page = str(PAGES / "lantern.html")
    with fetchly.Client(**OPTIONS) as fresh:
        cold = fresh.extract(page, LANTERN, draft=())
    client.extract(page, {**LANTERN, "title": "Another"})
    drafted = client.extract(page, LANTERN)
    sampled = [client.extract(page, LANTERN, temperature=0.7, seed=3, draft=draft) for draft in ((), ("forced",))]
    assert cold.stats.attempts == 1
    assert cold.stats.cached_prompt_tokens == 0
    assert json.dumps(cold.value) == json.dumps(drafted.value)
    assert json.dumps(sampled[0].value) == json.dumps(sampled[1].value)
    assert sampled[0].stats.output_tokens == sampled[1].stats.output_tokens
    assert drafted.stats.decode_steps < cold.stats.decode_steps
