"""Good pipelines: what they say once they are loaded."""

from __future__ import annotations

import dataclasses
import inspect
import json
import pickle
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from fetchly.crawling.options import CrawlOptions
from fetchly.errors import ConfigurationError, SchemaError
from fetchly.extraction.extractor import ExtractionOptions
from fetchly.pipeline.pipeline import Pipeline
from fetchly.pipeline.positions import Allowance, plain
from fetchly.pipeline.published import file_schema
from fetchly.pipeline.yaml_text import read_yaml
from fetchly.sdk import Client

DATA = Path(__file__).parents[3] / "data" / "pipelines"
GOOD = sorted((DATA / "good").glob("*.yaml"))
ENVIRONMENT = {"DATABASE_URL": "postgresql://u:hunter2@db.example.org/news"}


def good(name: str) -> Pipeline:
    return Pipeline.from_yaml(DATA / "good" / f"{name}.yaml", environment=ENVIRONMENT)


def made(**changes: Any) -> Pipeline:
    whole = {"name": "x", "source": {"seeds": "https://example.org/"}, "extract": {"schema": "product"}}
    return Pipeline.from_dict({**whole, **changes}, folder="/srv/x", environment={})


@pytest.mark.parametrize("file", GOOD, ids=lambda file: file.stem)
def test_a_good_file_says_the_same_once_it_is_written_out(file: Path) -> None:
    pipeline = Pipeline.from_yaml(file, environment=ENVIRONMENT)
    again = Pipeline.from_dict(json.loads(json.dumps(pipeline.as_dict())), folder="/", environment={})
    assert again == pipeline
    assert pickle.loads(pickle.dumps(pipeline)) == pipeline
    assert pipeline.notices == ()
    assert "hunter2" not in json.dumps(pipeline.shown()) + repr(pipeline)


@pytest.mark.parametrize("file", GOOD, ids=lambda file: file.stem)
def test_the_published_schema_takes_a_good_file(file: Path) -> None:
    published = jsonschema.Draft202012Validator(file_schema())
    published.check_schema(published.schema)
    assert [error.message for error in published.iter_errors(values_of(file))] == []


STRUCTURE = [
    "unknown_key", "unknown_section", "section_missing", "text_for_number", "out_of_range", "wrong_word",
    "mapping_for_list", "null_for_text", "unknown_sink", "yes_for_true", "fraction_for_whole", "name_of_a_path",
]  # fmt: skip


@pytest.mark.parametrize("name", STRUCTURE)
def test_the_published_schema_refuses_what_it_can_see(name: str) -> None:
    published = jsonschema.Draft202012Validator(file_schema())
    assert not published.is_valid(values_of(DATA / "bad" / f"{name}.yaml"))


def values_of(file: Path) -> Any:
    return plain(read_yaml(file.read_bytes(), file.name, Allowance()))


def test_the_example_of_the_readme() -> None:
    pipeline = good("books")
    assert pipeline.spec.run.delay == 1.0
    assert pipeline.source.follow == ("/catalogue/**",)
    assert [str(sink.settings.place) for sink in pipeline.sinks] == [
        str(DATA / "good" / "out" / "books.jsonl"),
        f"{DATA / 'good' / 'out' / 'books.db'} table records",
        str(DATA / "good" / "out" / "books.parquet"),
    ]
    assert pipeline.spec.run.state == DATA / "good" / "books.state"
    assert pipeline.spec.run.quarantine is None


def test_the_first_schema_that_matches_counts_and_other_pages_have_none() -> None:
    pipeline = good("news")

    def name(url: str) -> str | None:
        schema = pipeline.schema_for(url)
        return schema.name if schema is not None else None

    assert name("https://example.org/news/2024/x") == "article"
    assert name("http://blog.example.org/anything") == "article"
    assert name("https://example.org/archive/1") == "past_events"
    assert name("https://example.org/") is None
    assert [schema.name for schema in pipeline.schemas_of(pipeline.sinks[1])] == ["events", "past_events"]
    assert pipeline.extract.temperature == 0.2
    assert pipeline.extract.draft == ()


def test_rows_are_the_entries_of_a_list() -> None:
    schema = good("jobs").schema("job_list")
    value = {"items": [{"title": "Cook", "company": None}, {"title": "Clerk"}]}
    constants = {"board": "Example", "year": 2024, "open": True, "note": "no"}
    assert list(schema.rows_of(value)) == [
        {"position": "Cook", "company": None, **constants},
        {"position": "Clerk", **constants},
    ]
    assert list(schema.rows_of({"items": []})) == []
    described = schema.row_schema()
    assert "position" in described["properties"]
    assert described["properties"]["open"] == {"type": "boolean"}


def test_keys_beside_an_include_win() -> None:
    run = good("jobs").spec.run
    assert (run.concurrency, run.delay) == (2, 0.5)


def test_a_list_is_read_as_it_is_unless_links_are_followed() -> None:
    assert good("list").source.reach == 0
    assert good("news").source.reach == 0
    assert good("books").source.reach is None
    assert made(source={"urls": {"file": "a.txt"}, "follow": "/x/**"}).source.reach is None


def test_numbers_stay_text_where_text_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("name: 2024\nsource: {urls: {csv: 1, column: 1.50}}\nextract: {schema: product}\n", "utf-8")
    pipeline = Pipeline.from_yaml(file, environment={})
    assert pipeline.name == "2024"
    assert pipeline.source.urls[0].column == "1.50"


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("1s", 1.0), ("500ms", 0.5), ("2m", 120.0), ("1.5h", 5400.0), (0, 0.0), ("3", 3.0), (0.25, 0.25)],
)
def test_durations(written: Any, seconds: float) -> None:
    assert made(run={"delay": written}).spec.run.delay == seconds


def test_an_output_elsewhere_is_allowed_with_a_word() -> None:
    pipeline = made(sinks=[{"jsonl": "/data/x.jsonl"}], run={"state": "/var/x.state"})
    assert pipeline.notices == (
        "pipeline /run/state: '/var/x.state' lies outside the folder of the pipeline",
        "pipeline /sinks/0/jsonl: '/data/x.jsonl' lies outside the folder of the pipeline",
    )


def test_an_output_through_a_link_is_said_and_an_include_through_one_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "run.yaml").write_text("delay: 2s\n", "utf-8")
    home = tmp_path / "home"
    home.mkdir()
    (home / "out").symlink_to(tmp_path / "elsewhere")
    (home / "run.yaml").symlink_to(tmp_path / "elsewhere" / "run.yaml")
    data = {
        "name": "x",
        "source": {"files": "*.html"},
        "extract": {"schema": "product"},
        "sinks": [{"csv": "out/a.csv"}],
    }
    pipeline = Pipeline.from_dict(data, folder=home, environment={})
    assert len(pipeline.notices) == 1
    with pytest.raises(ConfigurationError, match="leaves the folder"):
        Pipeline.from_dict({**data, "run": {"include": "run.yaml"}}, folder=home, environment={})


def test_includes_go_on_from_their_own_folder_and_never_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "top.yaml").write_text("include: a/all.yaml\nname: mine\n", "utf-8")
    (tmp_path / "a" / "all.yaml").write_text(
        "name: theirs\nsource: {files: x.html}\nextract: {schema: product}\nrun: {include: b/run.yaml, tries: 1}\n",
        "utf-8",
    )
    (tmp_path / "a" / "b" / "run.yaml").write_text("tries: 9\nconcurrency: 3\n", "utf-8")
    pipeline = Pipeline.from_yaml(tmp_path / "top.yaml", environment={})
    assert (pipeline.name, pipeline.spec.run.tries, pipeline.spec.run.concurrency) == ("mine", 1, 3)
    assert pipeline.source.files == (str(tmp_path / "x.html"),)
    assert len(pipeline.files) == 3
    (tmp_path / "a" / "b" / "run.yaml").write_text("include: ../../a/b/run.yaml\n", "utf-8")
    with pytest.raises(ConfigurationError, match="leads back to itself"):
        Pipeline.from_yaml(tmp_path / "top.yaml", environment={})


def test_a_word_of_include_in_a_schema_is_a_field() -> None:
    schema = {"type": "object", "properties": {"include": {"type": "string"}}}
    assert list(made(extract={"schema": schema}).row_schema("record")["properties"]) == ["include"]


def test_a_dict_has_pointers_for_places() -> None:
    with pytest.raises(ConfigurationError) as caught:
        made(run={"dealy": 1})
    assert caught.value.line() == "UNKNOWN_KEY pipeline /run/dealy: unknown key 'dealy' (did you mean delay?)"
    with pytest.raises(SchemaError) as missing:
        made(extract={"schema": "nothing.json"})
    assert missing.value.where == "pipeline /extract/schema"
    circle: dict[str, Any] = {}
    circle["run"] = circle
    with pytest.raises(ConfigurationError, match="nested deeper"):
        Pipeline.from_dict(circle)
    with pytest.raises(ConfigurationError, match="set is no JSON value"):
        made(run={"delay": {1}})


def test_the_file_itself_may_be_missing(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Pipeline.from_yaml(tmp_path / "none.yaml")
    assert caught.value.where == str(tmp_path / "none.yaml")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        Pipeline.from_yaml(tmp_path)


def test_a_transform_of_one_schema_takes_the_place_of_the_files_own() -> None:
    pipeline = made(
        extract=[
            {"match": "/a/**", "schema": "product", "transform": {"keep": ["name"]}},
            {"match": "/b/**", "schema": "article"},
        ],
        transform={"drop": "topics"},
    )
    assert list(pipeline.row_schema("product")["properties"]) == ["name"]
    assert "topics" not in pipeline.row_schema("article")["properties"]
    with pytest.raises(ConfigurationError, match="no schema is called 'book'"):
        pipeline.row_schema("book")


NOT_SAID = {
    "self", "generator", "progress", "options",  # of a program
    "resume", "failed", "should_stop",  # of one run
    "stop_at_failure",  # error: stop
    "waiting_tokens",  # nobody's business
}  # fmt: skip


def test_the_file_says_all_that_client_and_crawl_know_with_their_defaults() -> None:
    pipeline = made()
    said = {
        (field.alias or name): getattr(section, name)
        for section in (pipeline.source, pipeline.extract, pipeline.spec.run)
        for name, field in type(section).model_fields.items()
    }
    known = {name: part.default for name, part in inspect.signature(Client.__init__).parameters.items()}
    for options in (CrawlOptions(), ExtractionOptions()):
        known |= {field.name.removesuffix("_s"): getattr(options, field.name) for field in dataclasses.fields(options)}
    own = {"user_agent", "state", "budget", "actions"}  # None or () stands for theirs, and a run always has a state
    missing = known.keys() - NOT_SAID - said.keys()
    assert not missing
    differing = {name for name in known.keys() - NOT_SAID - own if said[name] != known[name]}
    assert not differing
