"""A site of numbered pages in; one JSON line with the speed and the memory of a pipeline, and of the bare crawl, out.

    python tests/benchmarks/pipeline.py [--pages 5000] [--concurrency 8] [--rounds 3]

The site is a process of its own, the model a script: what is measured is fetching, reading, the state and the sinks
(JSON lines, SQLite and Parquet at once, with a transform that looks for doubles). Both are run in turn, `rounds` times;
`overhead` compares the medians of the seconds that they took from the first page to the end. `memory_mb` is the most
that the process tree has held (RSS) in each quarter of the last pipeline.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "llm")]


def serve(count: int) -> None:
    """Serve until standard input ends; the port first."""
    from tests.support.crawl_site import CrawlSite, numbered

    with CrawlSite(numbered(count)) as site:
        print(site.port, flush=True)
        sys.stdin.read()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", type=int, default=5000)
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.pages)
        return
    command = [sys.executable, __file__, "--serve", "--pages", str(arguments.pages)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as site:
        assert site.stdout is not None
        seed = f"http://127.0.0.1:{int(site.stdout.readline())}/p/0"
        print(json.dumps(measured(seed, site.pid, arguments.pages, arguments.concurrency, arguments.rounds)))
        site.communicate()


def measured(seed: str, site: int, pages: int, concurrency: int, rounds: int) -> dict[str, Any]:
    """The figures of `rounds` crawls and pipelines, in turn."""
    crawls, pipelines, memory = [], [], []
    for _ in range(rounds):
        crawls.append(crawled(seed, concurrency))
        seconds, memory, rows = piped(seed, site, pages, concurrency)
        pipelines.append(seconds)
    return {
        "bench": "pipeline",
        "pages": pages,
        "rows": rows,
        "pages_per_s": round(pages / statistics.median(pipelines), 1),
        "crawl_pages_per_s": round(pages / statistics.median(crawls), 1),
        "overhead": round(statistics.median(pipelines) / statistics.median(crawls) - 1, 3),
        "memory_mb": memory,
    }


def generator() -> Any:
    from tests.support.crawl_program import name_of
    from tests.support.scripted_generator import ScriptedGenerator

    class Forgetful(ScriptedGenerator):
        """Keeps no task: the pages of a whole crawl."""

        def generate(self, task):  # type: ignore[no-untyped-def]
            self.tasks.clear()
            return super().generate(task)

    return Forgetful(name_of)


def crawled(seed: str, concurrency: int) -> float:
    """The seconds of a bare crawl that writes JSON lines."""
    import fetchly
    from fetchly.crawling.output import RecordLines
    from tests.support.crawl_program import SCHEMA

    with (
        tempfile.TemporaryDirectory() as folder,
        fetchly.Client(generator=generator(), allow_private=True, render="never") as client,
        RecordLines(Path(folder) / "out.jsonl") as output,
    ):
        started = time.perf_counter()
        options = {"delay": 0.0, "concurrency": concurrency, "state": Path(folder) / "state"}
        with client.crawl(seed, SCHEMA, **options) as running:
            for result in running:
                output.write([result.value])
        return time.perf_counter() - started


def piped(seed: str, site: int, pages: int, concurrency: int) -> tuple[float, list[float], int]:
    """The seconds of a pipeline, the most megabytes in each quarter of it, and its rows."""
    from fetchly.pipeline.opened_client import RunOptions
    from fetchly.pipeline.pipeline import Pipeline
    from fetchly.pipeline.runner import PipelineRun
    from tests.support.pipelines import items
    from tests.support.tree_memory import TreeMemory

    sinks = [{"jsonl": "out.jsonl"}, {"sqlite": "out.db"}, {"parquet": "out.parquet"}]
    marks = [0]
    with tempfile.TemporaryDirectory() as folder:
        data = items(
            seed, sinks=sinks, run={"concurrency": concurrency}, transform={"deduplicate": "name", "set": {"a": 1}}
        )
        pipeline = Pipeline.from_dict(data, folder=folder)
        started = time.perf_counter()
        with TreeMemory(but=site) as memory, PipelineRun(pipeline, RunOptions(), generator=generator()) as running:
            number = 0
            while running.wait():
                running.take()
                number += 1
                if number * 4 // pages > len(marks) - 1:
                    marks.append(len(memory.samples))
            rows = running.end().rows
            seconds = time.perf_counter() - started
    quarters = (memory.samples[start:end] for start, end in itertools.pairwise(marks))
    return seconds, [round(max(samples) / 1e6, 1) for samples in quarters if samples], rows


if __name__ == "__main__":
    main()
