"""Pipelines over a script in place of the model, for tests: in this process, and as a program that is killed."""

from __future__ import annotations

import copy
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import yaml

from fetchly.pipeline.runner import RunSummary
from fetchly.pipeline.running import run
from tests.support.crawl_program import SCHEMA, name_of
from tests.support.scripted_generator import ScriptedGenerator


def items(seed: str, **sections: Any) -> dict[str, Any]:
    """A pipeline of a site of numbered pages; a section given replaces its keys, None takes it out."""
    whole: dict[str, Any] = {
        "name": "items",
        "source": {"seeds": [seed], "render": "never", "allow_private": True},
        "extract": {"schema": copy.deepcopy(SCHEMA), "name": "item"},
        "sinks": [{"jsonl": "out.jsonl"}],
        "run": {"delay": 0},
    }
    for name, section in sections.items():
        if isinstance(section, dict) and isinstance(whole.get(name), dict):
            whole[name] = {key: value for key, value in {**whole[name], **section}.items() if value is not None}
        elif section is None:
            del whole[name]
        else:
            whole[name] = section
    return whole


def saved(pipeline: dict[str, Any], folder: Path) -> Path:
    """Its file."""
    file = folder / f"{pipeline['name']}.yaml"
    file.write_text(yaml.safe_dump(pipeline, sort_keys=False), "utf-8")
    return file


def ran(pipeline: dict[str, Any], folder: Path, answer: Any = name_of, **options: Any) -> RunSummary:
    """Run to its end with a script as the model."""
    return run(pipeline, folder=folder, generator=ScriptedGenerator(answer), **options)


def lines_of(file: Path) -> list[Any]:
    """What a JSON lines file holds."""
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def names_of(file: Path, field: str = "name") -> list[str]:
    """One field of every line, sorted."""
    return sorted(row[field] for row in lines_of(file))


def rows_of(file: Path, query: str = "SELECT * FROM records ORDER BY _key") -> list[tuple[Any, ...]]:
    """Rows of an SQLite file."""
    with closing(sqlite3.connect(file)) as database:
        return database.execute(query).fetchall()
