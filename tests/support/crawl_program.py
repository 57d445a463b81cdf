"""`fetchly` with a script in place of the model, as a program that tests start and kill: the record is the heading."""

from __future__ import annotations

import json
import sys
import time

from fetchly.extraction.generator import GenerationTask
from tests.support.scripted_generator import ScriptedGenerator

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}
PAUSE_S = 0.0


def name_of(task: GenerationTask) -> str:
    """The page's first line, as JSON."""
    if PAUSE_S:
        time.sleep(PAUSE_S)
    return json.dumps({"name": task.prompt.source.partition("\n")[0]})


def main() -> None:
    import fetchly.sdk
    from fetchly.cli.app import run

    fetchly.sdk.LocalGenerator = lambda *_, **__: ScriptedGenerator(name_of)  # type: ignore[misc, assignment]
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
