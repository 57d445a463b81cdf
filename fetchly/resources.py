"""Name of a shipped library in, its folder out: package data in a wheel, the top-level folder in a checkout."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Literal


def library(name: Literal["schemas", "pipelines"]) -> Traversable:
    """The folder of a shipped library, readable wherever the package lies (wheel, checkout, zip import)."""
    packaged = files("fetchly") / "_data" / name
    return packaged if packaged.is_dir() else Path(__file__).resolve().parents[1] / name
