"""The shipped pipelines, each run as a user runs it on a site of its own; what the sinks hold is compared whole."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

import fetchly.sdk
from fetchly.cli.app import run
from fetchly.pipeline.pipeline import Pipeline
from tests.support.browser import needs_browser
from tests.support.crawl_site import CrawlSite, Reply
from tests.support.pipeline_sites import (
    ARTICLES,
    EVENTS,
    OFFERS,
    PRODUCTS,
    facts,
    job_board,
    newspaper,
    page,
    read,
    shop,
    town,
    web,
)
from tests.support.postgres import PASSWORD, needs_postgres, postgres_server
from tests.support.scripted_generator import ScriptedGenerator

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = sorted((ROOT / "pipelines").glob("*.yaml"))
Run = Callable[..., int]


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a shipped pipeline in a folder of its own, `tmp_path`, with a model that reads well."""
    monkeypatch.setattr(fetchly.sdk, "LocalGenerator", lambda *_, **__: ScriptedGenerator(read))
    for name, value in {"ALLOW_PRIVATE": "true", "DELAY": "0"}.items():
        monkeypatch.setenv(name, value)

    def run_it(name: str, *arguments: str, **variables: str) -> int:
        for variable, value in variables.items():
            monkeypatch.setenv(variable, value)
        shutil.copy(ROOT / "pipelines" / f"{name}.yaml", tmp_path)
        return run(["run", str(tmp_path / f"{name}.yaml"), "-q", *arguments])

    return run_it


def forget(name: str, folder: Path) -> None:
    """What a shipped pipeline says is to be done before a run from the beginning."""
    (folder / f"{name}.state").unlink()
    shutil.rmtree(folder / f"{name}.state.sinks")


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def by(key: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: str(row[key]))


def asked(site: CrawlSite) -> list[str]:
    """What was asked for besides robots.txt."""
    return sorted(path for path in site.paths("/") if path != "/robots.txt")


def _place(url: str, schema: str) -> dict[str, str]:
    """What `evidence` adds."""
    return {"_url": url, "_key": f"{schema}:{url}#0"}


def fields(schema: str, *but: str) -> dict[str, None]:
    """A row that says nothing."""
    properties = json.loads((ROOT / "schemas" / f"{schema}.json").read_text("utf-8"))["properties"]
    return dict.fromkeys(name for name in properties if name not in but)


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_a_shipped_pipeline_is_sound(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("SITE", "SITEMAP"):
        monkeypatch.setenv(name, "https://example.org/")
    monkeypatch.setenv("DATABASE_URL", "postgresql://user:password@db.example.org/shop")
    assert run(["run", str(file), "--check"]) == 0
    assert f"{file.name}: sound" in capsys.readouterr().err


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_what_must_be_named_is_asked_for(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("SITE", "SITEMAP", "DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    assert run(["run", str(file)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"VARIABLE_MISSING {file}:")
    assert said.count("\n") == 1


def test_there_are_five_and_they_are_listed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    names = ["catalogue", "events", "jobs", "news", "url_list"]
    assert run(["pipelines", "list"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in listed] == names == [file.stem for file in SHIPPED]
    assert listed[3].endswith("A news archive: the articles that a sitemap lists, as a table for a spreadsheet")
    for file in SHIPPED:
        assert run(["pipelines", "show", file.stem]) == 0
        assert capsys.readouterr().out == file.read_text("utf-8")
    assert run(["pipelines", "show", "catalog"]) == 2
    assert "did you mean catalogue?" in capsys.readouterr().err


def test_recipes_of_the_documentation_are_sound(tmp_path: Path) -> None:
    cookbook = (ROOT / "docs" / "pipelines.md").read_text("utf-8").partition("## Cookbook")[2]
    recipes = re.findall(r"```yaml\n(.*?)```", cookbook, re.DOTALL)
    assert len(recipes) >= 5
    for recipe in recipes:
        file = tmp_path / "recipe.yaml"
        file.write_text(recipe, "utf-8")
        assert Pipeline.from_yaml(file, environment={}).notices == ()


def product(number: str) -> dict[str, Any]:
    said = dict(PRODUCTS[number])
    row: dict[str, Any] = {**fields("product", "original_price", "mpn", "image"), **said}
    row["price"] = float(said["price"].removeprefix("£").replace(",", ""))
    row["rating"] = float(said["rating"]) if "rating" in said else None
    row["review_count"] = int(said["review_count"]) if "review_count" in said else None
    return row


def test_a_catalogue(ran: Run, tmp_path: Path) -> None:
    with shop() as site:
        assert ran("catalogue", SITE=site.url("/")) == 0
        urls = {number: site.url(f"/product/{number}") for number in PRODUCTS}
    assert asked(site) == sorted(
        ["/", "/category/pots", "/category/tea", "/category/tea?page=2", *(f"/product/{number}" for number in PRODUCTS)]
    )
    rows = [product(number) for number in PRODUCTS]
    keys = [_place(url, "product") for url in urls.values()]
    assert by("_url", lines(tmp_path / "catalogue.jsonl")) == [
        {**row, **key} for row, key in zip(rows, keys, strict=True)
    ]
    with closing(sqlite3.connect(tmp_path / "catalogue.db")) as database:
        database.row_factory = sqlite3.Row
        stored = [dict(row) for row in database.execute("SELECT * FROM products ORDER BY _key")]
    assert stored == [{**row, **key, "_rest": None} for row, key in zip(rows, keys, strict=True)]


def test_a_news_archive(ran: Run, tmp_path: Path) -> None:
    with newspaper() as site:
        assert ran("news", SITEMAP=site.url("/sitemap.xml")) == 0
    assert not set(asked(site)) & {"/tag/water", "/comments", "/"}
    text = (tmp_path / "news.csv").read_text("utf-8")
    header, *rows = csv.reader(text.splitlines())
    assert header == ["date", "title", "author", "description", "beginning", "_url", "_key"]
    flood, fair, match = ARTICLES.values()
    # Which of the two addresses of one article comes first is not said.
    flood_url = next(row[5] for row in rows if row[0] == "2026-05-03")
    assert flood_url in (site.url("/2026/flood"), site.url("/2026/flood/print"))
    assert sorted(rows) == [
        ["2025-12-24", match["title"], '["Jo Roe"]', "", "", *_cells(site.url("/2025/match"))],
        ["2026-03-01", "'=A1, the fair", "", "", fair["first_paragraph"], *_cells(site.url("/2026/fair"))],
        ["2026-05-03", flood["title"], '["Jane Doe", "Ali Can"]', flood["description"], flood["first_paragraph"],
         *_cells(flood_url)],
    ]  # fmt: skip


def _cells(url: str) -> list[str]:
    return list(_place(url, "article").values())


def test_a_news_archive_ends_at_its_limit(ran: Run, tmp_path: Path) -> None:
    with newspaper() as site:
        assert ran("news", SITEMAP=site.url("/sitemap.xml"), LIMIT="1") == 0
    assert len(list(csv.reader((tmp_path / "news.csv").read_text("utf-8").splitlines()))) == 2


def test_a_job_board(ran: Run, tmp_path: Path) -> None:
    with job_board() as site:
        assert ran("jobs", SITE=site.url("/jobs"), BOARD="The Board") == 0
    assert asked(site) == sorted(["/jobs", "/jobs/page/3", "/jobs?page=2", *(f"/jobs/{number}" for number in OFFERS)])
    written = by("_url", lines(tmp_path / "jobs.jsonl"))
    # Which of the two addresses of one offer comes first is not said.
    doubles = {site.url("/jobs/2"), site.url("/jobs/6")}
    assert len(doubles & {row["_url"] for row in written}) == 1
    rows = []
    for number, values in OFFERS.items():
        url = site.url(f"/jobs/{number}")
        row: dict[str, Any] = {**fields("job_posting", "department", "reference", "description"), **values}
        row["date_posted"] = "2026-05-02" if row["date_posted"] else None
        row["apply_url"] = site.url(f"/apply/{number}")
        row = {"position": row.pop("title"), **row, "board": "The Board", **_place(url, "job_posting")}
        if url not in doubles or url in {each["_url"] for each in written}:
            rows.append(row)
    assert written == rows
    with (tmp_path / "jobs.csv").open(encoding="utf-8", newline="") as file:
        table = by("_url", list(csv.DictReader(file)))
    assert list(table[0]) == list(rows[0])
    assert table == [{name: value or "" for name, value in row.items()} for row in rows]


@needs_browser
def test_events_that_scripts_make(ran: Run, tmp_path: Path) -> None:
    with town() as site:
        assert ran("events", SITE=site.url("/events")) == 0
    assert asked(site) == ["/events", *(f"/events/{number}" for number in EVENTS)]
    rows = []
    for number, values in EVENTS.items():
        url = site.url(f"/events/{number}")
        row: dict[str, Any] = {**fields("event"), **values, **_place(url, "event")}
        row["start"] = f"2026-06-{int(number):02}T19:30:00Z"
        row["venue"] = row["venue_name"]
        kept = ("title", "start", "end", "venue", "location", "price", "organizer", "status", "_url", "_key")
        rows.append({name: row[name] for name in kept})
    assert by("_url", lines(tmp_path / "events.jsonl")) == rows


@needs_postgres
def test_a_list_of_urls_in_postgres(ran: Run, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A page that fails is put aside, and in the table after a second try; a run from the beginning changes nothing."""

    def table() -> list[dict[str, Any]]:
        with psycopg.connect(database, row_factory=dict_row) as connection:
            return connection.execute("SELECT * FROM pages ORDER BY _url").fetchall()

    def stored(path: str, **values: Any) -> dict[str, Any]:
        return {**fields("web_page"), **values, **_place(site.url(path), "web_page"), "_rest": None}

    with postgres_server() as database, web() as site:
        urls = "".join(f"{path[1:]},{site.url(path)}\n" for path in ("/a", "/b", "/later", "/a"))
        (tmp_path / "urls.csv").write_text(f"name,url\n{urls}")
        assert ran("url_list", DATABASE_URL=database) == 3
        first = [
            stored("/a", title="First", author="Jane Doe", published_date=date(2026, 5, 3)),
            stored("/b", title="Second", description="With a ' and a ;."),
        ]
        assert table() == first
        quarantine = tmp_path / "url_list.quarantine.jsonl"
        assert [(line["url"], line["code"]) for line in lines(quarantine)] == [(site.url("/later"), "HTTP_STATUS")]
        assert asked(site) == ["/a", "/b", "/later"]

        site.fixed["/later"] = page("Later", facts({"title": "Third"}))
        assert ran("url_list", "--resume", "--failed") == 0
        whole = [*first, stored("/later", title="Third")]
        assert table() == whole
        assert lines(quarantine) == []

        forget("url_list", tmp_path)
        assert ran("url_list") == 0
        assert table() == whole
    kept = capfd.readouterr()
    written = "".join(file.read_text("utf-8") for file in tmp_path.glob("*.json*"))
    assert PASSWORD not in kept.out + kept.err + written
    assert "tests@" not in written


def test_a_shipped_pipeline_runs_twice_as_its_user_would(
    ran: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows are shown before anything is written; a second run says how to go on, and one from the beginning is made."""
    with job_board() as site:
        assert ran("jobs", "--dry-run", "2", SITE=site.url("/jobs")) == 0
        shown = capsys.readouterr().out.splitlines()
        assert [json.loads(line)["board"] for line in shown] == ["jobs.example.org"] * 2
        assert [file.name for file in tmp_path.iterdir()] == ["jobs.yaml"]
        assert ran("jobs") == 0
        written = (tmp_path / "jobs.csv").read_bytes()
        capsys.readouterr()
        assert ran("jobs") == 2
        assert "--resume" in capsys.readouterr().err
        assert ran("jobs", "--resume") == 0
        assert (tmp_path / "jobs.csv").read_bytes() == written

        forget("jobs", tmp_path)
        site.fixed = {path: site.fixed[path] for path in ("/jobs", "/jobs/1", "/jobs/2")}
        assert ran("jobs") == 3  # its second page is gone
        assert sorted(row["position"] for row in lines(tmp_path / "jobs.jsonl")) == ["Baker", "Nurse"]


@pytest.mark.model
def test_a_catalogue_with_the_embedded_model(tmp_path: Path) -> None:
    """A shop that says what it sells in plain words, and the model that ships."""
    shelf = {
        "/product/teapot": ("Brown teapot", "£22.00", "Glazed by hand in Stoke. Holds a litre."),
        "/product/assam": ("Assam leaf tea", "£4.50", "A strong black tea from India."),
    }

    def goods(name: str, price: str, words: str) -> Reply:
        text = f"<main><h1>{name}</h1><p>{words}</p><p>Price: {price}</p><p>In stock</p></main>"
        return page(name, text, ["/"])

    site = CrawlSite(
        fixed={"/": page("The tea shop", "<p>Welcome.</p>", [*shelf])}
        | {path: goods(*values) for path, values in shelf.items()}
    )
    shutil.copy(ROOT / "pipelines" / "catalogue.yaml", tmp_path)
    with site:
        variables = {"SITE": site.url("/"), "ALLOW_PRIVATE": "true", "DELAY": "0"}
        answer = subprocess.run(
            [sys.executable, "-m", "fetchly", "run", "catalogue.yaml", "-q"],
            cwd=tmp_path, env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'llm'}", **variables},
            capture_output=True, text=True, timeout=600,
        )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    rows = by("_url", lines(tmp_path / "catalogue.jsonl"))
    assert [row["_url"] for row in rows] == [site.url("/product/assam"), site.url("/product/teapot")]
    assert [row["name"] for row in rows] == ["Assam leaf tea", "Brown teapot"]
    assert [row["price"] for row in rows] == [4.5, 22.0]
    assert list(rows[0]) == [*fields("product", "original_price", "mpn", "image"), "_url", "_key"]
