"""What a run says whose pages are all read for their links alone: its globs are like none of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fetchly.extraction.generator import GenerationTask
from fetchly.pipeline.pipeline import Pipeline
from fetchly.pipeline.running import dry_run
from tests.support.crawl_program import SCHEMA, name_of
from tests.support.crawl_site import CrawlSite, numbered, page
from tests.support.pipelines import items, ran
from tests.support.scripted_generator import ScriptedGenerator


@pytest.fixture(autouse=True)
def _one_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fetchly.reading._READERS", 1)  # each takes its time to start


@pytest.fixture
def site() -> Iterator[CrawlSite]:
    with CrawlSite(numbered(12)) as site:
        yield site


def said_of_no_match(said: list[str]) -> list[str]:
    return [line for line in said if line.startswith("NO_MATCH: ")]


def test_a_run_whose_globs_are_like_no_page_says_so_once(site: CrawlSite, tmp_path: Path) -> None:
    schemas = [
        {"match": ["/product/**", "/item/*"], "schema": SCHEMA, "name": "product"},
        {"match": "/news/**", "schema": SCHEMA, "name": "article"},
    ]
    said: list[str] = []
    pipeline = items(site.url(), extract={"schemas": schemas, "schema": None, "name": None})
    assert ran(pipeline, tmp_path, report=said.append).rows == 0
    (line,) = said_of_no_match(said)
    assert "is like match (product: '/product/**', '/item/*'; article: '/news/**')" in line
    assert f"the first: {site.url()} " in line
    said.clear()
    file = Pipeline.from_dict(pipeline, folder=tmp_path)
    assert not list(dry_run(file, 3, report=said.append, generator=ScriptedGenerator(name_of)))
    assert len(said_of_no_match(said)) == 1


def test_a_run_that_follows_no_page_says_so(site: CrawlSite, tmp_path: Path) -> None:
    said: list[str] = []
    summary = ran(items(site.url(), source={"follow": ["/product/**"]}), tmp_path, report=said.append)
    assert (summary.rows, summary.crawl.skipped) == (0, {"NOT_FOLLOWED": 1})
    (line,) = said_of_no_match(said)
    assert (
        f"is like follow ('/product/**'), so that all were read for their links alone, the first: {site.url()} " in line
    )


@pytest.mark.parametrize("answer", [name_of, lambda task: '{"name": null}'])
def test_where_one_page_is_like_a_glob_nothing_is_said_of_globs(
    site: CrawlSite, tmp_path: Path, answer: Callable[[GenerationTask], str]
) -> None:
    said: list[str] = []
    schemas = [{"match": ["/p/7"], "schema": SCHEMA, "name": "item"}]
    pipeline = items(site.url(), extract={"schemas": schemas, "schema": None, "name": None})
    ran(pipeline, tmp_path, answer, report=said.append)
    assert not said_of_no_match(said)
    said.clear()
    ran(pipeline, tmp_path, answer, report=said.append, resume=True)
    assert not said_of_no_match(said)


def test_of_files_the_path_and_of_variables_the_name_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLDER", "hunter2")
    (tmp_path / "one.html").write_bytes(page("One", []).body)
    schemas = [{"match": "/${FOLDER}/**", "schema": SCHEMA, "name": "item"}]
    pipeline = items("", extract={"schemas": schemas, "schema": None, "name": None})
    pipeline["source"] = {"files": "*.html", "follow": ["/p/**"]}
    said: list[str] = []
    assert ran(pipeline, tmp_path, report=said.append).rows == 0
    (line,) = said_of_no_match(said)
    assert "match (item: /${FOLDER}/**)" in line
    assert "/one.html " in line
    assert "hunter2" not in line
