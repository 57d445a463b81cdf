"""A browser in a crawl: who is asked where it goes, pages that fight it, and what a long crawl leaves behind."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from fetchly.crawler import browser_memory
from fetchly.crawling.crawl import Crawl
from fetchly.sdk import Client
from tests.support.browser import arguments_of, gone, needs_browser, processes_of
from tests.support.crawl_program import name_of
from tests.support.crawl_site import CrawlSite, Reply
from tests.support.crawls import crawled, items
from tests.support.scripted_generator import ScriptedGenerator
from tests.support.shells import linked, numbered_shells, shell
from tests.support.site import Site, Visit, answer, redirect
from tests.support.tree_memory import TreeMemory

pytestmark = needs_browser


def client_of(render: str = "auto", **options: Any) -> Client:
    return Client(generator=ScriptedGenerator(name_of), render=render, **{"allow_private": True, **options})  # type: ignore[arg-type]


# ---- which pages are rendered


THICK = f"<p>{'All of this stands on every page. ' * 20}</p>"


def test_a_site_that_needs_a_browser_is_remembered_by_its_crawl(tmp_path: Path) -> None:
    """A page with a shell, and with too much text to be taken for one, is rendered where the site is known for shells:
    also in a later run. A page of another part of the site is not."""

    def answered(path: str) -> Reply | None:
        if path == "/":
            return Reply(f"<h1>Start</h1><p>{linked(*(f'/app/{n}' for n in range(1, 5)))}".encode())
        if path == "/app/4":
            return shell(links=linked("/app/5", "/blog/6"))
        if path in ("/app/5", "/blog/6"):
            return shell(beside=f"<h1>Unrendered</h1>{THICK}")
        return shell() if path.startswith("/app/") else None

    with CrawlSite(answered) as site, client_of() as client:

        def results(**options: Any) -> dict[str, tuple[str, bool]]:
            with crawled(client, site.url("/"), state=tmp_path / "state", **options) as running:
                found = {result.url or "": (result.value["name"], result.rendered) for result in running}
            renderings.append(running.summary.pages_rendered)
            return {url.removeprefix(site.url("")): what for url, what in found.items()}

        renderings: list[int] = []
        first = results(limit=5)
        assert first == {"/": ("Start", False)} | {f"/app/{n}": (f"Item {n}", True) for n in range(1, 5)}
        both = results(resume=True)
        assert both["/app/5"] == ("Item 5", True)
        assert both["/blog/6"] == ("Unrendered", False)
        assert renderings == [4, 1]
        pages = [path for path in site.paths("/") if path != "/robots.txt"]
        assert sorted(pages) == sorted(both)  # rendered or not, a page is asked for once
        with crawled(client, site.url("/app/5")) as fresh:
            assert [result.rendered for result in fresh] == [False]
        assert fresh.summary.pages_rendered == 0


# ---- where a browser is led


@pytest.mark.parametrize("render", ["auto", "always"])
def test_where_scripts_lead_is_asked_about_first(render: str) -> None:
    """To another origin only by its turn and its robots.txt; to what is closed or none of the crawl's not at all."""
    with (
        Site() as site,
        Site(host="127.0.0.2") as other,
        Site(host="127.0.0.3") as foreign,
        client_of(render) as client,
    ):

        def leads(url: str) -> bytes:
            return answer(f"<body><div id=root></div><script>location = '{url}' // createElement</script>".encode())

        links = linked("/to-other", "/to-foreign", "/to-closed", "/to-open", "/by-server")
        site.routes |= {
            "/": answer(f"<h1>Seed</h1><p>{'Some text. ' * 50}{links}".encode()),
            "/robots.txt": answer(b"User-agent: *\nDisallow: /closed/\n", content_type="text/plain"),
            "/to-other": leads(other.url("/target")),
            "/to-foreign": leads(foreign.url("/")),
            "/to-closed": leads("/closed/page"),
            "/to-open": leads("/open"),
            "/by-server": redirect(other.url("/moved")),
            "/open": answer(b"<h1>Open</h1>"),
        }
        other.routes |= {
            "/": answer(b"<h1>Other seed</h1>"),
            "/robots.txt": answer(b"User-agent: *\nDisallow: /moved\n", content_type="text/plain"),
            "/target": answer(b"<h1>Target</h1>"),
        }
        with crawled(client, [site.url("/"), other.url("/")]) as running:
            found = {result.url: result.value["name"] for result in running}
        assert sorted(found) == sorted([site.url("/"), other.url("/"), site.url("/open"), other.url("/target")])
        assert found[other.url("/target")] == "Target"
        assert (running.summary.failed, running.summary.skipped) == (
            {},
            {"REDIRECTED": 2, "OTHER_SITE": 1, "ROBOTS_DISALLOWED": 2} | _same_page(running),
        )
        assert foreign.connections == 0
        asked = [visit.path for visit in site.visits], [visit.path for visit in other.visits]
        assert "/closed/page" not in asked[0]
        assert "/moved" not in asked[1]
        assert asked[1][0] == "/robots.txt"


def _same_page(running: Crawl[Any]) -> dict[str, int]:
    """/to-open is found to be /open, which is a page of its own where it is linked as well."""
    return {code: count for code, count in running.summary.skipped.items() if code == "SAME_PAGE"}


# ---- pages that fight


@pytest.fixture
def small_tabs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser_memory, "MOST_BYTES", 500_000_000)


def drip(visit: Visit) -> None:
    visit.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<h1>Drips</h1>" + b" " * 2000)
    visit.drip(b"x" * 1000, pause_s=0.1)


def titled(script: str) -> Callable[[str], bytes]:
    return lambda title: answer(f"<h1>{title}</h1><script>{script}</script>".encode())


NO_END = "the page's scripts do not come to an end: they were stopped"
READ_AS_WAS = "read as it was then"
FIGHTS = {
    "Navigates": ("location = '?' + Math.random()", READ_AS_WAS),
    "Asks": ("for (;;) { alert(1); confirm(2); prompt(3) }", NO_END),
    "Spins": ("for (;;) {}", NO_END),
}


# Never at rest, however slow the machine: more than the bound of a tab, and an end for the machine's sake.
HOARDS = "const a = []; for (;;) if (a.length < 30) a.push(new Uint8Array(4e7).fill(1))"


@pytest.mark.usefixtures("small_tabs")
def test_pages_that_fight_are_reported_and_the_others_come_whole() -> None:
    """One that never ends, one that goes on for ever, dialogs, a spinning processor, memory that grows, and one whose
    process is killed under it."""
    fair = [f"/fair/{number}" for number in range(6)]
    with Site() as site, client_of("always", timeout=20) as client:
        killed = threading.Event()

        def kill_tabs(visit: Visit) -> None:
            if not killed.is_set():
                killed.set()
                for process in processes_of(os.getpid()):
                    if "--type=renderer" in arguments_of(process):
                        process.kill()
            visit.send(answer(b""))

        paths = [*fair[:3], "/Drips", "/Hoards", "/Killed", *(f"/{name}" for name in FIGHTS), *fair[3:]]
        site.routes |= {
            "/": answer(f"<h1>Seed</h1>{linked(*paths)}".encode()),
            "/Drips": drip,
            "/Hoards": titled(HOARDS)("Hoards"),
            "/Killed": titled("fetch('/kill')")("Killed"),
            "/kill": kill_tabs,
            **{f"/{name}": titled(script)(name) for name, (script, _) in FIGHTS.items()},
            **{path: answer(f"<h1>Item {path[-1]}</h1>".encode()) for path in fair},
        }
        said: list[str] = []
        with crawled(client, site.url("/"), concurrency=4, report=said.append) as running:
            results = {result.value["name"]: result.warnings for result in running}
        assert running.summary.failed == {"BROWSER_CRASHED": 1}, said
        assert [line for line in said if "/Hoards" in line and "more than 0.5 GB of memory" in line] == said
        assert killed.is_set()
        assert sorted(results) == sorted([*items(*range(6)), "Killed", "Drips", *FIGHTS, "Seed"])
        for name, (_, warning) in FIGHTS.items():
            assert warning in " ".join(results[name]), name
        assert READ_AS_WAS in " ".join(results["Drips"])
        assert all(not results[name] for name in [*items(*range(6)), "Killed"])
    assert processes_of_browsers() == []


def processes_of_browsers() -> list[psutil.Process]:
    """Descendants of ours that a browser or its driver has left."""
    left = [process for process in processes_of(os.getpid()) if "chrom" in arguments_of(process).lower()]
    return [] if gone(left) else left


# ---- many pages


PAGES = 40  # tests/benchmarks/rendered_crawl.py goes to 100 and beyond


def test_many_rendered_pages_leave_nothing_behind() -> None:
    before = {process.pid for process in processes_of(os.getpid())}
    with CrawlSite(numbered_shells(PAGES)) as site, TreeMemory() as memory, client_of() as client:
        marks: list[int] = []
        found = []
        with crawled(client, site.url("/p/0"), concurrency=4) as running:
            for result in running:
                found.append((result.value["name"], result.rendered))
                marks.append(len(memory.samples))
        assert sorted(found) == sorted((f"Item {number}", True) for number in range(PAGES))
        assert sorted(site.paths()) == sorted(f"/p/{number}" for number in range(PAGES))
        assert (running.summary.pages_rendered, running.summary.failed) == (PAGES, {})
        half = marks[PAGES // 2]
        first, second = memory.samples[:half], memory.samples[half:]
        assert max(second) < 1.5 * max(first), (max(first), max(second))
        assert contexts_of(client) == 0
        started = [process for process in processes_of(os.getpid()) if process.pid not in before]
        assert started
    assert gone(started)


def contexts_of(client: Client) -> int:
    """Contexts that the browser still has."""
    thread = client._reader._renderer._thread
    assert thread is not None
    assert thread._process is not None
    end = time.monotonic() + 10
    while (left := sum(len(running.browser.contexts) for running in thread._process._all)) and time.monotonic() < end:
        time.sleep(0.02)  # the last page's is being closed
    return left
