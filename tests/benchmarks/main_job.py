"""The main job as whole processes, one JSON line: `python tests/benchmarks/main_job.py`, on a quiet machine.

help_s: `fetchly --help`. start_s: from the first import to a loaded engine, the model being in the store.
page_s: seconds of a first and a second page of one schema, and what the second took from the prefix cache.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

PAGES = Path(__file__).resolve().parents[2] / "examples" / "pages"
RUNS = 5

LOAD = """
import time
began = time.perf_counter()
from fetchly.extraction.local import LocalGenerator
generator = LocalGenerator()
generator.count_tokens(["ready"])
print(time.perf_counter() - began)
"""

EXTRACT = """
import json, time, fetchly
pages = {pages!r}
out = []
with fetchly.Client() as client:
    client.document(pages[0])
    client._generator.count_tokens(["ready"])
    for page in pages:
        start = time.perf_counter()
        result = client.extract(page, "product")
        stats = result.stats.as_dict()
        stats["seconds"] = time.perf_counter() - start
        out.append(stats)
print(json.dumps(out))
"""


def seconds(program: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(program, check=True, capture_output=True)
    return time.perf_counter() - start


def start_seconds() -> float:
    answer = subprocess.run([sys.executable, "-c", LOAD], check=True, capture_output=True, text=True)
    return float(answer.stdout)


def median(program: list[str]) -> float:
    seconds(program)
    return round(statistics.median(seconds(program) for _ in range(RUNS)), 3)


def main() -> None:
    pages = [str(PAGES / "teapot.html"), str(PAGES / "lantern.html")]
    answer = subprocess.run(
        [sys.executable, "-c", EXTRACT.format(pages=pages)], check=True, capture_output=True, text=True
    )
    first, second = json.loads(answer.stdout)
    print(
        json.dumps(
            {
                "bench": "main_job",
                "help_s": median([sys.executable, "-m", "fetchly", "--help"]),
                "start_s": round(statistics.median(start_seconds() for _ in range(RUNS)), 2),
                "page_s": [round(first["seconds"], 2), round(second["seconds"], 2)],
                "prompt_tokens": [first["prompt_tokens"], second["prompt_tokens"]],
                "cached_prompt_tokens": [first["cached_prompt_tokens"], second["cached_prompt_tokens"]],
                "prefill_ms": [round(first["prefill_ms"]), round(second["prefill_ms"])],
                "ms_per_step": round(second["decode_ms"] / second["decode_steps"], 1),
                "acceptance_length": round(second["acceptance_length"], 2),
                "peak_memory_mb": round(second["peak_memory_mb"]),
            }
        )
    )


if __name__ == "__main__":
    main()
