"""Name of a shipped library in, its folder and texts out: package data in a wheel, a top-level folder in a checkout."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Literal


def library(name: Literal["schemas", "pipelines"]) -> Traversable:
    """The folder of a shipped library, readable wherever the package lies (wheel, checkout, zip import)."""
    packaged = files("fetchly") / "_data" / name
    return packaged if packaged.is_dir() else Path(__file__).resolve().parents[1] / name


@dataclass(frozen=True, slots=True)
class ShippedTexts:
    """The texts of a shipped library that go by their file's name without `suffix`."""

    library: Literal["schemas", "pipelines"]
    suffix: str

    def names(self) -> tuple[str, ...]:
        """All of them, sorted."""
        found = (entry.name for entry in library(self.library).iterdir())
        return tuple(sorted(name.removesuffix(self.suffix) for name in found if name.endswith(self.suffix)))

    def read(self, name: str) -> str:
        """The text of one that is there."""
        return (library(self.library) / f"{name}{self.suffix}").read_text(encoding="utf-8")

    def nearest(self, name: str) -> str | None:
        """The name that was meant, most likely."""
        return next(iter(difflib.get_close_matches(name, self.names(), n=1, cutoff=0.5)), None)
