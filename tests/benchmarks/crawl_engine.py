"""A shop of generated pages in; one JSON line on a crawl of it by the real engine, killed once and resumed, out.

python tests/benchmarks/crawl_engine.py [--pages 30]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "llm")]


def main() -> None:
    from tests.support.crawl_engine import run_beside_a_kill

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", type=int, default=30)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = run_beside_a_kill(arguments.pages, Path(folder))
    print(
        json.dumps(
            {
                "bench": "crawl_engine",
                "pages": arguments.pages,
                "records": len(run.undisturbed),
                "pages_per_s": round(len(run.undisturbed) / run.seconds, 2),
                "killed_after": run.at_the_kill,
                "same_bytes": run.killed == run.undisturbed,
            }
        )
    )


if __name__ == "__main__":
    main()
