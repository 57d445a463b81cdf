"""`runner: ray`, with Ray itself and two engines on this machine: the records of a local run, whatever goes down."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fetchly.errors import ConfigurationError, FetchlyError
from fetchly.extraction.generator import GenerationTask
from fetchly.pipeline.pipeline import Pipeline
from fetchly.pipeline.runner import RunSummary
from fetchly.pipeline.running import run
from tests.support.browser import gone, needs_browser, processes_of
from tests.support.crawl_program import name_of
from tests.support.crawl_site import CrawlSite, Reply, numbered, page
from tests.support.pipelines import items, lines_of, names_of, ran, rows_of, saved
from tests.support.scripted_generator import ScriptedGenerator

pytest.importorskip("ray")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
RAY = {"delay": 0, "runner": "ray", "workers": 2}


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """One for all tests of this file: a program's own Ray is joined."""
    from fetchly.cluster.ray_session import RaySession

    before = processes_of(os.getpid())
    with RaySession():
        yield
    assert gone([process for process in processes_of(os.getpid()) if process not in before], within_s=20)


def answer(path: str) -> Reply | None:
    """Numbered pages, some reached by a redirect, one that leads out of the site, one that is missing, and a film."""
    if path.startswith("/old/"):
        return Reply(status=302, headers=(("Location", f"/p/{path.rpartition('/')[2]}"),))
    if path == "/away":
        return Reply(status=302, headers=(("Location", "http://localhost:9/"),))
    if path == "/film":
        return Reply(b"\x00\x00\x00\x18ftypmp42" + bytes(2000), content_type="video/mp4")
    if path == "/robots.txt":
        return Reply(b"User-agent: *\nDisallow: /p/3\n", content_type="text/plain")
    if path == "/p/0":
        links = [f"/p/{n}" for n in range(1, 30)] + ["/old/5", "/away", "/film", "/missing", "/old/3"]
        return page("Item 0", links)
    return numbered(30)(path)


def signed(folder: Path, task: GenerationTask) -> str:
    """As name_of; the process that was asked leaves its number."""
    (folder / str(os.getpid())).touch()
    time.sleep(0.02)
    return name_of(task)


def deadly(folder: Path, how_often: int, task: GenerationTask) -> str:
    """As name_of, but that one page takes the engine down, so many times."""
    if task.prompt.source.startswith("Item 7\n") and len(list(folder.iterdir())) < how_often:
        (folder / str(time.monotonic_ns())).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return name_of(task)


def figures(summary: RunSummary) -> dict[str, Any]:
    crawl = summary.crawl
    return {"rows": summary.rows, "done": crawl.done, "failed": crawl.failed, "skipped": crawl.skipped}


def test_a_cluster_gives_the_records_of_one_machine(cluster: None, tmp_path: Path) -> None:
    found = {}
    for name, settings in {"local": {"delay": 0}, "ray": RAY}.items():
        folder, pids = tmp_path / name, tmp_path / f"{name}.pids"
        folder.mkdir()
        pids.mkdir()
        sinks = [{"jsonl": {"path": "out.jsonl", "evidence": True}}, {"sqlite": "out.db"}]
        with CrawlSite(answer) as site:
            pipeline = items(site.url(), sinks=sinks, run={**settings, "error": "quarantine"})
            summary = ran(pipeline, folder, partial(signed, pids))
            port = str(site.port)
        texts = [(folder / file).read_text("utf-8").replace(port, "PORT") for file in ("out.jsonl",)]
        quarantine = [line["code"] for line in lines_of(folder / "items.quarantine.jsonl")]
        rows = [row[1:] for row in rows_of(folder / "out.db")]
        found[name] = (
            figures(summary), sorted(texts[0].splitlines()), sorted(quarantine), len(rows),
            {int(file.name) for file in pids.iterdir()},
        )  # fmt: skip
    assert found["ray"][:-1] == found["local"][:-1]
    assert found["local"][0]["rows"] == 29
    assert found["local"][-1] == {os.getpid()}
    assert len(found["ray"][-1]) == 2
    assert os.getpid() not in found["ray"][-1]


def test_local_files_are_read_where_the_run_was_begun(cluster: None, tmp_path: Path) -> None:
    (tmp_path / "one.html").write_text("<title>Item 1</title><h1>Item 1</h1><p>It says so.")
    pipeline = items("", source={"seeds": None, "allow_private": None, "files": "*.html"}, run=RAY)
    assert ran(pipeline, tmp_path).rows == 1
    assert names_of(tmp_path / "out.jsonl") == ["Item 1"]


def test_an_engine_that_goes_down_costs_a_try_of_its_page(
    cluster: None, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    deaths = tmp_path / "deaths"
    deaths.mkdir()
    with CrawlSite(numbered(20)) as site:
        summary = ran(items(site.url(), run=RAY), tmp_path, partial(deadly, deaths, 2))
        asked = site.paths().count("/p/7")
    assert names_of(tmp_path / "out.jsonl") == sorted(f"Item {n}" for n in range(20))
    assert (len(list(deaths.iterdir())), asked, summary.crawl.failed) == (2, 3, {})
    assert capfd.readouterr().out == ""


def test_a_page_that_takes_every_engine_down_fails_alone(cluster: None, tmp_path: Path) -> None:
    deaths = tmp_path / "deaths"
    deaths.mkdir()
    with CrawlSite(numbered(20)) as site:
        summary = ran(items(site.url(), run=RAY), tmp_path, partial(deadly, deaths, 100))
        assert summary.crawl.failed == {"WORKER_LOST": 1}
        assert len(list(deaths.iterdir())) == 3
        pipeline = Pipeline.from_dict(items(site.url(), run={"delay": 0}), folder=tmp_path)
        # Where it is gone on with is free: the state is the same.
        again = run(pipeline, resume=True, failed=True, generator=ScriptedGenerator(name_of))
    assert again.crawl.failed == {}
    assert names_of(tmp_path / "out.jsonl") == sorted(f"Item {n}" for n in range(20))


def test_a_reader_that_goes_down_costs_a_try_of_its_pages(cluster: None, tmp_path: Path) -> None:
    killed: list[int] = []

    def answer_and_kill(path: str) -> Reply | None:
        if path == "/p/5" and not killed:
            for process in processes_of(os.getpid()):
                if "PageReaderActor" in " ".join(process.cmdline()):
                    killed.append(process.pid)
                    process.kill()
        return numbered(20)(path)

    with CrawlSite(answer_and_kill) as site:
        assert ran(items(site.url(), run=RAY), tmp_path).crawl.failed == {}
    assert len(killed) == 1
    assert names_of(tmp_path / "out.jsonl") == sorted(f"Item {n}" for n in range(20))


@needs_browser
def test_pages_are_rendered_over_there_and_what_sites_need_is_known_here(cluster: None, tmp_path: Path) -> None:
    def shell(path: str) -> Reply | None:
        number = path.rpartition("/")[2]
        if not path.startswith("/app/") or not number.isdigit():
            return None
        script = f"document.body.innerHTML = '<h1>Item {number}</h1><p>' + 'It says so, at some length. '.repeat(20)"
        return Reply(f"<title>Item {number}</title><div id=root></div><script>{script}</script>".encode())

    with CrawlSite(shell) as site:
        seeds = [site.url(f"/app/{n}") for n in range(6)]
        pipeline = items("", source={"seeds": seeds, "render": "auto"}, run=RAY)
        summary = ran(pipeline, tmp_path)
        asked = len(site.paths("/app/"))
    assert names_of(tmp_path / "out.jsonl") == [f"Item {n}" for n in range(6)]
    assert (summary.crawl.pages_rendered, asked) == (6, 6)


def test_what_is_wrong_is_said_as_on_one_machine(cluster: None, tmp_path: Path) -> None:
    said = {}
    for runner in ("local", "ray"):
        run_section = {"delay": 0, "runner": runner}
        lacking = items(
            "http://127.0.0.1:9/", extract={"model": "pypi:no-such==1/x.gguf", "offline": True}, run=run_section
        )
        with pytest.raises(FetchlyError) as failed:
            run(lacking, folder=tmp_path)
        with CrawlSite(numbered(3)) as site:
            summary = ran(
                items(site.url(), source={"allow_private": None}, run={**run_section, "state": f"{runner}.state"}),
                tmp_path,
            )
            assert site.log == []
        said[runner] = (type(failed.value), failed.value.code, failed.value.hint, summary.crawl.failed)
    assert said["ray"] == said["local"]
    assert said["ray"][3] == {"ADDRESS_REFUSED": 1}


def test_what_cannot_be_sent_is_said_without_what_it_holds(cluster: None, tmp_path: Path) -> None:
    lock = threading.Lock()

    def locked(task: GenerationTask) -> str:
        with lock:
            return name_of(task)

    pipeline = items("http://127.0.0.1:9/", extract={"api_key": "SECRETKEY"}, run=RAY)
    with pytest.raises(ConfigurationError) as failed:
        ran(pipeline, tmp_path, locked)
    assert failed.value.code == "RAY_PICKLE"
    assert "SECRETKEY" not in repr(failed.value.__context__) + failed.value.line()
    assert failed.value.__cause__ is None


class Odd(Exception):
    """Cannot be pickled as it is."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"odd {one}")


def odd(task: GenerationTask) -> str:
    raise Odd(1, 2)


def test_an_error_that_cannot_be_sent_says_the_same(cluster: None, tmp_path: Path) -> None:
    said: list[str] = []
    with CrawlSite(numbered(1)) as site:
        summary = ran(items(site.url(), run=RAY), tmp_path, odd, report=said.append)
    assert summary.crawl.failed == {"INTERNAL": 1}
    assert said[-1].endswith("INTERNAL: Odd: odd 1")


def test_runs_that_overlap_in_a_program_share_a_cluster_to_the_last_one(tmp_path: Path) -> None:
    with CrawlSite(numbered(40), pause_s=0.05) as site:
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            saved(items(site.url(), run=RAY), tmp_path / name)
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'llm'}"}
        environment.pop("RAY_ADDRESS", None)
        program = [sys.executable, "-c", TWO_RUNS, str(tmp_path / "one/items.yaml"), str(tmp_path / "two/items.yaml")]
        subprocess.run(program, env=environment, cwd=ROOT, check=True, timeout=120)
    for name in ("one", "two"):
        assert names_of(tmp_path / name / "out.jsonl") == sorted(f"Item {n}" for n in range(40))


TWO_RUNS = """
import sys, threading, time
from pathlib import Path
from fetchly.pipeline.running import run
from tests.support.crawl_program import name_of
from tests.support.scripted_generator import ScriptedGenerator
def start(file):
    thread = threading.Thread(target=run, args=(Path(file),), kwargs={"generator": ScriptedGenerator(name_of)})
    thread.start()
    return thread
first = start(sys.argv[1])
time.sleep(4)
second = start(sys.argv[2])
first.join()
second.join()
import ray
assert not ray.is_initialized()
"""
PROGRAM = """
import sys
from pathlib import Path
from fetchly.pipeline.running import run
from tests.support.crawl_program import name_of
from tests.support.scripted_generator import ScriptedGenerator
run(Path(sys.argv[1]), resume=True, generator=ScriptedGenerator(name_of))
"""


def test_nothing_is_left_of_a_run_that_is_killed_and_it_goes_on(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'llm'}", "TMPDIR": str(tmp_path)}
    environment.pop("RAY_ADDRESS", None)
    with CrawlSite(numbered(60), pause_s=0.05) as site:
        file = saved(items(site.url(), run={**RAY, "concurrency": 2}), tmp_path)
        command = [sys.executable, "-c", PROGRAM, str(file)]
        program = subprocess.Popen(command, env=environment, cwd=ROOT)
        try:
            while len(site.paths()) < 20:
                assert program.poll() is None
                time.sleep(0.01)
            # Two helpers of Ray, which hold nothing of ours, first tell a cluster of it that is no more, for a minute.
            started = [process for process in processes_of(program.pid) if not process.name().endswith("Agent")]
            assert any("raylet" in process.name() for process in started)
            assert any("EngineActor" in process.name() for process in started)
        finally:
            program.kill()
            program.wait()
        assert gone(started, within_s=30)
        subprocess.run(command, env=environment, cwd=ROOT, check=True, timeout=120)
    assert names_of(tmp_path / "out.jsonl") == sorted(f"Item {n}" for n in range(60))


def test_without_ray_it_is_said_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigurationError, match="ray is not installed") as failed:
        ran(items("http://127.0.0.1:9/", run=RAY), tmp_path)
    assert failed.value.code == "RAY_MISSING"
    assert not (tmp_path / "items.state").exists()


def test_a_cluster_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    file = saved(items("http://127.0.0.1:9/", run=RAY), tmp_path)
    program = subprocess.run(
        [sys.executable, "-m", "fetchly", "run", str(file)],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'llm'}", "RAY_ADDRESS": "127.0.0.1:9"},
        capture_output=True,
        timeout=180,
    )
    assert program.returncode == 2
    said = [line for line in program.stderr.decode().splitlines() if "RAY_FAILED" in line]
    assert len(said) == 1
    assert "127.0.0.1:9" in said[0]
