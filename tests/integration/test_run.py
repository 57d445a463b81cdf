"""Whole runs of pipelines over a script in place of the model: what comes in, and what comes out where."""

import asyncio
import csv
import hashlib
import io
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fetchly
from fetchly.cli.app import run
from fetchly.errors import ConfigurationError, FetchError, PolicyRefused
from fetchly.extraction.generator import GenerationTask
from tests.support.crawl_program import SCHEMA, name_of
from tests.support.crawl_site import CrawlSite, Reply, numbered, page
from tests.support.pipelines import items, lines_of, names_of, ran, rows_of, saved
from tests.support.scripted_generator import ScriptedGenerator

ALL = sorted(f"Item {number}" for number in range(12))
LIST = {"type": "object", "properties": {"items": {"type": "array", "items": SCHEMA}}, "required": ["items"]}


@pytest.fixture(autouse=True)
def _script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fetchly.sdk.LocalGenerator", lambda *_, **__: ScriptedGenerator(name_of))
    monkeypatch.setattr("fetchly.reading._READERS", 1)  # each takes its time to start


@pytest.fixture
def site() -> Iterator[CrawlSite]:
    with CrawlSite(numbered(12)) as site:
        yield site


def test_every_sink_has_every_row_and_the_manifest_says_what_was_done(site: CrawlSite, tmp_path: Path) -> None:
    sinks = [{"jsonl": "out.jsonl"}, {"csv": {"path": "out.csv", "evidence": True}}, {"sqlite": "out.db"}]
    transform = {"rename": {"name": "title"}, "set": {"shop": "Example"}}
    summary = ran(items(site.url(), sinks=sinks, transform=transform), tmp_path)
    assert names_of(tmp_path / "out.jsonl", "title") == ALL
    assert {row["shop"] for row in lines_of(tmp_path / "out.jsonl")} == {"Example"}
    assert len(rows_of(tmp_path / "out.db")) == 12
    table = list(csv.DictReader(io.StringIO((tmp_path / "out.csv").read_text())))
    assert {row["_key"] for row in table} == {f"item:{row['_url']}#0" for row in table}
    assert [(use.kind, use.rows, use.position) for use in summary.sinks] == [
        ("jsonl", 12, 12), ("csv", 12, 12), ("sqlite", 12, 12)
    ]  # fmt: skip
    manifest = json.loads((tmp_path / "items.manifest.json").read_text())
    assert manifest["status"] == "complete"
    assert manifest["error"] is None
    assert manifest["started"] <= manifest["ended"]
    assert manifest["counts"] == {"rows": 12, "duplicates": 0, "rejected": 0}
    assert manifest["crawl"]["done"] == 12
    assert manifest["versions"]["model"] == "scripted"
    for use, name in zip(manifest["sinks"], ("out.jsonl", "out.csv", "out.db"), strict=True):
        assert use["sha256"] == hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()


def test_several_schemas_go_to_the_sinks_that_want_them(tmp_path: Path) -> None:
    pages = {
        "/": page("Home", ["/shop/1", "/shop/2", "/news/1", "/old"]),
        "/shop/1": page("Kettle", ["/"]), "/shop/2": page("Pot", ["/"]), "/news/1": page("Opening", ["/shop/1"]),
        "/old": Reply(status=302, headers=(("Location", "/news/2"),)), "/news/2": page("Sale", ["/shop/1"]),
    }  # fmt: skip
    more = {"type": ["string", "null"], "format": "uri"}
    headline = {**SCHEMA, "properties": {"headline": {"$ref": "#/$defs/text"}, "more": more}, "required": ["headline"],
                "$defs": {"text": {"type": "string"}}}  # fmt: skip
    marked: dict[str, bool] = {}

    def answer(task: GenerationTask) -> str:
        record = name_of(task)
        marked[json.loads(record)["name"]] = "[L" in task.prompt.page
        return record.replace('"name"', '"headline"') if "headline" in json.dumps(task.schema) else record

    extract = {"schemas": [
        {"match": "/shop/**", "schema": SCHEMA, "name": "product"},
        {"match": "/news/**", "schema": headline, "name": "article"},
    ], "schema": None, "name": None}  # fmt: skip
    sinks = [
        {"jsonl": {"path": "products.jsonl", "schemas": ["product"]}},
        {"jsonl": {"path": "news.jsonl", "schemas": ["article"]}},
        {"sqlite": "all.db"},
    ]
    with CrawlSite(fixed=pages) as site:
        summary = ran(items(site.url("/"), extract=extract, sinks=sinks), tmp_path, answer)
    assert names_of(tmp_path / "products.jsonl") == ["Kettle", "Pot"]
    assert names_of(tmp_path / "news.jsonl", "headline") == ["Opening", "Sale"]
    rows = rows_of(tmp_path / "all.db", "SELECT name, headline FROM records")
    assert sorted(rows, key=str) == sorted(
        [("Kettle", None), ("Pot", None), (None, "Opening"), (None, "Sale")], key=str
    )
    assert summary.crawl.done == 4
    # Links are marked for the schema that asks for them alone, also on a page that another one's has led to.
    assert marked == {"Kettle": False, "Pot": False, "Opening": True, "Sale": True}
    assert summary.crawl.skipped["NOT_FOLLOWED"] == 1  # the home page, for its links alone
    assert summary.crawl.coverage == {"product/name": 1.0, "article/headline": 1.0, "article/more": 0.0}


def test_a_list_in_the_record_gives_rows_and_doubles_are_left_out(site: CrawlSite, tmp_path: Path) -> None:
    def answer(task: GenerationTask) -> str:
        record = json.loads(name_of(task))
        return json.dumps({"items": [record, {"name": "Everywhere"}]})

    pipeline = items(
        site.url(), extract={"schema": LIST, "rows": "items"}, transform={"deduplicate": ["name"]},
        sinks=[{"sqlite": "out.db"}, {"jsonl": "out.jsonl"}],
    )  # fmt: skip
    summary = ran(pipeline, tmp_path, answer)
    assert names_of(tmp_path / "out.jsonl") == sorted([*ALL, "Everywhere"])
    assert (summary.rows, summary.duplicates) == (13, 11)
    again = ran(pipeline, tmp_path, answer, resume=True)
    assert (again.rows, again.duplicates) == (13, 11)
    assert len(rows_of(tmp_path / "out.db")) == 13


def test_files_are_read_without_a_network(tmp_path: Path) -> None:
    for name in ("a/one.html", "a/b/two.html", "a/three.htm", "other/four.html"):
        file = tmp_path / "pages" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(page(file.stem, ["/p/1"]).body)
    (tmp_path / "pages" / "a" / "five.html").write_bytes(b"%PDF-1.7")
    extract = {"schemas": [{"match": "/pages/a/**", "schema": SCHEMA, "name": "item"}], "schema": None, "name": None}
    source = {"seeds": None, "files": ["pages/**/*.html"], "allow_private": False}
    summary = ran(items("", source=source, extract=extract), tmp_path)
    assert names_of(tmp_path / "out.jsonl") == ["one", "two"]
    assert summary.crawl.skipped == {"NOT_FOLLOWED": 1, "NOT_HTML_PDF": 1}
    assert ran(items("", source=source, extract=extract), tmp_path, resume=True).rows == 2
    with pytest.raises(ConfigurationError, match="no file is like this glob") as caught:
        ran(items("", name="none", source={"seeds": None, "files": ["nothing/*.html"]}), tmp_path)
    assert "/source/files/0" in str(caught.value.where)


def test_lists_are_read_from_files_tables_and_stdin(
    site: CrawlSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "urls.txt").write_text(f"# ours\n\n{site.url('/p/1')}\n  {site.url('/p/2')}#top \nno url\n")
    (tmp_path / "shops.csv").write_text(f"name;page\nx;{site.url('/p/3')}\ny;\nz;{site.url('/p/1')}\n", "utf-8-sig")
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as pipe:
        pipe.write(f"{site.url('/p/4')}\n/etc/passwd\nfile:///etc/passwd\n")
    with os.fdopen(reader) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        lists = [{"file": "urls.txt"}, {"csv": "shops.csv", "column": "page", "delimiter": ";"}, {"stdin": True}]
        said: list[str] = []
        summary = ran(items("", source={"seeds": None, "urls": lists}), tmp_path, report=said.append)
    assert names_of(tmp_path / "out.jsonl") == ["Item 1", "Item 2", "Item 3", "Item 4"]
    assert summary.crawl.failed == {"BAD_URL": 2, "SCHEME_REFUSED": 1}
    assert any(line.startswith("BAD_URL urls.txt:5: ") and line.endswith("(write it whole: https://example.org/page)")
               for line in said)  # fmt: skip
    assert any(line.startswith("SCHEME_REFUSED stdin:3: ") for line in said)
    assert site.paths("/p/")
    assert not any("passwd" in path for path in site.paths("/"))


def test_a_table_without_the_column_is_told_before_anything_is_begun(tmp_path: Path) -> None:
    (tmp_path / "shops.csv").write_text("name,page\n")
    lists = {"seeds": None, "urls": {"csv": "shops.csv", "column": "url"}}
    with pytest.raises(ConfigurationError) as caught:
        ran(items("", source=lists), tmp_path)
    assert caught.value.line().endswith("the table shops.csv has no column 'url' (it has: name, page)")
    assert not (tmp_path / "items.state").exists()
    (tmp_path / "shops.csv").write_text("x" * 200_000 + ",url\n")
    with pytest.raises(ConfigurationError, match="the table cannot be read"):
        ran(items("", source=lists), tmp_path)


def test_a_sitemap_that_is_named_gives_the_pages(tmp_path: Path) -> None:
    with CrawlSite(numbered(12)) as site:
        urls = "".join(f"<url><loc>{site.url(f'/p/{number}')}</loc></url>" for number in (2, 5, 7))
        xml = f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{urls}</urlset>'
        site.fixed["/map.xml"] = Reply(xml.encode(), content_type="application/xml")
        pipeline = items("", source={"seeds": None, "sitemap": [site.url("/map.xml")]})
        assert ran(pipeline, tmp_path).crawl.done == 3
        assert ran(pipeline, tmp_path, resume=True).crawl.done == 3
        assert len(site.paths("/map.xml")) == 1
    assert names_of(tmp_path / "out.jsonl") == ["Item 2", "Item 5", "Item 7"]


def test_a_state_is_only_gone_on_with_when_it_is_asked_for(site: CrawlSite, tmp_path: Path) -> None:
    pipeline = items(site.url())
    assert ran(pipeline, tmp_path, limit=5).rows == 5
    first = (tmp_path / "out.jsonl").read_bytes()
    with pytest.raises(ConfigurationError) as caught:
        ran(pipeline, tmp_path)
    assert caught.value.code == "STATE_EXISTS"
    assert json.loads((tmp_path / "items.manifest.json").read_text())["status"] == "complete"  # the run's that was
    with pytest.raises(ConfigurationError) as caught:
        ran(items(site.url(), transform={"rename": {"name": "title"}}), tmp_path, resume=True)
    assert caught.value.code == "RUN_DIFFERS"
    assert ran(pipeline, tmp_path, resume=True).rows == 12
    assert (tmp_path / "out.jsonl").read_bytes().startswith(first)
    assert names_of(tmp_path / "out.jsonl") == ALL
    assert len(site.paths()) == 12


def test_a_dry_run_prints_rows_and_leaves_nothing(
    site: CrawlSite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = saved(items(site.url(), transform={"rename": {"name": "title"}}), tmp_path)
    assert run(["run", str(file), "--dry-run", "3"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(rows) == 3
    assert all(set(row) == {"title"} for row in rows)
    assert [found.name for found in tmp_path.iterdir()] == ["items.yaml"]
    assert run(["run", str(file), "--dry-run", "1", "--resume"]) == 2
    assert "dry run" in capsys.readouterr().err


def test_a_dry_run_without_a_row_ends_as_its_crawl_does(site: CrawlSite, tmp_path: Path) -> None:
    """Refused is 5, as of a run; anything else that leaves nothing to print is 1."""
    absent = saved(items(site.url("/absent")), tmp_path)
    assert run(["run", str(absent), "--dry-run", "3"]) == 1
    site.fixed["/robots.txt"] = Reply(b"User-agent: *\nDisallow: /\n", content_type="text/plain")
    refused = saved(items(site.url()), tmp_path)
    assert run(["run", str(refused), "--dry-run", "3"]) == 5
    assert run(["run", str(refused)]) == 5


def test_the_command_line_writes_to_stdout_where_there_is_no_sink(
    site: CrawlSite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = saved(items(site.url(), sinks=None), tmp_path)
    assert run(["run", str(file), "--limit", "5", "--stats-json", str(tmp_path / "stats.json")]) == 0
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 5
    assert captured.err == ""
    (said,) = [json.loads((tmp_path / "stats.json").read_text())]
    assert (said["rows"], said["sinks"][0]["kind"]) == (5, "stdout")
    assert run(["run", str(file), "--resume", "-q", "--stats"]) == 0
    captured = capsys.readouterr()
    assert sorted(json.loads(line)["name"] for line in captured.out.splitlines()) == ALL
    assert "12 rows in stdout" in captured.err


def test_what_cannot_be_is_refused(site: CrawlSite, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", str(saved(items(site.url()), tmp_path)), "--failed"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not site.log


def test_a_file_for_a_cluster_runs_here_when_told_so(site: CrawlSite, tmp_path: Path) -> None:
    file = saved(items(site.url(), run={"runner": "ray", "workers": 2}), tmp_path)
    assert run(["run", str(file), "--runner", "local", "-q"]) == 0
    assert names_of(tmp_path / "out.jsonl") == ALL


def test_private_addresses_are_opened_by_the_file_or_by_the_command_line(
    site: CrawlSite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = saved(items(site.url(), source={"allow_private": None}), tmp_path)
    assert run(["run", str(file), "-q"]) == PolicyRefused.exit_code
    assert "--allow-private" in capsys.readouterr().err
    assert run(["run", str(file), "-q", "--allow-private"]) == 0
    assert names_of(tmp_path / "out.jsonl") == ALL


def test_a_cluster_is_missed_by_a_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fetchly.cluster.ray_session.find_spec", lambda name: None)
    file = saved(items("https://shop.example/", run={"runner": "ray"}), tmp_path)
    assert run(["run", str(file), "--check"]) == 2
    assert "RAY_MISSING" in capsys.readouterr().err
    assert run(["run", str(file), "--check", "--runner", "local"]) == 0


def test_pages_that_are_not_asked_for_have_their_exit_code(
    site: CrawlSite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site.fixed["/robots.txt"] = Reply(b"User-agent: *\nDisallow: /", content_type="text/plain")
    assert run(["run", str(saved(items(site.url()), tmp_path)), "-q"]) == PolicyRefused.exit_code
    assert "ROBOTS_DISALLOWED" in capsys.readouterr().err


def test_the_library_has_the_same(site: CrawlSite, tmp_path: Path) -> None:
    file = saved(items(site.url()), tmp_path)
    summary = fetchly.run(file, limit=5)
    assert isinstance(summary, fetchly.RunSummary)
    assert summary.rows == 5
    assert fetchly.Pipeline.from_yaml(file).run(resume=True).rows == 12
    with pytest.raises(ConfigurationError, match="unknown key"):
        fetchly.run({**items(site.url()), "sink": []}, folder=tmp_path)


def test_records_come_in_an_event_loop_and_nothing_is_left_behind(site: CrawlSite, tmp_path: Path) -> None:
    before = set(threading.enumerate())
    pipeline = fetchly.Pipeline.from_yaml(saved(items(site.url()), tmp_path))

    async def some(count: int, **options: Any) -> list[Any]:
        found: list[Any] = []
        stream = pipeline.records(**options)
        async for record in stream:
            found.append(record)
            if len(found) == count:
                break
        await stream.aclose()  # type: ignore[attr-defined]
        return found

    assert len(asyncio.run(some(3))) == 3
    assert json.loads((tmp_path / "items.manifest.json").read_text())["status"] == "interrupted"
    with pytest.raises(ConfigurationError, match="state"):
        asyncio.run(some(3))
    rest = asyncio.run(some(100, resume=True))
    assert sorted(record["name"] for record in rest) == ALL
    assert names_of(tmp_path / "out.jsonl") == ALL
    assert json.loads((tmp_path / "items.manifest.json").read_text())["status"] == "complete"
    assert {thread.name for thread in set(threading.enumerate()) - before if thread.name.startswith("fetchly")} == set()


def test_an_iteration_that_is_left_after_the_last_page_is_not_complete(tmp_path: Path) -> None:
    source = {"seeds": None, "files": "*.html", "allow_private": False}
    for number in range(3):
        (tmp_path / f"{number}.html").write_bytes(page(f"Item {number}", []).body)
    ran(items("", source=source), tmp_path)
    (tmp_path / "out.jsonl").unlink()
    pipeline = fetchly.Pipeline.from_dict(items("", source=source), folder=tmp_path)

    async def first() -> None:
        stream = pipeline.records(resume=True)  # all pages are there already
        async for _ in stream:
            break
        await stream.aclose()  # type: ignore[attr-defined]

    asyncio.run(first())
    assert json.loads((tmp_path / "items.manifest.json").read_text())["status"] == "interrupted"
    assert pipeline.run(resume=True).rows == 3
    assert len(names_of(tmp_path / "out.jsonl")) == 3


def test_a_sink_that_takes_other_schemas_is_not_gone_on_with(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.html").write_bytes(page(f"Item {number}", []).body)
    source = {"seeds": None, "files": "*.html", "allow_private": False}
    extract = [{"match": "/0.html", "schema": SCHEMA, "name": "one"}, {"match": "/**", "schema": SCHEMA, "name": "two"}]
    for kind in ("jsonl", "sqlite"):
        sink = {"path": f"out.{kind}", "schemas": ["one"]}
        pipeline = items("", name=kind, source=source, extract=extract, sinks=[{kind: sink}])
        ran(pipeline, tmp_path)
        with pytest.raises(ConfigurationError, match="other settings") as caught:
            ran({**pipeline, "sinks": [{kind: f"out.{kind}"}]}, tmp_path, resume=True)
        assert caught.value.code == "RUN_DIFFERS"


def test_an_output_is_no_page_of_the_run(tmp_path: Path) -> None:
    for glob, output in (("pages/**", "pages/a/out"), ("pages/*.html", "pages/0.html"), ("**/?.html", "0.html")):
        data = items("", source={"seeds": None, "files": glob, "allow_private": False}, sinks=[{"jsonl": output}])
        with pytest.raises(ConfigurationError, match="write over what the run reads"):
            fetchly.Pipeline.from_dict(data, folder=tmp_path)
    for glob, output in (("pages/*", "pages/a/out"), ("pages/**/*.html", "pages/out.jsonl"), ("*", ".out")):
        data = items("", source={"seeds": None, "files": glob, "allow_private": False}, sinks=[{"jsonl": output}])
        data["run"] = {"state": "state/x", "manifest": "state/m"}
        fetchly.Pipeline.from_dict(data, folder=tmp_path)


def test_a_cancelled_iteration_can_be_gone_on_with(tmp_path: Path) -> None:
    with CrawlSite(numbered(12), pause_s=0.02) as site:
        pipeline = fetchly.Pipeline.from_yaml(saved(items(site.url(), run={"concurrency": 1}), tmp_path))

        async def cancelled() -> None:
            async def all_of_them() -> None:
                async for _ in pipeline.records():
                    first.set()

            first = asyncio.Event()
            task = asyncio.create_task(all_of_them())
            await asyncio.wait_for(first.wait(), 60)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(cancelled())
        assert json.loads((tmp_path / "items.manifest.json").read_text())["status"] == "interrupted"
        assert pipeline.run(resume=True).rows == 12
    assert names_of(tmp_path / "out.jsonl") == ALL


def test_run_works_within_a_running_event_loop(site: CrawlSite, tmp_path: Path) -> None:
    async def outer() -> int:
        return fetchly.run(items(site.url()), folder=tmp_path).rows

    assert asyncio.run(outer()) == 12


def test_the_model_may_be_missing_before_anything_is_left(
    site: CrawlSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Missing(ScriptedGenerator):
        @property
        def identity(self) -> str:
            raise FetchError("no such model", url="model")

    with pytest.raises(FetchError, match="no such model"):
        fetchly.run(items(site.url()), folder=tmp_path, generator=Missing(name_of))
    assert list(tmp_path.iterdir()) == []
