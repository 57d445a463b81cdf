"""A site of numbered pages in; one JSON line with the speed and the memory of a crawl of it out.

    python tests/benchmarks/crawl.py [--pages 2000] [--limit N] [--links 0] [--concurrency 8]

The site is a process of its own, the model a script: what is measured is fetching, reading, the state and the output.
`memory_mb` is that of the whole process tree (RSS) at a quarter, half, three quarters and the end of the crawl;
`asked_twice` are pages that the site was asked for more than once. `--links` is how many links /p/0 has beside its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "llm")]


def serve(count: int, links: int) -> None:
    """Serve until standard input ends; the port first, what was asked for last."""
    from tests.support.crawl_site import CrawlSite, Reply, numbered, page

    tree = numbered(count)

    def answer(path: str) -> Reply | None:
        return page(path) if path.startswith("/more/") else tree(path)

    crowd = page("Item 0", [*(f"/p/{n}" for n in (1, 2, 3)), *(f"/more/{n}" for n in range(links))])
    fixed = {"/p/0": crowd} if links else {}
    with CrawlSite(answer, fixed) as site:
        print(site.port, flush=True)
        sys.stdin.read()
        print(json.dumps(Counter(site.paths("/"))), flush=True)


def memory_mb() -> float:
    import psutil

    process = psutil.Process()
    total = process.memory_info().rss
    for child in process.children(recursive=True):
        try:
            total += child.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", type=int, default=2000)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--links", type=int, default=0)
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.pages, arguments.links)
        return
    command = [sys.executable, __file__, "--serve", "--pages", str(arguments.pages), "--links", str(arguments.links)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as site:
        assert site.stdout is not None
        line = crawl(int(site.stdout.readline()), arguments)
        asked, _ = site.communicate()
    counts = json.loads(asked)
    del counts["/robots.txt"]
    line["asked"] = len(counts)
    line["asked_twice"] = sum(count > 1 for count in counts.values())
    print(json.dumps(line))


def crawl(port: int, arguments: argparse.Namespace) -> dict[str, object]:
    import fetchly
    from fetchly.crawling.output import RecordLines
    from tests.support.crawl_program import SCHEMA, name_of
    from tests.support.scripted_generator import ScriptedGenerator

    class Forgetful(ScriptedGenerator):
        """Keeps no task: the pages of a whole crawl."""

        def generate(self, task):  # type: ignore[no-untyped-def]
            self.tasks.clear()
            return super().generate(task)

    expected = min(arguments.limit or arguments.pages, arguments.pages)
    marks = [expected * quarter // 4 for quarter in (1, 2, 3, 4)]
    memory: list[float] = []
    peak = 0.0
    with (
        tempfile.TemporaryDirectory() as folder,
        fetchly.Client(generator=Forgetful(name_of), allow_private=True, render="never") as client,
        RecordLines(Path(folder) / "records.jsonl") as output,
    ):
        started = time.perf_counter()
        with client.crawl(
            f"http://127.0.0.1:{port}/p/0",
            SCHEMA,
            limit=arguments.limit,
            delay=0.0,
            concurrency=arguments.concurrency,
            state=Path(folder) / "state",
        ) as running:
            for number, result in enumerate(running, 1):
                output.write([result.value])
                if number in marks or number % 100 == 0:
                    peak = max(peak, memory_mb())
                if number in marks:
                    memory.append(round(memory_mb(), 1))
            seconds = time.perf_counter() - started
            summary = running.summary
        state_mb = (Path(folder) / "state").stat().st_size / 1e6
    return {
        "bench": "crawl",
        "pages": summary.done,
        "pages_per_s": round(summary.done / seconds, 1),
        "peak_memory_mb": round(peak, 1),
        "errors": sum(summary.failed.values()),
        "memory_mb": memory,
        "queued": summary.queued,
        "state_mb": round(state_mb, 1),
        "fetch_ms_per_page": round(summary.fetch_ms / summary.done, 1),
        "read_ms_per_page": round(summary.read_ms / summary.done, 1),
    }


if __name__ == "__main__":
    main()
