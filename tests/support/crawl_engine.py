"""A small shop crawled with the real engine, undisturbed and with a kill in the middle, beside each other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.support.crawl_site import CrawlSite, Reply, page

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "x-verbatim": True},
        "price": {"type": ["number", "null"]},
        "origin": {"type": ["string", "null"], "x-verbatim": True},
    },
    "required": ["name", "price", "origin"],
    "additionalProperties": False,
}
_LEAVES = ("Assam", "Sencha", "Keemun", "Darjeeling", "Oolong", "Gunpowder", "Lapsang")
_PLACES = ("India", "Japan", "China", "Nepal", "Ceylon")


@dataclass(frozen=True, slots=True)
class KilledRun:
    """Lines of the undisturbed and of the killed run, sorted; how many stood in the output when it was killed; the
    seconds that the undisturbed run took, the loading of the model included."""

    undisturbed: list[bytes]
    killed: list[bytes]
    at_the_kill: int
    seconds: float


def shop(count: int) -> CrawlSite:
    """Its pages are /tea/0 to /tea/(count - 1), each linking to three more."""

    def answer(path: str) -> Reply | None:
        number = path.removeprefix("/tea/")
        if not path.startswith("/tea/") or not number.isdigit() or int(number) >= count:
            return None
        n = int(number)
        facts = (
            f"<p>Price: £{n % 7 + 2}.{n % 10}0 for 100 g. Origin: {_PLACES[n % len(_PLACES)]}.</p>"
            f"<p>Pour water of {70 + n % 30} degrees over it and wait {n % 4 + 2} minutes.</p>"
        )
        links = [f"/tea/{m}" for m in range(n * 3 + 1, n * 3 + 4) if m < count]
        return page(f"{_LEAVES[n % len(_LEAVES)]} No. {n}", links, facts)

    return CrawlSite(answer)


def run_beside_a_kill(count: int, folder: Path) -> KilledRun:
    """Crawl the shop twice; the second time, kill it when half of its records are written, and resume."""
    (folder / "tea.json").write_text(json.dumps(SCHEMA))
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'llm'}"}
    with shop(count) as site:

        def command(output: str, *more: str) -> list[str]:
            return [
                sys.executable, "-m", "fetchly", "crawl", site.url("/tea/0"), "-s", "tea.json", "-o", output, "-q",
                "--allow-private", "--render", "never", "--delay", "0", "--max-tokens", "96", *more,
            ]  # fmt: skip

        began = time.monotonic()
        subprocess.run(command("undisturbed"), env=environment, cwd=folder, check=True)
        seconds = time.monotonic() - began
        program = subprocess.Popen(command("killed"), env=environment, cwd=folder)
        while program.poll() is None and _lines(folder / "killed") < count // 2:
            time.sleep(0.01)
        program.kill()
        program.wait()
        at_the_kill = _lines(folder / "killed")
        subprocess.run(command("killed", "--resume"), env=environment, cwd=folder, check=True)
    outputs = [sorted((folder / name).read_bytes().splitlines()) for name in ("undisturbed", "killed")]
    return KilledRun(outputs[0], outputs[1], at_the_kill, seconds)


def _lines(file: Path) -> int:
    return file.read_bytes().count(b"\n") if file.exists() else 0
