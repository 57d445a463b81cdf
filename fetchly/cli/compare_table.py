"""Lines of `bench compare` in; a table for people on stderr out."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

_WIDTH = 200


def print_table(lines: Sequence[Mapping[str, Any]]) -> None:
    """One row a line; ratios with an interval show it."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("measure", "set", "pages", "ratio", "complete ones", "same tokens"):
        table.add_column(heading, no_wrap=True)
    for side in ("our", "their"):
        for heading in ("ms", "tokens/s", "F1", "cut+failed"):
            table.add_column(f"{side} {heading}", no_wrap=True)
    for line in lines:
        ratios = (_figure(line, key) for key in ("ratio", "ratio_complete", "ratio_same_tokens"))
        shown = [*_side(line["own"]), *_side(line["rival"])]
        table.add_row(line["measure"], line["set"], str(line["documents"]), *ratios, *shown)
    Console(stderr=True, width=None if sys.stderr.isatty() else _WIDTH).print(table)


def _figure(line: Mapping[str, Any], key: str) -> str:
    interval = line[f"{key}_ci95"]
    return _shown(line[key]) + (f" [{interval[0]:.2f}, {interval[1]:.2f}]" if interval else "")


def _side(side: Mapping[str, Any] | None) -> list[str]:
    if side is None:
        return ["-"] * 4
    return [*(_shown(side[key]) for key in ("ms", "tokens_per_s", "f1")), f"{side['cut']}+{side['failed']}"]


def _shown(value: float | None) -> str:
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.2f}"
