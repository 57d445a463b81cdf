"""`cache` for a client, a crawl and the command line: what is asked for again, and that it shows in no record."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fetchly.cli.app import run
from fetchly.crawling.crawl import Crawl
from fetchly.sdk import Client, Result
from tests.support.crawl_program import SCHEMA, name_of
from tests.support.crawl_site import CrawlSite, Reply, numbered, page
from tests.support.crawls import crawled
from tests.support.scripted_generator import ScriptedGenerator

FRESH = (("Cache-Control", "max-age=600"),)
PAGES = 6
OTHER_SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "description": "How the item is called"}},
    "required": ["name"],
}


def with_fields(reply: Reply | None, *fields: tuple[str, str]) -> Reply | None:
    return reply and Reply(reply.body, reply.status, reply.content_type, (*reply.headers, *fields))


@pytest.fixture
def site() -> Iterator[CrawlSite]:
    with CrawlSite(lambda path: with_fields(numbered(PAGES)(path), *FRESH)) as site:
        yield site


def caching(folder: Path, **options: Any) -> tuple[Client, ScriptedGenerator]:
    scripted = ScriptedGenerator(name_of)
    given = {"cache": True, "cache_dir": folder, "allow_private": True, "render": "never", **options}
    return Client(generator=scripted, **given), scripted


def shown(result: Result[Any]) -> dict[str, Any]:
    """Everything of a result but what it cost."""
    return {name: getattr(result, name) for name in Result.__dataclass_fields__ if name != "stats"}


def test_a_page_and_its_record_cost_nothing_the_second_time(site: CrawlSite, tmp_path: Path) -> None:
    plain = Client(generator=ScriptedGenerator(name_of), allow_private=True, render="never")
    with plain, caching(tmp_path)[0] as first:
        expected = plain.extract(site.url(), SCHEMA)
        filled = first.extract(site.url(), SCHEMA)
    client, scripted = caching(tmp_path)
    with client:
        hit = client.extract(site.url(), SCHEMA)
    assert shown(expected) == shown(filled) == shown(hit)
    assert len(site.paths()) == 2  # without a cache, and into it
    assert scripted.tasks == []
    assert (filled.stats.page_from_cache, filled.stats.cached) == ("no", False)
    assert (hit.stats.page_from_cache, hit.stats.cached) == ("fresh", True)
    assert (hit.stats.prompt_tokens, hit.stats.output_tokens, hit.stats.decode_steps) == (0, 0, 0)
    assert hit.stats.as_dict()["cached"] is True


def test_two_schemas_on_one_page_give_two_records(site: CrawlSite, tmp_path: Path) -> None:
    client, scripted = caching(tmp_path)
    with client:
        one, other = client.extract(site.url(), SCHEMA), client.extract(site.url(), OTHER_SCHEMA)
        assert len(scripted.tasks) == 2
        assert not other.stats.cached
        assert one.identity != other.identity
        assert client.extract(site.url(), SCHEMA).stats.cached
        assert client.extract(site.url(), OTHER_SCHEMA).stats.cached
    assert len(scripted.tasks) == 2
    assert len(site.paths()) == 1


def test_a_changed_page_gives_a_new_record_and_the_same_page_elsewhere_does_not(
    site: CrawlSite, tmp_path: Path
) -> None:
    client, scripted = caching(tmp_path)
    site.fixed["/p/0"] = page("Honey")
    site.fixed["/copy"] = page("Honey")
    with client:
        assert client.extract(site.url(), SCHEMA).value == {"name": "Honey"}
        assert client.extract(site.url("/copy"), SCHEMA).stats.cached
        site.fixed["/p/0"] = page("Jam")
        changed = client.extract(site.url(), SCHEMA)
    assert (changed.value, changed.stats.cached) == ({"name": "Jam"}, False)
    assert len(scripted.tasks) == 2


def test_temperature_and_seed_make_answers_of_their_own(site: CrawlSite, tmp_path: Path) -> None:
    client, scripted = caching(tmp_path)
    with client:
        for temperature, seed in ((0.0, 0), (0.7, 0), (0.7, 1), (0.7, 0), (0.7, 1)):
            client.extract(site.url(), SCHEMA, temperature=temperature, seed=seed)
    assert [(task.temperature, task.seed) for task in scripted.tasks] == [(0.0, 0), (0.7, 0), (0.7, 1)]


def test_a_client_keeps_nothing_unasked(site: CrawlSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with Client(generator=ScriptedGenerator(name_of), allow_private=True, render="never") as client:
        client.extract(site.url(), SCHEMA)
    assert list(tmp_path.rglob("*")) == []
    with Client(generator=ScriptedGenerator(name_of), allow_private=True, render="never", cache=True) as client:
        client.extract(site.url(), SCHEMA)
    kept = [path.relative_to(tmp_path / "fetchly").parts[0] for path in tmp_path.rglob("*") if path.is_file()]
    assert sorted(kept) == ["answers", "pages"]


def test_a_second_crawl_is_made_of_what_the_first_has_kept_and_waits_for_no_turn(
    site: CrawlSite, tmp_path: Path
) -> None:
    def crawl_once(delay: float) -> tuple[list[dict[str, Any]], Crawl[Result[Any]], int]:
        client, scripted = caching(tmp_path)
        with client, crawled(client, site.url(), delay=delay) as crawl:
            found = sorted((shown(result) for result in crawl), key=lambda result: str(result["url"]))
        return found, crawl, len(scripted.tasks)

    first, first_crawl, written = crawl_once(0.0)
    second, second_crawl, rewritten = crawl_once(0.5)
    assert first == second
    assert (len(first), written, rewritten) == (PAGES, PAGES, 0)
    assert len(site.paths()) == PAGES
    assert (first_crawl.summary.pages_from_cache, first_crawl.summary.records_from_cache) == (0, 0)
    assert (second_crawl.summary.pages_from_cache, second_crawl.summary.records_from_cache) == (PAGES, PAGES)
    assert second_crawl.summary.as_dict()["pages_revalidated"] == 0
    assert len(site.paths("/robots.txt")) == 2
    assert [host.started for host in second_crawl.progress.hosts] == [1]  # robots.txt


def test_a_crawl_counts_what_was_only_asked_about(tmp_path: Path) -> None:
    asked: list[str] = []

    def answer(path: str) -> Reply | None:
        asked.append(path)
        reply = numbered(4)(path)
        # The site cannot see the condition; after the first crawl every page is as it was.
        return Reply(b"", 304) if reply and asked.count(path) > 1 else with_fields(reply, ("ETag", '"v1"'))

    with CrawlSite(answer) as site:
        for expected in (0, 4):
            client, scripted = caching(tmp_path)
            with client, crawled(client, site.url()) as crawl:
                results = list(crawl)
            assert len(results) == 4
            assert {result.stats.page_from_cache for result in results} == ({"revalidated"} if expected else {"no"})
            assert (crawl.summary.pages_revalidated, crawl.summary.pages_from_cache) == (expected, 0)
            assert len(scripted.tasks) == 4 - expected
        assert len(site.paths()) == 8


@pytest.fixture
def _command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setattr("fetchly.sdk.LocalGenerator", lambda *_, **__: ScriptedGenerator(name_of))
    Path("schema.json").write_text(json.dumps(SCHEMA))


@pytest.mark.usefixtures("_command_line")
def test_the_command_line_keeps_pages_and_answers_on_request(
    site: CrawlSite, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["extract", site.url(), "-s", "schema.json", "--allow-private", "--render", "never", "--evidence"]
    outputs = []
    for more in ([], ["--cache"], ["--cache", "--stats"], ["--no-cache"]):
        assert run([*command, *more]) == 0
        said = capsys.readouterr()
        outputs.append(said.out)
        if "--stats" in more:
            lines = {" ".join(line.split()) for line in said.err.splitlines()}
            assert {"page from cache fresh", "cached True", "output tokens 0"} <= lines
    assert len(set(outputs)) == 1
    assert len(site.paths()) == 3

    assert run(["cache", "show"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in said] == [["pages", "1", "entries,"], ["answers", "1", "entries,"]]
    assert said[0].endswith("/XDG_CACHE_HOME/fetchly/pages")

    monkeypatch.setenv("FETCHLY_CACHE", "true")
    monkeypatch.setenv("FETCHLY_CACHE_DIR", "elsewhere")
    assert run(command) == 0
    assert len(site.paths()) == 4
    assert Path("elsewhere/pages").is_dir()
    assert run(command) == 0
    assert len(site.paths()) == 4
    assert run(["cache", "clear"]) == 0
    assert "1 entries" in capsys.readouterr().out
    assert run(command) == 0
    assert len(site.paths()) == 5


@pytest.mark.usefixtures("_command_line")
def test_a_cache_that_cannot_be_used_is_said_before_any_work(
    site: CrawlSite, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("file").write_text("")
    monkeypatch.setenv("FETCHLY_CACHE_DIR", "file")
    assert run(["extract", site.url(), "-s", "schema.json", "--allow-private", "--cache"]) == 2
    assert "CACHE_UNUSABLE" in capsys.readouterr().err
    assert site.log == []
