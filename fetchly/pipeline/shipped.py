"""A bare name in, the text of a shipped pipeline out: to be written to a file, changed there, and run."""

from __future__ import annotations

import difflib

from fetchly.errors import ConfigurationError
from fetchly.resources import library


def names() -> tuple[str, ...]:
    """The names of all shipped pipelines, sorted."""
    entries = library("pipelines").iterdir()
    return tuple(sorted(entry.name.removesuffix(".yaml") for entry in entries if entry.name.endswith(".yaml")))


def read(name: str) -> str:
    """The YAML text of the shipped pipeline `name`. Errors: ConfigurationError with the nearest name."""
    known = names()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        guess = f"did you mean {near[0]}? " if near else ""
        raise ConfigurationError(
            f"no shipped pipeline is called {name!r}", where=name, hint=f"{guess}shipped: {', '.join(known)}"
        )
    return (library("pipelines") / f"{name}.yaml").read_text(encoding="utf-8")


def summary(name: str) -> str:
    """What it does, in a line: the first of its comment, to the first full stop."""
    words = " ".join(line.removeprefix("#").strip() for line in read(name).partition("#\n")[0].splitlines())
    return words.partition(". ")[0].removesuffix(".")
