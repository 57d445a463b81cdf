"""A site of pages that scripts fill in; one JSON line with the speed and the memory of a rendered crawl of it out.

    python tests/benchmarks/rendered_crawl.py [--pages 100] [--tabs 4] [--render auto]

The site is a process of its own, the model a script: what is measured is fetching, rendering, reading and the state.
`memory_mb` is that of the whole process tree (RSS: what is shared counts in every process), the most in each quarter of
the crawl; `asked_twice` are pages that the site was asked for more than once; `left` are processes that outlive it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "llm")]


def serve(count: int) -> None:
    """Serve until standard input ends; the port first, what was asked for last."""
    from tests.support.crawl_site import CrawlSite
    from tests.support.shells import numbered_shells

    with CrawlSite(numbered_shells(count)) as site:
        print(site.port, flush=True)
        sys.stdin.read()
        print(json.dumps(Counter(site.paths())), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", type=int, default=100)
    parser.add_argument("--tabs", type=int, default=4)
    parser.add_argument("--render", choices=("auto", "always"), default="auto")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.pages)
        return
    command = [sys.executable, __file__, "--serve", "--pages", str(arguments.pages)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as site:
        assert site.stdout is not None
        line = crawl(int(site.stdout.readline()), site.pid, arguments)
        asked, _ = site.communicate()
    counts = json.loads(asked)
    print(json.dumps({**line, "asked": len(counts), "asked_twice": sum(count > 1 for count in counts.values())}))


def crawl(port: int, site: int, arguments: argparse.Namespace) -> dict[str, object]:
    import fetchly
    from tests.support.browser import gone
    from tests.support.crawl_program import SCHEMA, name_of
    from tests.support.scripted_generator import ScriptedGenerator
    from tests.support.tree_memory import TreeMemory

    started = time.perf_counter()
    marks = [0]
    with TreeMemory(but=site) as memory:
        with (
            fetchly.Client(generator=ScriptedGenerator(name_of), allow_private=True, render=arguments.render) as client,
            client.crawl(f"http://127.0.0.1:{port}/p/0", SCHEMA, delay=0.0, concurrency=arguments.tabs) as running,
        ):
            for number, _ in enumerate(running, 1):
                if number * 4 // arguments.pages > len(marks) - 1:
                    marks.append(len(memory.samples))
            summary = running.summary
            seconds = time.perf_counter() - started
            family = [child for child in psutil.Process().children(recursive=True) if child.pid != site]
        left = 0 if gone(family) else sum(process.is_running() for process in family)
    quarters = [memory.samples[start:end] for start, end in itertools.pairwise(marks)]
    return {
        "bench": "rendered_crawl",
        "pages": summary.done,
        "rendered": summary.pages_rendered,
        "pages_per_s": round(summary.done / seconds, 2),
        "errors": sum(summary.failed.values()),
        "memory_mb": [round(max(quarter, default=0) / 1e6) for quarter in quarters],
        "fetch_ms_per_page": round(summary.fetch_ms / max(1, summary.done), 1),
        "left": left,
    }


if __name__ == "__main__":
    main()
