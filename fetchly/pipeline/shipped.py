"""A bare name in, the text of a shipped pipeline out: to be written to a file, changed there, and run."""

from __future__ import annotations

from fetchly.errors import ConfigurationError
from fetchly.resources import ShippedTexts

_PIPELINES = ShippedTexts("pipelines", ".yaml")


def names() -> tuple[str, ...]:
    """The names of all shipped pipelines, sorted."""
    return _PIPELINES.names()


def read(name: str) -> str:
    """The YAML text of the shipped pipeline `name`. Errors: ConfigurationError with the nearest name."""
    known = names()
    if name not in known:
        near = _PIPELINES.nearest(name)
        guess = f"did you mean {near}? " if near else ""
        raise ConfigurationError(
            f"no shipped pipeline is called {name!r}", where=name, hint=f"{guess}shipped: {', '.join(known)}"
        )
    return _PIPELINES.read(name)


def summary(name: str) -> str:
    """What it does, in a line: the first of its comment, to the first full stop."""
    words = " ".join(line.removeprefix("#").strip() for line in read(name).partition("#\n")[0].splitlines())
    return words.partition(". ")[0].removesuffix(".")
